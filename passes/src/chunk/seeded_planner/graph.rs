//! Who reads which array of a computation, seen through tuples and optimization barriers.

use hlo_ir::arena::SideTable;
use hlo_ir::{AttrKey, ComputationId, InstructionId, Module, Opcode, edit};
use hlo_memory::{Target, size::array_size};

use crate::Context;
use crate::bounds;
use crate::flow::{Frames, Value, producer};
use crate::hash::IndexSet;

/// The data flow of one computation. Calls are opaque.
pub(super) struct Graph<'m> {
    pub(super) module: &'m Module,
    /// The compiler that decides what stands in memory.
    pub(super) target: Target,
    /// Live instructions that compute something, in text order.
    pub(super) ops: Vec<InstructionId>,
    /// The arrays each of them makes: itself, or its `get-tuple-element`s.
    results: SideTable<InstructionId, Vec<InstructionId>>,
    /// The instruction that computes each array, for those that instructions make or read.
    makers: SideTable<InstructionId, Option<InstructionId>>,
    /// The place of each instruction in `ops`.
    numbers: SideTable<InstructionId, usize>,
    /// The place of each array among the results of all instructions.
    places: SideTable<InstructionId, usize>,
    /// The arrays behind its operands, for a `while` behind the elements of its state; an operand that is a tuple stands for itself.
    operands: SideTable<InstructionId, Vec<InstructionId>>,
    /// The instructions that read an array, with the operand number.
    uses: SideTable<InstructionId, Vec<(InstructionId, usize)>>,
    /// Arrays that are results of the computation or elements of a tuple that something opaque reads.
    outside: SideTable<InstructionId, bool>,
    /// Values that stand in memory as XLA compiles the module.
    pub(super) held: SideTable<InstructionId, bool>,
    /// All memory that the module takes: what is larger never stands in it. `None` where shapes are those of all devices, and memory that of one.
    total: Option<u64>,
}

impl<'m> Graph<'m> {
    /// Whether there is time to look at every place that is like others.
    pub(super) fn has_few_instructions(&self) -> bool {
        // Each place has plans in both directions.
        self.ops.len() <= bounds::SMALL / 2
    }
    pub(super) fn of(context: &Context<'m>, computation: ComputationId) -> Self {
        let module = context.module;
        let alive = alive(context, computation);
        let calls = module.instructions_of(computation).filter(|(_, inst)| inst.opcode == Opcode::Call);
        let mut frames = Frames::new(calls.map(|(id, _)| id).collect());
        let mut graph = Self {
            module,
            target: context.options.target,
            ops: Vec::new(),
            makers: SideTable::new(None),
            numbers: SideTable::new(0),
            places: SideTable::new(0),
            results: SideTable::new(Vec::new()),
            operands: SideTable::new(Vec::new()),
            uses: SideTable::new(Vec::new()),
            outside: SideTable::new(false),
            held: SideTable::new(false),
            total: (!context.is_partitioned()).then(|| context.estimate.total_with_scratch().get()),
        };
        for (id, inst) in module.instructions_of(computation).filter(|&(id, _)| alive[id]) {
            let Value { inst: behind, .. } = frames.resolve(module, id, 0);
            match inst.opcode {
                Opcode::Tuple | Opcode::OptBarrier => continue,
                Opcode::GetTupleElement => {
                    if behind == id && inst.array().is_some() {
                        graph.results[producer(module, id).0].push(id);
                    }
                    continue;
                }
                _ => {}
            }
            graph.ops.push(id);
            if inst.array().is_some() {
                graph.results[id].push(id);
            }
            for (number, &operand) in carried(module, id).iter().enumerate() {
                let value = frames.resolve(module, operand, 0).inst;
                graph.operands[id].push(value);
                if module.instruction(value).array().is_some() {
                    graph.uses[value].push((id, number));
                } else {
                    graph.give_away(&mut frames, operand);
                }
            }
        }
        graph.give_away(&mut frames, module.computation(computation).root);
        graph.number_all();
        graph
    }

    fn number_all(&mut self) {
        for (number, &op) in self.ops.iter().enumerate() {
            self.numbers.set(op, number);
        }
        for (place, &value) in self.ops.iter().flat_map(|&op| &self.results[op]).enumerate() {
            self.places.set(value, place);
        }
        for &value in self.ops.iter().flat_map(|&op| self.results[op].iter().chain(&self.operands[op])) {
            self.makers.set(value, Some(producer(self.module, value).0));
        }
    }

    /// Notes that all arrays in `id` are read by something that is not followed.
    fn give_away(&mut self, frames: &mut Frames, id: InstructionId) {
        let mut work = vec![id];
        while let Some(id) = work.pop() {
            let value = frames.resolve(self.module, id, 0).inst;
            let inst = self.module.instruction(value);
            if inst.array().is_some() {
                self.outside.set(value, true);
            } else if matches!(inst.opcode, Opcode::Tuple | Opcode::OptBarrier) {
                work.extend(&inst.operands);
            }
        }
    }

    /// Whether an instruction is the root of its computation.
    pub(super) fn is_root(&self, op: InstructionId) -> bool {
        self.module.computation(self.module.instruction(op).parent).root == op
    }
    pub(super) fn results(&self, op: InstructionId) -> &[InstructionId] {
        &self.results[op]
    }
    /// The place of an instruction in `ops`.
    pub(super) fn number(&self, op: InstructionId) -> usize {
        self.numbers[op]
    }
    /// The place of an array among the results of all instructions.
    pub(super) fn place(&self, value: InstructionId) -> usize {
        self.places[value]
    }
    pub(super) fn operands(&self, op: InstructionId) -> &[InstructionId] {
        &self.operands[op]
    }
    pub(super) fn uses(&self, value: InstructionId) -> &[(InstructionId, usize)] {
        &self.uses[value]
    }
    pub(super) fn is_outside(&self, value: InstructionId) -> bool {
        self.outside[value]
    }
    /// Whether an array stands in memory as XLA compiles the module.
    pub(super) fn is_held(&self, value: InstructionId) -> bool {
        self.held[value]
    }
    /// Bytes of an array.
    pub(super) fn bytes(&self, value: InstructionId) -> u64 {
        self.module.instruction(value).array().and_then(array_size).map_or(0, hlo_memory::Bytes::get)
    }
    /// The first of the thresholds that part the values in the same way, by their bytes.
    pub(super) fn telling(&self, thresholds: impl IntoIterator<Item = u64>) -> Vec<u64> {
        let values = self.ops.iter().flat_map(|&op| self.results(op).iter().chain(self.operands(op)));
        let mut bytes: Vec<u64> = values.map(|&value| self.bytes(value)).collect();
        bytes.sort_unstable();
        let mut known = IndexSet::default();
        let below = |least: u64| bytes.partition_point(|&bytes| bytes < least);
        thresholds.into_iter().filter(|&least| known.insert(below(least))).collect()
    }
    /// Whether a value may stand in memory: nothing larger than all memory does.
    pub(super) fn fits(&self, value: InstructionId) -> bool {
        self.total.is_none_or(|total| self.bytes(value) <= total)
    }
    /// Sizes of the dimensions of an array.
    pub(super) fn dims(&self, value: InstructionId) -> &'m [i64] {
        self.module.instruction(value).array().map_or(&[], |array| &array.dims)
    }
    /// The instruction that computes an array.
    pub(super) fn op(&self, value: InstructionId) -> InstructionId {
        self.makers[value].unwrap_or_else(|| producer(self.module, value).0)
    }
    /// Whether an array costs nothing to make again: constants, counters and broadcasts, and arithmetic on nothing else.
    pub(super) fn free(&self) -> SideTable<InstructionId, bool> {
        let mut constant = SideTable::new(false);
        let mut free = SideTable::new(false);
        for &op in &self.ops {
            let inst = self.module.instruction(op);
            let all = self.operands[op].iter().all(|&operand| constant[operand]);
            let moved = matches!(inst.opcode, Opcode::Broadcast | Opcode::Reshape | Opcode::Transpose | Opcode::Slice);
            let is_constant = match inst.opcode {
                Opcode::Constant | Opcode::Iota => true,
                opcode => all && !inst.operands.is_empty() && (opcode.is_elementwise() || moved),
            };
            let is_broadcast = inst.opcode == Opcode::Broadcast
                && self.operands[op].iter().all(|&operand| self.bytes(operand).saturating_mul(16) <= self.bytes(op));
            constant.set(op, is_constant);
            free.set(op, (is_constant || is_broadcast) && inst.attribute(&AttrKey::ControlPredecessors).is_none());
        }
        free
    }
}

/// The operands of an instruction; of a `while` over a tuple, the elements of the tuple.
pub(super) fn carried(module: &Module, op: InstructionId) -> &[InstructionId] {
    let inst = module.instruction(op);
    match inst.operands.first().map(|&operand| module.instruction(operand)) {
        Some(start) if inst.opcode == Opcode::While && start.opcode == Opcode::Tuple => &start.operands,
        _ => &inst.operands,
    }
}

/// What the root, side effects and control dependencies need.
fn alive(context: &Context<'_>, computation: ComputationId) -> SideTable<InstructionId, bool> {
    let module = context.module;
    let kept = module.instructions_of(computation).filter(|&(id, _)| !edit::removable(module, id)).map(|(id, _)| id);
    hlo_ir::graph::cone(module, kept.chain([module.computation(computation).root]))
}
