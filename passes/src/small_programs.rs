//! Programs so small that memory costs them no time, so that loops cannot win any.
//!
//! XLA:CPU asks for all temporaries of a run at once, and gives them back behind it. The C library keeps what is given back, up to 32 MiB in one piece
//! (`DEFAULT_MMAP_THRESHOLD_MAX` in glibc's malloc.c); a larger piece goes back to the system, and each run pays for its pages again. Above that
//! size nearly all programs ran as fast or faster as loops, below it many ran slower (docs/measured/log.md, "Figures behind constants").

// Tests: `passes/tests/chunk_time.rs`.

use hlo_memory::Bytes;

use crate::objective::MATTERS;
use crate::{Context, Finding, Outcome, Pass, PassKind, Reason};

/// The reason of a loop that is refused because the program is small.
pub(crate) fn not_asked(context: &Context<'_>) -> Reason {
    let message = format!(
        "less than {} lie above the floor, which the system's allocator keeps from run to run: a loop would only cost run time; `--chunk-bytes`, \
         `--objective=memory` or a `--budget` asks for memory all the same",
        context.options.machine().malloc_cache
    );
    Reason { code: "small-gain", message }
}

/// Whether a program runs in memory that it need not ask the system for, so that loops should take little time.
pub(crate) fn fits_malloc_cache(context: &Context<'_>) -> bool {
    above_floor(context) < context.options.machine().malloc_cache.get() && !asks_for_memory(context)
}

/// Whether memory is wanted at the cost of run time: who sets a size of blocks or misses a budget wants it.
pub(crate) fn asks_for_memory(context: &Context<'_>) -> bool {
    context.options.chunk_bytes.is_some() || context.misses_goal()
}

/// Withholds rewrites that may cost run time from small programs, whose memory costs none. Each becomes a remark, if the program needs more than the floor.
pub(crate) fn withhold_costly(pass: &dyn Pass, context: &Context<'_>, mut findings: Vec<Finding>) -> Vec<Finding> {
    if pass.kind() == PassKind::Rewrite && pass.may_cost_time() && fits_malloc_cache(context) {
        let most = context.estimate.total - context.estimate.floor;
        findings.retain(|finding| most > Bytes::ZERO || !matches!(finding.outcome, Outcome::Rewrite { .. }));
        for finding in &mut findings {
            if matches!(finding.outcome, Outcome::Rewrite { .. }) {
                finding.wasted = finding.wasted.min(most);
                finding.outcome = Outcome::Missed(not_asked(context));
            }
        }
    }
    findings
}

/// Bytes that the program as it was given needs beside arguments and results.
pub(crate) fn above_floor(context: &Context<'_>) -> u64 {
    context.before.get().saturating_sub(context.estimate.floor.get())
}

/// The smallest gain that is worth a loop, of all memory that a program takes, and in words which part that is. (Indices that are sliced, put together
/// again and scattered with, in blocks that spare 15 of 72 MiB, ran at 0.6 to 0.75, a lookup that is summed at 0.6 to 0.7.)
pub(crate) fn least_gain(context: &Context<'_>, all: Bytes) -> (Bytes, &'static str) {
    if fits_malloc_cache(context) {
        (Bytes(all.get() / 4), "a quarter")
    } else {
        (Bytes(all.get() / MATTERS), "a twentieth")
    }
}

/// What a rewrite that lets `wasted` bytes disappear can spare: no more than lies above the floor, where they may not stand all at once.
pub(crate) fn possible(context: &Context<'_>, wasted: Bytes) -> Bytes {
    if fits_malloc_cache(context) { wasted.min(Bytes(above_floor(context))) } else { wasted }
}

#[cfg(test)]
mod tests {
    use hlo_ir::edit::Patch;
    use hlo_ir::graph::Users;
    use hlo_ir::{Module, text};

    use super::*;
    use hlo_memory::Target;

    use crate::{Grade, Machine, Options};

    /// Whether a rewrite of a pass of this kind is made in a program that needed so many bytes, of which none are the floor's.
    fn is_made(may_cost_time: bool, before: Bytes, options: &Options) -> bool {
        let findings = found(AT_FLOOR, may_cost_time, before, options);
        findings.iter().any(|finding| matches!(finding.outcome, Outcome::Rewrite { .. }))
    }

    /// A program at its floor, and one that needs 4,096 bytes more.
    const AT_FLOOR: &str = "HloModule m\nENTRY %e {\n  ROOT %p = f32[0] parameter(0)\n}\n";
    const ABOVE_FLOOR: &str = "HloModule m\nless {\n  %a = f32[] parameter(0)\n  %b = f32[] parameter(1)\n  ROOT %c = pred[] compare(%a, %b), direction=LT\n}\nENTRY %e {\n  %p = f32[1024] parameter(0)\n  %s = f32[1024] sort(%p), dimensions={0}, to_apply=less\n  \
                               ROOT %r = f32[1024] reverse(%s), dimensions={0}\n}\n";

    /// What is found of a pass of this kind, each of whose rewrites is to save 1 MiB.
    fn found(module: &str, may_cost_time: bool, before: Bytes, options: &Options) -> Vec<Finding> {
        struct Any(bool);
        impl Pass for Any {
            fn name(&self) -> &'static str {
                "any"
            }
            fn summary(&self) -> &'static str {
                "any"
            }
            fn explanation(&self) -> &'static str {
                "any"
            }
            fn kind(&self) -> PassKind {
                PassKind::Rewrite
            }
            fn may_cost_time(&self) -> bool {
                self.0
            }
            fn find(&self, context: &Context<'_>) -> Vec<Finding> {
                let module: &Module = context.module;
                let outcome =
                    Outcome::Rewrite { patch: Patch::new(module), note: String::new(), conditions: Vec::new() };
                let instruction = module.computation(module.entry()).root;
                vec![Finding { instruction, grade: Grade::Bitwise, wasted: Bytes(1 << 20), outcome }]
            }
        }
        let module = text::parse(module).expect("it is legal");
        let (users, estimate) = (Users::of(&module), hlo_memory::estimate::estimate(&module, Target::Cpu));
        let estimate = estimate.expect("the module has an estimate");
        let context = Context { before, ..Context::of_input(&module, &users, &estimate, options) };
        let pass = Any(may_cost_time);
        withhold_costly(&pass, &context, pass.find(&context))
    }

    #[test]
    fn a_remark_promises_no_more_than_lies_above_the_floor() {
        assert!(found(AT_FLOOR, true, Bytes(0), &Options::default()).is_empty(), "there is nothing to save");
        let findings = found(ABOVE_FLOOR, true, Bytes(0), &Options::default());
        assert!(matches!(findings[0].outcome, Outcome::Missed(_)));
        assert_eq!(findings[0].wasted, Bytes(4096 + 9), "the sorted array and what the comparator needs");
    }

    #[test]
    fn no_pass_may_cost_a_small_program_time() {
        let plain = Options::default();
        let small = Bytes((32 << 20) - 1);
        assert!(!is_made(true, small, &plain));
        assert!(is_made(false, small, &plain), "what costs no time is made");
        assert!(is_made(true, Bytes(32 << 20), &plain), "the system gets larger pieces back after each run");
    }

    #[test]
    fn who_asks_for_memory_gets_it() {
        let no_malloc_cache = Machine::without_malloc_cache();
        let asked = [
            Options { chunk_bytes: Some(Bytes(1)), ..Options::default() },
            Options { machine: Some(no_malloc_cache), ..Options::default() },
            Options { target: Target::Gpu, ..Options::default() },
        ];
        assert!(asked.iter().all(|options| is_made(true, Bytes(1), options)));
        let small = Options { min_saving: Bytes(1), ..Options::default() };
        assert!(!is_made(true, Bytes(1), &small), "who wants small savings does not ask for run time");
    }
}
