//! What changing a part of a module could save at most, without compiling it again.
//!
//! A program needs at least what is alive at its peak. A change takes away buffers of the instructions it touches, and lets them be stored
//! more tightly; the buffers of all others are there as before, as long as the change does not make them wait for each other. So nothing
//! that touches no buffer alive at the peak lowers it, and a search among thousands of changes need not estimate those.
//!
//! This is a bound of the model by reason, not by proof: a change moves what follows it to other steps of the schedule. `passes` compares
//! it with full estimates over the corpus.

// Tests: `passes/src/manager/scope.rs`.

use hlo_ir::arena::{Id as _, SideTable};
use hlo_ir::{InstructionId, Module};

use crate::assignment::assign_for;
use crate::attribution::Role;
use crate::guard::attempt;
use crate::{Bytes, EstimateError, Target};

/// The buffers alive at the peak by the instruction of the module whose work they hold.
#[derive(Clone, Debug)]
pub struct SavingBound {
    at_peak: SideTable<InstructionId, Bytes>,
    /// Buffers alive at the peak that derive from no known instruction, and room between buffers.
    anywhere: Bytes,
}

impl SavingBound {
    /// The bound on what changes save of `module`.
    pub fn of(module: &Module, target: Target) -> Result<Self, EstimateError> {
        if module.is_scheduled() {
            return Self::read(module, target, Some);
        }
        let stopped = || EstimateError::Unsupported(module.name.to_string());
        attempt(|| Self::modelled(module, target)).unwrap_or_else(|| Err(stopped()))
    }

    fn modelled(module: &Module, target: Target) -> Result<Self, EstimateError> {
        let traced = crate::cpu::compile_traced(module, target);
        let mut saving_bound = Self::read(&traced.module, target, |id| traced.origins[id.index()])?;
        // Back from the last merge: what stands for two may itself have been merged later.
        for &(kept, other) in traced.merged.iter().rev() {
            let bytes = saving_bound.at_peak[kept];
            saving_bound.at_peak[other] += bytes;
        }
        Ok(saving_bound)
    }

    fn read(
        compiled: &Module,
        target: Target,
        origin: impl Fn(InstructionId) -> Option<InstructionId>,
    ) -> Result<Self, EstimateError> {
        let assignment = assign_for(compiled, target)?;
        let mut saving_bound = Self { at_peak: SideTable::new(Bytes::ZERO), anywhere: Bytes::ZERO };
        let mut held_bytes = Bytes::ZERO;
        for held in assignment.held_at_peak().map(|(_, held)| held).unwrap_or_default() {
            held_bytes += held.bytes;
            match origin(assignment.definition(&held)) {
                // Arguments and results are the floor.
                _ if matches!(held.role, Role::Argument { .. } | Role::Output) => {}
                Some(id) => saving_bound.at_peak[id] += held.bytes,
                None => saving_bound.anywhere += held.bytes,
            }
        }
        saving_bound.anywhere += assignment.estimate().total - held_bytes;
        if target == Target::Cpu {
            saving_bound.anywhere += crate::attribution::most_hidden(&assignment);
        }
        Ok(saving_bound)
    }

    /// The most that a change of these instructions, each named once, could save.
    pub fn most_saved(&self, touched: impl IntoIterator<Item = InstructionId>) -> Bytes {
        self.anywhere + touched.into_iter().map(|id| self.at_peak[id]).sum()
    }
}
