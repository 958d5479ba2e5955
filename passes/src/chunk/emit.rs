//! Emits blocks: each block of a region once, operands first, into a loop body or behind the loop for the rest rows.

use std::collections::BTreeMap;

use hlo_ir::edit::Patch;
use hlo_ir::module::Payload;
use hlo_ir::{
    ArrayShape, AttrKey, Attribute, ComputationId, ElementType, Instruction, InstructionId, Module, Opcode, Shape,
};
use indexmap::IndexMap;

use super::bf16_accumulator::Combiners;
use super::region::{Block, Part, Region, Source, is_constant, row_loop};
use crate::flow::{Rows, Value, block_shape, loop_element, producer, restrict};

/// Which block of the loop is emitted.
#[derive(Clone, Copy, Debug)]
pub(super) enum At {
    /// The one the loop's counter says.
    Counter(InstructionId),
    /// The rows from here on.
    Row(i64),
}

/// Where and how blocks are emitted.
pub(super) struct Emitter<'a> {
    pub(super) module: &'a Module,
    pub(super) region: &'a mut Region,
    pub(super) patch: &'a mut Patch,
    /// The computation that receives the blocks.
    pub(super) target: ComputationId,
    pub(super) at: At,
    /// Rows of the loop in a block.
    pub(super) len: i64,
    /// Type of counters and starts.
    pub(super) index_type: ElementType,
    /// The combiners of scatters whose accumulators are wider than in the original.
    pub(super) wide: &'a Combiners,
    /// Where the target finds the values that stand in memory.
    pub(super) memory: Memory,
    /// Whether XLA:CPU takes the loop for one device: blocks of `bf16` are read and written as integers, convolutions have its library's order.
    pub(super) for_cpu: bool,
    /// Metadata for instructions without a counterpart in the original.
    pub(super) metadata: Option<Attribute>,
    pub(super) done: Done,
}

/// Where values that stand in memory are found.
#[derive(Clone, Default)]
pub(super) struct Memory {
    /// The values themselves.
    pub(super) values: IndexMap<Value, InstructionId>,
    /// Values of which blocks are read in another element type of the same width: XLA:CPU would widen all of a `bf16` array first.
    pub(super) bits: IndexMap<Value, InstructionId>,
}

/// What has been emitted already.
#[derive(Default)]
pub(super) struct Done {
    blocks: BTreeMap<Block, InstructionId>,
    /// Instructions with several results, by the block of any of their results; loops also by the elements that are cut.
    tuples: BTreeMap<(Block, Vec<bool>), InstructionId>,
    wholes: BTreeMap<Value, InstructionId>,
    starts: BTreeMap<(i64, i64), InstructionId>,
    constants: BTreeMap<i64, InstructionId>,
    /// Values in the other type of 16 or 32 bits.
    pub(super) converted: BTreeMap<InstructionId, InstructionId>,
    /// The combiners of reductions in 32 bits.
    pub(super) combiners: BTreeMap<ComputationId, ComputationId>,
}

impl Emitter<'_> {
    /// Emits a block and all it needs, and returns it in the type that it has in the original.
    pub(super) fn block(&mut self, wanted: Block) -> InstructionId {
        let block = self.block_as_computed(wanted);
        self.narrow(block, wanted.value.inst)
    }

    /// Emits a block and all it needs, and returns it in the type in which it is computed.
    pub(super) fn block_as_computed(&mut self, wanted: Block) -> InstructionId {
        let mut stack = vec![(wanted, false)];
        while let Some((block, operands_done)) = stack.pop() {
            if self.done.blocks.contains_key(&block) {
                continue;
            }
            let source = self.region.blocks[&block].clone();
            if operands_done {
                let id = self.emit(block, &source);
                self.patch.stems_from(id, block.value.inst);
                self.done.blocks.insert(block, id);
                continue;
            }
            stack.push((block, true));
            if let Source::Computed(parts) = source {
                stack.extend(parts.iter().rev().filter_map(|part| match part {
                    Part::Block(operand) => Some((*operand, false)),
                    Part::Whole(_) => None,
                }));
            }
        }
        self.done.blocks[&wanted]
    }

    fn emit(&mut self, block: Block, source: &Source) -> InstructionId {
        match source {
            Source::Computed(parts) => self.compute(block, parts),
            Source::Read(_) => self.read_rows(block),
            Source::ReadThrough(value, starts) => self.read_through(block, *value, starts),
        }
    }

    fn compute(&mut self, block: Block, parts: &[Part]) -> InstructionId {
        let (op, result) = producer(self.module, block.value.inst);
        let rows = block.rows.len(self.len);
        let inst = self.module.instruction(op);
        if inst.opcode == Opcode::Iota && inst.int(&AttrKey::IotaDimension) == Some(block.dim as i64) {
            return self.iota(block, inst);
        }
        let row_loop = row_loop(self.module, block.value.inst, block.dim);
        let cut = row_loop.as_ref().map(|row_loop| row_loop.cut().to_vec()).unwrap_or_default();
        let any_result = (Block { value: Value { inst: op, ..block.value }, ..block }, cut);
        let known = self.done.tuples.get(&any_result).copied();
        let computed = known.unwrap_or_else(|| {
            let operands = parts.iter().map(|part| self.part(part)).collect();
            match row_loop {
                Some(row_loop) => {
                    let read = row_loop.starts.iter().zip(operands);
                    let operands = read.map(|(&start, operand)| self.narrow(operand, start)).collect();
                    row_loop.emit(self.module, self.patch, self.target, rows, operands)
                }
                None => self.add_in_type(op, restrict(inst, block.dim, rows, operands)),
            }
        });
        let Some(index) = result else { return computed };
        self.done.tuples.insert(any_result, computed);
        let element = loop_element(self.module.instruction(block.value.inst), block.dim, rows, computed, index);
        self.patch.add(self.target, element)
    }

    fn part(&mut self, part: &Part) -> InstructionId {
        match part {
            Part::Block(block) => self.done.blocks[block],
            Part::Whole(value) => self.whole(*value),
        }
    }

    /// A whole value: a copy of a constant expression or of a kernel in reverse order, or the value in memory.
    pub(super) fn whole(&mut self, value: Value) -> InstructionId {
        if let Some(&id) = self.done.wholes.get(&value) {
            return id;
        }
        let is_copied = self.region.reversed.contains(&value)
            || is_constant(self.module, value.inst, &mut self.region.frames, value.frame);
        let id = if is_copied {
            let inst = self.module.instruction(value.inst);
            let operands = inst.operands.iter().map(|&operand| {
                let operand = self.region.frames.resolve(self.module, operand, value.frame);
                self.whole(operand)
            });
            let operands = operands.collect();
            self.patch.add(self.target, Instruction { operands, span: None, ..inst.clone() })
        } else {
            self.memory.values[&value]
        };
        self.done.wholes.insert(value, id);
        id
    }

    /// First row of a block.
    pub(super) fn start(&mut self, rows: Rows) -> InstructionId {
        let (base, step) = rows.stride(self.len);
        let counter = match self.at {
            At::Row(row) => return self.constant(rows.start(row, self.len)),
            At::Counter(counter) => counter,
        };
        if let Some(&start) = self.done.starts.get(&(base, step)) {
            return start;
        }
        let mut start = counter;
        if step != 1 {
            let step = self.constant(step);
            start = self.scalar("block_start", Opcode::Multiply, [counter, step]);
        }
        if base != 0 {
            let base = self.constant(base);
            start = self.scalar("block_start", Opcode::Add, [start, base]);
        }
        self.done.starts.insert((base, step), start);
        start
    }

    /// An iota along the cut dimension starts at the block's first row. Integers wrap like the original; other types are counted in
    /// the index type first, as a sum of rounded floats would differ.
    fn iota(&mut self, block: Block, inst: &Instruction) -> InstructionId {
        let rows = block.rows.len(self.len);
        let Shape::Array(shape) = &*block_shape(&inst.shape, block.dim, rows) else { unreachable!("iota is an array") };
        let counted = if shape.element_type.is_integer() { shape.element_type } else { self.index_type };
        let metadata = inst.attributes.iter().find(|a| a.key == AttrKey::Metadata).cloned();
        let add =
            |emitter: &mut Self, opcode, shape: ArrayShape, operands: &[InstructionId], extra: Option<Attribute>| {
                let mut new = Instruction::new(
                    format!("{}.block", inst.name),
                    Shape::Array(shape).into(),
                    opcode,
                    operands.iter().copied(),
                );
                new.attributes = extra.into_iter().chain(metadata.clone()).collect();
                emitter.patch.add(emitter.target, new)
            };
        let counted_shape = shape.with_element_type(counted);
        let start = self.start(block.rows);
        let start = self.convert(start, counted);
        let dimension = Attribute::int(AttrKey::IotaDimension, block.dim as i64);
        let iota = add(self, Opcode::Iota, counted_shape.clone(), &[], Some(dimension));
        let dimensions = Attribute::ints(AttrKey::Dimensions, []);
        let offset = add(self, Opcode::Broadcast, counted_shape.clone(), &[start], Some(dimensions));
        let sum = add(self, Opcode::Add, counted_shape, &[iota, offset], None);
        if counted == shape.element_type { sum } else { add(self, Opcode::Convert, shape.clone(), &[sum], None) }
    }

    /// `value`, a scalar, in another type.
    pub(super) fn convert(&mut self, value: InstructionId, to: ElementType) -> InstructionId {
        let from = self.patch.instruction(self.module, value).array().map(|array| array.element_type);
        if from == Some(to) {
            return value;
        }
        let mut convert = Instruction::new("block_start", Shape::array(to, []), Opcode::Convert, [value]);
        convert.attributes.extend(self.metadata.clone());
        self.patch.add(self.target, convert)
    }

    /// A scalar operation in the index type.
    pub(super) fn scalar<const N: usize>(
        &mut self,
        name: &str,
        opcode: Opcode,
        operands: [InstructionId; N],
    ) -> InstructionId {
        let mut inst = Instruction::new(name, Shape::array(self.index_type, []), opcode, operands);
        inst.attributes.extend(self.metadata.clone());
        self.patch.add(self.target, inst)
    }

    /// A constant of the index type.
    pub(super) fn constant(&mut self, value: i64) -> InstructionId {
        if let Some(&id) = self.done.constants.get(&value) {
            return id;
        }
        let id = self.patch.add(self.target, constant(self.index_type, value));
        self.done.constants.insert(value, id);
        id
    }
}

/// A scalar integer constant.
pub(super) fn constant(element: ElementType, value: i64) -> Instruction {
    Instruction::new("block_constant", Shape::array(element, []), Opcode::Constant, [])
        .with_payload(Payload::Literal(value.to_string().into()))
}
