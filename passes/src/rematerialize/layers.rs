//! What is early in a computation, what is late, and the segments of what is early.

use hlo_ir::arena::SideTable;
use hlo_ir::{ComputationId, Instruction, InstructionId, Module, Opcode};
use hlo_memory::{Bytes, size};

use crate::Context;

/// Elementwise operations after which XLA stores what follows from parameters instead of computing it where it is used. XLA's own bound is none, but it does not take
/// more than some tens of instructions into one kernel several times.
const FEW: usize = 8;
/// Segments are not cut finer than where this part of all that waits comes and goes between two cuts.
const GRAIN: u64 = 256;
/// What passes a cut is kept so that less has to be computed again at a time: it is worth it where at least so many times as much waits on both sides.
const WORTH_A_CUT: u64 = 2;

/// A computation in which many bytes wait across one place.
pub(super) struct Layers<'a> {
    module: &'a Module,
    pub(super) computation: ComputationId,
    /// Where each instruction stands: the length of the longest chain of operands below it, and for early ones what [`Self::settle`] makes of that.
    depth: SideTable<InstructionId, usize>,
    /// Where early ends: instructions of this depth and more are late.
    pub(super) turn: usize,
    /// Depths at which segments begin, besides the first.
    cuts: Vec<usize>,
    /// What is given, or follows from that by a few elementwise operations.
    free: SideTable<InstructionId, bool>,
}

impl<'a> Layers<'a> {
    /// `None` if less than `least` waits.
    pub(super) fn of(context: &'a Context<'_>, computation: ComputationId, least: Bytes) -> Option<Self> {
        let module = context.module;
        let mut layers = Self {
            module,
            computation,
            depth: depths(module, computation),
            turn: 0,
            cuts: Vec::new(),
            free: free(module, computation),
        };
        let waiting = layers.waiting(context, usize::MAX);
        let (turn, &most) = waiting.iter().enumerate().max_by_key(|&(depth, bytes)| (*bytes, usize::MAX - depth))?;
        if most < least.get() {
            return None;
        }
        layers.turn = turn;
        layers.settle(context);
        layers.cuts = layers.cuts(context, most / GRAIN);
        Some(layers)
    }
    /// Lets early values stand right before the first early instruction that uses them: what follows from parameters alone then belongs to the layer that it is
    /// made for.
    fn settle(&mut self, context: &Context<'_>) {
        for &id in self.module.computation(self.computation).instructions.iter().rev() {
            let users = context.users.get(id).iter().map(|&user| self.depth[user]).filter(|&depth| depth < self.turn);
            if let Some(first) = users.min().filter(|_| self.depth[id] < self.turn) {
                self.depth.set(id, first - 1);
            }
        }
    }
    /// Whether a value is there at no cost, whenever it is asked for.
    pub(super) fn is_free(&self, id: InstructionId) -> bool {
        self.free[id]
    }
    pub(super) fn depth(&self, id: InstructionId) -> usize {
        self.depth[id]
    }
    pub(super) fn is_late(&self, id: InstructionId) -> bool {
        self.depth[id] >= self.turn
    }
    /// Whether an early value belongs to the segment that the late ones follow on, where there are others: its late users come first, and what they need
    /// would be computed again while it still counts.
    pub(super) fn is_last(&self, id: InstructionId) -> bool {
        !self.cuts.is_empty() && self.segment(id) == self.cuts.len()
    }
    /// What makes a value: elements of a tuple are there once the tuple is.
    fn maker(&self, mut id: InstructionId) -> InstructionId {
        while self.module.instruction(id).opcode == Opcode::GetTupleElement {
            id = self.module.instruction(id).operands[0];
        }
        id
    }
    /// The number of an early value's segment.
    pub(super) fn segment(&self, id: InstructionId) -> usize {
        self.cuts.partition_point(|&cut| cut <= self.depth[id])
    }
    /// Where segments begin: places that few bytes pass, as against what waits in the segments on both sides, the best ones first.
    fn cuts(&self, context: &Context<'_>, grain: u64) -> Vec<usize> {
        let passing = self.waiting(context, self.turn);
        let mut kept = vec![0; self.turn + 1];
        for (id, inst) in self.module.instructions_of(self.computation) {
            if !self.is_late(id) && !self.free[id] && context.users.get(id).iter().any(|&user| self.is_late(user)) {
                kept[self.depth[id] + 1] += held(inst);
            }
        }
        let sums: Vec<u64> = kept
            .into_iter()
            .scan(0, |sum, bytes| {
                *sum += bytes;
                Some(*sum)
            })
            .collect();
        let mut places = valleys(&passing[..self.turn.min(passing.len())], grain);
        places.sort_by_key(|&at| (passing[at], at));
        let mut cuts: Vec<usize> = Vec::new();
        for at in places {
            let next = cuts.partition_point(|&cut| cut < at);
            let from = next.checked_sub(1).map_or(0, |before| cuts[before]);
            let to = cuts.get(next).copied().unwrap_or(self.turn);
            let least = (sums[at] - sums[from]).min(sums[to] - sums[at]);
            if least >= WORTH_A_CUT * passing[at] {
                cuts.insert(next, at);
            }
        }
        cuts
    }
    /// For each depth, the bytes of values from below it that instructions of this depth or more use, those from `end` on left out.
    fn waiting(&self, context: &Context<'_>, end: usize) -> Vec<u64> {
        let mut change = vec![0_i128; 2];
        for (id, inst) in self.module.instructions_of(self.computation) {
            let used = context.users.get(id).iter().map(|&user| self.depth[user]).filter(|&depth| depth < end);
            let Some(last) = used.max().filter(|_| !self.free[id]) else { continue };
            let bytes = i128::from(held(inst));
            change.resize(change.len().max(last + 2), 0);
            change[self.depth[self.maker(id)] + 1] += bytes;
            change[last + 1] -= bytes;
        }
        let mut sum = 0;
        change
            .into_iter()
            .map(|change| {
                sum += change;
                u64::try_from(sum).unwrap_or(u64::MAX)
            })
            .collect()
    }
}

/// Bytes of an array; tuples stand for their elements.
pub(super) fn bytes(inst: &Instruction) -> u64 {
    inst.array().and_then(size::array_size).map_or(0, Bytes::get)
}

/// Bytes that a value takes where it has to stand in memory: what repeats another value never has to.
fn held(inst: &Instruction) -> u64 {
    if inst.opcode == Opcode::Broadcast { 0 } else { bytes(inst) }
}

fn depths(module: &Module, computation: ComputationId) -> SideTable<InstructionId, usize> {
    let mut depth = SideTable::new(0);
    for (id, inst) in module.instructions_of(computation) {
        let below = inst.operands.iter().chain(inst.control_predecessors()).map(|&operand| depth[operand] + 1);
        depth.set(id, below.max().unwrap_or(0));
    }
    depth
}

/// Parameters, and what XLA computes from them where it is used.
fn free(module: &Module, computation: ComputationId) -> SideTable<InstructionId, bool> {
    let mut free = SideTable::new(false);
    let mut operations = SideTable::new(0_usize);
    for (id, inst) in module.instructions_of(computation) {
        let given = inst.parameter_number().is_some() || matches!(inst.opcode, Opcode::Constant | Opcode::Iota);
        let passes_on = inst.opcode == Opcode::GetTupleElement;
        let computed = inst.opcode.is_elementwise()
            || matches!(inst.opcode, Opcode::Broadcast | Opcode::Reshape | Opcode::Bitcast)
            || passes_on;
        let below: usize = inst.operands.iter().map(|&operand| operations[operand]).sum();
        let is_free = given || (computed && inst.operands.iter().all(|&operand| free[operand]) && below < FEW);
        operations.set(id, below + usize::from(inst.opcode.is_elementwise()));
        free.set(id, is_free);
    }
    free
}

/// Places between which the numbers rise by `grain` and fall again, the lowest of each; not the first and not the last.
fn valleys(numbers: &[u64], grain: u64) -> Vec<usize> {
    let mut found = Vec::new();
    let (mut lowest, mut highest, mut rising) = (0, 0, true);
    for (at, &number) in numbers.iter().enumerate() {
        if rising {
            if number >= numbers[highest] {
                highest = at;
            } else if number + grain < numbers[highest] {
                (rising, lowest) = (false, at);
            }
        } else if number < numbers[lowest] {
            lowest = at;
        } else if number > numbers[lowest] + grain {
            found.push(lowest);
            (rising, highest) = (true, at);
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn valleys_are_the_lowest_places_between_hills() {
        assert_eq!(valleys(&[0, 5, 9, 2, 2, 7, 6, 8, 1, 9, 0], 3), [3, 8]);
        assert_eq!(valleys(&[0, 5, 9, 2, 2, 7, 6, 8, 1, 9, 0], 7), [8]);
        assert_eq!(valleys(&[4, 4, 4], 0), Vec::<usize>::new());
    }
}
