//! Reads blocks from memory: rows of a value that stands there, or the columns of them that a slice takes.
//!
//! Why columns: XLA:CPU makes what several slices of a fusion read, a block, a function of its own. LLVM hands it the number of the block as
//! a number, and forgets meanwhile that no store changes the memory it comes from: it is loaded again for every element, and the kernel is not
//! vectorized. A fusion that gathers by three columns of indices ran at a quarter of its speed. A column read for itself stays in the kernel.
//!
//! Source: the code of the kernels in XLA's dumps (`*.ir-with-opt.ll`).

use hlo_ir::attribute::SliceDim;
use hlo_ir::{ArrayShape, AttrKey, AttrValue, Attribute, Instruction, InstructionId, Opcode, Shape};

use super::emit::{At, Emitter};
use super::region::{Block, Part, Source};
use crate::flow::{Rows, Value, block_shape};

/// A slice of a block in memory.
pub(super) struct Column {
    /// The block.
    from: Block,
    /// Where the slice begins in each dimension but that of the rows.
    starts: Vec<i64>,
}

impl Emitter<'_> {
    /// The column that a block is; `None` if it is no slice, or one that leaves out rows or takes elements that do not touch.
    pub(super) fn column(&self, block: Block) -> Option<Column> {
        let (true, At::Counter(_)) = (self.by_column, self.at) else { return None };
        let Source::Computed(parts) = &self.region.blocks[&block] else { return None };
        let slice = self.module.instruction(block.value.inst);
        let (Opcode::Slice, &[Part::Block(from)]) = (slice.opcode, &parts[..]) else { return None };
        let Some(AttrValue::Slice(bounds)) = slice.attribute(&AttrKey::Slice) else { return None };
        let counted = self.index_type.integer_range()?;
        let plain = |bound: &SliceDim| bound.stride == 1 && i128::from(bound.start) <= counted.1;
        let all_rows = from.dim == block.dim && from.rows.len(self.len) == block.rows.len(self.len);
        let in_memory = matches!(self.region.blocks.get(&from), Some(Source::Read(_)));
        let starts = bounds.iter().map(|bound| bound.start).collect();
        (in_memory && all_rows && bounds.iter().all(plain)).then_some(Column { from, starts })
    }

    /// Reads a column: the block of a slice.
    pub(super) fn read_column(&mut self, block: Block, column: &Column) -> InstructionId {
        let moving = self.start(column.from.rows);
        let place = |(dim, &start)| if dim == block.dim { moving } else { self.constant(start) };
        let starts: Vec<InstructionId> = column.starts.iter().enumerate().map(place).collect();
        self.read(block, column.from.value, |memory, shape| sliced(memory, shape, &starts))
    }

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
