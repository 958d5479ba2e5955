//! Reads blocks from memory: the rows of a value that stands there.

use hlo_ir::attribute::SliceDim;
use hlo_ir::{ArrayShape, AttrKey, AttrValue, Attribute, Instruction, InstructionId, Opcode, Shape};

use super::emit::{At, Emitter};
use super::region::Block;
use crate::flow::{Rows, Value, block_shape};

impl Emitter<'_> {
    /// Reads the rows of a block from its value.
    pub(super) fn read_rows(&mut self, block: Block) -> InstructionId {
        if let At::Row(row) = self.at {
            let start = block.rows.start(row, self.len);
            return self.read(block, block.value, |memory, shape| rows(memory, shape, block.dim, start));
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
        let read = self.patch.add(self.target, read);
        if stored == shape.element_type {
            return read;
        }
        let mut back = Instruction::new(name, Shape::Array(shape.clone()).into(), Opcode::BitcastConvert, [read]);
        back.attributes.extend(self.metadata.clone());
        self.patch.add(self.target, back)
    }
}

/// A block at start indices that the loop computes.
fn sliced(memory: InstructionId, shape: ArrayShape, starts: &[InstructionId]) -> Instruction {
    let sizes = Attribute::ints(AttrKey::DynamicSliceSizes, shape.dims.iter().copied());
    let operands = [memory].into_iter().chain(starts.iter().copied());
    Instruction::new("", Shape::Array(shape).into(), Opcode::DynamicSlice, operands).with(sizes)
}

/// A block from a row that is known.
fn rows(memory: InstructionId, shape: ArrayShape, dim: usize, start: i64) -> Instruction {
    let mut bounds: Vec<SliceDim> = shape.dims.iter().map(|&size| SliceDim::full(size)).collect();
    bounds[dim] = SliceDim { start, limit: start + shape.dims[dim], stride: 1 };
    let bounds = Attribute::new(AttrKey::Slice, AttrValue::Slice(bounds.into()));
    Instruction::new("", Shape::Array(shape).into(), Opcode::Slice, [memory]).with(bounds)
}
