//! Bounds on work: how far an analysis looks before it answers that it does not know.
//!
//! Beyond a bound an answer is the safe one (any value, not proven, no rewrite), so results stay sound and only chances are lost. Each bound is far above what programs
//! need that people write; together they keep what a made-up program can ask for to seconds on two cores.

// Tests: `passes/tests/inline_calls.rs`, `passes/tests/range.rs`.

/// Levels of recursion: operands of operands, calls in calls, loops behind loops. A level takes up to some 4 KiB of stack, so these take under one of the two MiB that
/// threads have.
pub(crate) const LEVELS: usize = 200;

/// Levels of recursion that look at two operands each and remember nothing: 256 instructions in the last.
pub(crate) const BRANCHING: usize = 8;

/// Instructions that one question looks at, where they are what a value is computed from or what a rewrite computes again. A question takes milliseconds at
/// most. Expressions that are followed (indices, rows, what one layer makes) have at most some hundred.
pub(crate) const CONE: usize = 4096;

/// Elements of the largest constant that is read one by one, which takes little time beside a search.
pub(crate) const ELEMENTS: u64 = 1 << 16;

/// Pieces of a function or a set of numbers. Each wrap-around, bound or comparison adds two at most, so these are for seven of them; two such functions together
/// take the square.
pub(crate) const PIECES: usize = 16;

/// Instructions that one patch may add where calls are inlined, which double at every level where each calls another twice. Every estimate behind it looks at all of them,
/// a second or two.
/// Changes that are remembered beside each other add no more together, some hundred MiB.
pub(crate) const ADDED: usize = 100_000;

/// Instructions that an analysis looks at in all of a module, some seconds, or that a module has when its kernels are taken apart: at about a KiB for each a GiB. A step whose
/// candidates' estimates would look at more begins with what each could save.
pub(crate) const MODULE: usize = 1_000_000;

/// Attempts after a failed one, and answers that are kept or computed at a time: unsuccessful attempts take at most eight times as long as a successful one.
pub(crate) const MAX_ATTEMPTS: usize = 8;

/// Ways that are followed to their end to compare them, each of which is a search of its own: with the one that is best at once, a run takes up to four times as long.
pub(crate) const ALTERNATIVES: usize = 3;

/// Instructions of a module for which there is time to look at every pair of them, or to search several times: a second. With an eighth of them an estimate takes
/// much longer than a thread takes to begin.
pub(crate) const SMALL: usize = 2000;

/// Instructions that the estimates of a search look at, some seconds, before it stops restarting and comparing alternatives. In a step that would look at an eighth of
/// them, candidates are ordered by what they saved when they were last estimated.
pub(crate) const COMPARISON_WORK: usize = 200_000;

/// Instructions that all estimates of a run look at, some minutes at worst, or a search that does little with each of them, some seconds.
pub(crate) const WORK: usize = 16_000_000;

/// Rewrites of one run: far above what modules need, low enough that a pass which never settles is noticed.
pub(crate) const STEPS: usize = 512;
