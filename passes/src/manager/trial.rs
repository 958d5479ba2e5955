//! One patch on the module: applied, verified, checked for honesty, and undone.

use hlo_ir::edit::{Patch, Undo};
use hlo_ir::{InstructionId, Module, hash, verify};
use hlo_memory::{Bytes, Estimate, Target};

use super::RunError;
use super::memoized::Memoized;
use crate::objective::NEGLIGIBLE;
use crate::{Finding, Machine, Options, PassKind};

/// Who makes a change and what is claimed about it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Claim {
    /// Name of the pass.
    pub(super) pass: &'static str,
    /// Its kind.
    pub(super) kind: PassKind,
    /// The instruction of the finding.
    pub(super) instruction: InstructionId,
    /// Bytes that the pass expects to save.
    pub(super) wasted: Bytes,
}

impl Claim {
    /// The claim of a finding.
    pub(super) fn of(pass: &'static str, kind: PassKind, finding: &Finding) -> Self {
        Self { pass, kind, instruction: finding.instruction, wasted: finding.wasted }
    }
}

/// Applies `patch` and returns how to take it back. On error the module is as before. A form that was estimated is legal: it is not verified again.
///
/// In debug builds, and with `verify_each`, a claim without substance is an error: a patch that leaves the structural hash as it was,
/// or a rewrite that expects no gain.
pub(super) fn apply(
    module: &mut Module,
    claim: Claim,
    patch: Patch,
    options: &Options,
    estimator: &Memoized<'_>,
) -> Result<Undo, RunError> {
    let checked = is_checked(options);
    if checked && claim.kind == PassKind::Rewrite && claim.wasted == Bytes::ZERO {
        return Err(dishonest(module, claim, "the rewrite expects to save nothing"));
    }
    let before = checked.then(|| hash::structural_hash(module));
    let undo =
        patch.apply(module).map_err(|error| RunError::Broken { pass: claim.pass, message: error.to_string() })?;
    let is_legal = !checked && estimator.knows(module);
    if !is_legal && let Some(violation) = verify::verify(module).into_iter().next() {
        undo.revert(module);
        return Err(RunError::Broken { pass: claim.pass, message: violation.message });
    }
    if before.is_some_and(|before| before == hash::structural_hash(module)) {
        undo.revert(module);
        return Err(dishonest(module, claim, "the patch changes nothing"));
    }
    Ok(undo)
}

/// Whether claims are checked.
pub(super) const fn is_checked(options: &Options) -> bool {
    cfg!(debug_assertions) || options.verify_each
}

fn dishonest(module: &Module, claim: Claim, message: &'static str) -> RunError {
    RunError::Dishonest { pass: claim.pass, instruction: module.instruction(claim.instruction).name.clone(), message }
}

/// What decides between two programs: whether XLA's own figure rises, what a byte of a missed budget costs, the total, the area under the timeline above a level, then all of it;
/// lower is better.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) struct Score {
    /// Whether XLA's own figure rises above that of the input, for less than it is worth.
    pub(super) rises: bool,
    /// Time for each byte that comes nearer to a budget that is missed, in 10^-21 seconds; 0 without a budget.
    pub(super) cost: u64,
    /// Bytes of all allocations and of what library calls take for themselves.
    pub(super) total: Bytes,
    /// Byte-steps above the level to which the peak has to fall.
    pub(super) above: u128,
    /// Byte-steps.
    pub(super) area: u128,
}

impl Score {
    /// The score of an estimated module, where the peak has to fall to `level`.
    pub(super) fn of(estimate: &Estimate, rises: bool, level: Bytes) -> Self {
        let (above, area) = (estimate.area_above(level), estimate.area());
        Self { rises, cost: 0, total: estimate.total_with_scratch(), above, area }
    }
    /// Whether this saves `least` more than another one, and no more of it than that only inside library calls; or costs less, where a budget is missed.
    pub(super) fn beats(self, other: Self, least: Bytes) -> bool {
        let is_better =
            if self.cost == other.cost { self.total + least <= other.total } else { self.cost < other.cost };
        self.rises <= other.rises && is_better
    }
    /// Whether this is a step forward from `now`: a total lower by `least`, or one higher by no more than `rise` with less above the level. Whatever else
    /// a step lowers, the peak does not fall for it.
    pub(super) fn improves(self, now: Self, least: Bytes, rise: Bytes) -> bool {
        let least = least.max(Bytes(1));
        self.total + least <= now.total || (self.total <= now.total + rise && self.above < now.above)
    }
}

/// Whether XLA's own figure is larger than for the input, and what library calls take not so much smaller that it is worth it.
pub(super) fn rises(estimate: &Estimate, input: &Estimate) -> bool {
    // For less memory of library calls, which that figure leaves out, whoever looks at it should not see a worse one.
    // An allocator keeps so much from run to run.
    let worth_it = Machine::of(Target::Cpu).malloc_cache;
    let most = input.total + Bytes(input.total.get() / NEGLIGIBLE);
    estimate.total > most && estimate.hidden_scratch + worth_it > input.hidden_scratch
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_raises_the_figure_of_xla_beats_only_its_like() {
        let score = |rises, total| Score { rises, cost: 0, total: Bytes(total), above: 0, area: 0 };
        assert!(score(false, 90).beats(score(false, 100), Bytes(10)));
        assert!(!score(false, 91).beats(score(false, 100), Bytes(10)), "too little");
        assert!(!score(true, 10).beats(score(false, 100), Bytes(10)));
        assert!(score(true, 10).beats(score(true, 100), Bytes(10)));
        assert!(score(false, 100) < score(true, 10), "the other comes first");
        let cheap = Score { cost: 1, ..score(false, 95) };
        assert!(cheap.beats(Score { cost: 2, ..score(false, 50) }, Bytes(10)), "a budget is missed");
    }

    #[test]
    fn a_tentative_step_lowers_what_lies_above_the_level() {
        let score = |total, above, area| Score { rises: false, cost: 0, total: Bytes(total), above, area };
        let improves = |one: Score, rise| one.improves(score(100, 5, 80), Bytes(10), Bytes(rise));
        assert!(improves(score(101, 4, 90), 1) && !improves(score(101, 4, 90), 0), "a rise is to be allowed");
        assert!(!improves(score(100, 5, 10), 1), "elsewhere");
        assert!(improves(score(90, 9, 99), 0) && !improves(score(91, 9, 99), 0), "the total itself");
    }
}
