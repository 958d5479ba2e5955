//! One patch on the module: applied, verified, checked for honesty, and undone.

use hlo_ir::edit::{Patch, Undo};
use hlo_ir::{InstructionId, Module, hash, verify};
use hlo_memory::{Bytes, Estimate};

use super::RunError;
use crate::{Finding, Options, PassKind};

/// Who makes a change and what is claimed about it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Claim {
    /// Name of the pass.
    pub(super) pass: &'static str,
    /// Its kind.
    pub(super) kind: PassKind,
    /// The instruction of the finding.
    pub(super) instruction: InstructionId,
    /// Bytes the pass reckons to save.
    pub(super) wasted: Bytes,
}

impl Claim {
    /// The claim of a finding.
    pub(super) fn of(pass: &'static str, kind: PassKind, finding: &Finding) -> Self {
        Self { pass, kind, instruction: finding.instruction, wasted: finding.wasted }
    }
}

/// Applies `patch` and returns how to take it back. On error the module is as before.
///
/// In debug builds, and with `verify_each`, a claim without substance is an error: a patch that leaves the structural hash as it was,
/// or a rewrite that expects no gain.
pub(super) fn apply(module: &mut Module, claim: Claim, patch: Patch, options: &Options) -> Result<Undo, RunError> {
    let checked = cfg!(debug_assertions) || options.verify_each;
    if checked && claim.kind == PassKind::Rewrite && claim.wasted == Bytes::ZERO {
        return Err(dishonest(module, claim, "the rewrite expects to save nothing"));
    }
    let before = checked.then(|| hash::structural_hash(module));
    let undo =
        patch.apply(module).map_err(|error| RunError::Broken { pass: claim.pass, message: error.to_string() })?;
    if let Some(violation) = verify::verify(module).into_iter().next() {
        undo.revert(module);
        return Err(RunError::Broken { pass: claim.pass, message: violation.message });
    }
    if before.is_some_and(|before| before == hash::structural_hash(module)) {
        undo.revert(module);
        return Err(dishonest(module, claim, "the patch changes nothing"));
    }
    Ok(undo)
}

fn dishonest(module: &Module, claim: Claim, message: &'static str) -> RunError {
    RunError::Dishonest { pass: claim.pass, instruction: module.instruction(claim.instruction).name.clone(), message }
}

/// What decides between two programs: the total, then the area under the timeline; lower is better.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) struct Score {
    /// Bytes of all allocations and of what library calls take for themselves.
    pub(super) total: Bytes,
    /// Byte-steps.
    pub(super) area: u128,
}

impl Score {
    /// The score of an estimated module.
    pub(super) fn of(estimate: &Estimate) -> Self {
        Self { total: estimate.charged(), area: estimate.area() }
    }
    /// Whether this is a step forward from `now`: a total lower by `least`, or the same total over an area smaller by `least`.
    pub(super) fn improves(self, now: Self, least: Bytes) -> bool {
        let least = least.max(Bytes(1));
        self.total + least <= now.total
            || (self.total <= now.total && self.area.saturating_add(u128::from(least.get())) <= now.area)
    }
}
