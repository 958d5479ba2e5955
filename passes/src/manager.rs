//! Runs passes: find, patch, verify, estimate, keep or undo.
//!
//! Every rewrite found is tried on the module itself and undone again; the one that leaves the lowest total (then the smallest area under
//! the memory timeline) is taken for good, and the search begins anew on the changed module. A few rules make the result honest:
//!
//! - A rewrite that only lowers what lies at the peak elsewhere, or an [enabling](crate::PassKind::Enabling) change that only lets a rewrite be found, is taken
//!   tentatively: unless the total falls by at least `min_saving` afterwards, it is put back. Several may follow each other, where several places hold as
//!   much as the peak.
//! - Changes that the compiler makes before all others ([`Pass::comes_first`](crate::Pass)) are made at once, tentatively as well.
//! - Behind an enabling change only rewrites that it lets be found are measured: what was measured without it saves what it saved.
//! - Rewrites that a pass found alike at several places, such as the layers of a model, are made in one step and measured together. In large modules one of
//!   them is tried, and enabling changes are made all at once instead of one after the other: no search is repeated for each layer.
//! - A form of the module is estimated once, on whatever way the search comes to it.
//! - Where less lies above the floor than `min_saving`, no rewrite can save that, and none is tried.
//! - Changes for [speed](crate::PassKind::Speed) come last, when nothing is left to save, and stay where they take a small part of the peak and of what was
//!   saved. Where a new run would find more to save behind one, the search goes on at once. Remarks speak of the program without them.
//! - A change of [form](crate::PassKind::Form) that the user names comes first and stays, whatever the form needs.
//! - After every patch the module is verified; in debug builds and with `verify_each` its structural hash must have changed too, because
//!   a patch that changes nothing is a wrong claim.
//! - With a budget the search ends as soon as the peak fits; a peak that fits from the start is left alone. Where the end does not fit, the search
//!   goes on from there, and passes may offer what costs run time: on devices what takes least time for each byte that it brings nearer is taken. If that does not
//!   fit either, the search begins again, at last by what saves most.
//! - Of layers that the last rewrite computes again only as many stay as a budget asks for (`search/just_enough.rs`).
//! - On devices values computed again may take as long as loops that end higher do, since the loops would be taken otherwise.
//! - A run that may do more than the default is searched with less as well, and the lowest end stays: more freedom never ends higher.
//! - Where memory far above the floor is left, the input is searched again as if more were allowed, and a remark says what that would give.
//! - With a limit on rewrites the search runs to its end, and all but the first so many rewrites are put back: those that are left are
//!   the ones a full run reports under the same numbers.
//! - Both the number of trials and the number of steps are bounded, and reaching the bound is a remark of its own (`limit`).
//!
//! Everything reported is named as in the input, also when an earlier rewrite replaced the instruction.

// Tests: `passes/tests/budget.rs`, `passes/tests/layers.rs`, `passes/tests/legal.rs`, `passes/tests/manager.rs`, `passes/tests/pairs.rs`, `passes/tests/two_ways.rs`,
// `tests/odd.rs`.

mod candidate;
mod findings_cache;
mod known_findings;
mod memoized;
mod peak_remarks;
mod pipeline;
mod remark_site;
mod remarks;
mod scope;
mod search;
mod trial;
mod trial_record;
mod watch;

use hlo_ir::{InstructionId, Module};
use hlo_memory::{Bytes, Estimate, EstimateError, Estimator};
use smol_str::SmolStr;

pub use pipeline::{UnknownPass, by_names, default_pipeline};
pub use search::Recording;
pub use watch::{NoObserver, Observer, PassStatistics, Statistics, Work};

use crate::{Condition, Grade, Options, Pass, PassKind};

/// Where an instruction was made.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Source {
    /// `file:line` of the user's program.
    pub line: Option<String>,
    /// `file:line` of the library that was called there; where no line of the user's is known, the name of the operation in the model.
    pub detail: Option<String>,
}

/// A rewrite that was kept.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Rewrite {
    /// Name of the pass.
    pub pass: &'static str,
    /// What the change is for.
    pub kind: PassKind,
    /// Computation of the rewritten instruction.
    pub computation: SmolStr,
    /// The instruction that owned the waste, as named in the input.
    pub instruction: SmolStr,
    /// How equal the results stay.
    pub grade: Grade,
    /// Fall of the estimated peak; zero for a step whose gain shows only together with a later one.
    pub saved: Bytes,
    /// Rise of the estimated peak: what a change of kind [`PassKind::Speed`] takes for speed, or what one takes whose gain shows only with a later one.
    pub taken: Bytes,
    /// Where the user's program says so.
    pub source: Source,
    /// What was done, in a few words.
    pub note: String,
    /// Side conditions, each proven.
    pub conditions: Vec<Condition>,
}

/// Whether a remark speaks of a missed chance or only informs.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum RemarkKind {
    /// A chance that was not taken.
    Missed,
    /// A fact.
    Analysis,
}

/// Something the user should know that is not a rewrite.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Remark {
    /// Missed chance or fact.
    pub kind: RemarkKind,
    /// Name of the pass.
    pub pass: &'static str,
    /// The instruction it is about, as named in the input.
    pub instruction: SmolStr,
    /// Its id in the input, which the rewritten module still answers for.
    pub id: InstructionId,
    /// Stable code such as `range-unknown`.
    pub code: &'static str,
    /// One sentence.
    pub message: String,
    /// Bytes at stake.
    pub bytes: Bytes,
    /// Where the user's program says so.
    pub source: Source,
}

/// What a run of the pipeline did.
#[derive(Clone, Debug)]
pub struct RunReport {
    /// Memory of the input.
    pub before: Estimate,
    /// Memory of the result.
    pub after: Estimate,
    /// How many times as long as the input the result takes by the roofline of the target's machine; `None` where nothing was rewritten, and on CPU, where run times
    /// depend on caches that the roofline does not know.
    pub slowdown: Option<f64>,
    /// Rewrites kept, in order.
    pub rewrites: Vec<Rewrite>,
    /// Chances missed and other remarks, in order; none of them twice, and only those that hold for the result.
    pub remarks: Vec<Remark>,
    /// What was counted and how long it took; the only part that differs between two runs on the same module.
    pub statistics: Statistics,
    /// Everything that was made, also behind a limit on rewrites: for [`run_again`].
    pub recording: Recording,
}

/// Why a run stopped; the module is as it was before.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum RunError {
    /// The input has no estimate.
    #[error(transparent)]
    Estimate(#[from] EstimateError),
    /// A pass broke the module: an error in this tool.
    #[error("pass `{pass}` produced an illegal module: {message}")]
    Broken {
        /// The pass.
        pass: &'static str,
        /// The first violation.
        message: String,
    },
    /// A pass claimed a change it did not make, or a change without a gain: an error in this tool.
    #[error("pass `{pass}` made a wrong claim about `{instruction}`: {message}")]
    Dishonest {
        /// The pass.
        pass: &'static str,
        /// The instruction of the finding.
        instruction: SmolStr,
        /// What is wrong with the claim.
        message: &'static str,
    },
}

/// Runs `passes` on `module` until none of them lowers the peak. A module that nothing helps comes back unchanged.
pub fn run(
    module: &mut Module,
    passes: &[Box<dyn Pass>],
    options: &Options,
    estimator: &dyn Estimator,
) -> Result<RunReport, RunError> {
    run_observed(module, passes, options, estimator, &mut NoObserver)
}

/// The same as [`run`], told to `observer` step by step.
pub fn run_observed(
    module: &mut Module,
    passes: &[Box<dyn Pass>],
    options: &Options,
    estimator: &dyn Estimator,
    observer: &mut dyn Observer,
) -> Result<RunReport, RunError> {
    let memoized = memoized::Memoized::of(estimator, options.machine());
    search::Search::begin(module, passes, options, &memoized, observer)?.finish(remarks::collect)
}

/// Makes on `module` what an earlier run with the same passes and options made on the same module, but for another [limit](Options::bisect_limit) on rewrites;
/// nothing is searched for, and nothing is said of what other options would give. What only a compiler sees ([`Pass::is_unseen`]) is made behind what is left of the rewrites.
pub fn run_again(
    module: &mut Module,
    passes: &[Box<dyn Pass>],
    options: &Options,
    estimator: &dyn Estimator,
    recording: &Recording,
) -> Result<RunReport, RunError> {
    let memoized = memoized::Memoized::of(estimator, options.machine());
    search::Search::begin(module, passes, options, &memoized, &mut NoObserver)?.replay(recording, remarks::collect)
}
