//! Records of trials: the state of the module, the change, and its outcome.

use hlo_ir::InstructionId;
use hlo_memory::Bytes;

/// A change that was tried or passed over.
#[derive(Clone, Debug)]
pub(super) struct Tried {
    /// The state of the module.
    pub(super) state: u64,
    pub(super) pass: &'static str,
    pub(super) instruction: InstructionId,
    pub(super) label: String,
    pub(super) outcome: Trial,
}

/// What came of a trial.
#[derive(Clone, Debug)]
pub(super) enum Trial {
    /// The total it led to.
    Total(Bytes),
    /// The figure that XLA itself gives, which rose while library calls would have taken less.
    Rises(Bytes),
    /// How many times as long as the input the result would take, which is more than is allowed.
    Slower(f64),
    /// There was none: by what it computes again, the result would take so many times as long as the input or more, which is more than is allowed.
    SlowerUntried(f64),
    /// There is no estimate, and why.
    Failed(String),
    /// There was none: the same change at this instruction, which touches no less of the peak, was tried instead.
    TriedAt(InstructionId),
    /// There was none: the change could save this much at most.
    PassedOver(Bytes),
}
