//! Where the state of a rolled loop holds what.

use crate::hash::IndexMap;
use hlo_ir::InstructionId;

/// Which part of the state holds what.
#[derive(Clone, Debug, Default)]
pub(super) struct Places {
    /// Columns of the role [`super::lockstep::Role::Carried`].
    pub(super) carried: IndexMap<usize, usize>,
    /// Accumulations, stacks and single values, in the order of [`super::live_outs::LiveOuts`].
    pub(super) accumulated: Vec<usize>,
    pub(super) stacked: Vec<usize>,
    pub(super) each: Vec<usize>,
    /// Columns of which only the last value is used.
    pub(super) last_copies: Vec<usize>,
    /// Values that every copy reads.
    pub(super) shared: IndexMap<InstructionId, usize>,
}
