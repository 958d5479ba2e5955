//! Last touches on loops that passes made: they save no memory but time. The input's own instructions stay as they are.
//!
//! Each is a function from a module, and a test for instructions that are new, to a patch; the manager makes them when its search has ended.

pub(crate) mod columns;
mod kernel;
pub(crate) mod reads;
pub(crate) mod writes;

use hlo_ir::{Instruction, InstructionId, Module, Opcode};

/// Whether an instruction is a block with a start of its own for each dimension (there may be a vector of them) that waits for nothing else.
fn is_plain_block(module: &Module, inst: &Instruction) -> bool {
    let scalar = |&id: &InstructionId| module.instruction(id).array().is_some_and(|array| array.rank() == 0);
    inst.opcode == Opcode::DynamicSlice
        && inst.array().is_some_and(|array| !array.is_dynamic())
        && inst.operands[1..].iter().all(scalar)
        && inst.control_predecessors().is_empty()
}
