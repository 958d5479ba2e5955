//! The shape an instruction must have, from its operands and attributes.

use crate::shape::ShapeRef;
use crate::{Instruction, Module};

/// The result shape that the operands and attributes imply; `None` if this opcode's shape cannot be inferred, an error text if the
/// operands do not fit.
pub fn shape(module: &Module, instruction: &Instruction) -> Option<Result<ShapeRef, String>> {
    let _ = (module, instruction);
    None
}
