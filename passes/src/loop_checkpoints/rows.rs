//! Rows of stacks: written, read, and as many as are needed.

use hlo_ir::edit::Patch;
use hlo_ir::module::Payload;
use hlo_ir::{ArrayShape, AttrKey, Attribute, ComputationId, Instruction, InstructionId, Module, Opcode, Shape};

use crate::recompute::counted_loop::steps;
use crate::recompute::insertion_point::shaped;

/// So many of what an array is.
pub(super) fn with_rows(array: &ArrayShape, rows: i64) -> ArrayShape {
    let dims = [rows].into_iter().chain(array.dims.iter().copied());
    ArrayShape::new(array.element_type, dims)
}

/// Fewer or more rows of a stack.
pub(super) fn with_length(array: &ArrayShape, rows: i64) -> ArrayShape {
    ArrayShape::new(array.element_type, array.with_dim(0, rows).dims.iter().copied())
}

/// Zeros of a shape.
pub(super) fn zeros(patch: &mut Patch, to: ComputationId, array: &ArrayShape) -> InstructionId {
    let element = array.element_type;
    let zero = Instruction::new("nothing", Shape::array(element, []), Opcode::Constant, [])
        .with_payload(Payload::Literal(element.zero().into()));
    let zero = patch.add(to, zero);
    let empty = Instruction::new("nothing", Shape::Array(array.clone()).into(), Opcode::Broadcast, [zero]);
    patch.add(to, empty.with(Attribute::ints(AttrKey::Dimensions, [])))
}

/// A stack with another row.
pub(super) fn set_row(
    patch: &mut Patch,
    module: &Module,
    to: ComputationId,
    stack: InstructionId,
    value: InstructionId,
    number: InstructionId,
) -> Option<InstructionId> {
    let array = patch.instruction(module, stack).array()?.clone();
    let value = shaped(module, patch, (to, "shaped"), value, &with_length(&array, 1))?;
    let starts = steps(to).starts(patch, array.rank(), 0, number);
    let operands = [stack, value].into_iter().chain(starts);
    let shape = Shape::Array(array).into();
    Some(patch.add(to, Instruction::new("stacked", shape, Opcode::DynamicUpdateSlice, operands)))
}

/// A row of a stack, as an array of this shape.
pub(super) fn row(
    patch: &mut Patch,
    module: &Module,
    to: ComputationId,
    stack: InstructionId,
    number: InstructionId,
    shape: &ArrayShape,
) -> Option<InstructionId> {
    let array = patch.instruction(module, stack).array()?.clone();
    let is_all = array.elements() == shape.elements();
    let row = if is_all { stack } else { steps(to).rows(patch, "row", (stack, &array), (0, number, 1)) };
    shaped(module, patch, (to, "shaped"), row, shape)
}
