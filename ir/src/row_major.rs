//! Custom calls that constrain the layout of a value (`LayoutConstraint`), as `jax.experimental.layout.with_layout_constraint` lowers them: those that ask for the row-major one,
//! in which the last dimension is the minor-most.
//!
//! Source: `LayoutAssignment` (xla/service/layout_assignment.cc), which takes such calls away and copies the value where it would have another layout.

// Tests: `passes/tests/layout_constraints.rs`.

use smol_str::format_smolstr;

use crate::arena::InstructionId;
use crate::attribute::{AttrKey, AttrValue, Attribute};
use crate::module::Instruction;
use crate::opcode::Opcode;
use crate::shape::{ArrayShape, Layout, Shape};

const TARGET: &str = "\"LayoutConstraint\"";

/// The instruction that constrains its operand, of this shape, to the row-major layout.
pub fn constraint(operand: InstructionId, shape: &ArrayShape) -> Instruction {
    let array = ArrayShape { layout: Some(Layout::descending(shape.rank())), ..shape.clone() };
    let shape = Shape::Array(array);
    let constraints = AttrValue::Raw(format_smolstr!("{{{shape}}}"));
    let mut inst = Instruction::new("row_major", shape.into(), Opcode::CustomCall, [operand]);
    inst.attributes.push(Attribute::new(AttrKey::CustomCallTarget, AttrValue::Raw(TARGET.into())));
    inst.attributes.push(Attribute::new(AttrKey::OperandLayoutConstraints, constraints));
    inst
}

/// Whether an instruction does nothing but constrain its operand to that layout.
pub fn is_constraint(inst: &Instruction) -> bool {
    let is_row_major =
        |array: &ArrayShape| array.layout.as_ref().is_none_or(|layout| *layout == Layout::descending(array.rank()));
    inst.opcode == Opcode::CustomCall
        && inst.raw(&AttrKey::CustomCallTarget) == Some(TARGET)
        && inst.array().is_some_and(is_row_major)
}
