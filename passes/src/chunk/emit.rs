//! Emits blocks: each block of a region once, operands first, into a loop body or behind the loop for the rest rows.

// Tests: `passes/tests/chunk.rs`.

use std::collections::BTreeMap;

use crate::hash::{IndexMap, IndexSet};
use hlo_ir::edit::Patch;
use hlo_ir::{AttrKey, Attribute, ComputationId, ElementType, Instruction, InstructionId, Module, Opcode};

use super::bf16_accumulator::Combiners;
use super::region::{Block, Part, Region, Source, is_constant};
use crate::flow::{Rows, Value, producer, restrict};
use crate::loops::{Role, RowLoop};
use crate::recompute::emit::Emit;
use crate::recompute::insertion_point::{InsertionPoint, number};
use crate::recompute::row_loop as rows_of_loop;

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
    /// Blocks of arrays of which XLA:GPU would copy all into another order: see [`super::row_order`].
    pub(super) reordered: IndexSet<Block>,
    /// Metadata for instructions without a counterpart in the original.
    pub(super) metadata: Option<Attribute>,
    pub(super) done: Emitted,
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
pub(super) struct Emitted {
    blocks: BTreeMap<Block, InstructionId>,
    /// Instructions with several results, by the block of any of their results.
    tuples: BTreeMap<Block, InstructionId>,
    /// Loops, by what becomes of their state.
    loops: BTreeMap<(Value, Rows, Vec<Role>), InstructionId>,
    /// The sums of the blocks before, by the loops that go on from them.
    pub(super) sums: IndexMap<InstructionId, Vec<InstructionId>>,
    wholes: BTreeMap<Value, InstructionId>,
    starts: BTreeMap<(i64, i64), InstructionId>,
    constants: BTreeMap<i64, InstructionId>,
    /// Values in the other type of 16 or 32 bits.
    pub(super) converted: BTreeMap<InstructionId, InstructionId>,
    /// The combiners of reductions in 32 bits.
    pub(super) combiners: BTreeMap<ComputationId, ComputationId>,
}

impl Emit for Emitter<'_> {
    type Key = Block;

    fn emitted(&mut self) -> &mut BTreeMap<Block, InstructionId> {
        &mut self.done.blocks
    }

    fn needs(&self, block: Block) -> Option<Vec<Block>> {
        let Source::Computed(parts) = self.region.blocks.get(&block)? else { return Some(Vec::new()) };
        let blocks = parts.iter().filter_map(|part| match part {
            Part::Block(operand) => Some(*operand),
            Part::Whole(_) => None,
        });
        Some(blocks.collect())
    }

    fn emit_one(&mut self, block: Block, operands: &[InstructionId]) -> Option<InstructionId> {
        let source = self.region.blocks.get(&block)?.clone();
        let id = self.emit_source(block, &source, operands);
        self.patch.set_origin(id, block.value.inst);
        Some(id)
    }
}

impl Emitter<'_> {
    /// Emits a block and all it needs, and returns it in the type that it has in the original.
    pub(super) fn block(&mut self, wanted: Block) -> InstructionId {
        let block = self.block_as_computed(wanted);
        self.narrow(block, wanted.value.inst)
    }

    /// Emits a block and all it needs, and returns it in the type in which it is computed.
    pub(super) fn block_as_computed(&mut self, wanted: Block) -> InstructionId {
        self.emit(wanted).expect("a region has every block that its blocks need")
    }

    fn emit_source(&mut self, block: Block, source: &Source, operands: &[InstructionId]) -> InstructionId {
        match source {
            Source::Computed(parts) => self.compute(block, parts, operands),
            Source::Read(_) => self.read_rows(block),
            Source::ReadThrough(value, starts) => self.read_through(block, *value, starts),
        }
    }

    /// `written` stands for those parts that are blocks.
    fn compute(&mut self, block: Block, parts: &[Part], written: &[InstructionId]) -> InstructionId {
        let (op, result) = producer(self.module, block.value.inst);
        let rows = block.rows.len(self.len);
        let inst = self.module.instruction(op);
        if inst.opcode == Opcode::Iota && inst.int(&AttrKey::IotaDimension) == Some(block.dim as i64) {
            let first = self.start(block.rows);
            let counted = self.insertion_point().counted(self.patch, inst, (block.dim, first, rows));
            return counted.expect("an iota is an array");
        }
        let row_loop = self.region.row_loop(block.value.inst, block.dim);
        let tuple = Block { value: Value { inst: op, ..block.value }, ..block };
        let computed = match (row_loop, self.done.tuples.get(&tuple)) {
            (Some(row_loop), _) => self.row_loop(&row_loop, block.value.frame, block.rows),
            (None, Some(&known)) => known,
            (None, None) => {
                let mut blocks = written.iter().copied();
                let operands = parts.iter().map(|part| match part {
                    Part::Block(_) => blocks.next().expect("every block that is needed was written"),
                    Part::Whole(value) => self.whole(*value),
                });
                let operands = operands.collect();
                self.add_in_type(op, restrict(inst, block.dim, rows, operands))
            }
        };
        let Some(index) = result else { return computed };
        self.done.tuples.insert(tuple, computed);
        let element =
            rows_of_loop::element(self.module.instruction(block.value.inst), block.dim, rows, computed, index);
        self.patch.add(self.target, element)
    }

    /// The loop over rows of a block, which goes on from the sums of the blocks before.
    pub(super) fn row_loop(&mut self, row_loop: &RowLoop, frame: usize, rows: Rows) -> InstructionId {
        let key = (Value { inst: row_loop.looping, frame }, rows, row_loop.roles().to_vec());
        if let Some(&known) = self.done.loops.get(&key) {
            return known;
        }
        let mut sums = self.done.sums.get(&row_loop.looping).filter(|_| frame == 0).cloned().unwrap_or_default();
        sums.reverse();
        let mut starts = Vec::new();
        for (&start, role) in row_loop.starts.iter().zip(row_loop.roles()) {
            let value = self.region.frames.resolve(self.module, start, frame);
            starts.push(match role {
                Role::Cut(dim) => self.block(Block { value, dim: *dim, rows }),
                Role::Sum if !sums.is_empty() => sums.pop().expect("there are as many sums as elements that sum"),
                Role::Whole | Role::Sum => self.whole(value),
            });
        }
        let len = rows.len(self.len);
        let written = rows_of_loop::write(self.module, self.patch, self.target, row_loop, len, starts);
        let written = written.expect("everything that a step needs was followed");
        self.done.loops.insert(key, written);
        written
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

    /// `value`, a scalar, in another type.
    pub(super) fn convert(&mut self, value: InstructionId, to: ElementType) -> InstructionId {
        let from = self.patch.instruction(self.module, value).array().map(|array| array.element_type);
        if from == Some(to) {
            return value;
        }
        self.insertion_point().convert(self.patch, value, to)
    }

    /// How numbers of rows are written.
    fn insertion_point(&self) -> InsertionPoint {
        let metadata = self.metadata.clone();
        InsertionPoint { metadata, ..InsertionPoint::new(self.target, self.index_type, "block_start") }
    }

    /// A scalar operation in the index type.
    pub(super) fn scalar<const N: usize>(
        &mut self,
        name: &'static str,
        opcode: Opcode,
        operands: [InstructionId; N],
    ) -> InstructionId {
        InsertionPoint { name, ..self.insertion_point() }.scalar(self.patch, opcode, operands)
    }

    /// A constant of the index type.
    pub(super) fn constant(&mut self, value: i64) -> InstructionId {
        if let Some(&id) = self.done.constants.get(&value) {
            return id;
        }
        let id = self.patch.add(self.target, number("block_constant", self.index_type, value));
        self.done.constants.insert(value, id);
        id
    }
}
