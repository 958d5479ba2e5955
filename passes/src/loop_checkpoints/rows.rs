//! Rows of stacks: written, read, and as many as are needed.

use hlo_ir::edit::Patch;
use hlo_ir::module::Payload;
use hlo_ir::{
    ArrayShape, AttrKey, Attribute, ComputationId, ElementType, Instruction, InstructionId, Module, Opcode, Shape,
};

use crate::recompute::counted_loop::integer;

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

fn starts(patch: &mut Patch, to: ComputationId, rank: usize, number: InstructionId) -> Vec<InstructionId> {
    let zero = integer(patch, to, ElementType::S32, 0);
    (0..rank).map(|dim| if dim == 0 { number } else { zero }).collect()
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
    let value = shaped(patch, module, to, value, &with_length(&array, 1))?;
    let starts = starts(patch, to, array.rank(), number);
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
    let array = patch.instruction(module, stack).array()?;
    if array.elements() == shape.elements() {
        return shaped(patch, module, to, stack, shape);
    }
    let array = with_length(array, 1);
    let starts = starts(patch, to, array.rank(), number);
    let sizes = Attribute::ints(AttrKey::DynamicSliceSizes, array.dims.iter().copied());
    let operands = [stack].into_iter().chain(starts);
    let slice = Instruction::new("row", Shape::Array(array).into(), Opcode::DynamicSlice, operands).with(sizes);
    let slice = patch.add(to, slice);
    shaped(patch, module, to, slice, shape)
}

/// A value as an array of this shape.
fn shaped(
    patch: &mut Patch,
    module: &Module,
    to: ComputationId,
    value: InstructionId,
    shape: &ArrayShape,
) -> Option<InstructionId> {
    let has = patch.instruction(module, value).array()?;
    if has.dims == shape.dims {
        return Some(value);
    }
    let shape = Shape::Array(shape.clone()).into();
    Some(patch.add(to, Instruction::new("shaped", shape, Opcode::Reshape, [value])))
}
