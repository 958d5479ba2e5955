//! Reads blocks from memory, the rows of a value that stands there, and writes them.

use hlo_ir::attribute::SliceDim;
use hlo_ir::module::Payload;
use hlo_ir::shape::ShapeRef;
use hlo_ir::{
    ArrayShape, AttrKey, AttrValue, Attribute, ComputationId, ElementType, Instruction, InstructionId, Opcode, Shape,
};

use super::emit::{At, Emitter};
use super::region::Block;
use crate::flow::{Rows, Value, block_shape};
use crate::fusion_barrier::attributes_of_call;
use crate::recompute::insertion_point::{metadata, sliced};

impl Emitter<'_> {
    /// Reads the rows of a block from its value.
    pub(super) fn read_rows(&mut self, block: Block) -> InstructionId {
        if let At::Row(row) = self.at {
            let start = block.rows.start(row, self.len);
            return self.read(block, block.value, |memory, shape| rows(memory, shape, block.dim, start));
        }
        if self.reordered.contains(&block)
            && let Some(read) = self.read_of_matrix(block)
        {
            return read;
        }
        let rank = self.module.instruction(block.value.inst).array().map_or(0, ArrayShape::rank);
        let starts = self.starts_at(block.rows, block.dim, rank);
        self.read(block, block.value, |memory, shape| sliced(memory, shape, &starts))
    }

    /// Reads the rows of a block, the result of a `dynamic-slice` of `value`; `others` are its starts in the other dimensions.
    pub(super) fn read_through(&mut self, block: Block, value: Value, others: &[Value]) -> InstructionId {
        let moving = self.start(block.rows);
        let mut starts = Vec::new();
        for (dim, other) in others.iter().enumerate() {
            let start = if dim == block.dim { moving } else { self.whole(*other) };
            starts.push(self.convert(start, self.index_type));
        }
        self.read(block, value, |memory, shape| sliced(memory, shape, &starts))
    }

    /// Start indices of a block of these rows in dimension `dim` of an array.
    pub(super) fn starts_at(&mut self, rows: Rows, dim: usize, rank: usize) -> Vec<InstructionId> {
        let moving = self.start(rows);
        (0..rank).map(|other| if other == dim { moving } else { self.constant(0) }).collect()
    }

    /// Adds what reads a block, of the shape that it has in memory, from the place where `value` is found.
    fn read(
        &mut self,
        block: Block,
        value: Value,
        reader: impl FnOnce(InstructionId, ArrayShape) -> Instruction,
    ) -> InstructionId {
        let memory = *self.memory.bits.get(&value).unwrap_or_else(|| &self.memory.values[&value]);
        let wanted = self.module.instruction(block.value.inst);
        let Shape::Array(shape) = &*block_shape(&wanted.shape, block.dim, block.rows.len(self.len)) else {
            unreachable!("only arrays are read in blocks")
        };
        let stored = self.patch.instruction(self.module, memory).array().map_or(shape.element_type, |a| a.element_type);
        let mut read = reader(memory, shape.with_element_type(stored));
        read.name = format!("{}.block", wanted.name).into();
        read.attributes.extend(self.metadata.clone());
        let name = read.name.clone();
        if self.for_cpu && stored == ElementType::Bf16 && read.opcode == Opcode::DynamicSlice {
            return self.read_by_bits(&read);
        }
        let read = self.patch.add(self.target, read);
        if stored == shape.element_type {
            return read;
        }
        let mut back = Instruction::new(name, Shape::Array(shape.clone()).into(), Opcode::BitcastConvert, [read]);
        back.attributes.extend(self.metadata.clone());
        self.patch.add(self.target, back)
    }
}

/// Blocks of `bf16`, of which XLA:CPU has no slices: it would widen the whole array, in front of the loop, or in every iteration where it is written
/// (`xla/service/float_normalization.cc`). As integers they are what they are.
impl Emitter<'_> {
    /// Reads a block as integers, by a call that XLA does not inline: of what the loop does not change, it would take the integers out of the loop.
    fn read_by_bits(&mut self, read: &Instruction) -> InstructionId {
        let body = self.patch.add_computation(format!("{}.read", read.name));
        let mut slice = read.clone();
        for (number, operand) in slice.operands.iter_mut().enumerate() {
            let shape = self.patch.instruction(self.module, *operand).shape.clone();
            let parameter = Instruction::new("read", shape, Opcode::Parameter, []);
            *operand = self.patch.add(body, parameter.with_payload(Payload::Parameter(number as i64)));
        }
        slice.operands[0] = self.cast(body, slice.operands[0], ElementType::U16);
        slice.shape = in_type(&read.shape, ElementType::U16);
        let slice = self.patch.add(body, slice);
        self.cast(body, slice, ElementType::Bf16);
        let mut call = read.clone();
        call.opcode = Opcode::Call;
        call.attributes = attributes_of_call(body, read);
        self.patch.add(self.target, call)
    }

    /// Writes a block at these starts into what the loop carries.
    pub(super) fn write(
        &mut self,
        all: InstructionId,
        rows: InstructionId,
        starts: Vec<InstructionId>,
    ) -> InstructionId {
        let written = self.patch.instruction(self.module, rows).name.clone();
        let shape = self.patch.instruction(self.module, all).shape.clone();
        let by_bits = self.for_cpu && shape.as_array().is_some_and(|array| array.element_type == ElementType::Bf16);
        let cast = |this: &mut Self, id| if by_bits { this.cast(this.target, id, ElementType::U16) } else { id };
        let operands = [cast(self, all), cast(self, rows)].into_iter().chain(starts);
        let to = if by_bits { in_type(&shape, ElementType::U16) } else { shape };
        let mut update = Instruction::new(written, to, Opcode::DynamicUpdateSlice, operands);
        // Reports then name the line whose value the array holds.
        let source = metadata(self.patch.instruction(self.module, rows));
        update.attributes.extend(source.or_else(|| self.metadata.clone()));
        let update = self.patch.add(self.target, update);
        if by_bits { self.cast(self.target, update, ElementType::Bf16) } else { update }
    }

    /// The bits of an array as elements of another type of the same width.
    fn cast(&mut self, computation: ComputationId, id: InstructionId, to: ElementType) -> InstructionId {
        let from = self.patch.instruction(self.module, id);
        let shape = in_type(&from.shape, to);
        let mut cast = Instruction::new(from.name.clone(), shape, Opcode::BitcastConvert, [id]);
        cast.attributes.extend(self.metadata.clone());
        self.patch.add(computation, cast)
    }
}

/// The shape of an array with elements of another type of the same width.
fn in_type(shape: &Shape, to: ElementType) -> ShapeRef {
    let array = shape.as_array().expect("only arrays have blocks");
    Shape::Array(array.with_element_type(to)).into()
}

/// A block from a row that is known.
fn rows(memory: InstructionId, shape: ArrayShape, dim: usize, start: i64) -> Instruction {
    let mut bounds: Vec<SliceDim> = shape.dims.iter().map(|&size| SliceDim::full(size)).collect();
    bounds[dim] = SliceDim { start, limit: start + shape.dims[dim], stride: 1 };
    let bounds = Attribute::new(AttrKey::Slice, AttrValue::Slice(bounds.into()));
    Instruction::new("", Shape::Array(shape).into(), Opcode::Slice, [memory]).with(bounds)
}
