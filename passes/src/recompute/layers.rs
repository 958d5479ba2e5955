//! What is early in a computation, what is late, the segments of what is early, and what of it waits.

// Tests: `passes/tests/host_offload.rs`, `passes/tests/rematerialize.rs`.

use hlo_ir::arena::SideTable;
use hlo_ir::{AttrKey, ComputationId, Instruction, InstructionId, Module, Opcode};
use hlo_memory::{Bytes, Stored, size};

use crate::Context;
use crate::cost::Costs;
use crate::hash::IndexSet;
use crate::recompute::tie::can_wait_for;

/// Parts of the segments, as divisors: what takes too long in all of them may not in a half or a quarter.
pub(crate) const PARTS: [usize; 3] = [4, 2, 1];

/// A computation in which many bytes wait across one place.
pub(crate) struct Layers<'a> {
    module: &'a Module,
    pub(crate) computation: ComputationId,
    /// Where each instruction stands: the length of the longest chain of operands below it, and for early ones what
    /// [`Self::place_late`] makes of that.
    depth: SideTable<InstructionId, usize>,
    /// Where early ends: instructions of this depth and more are late.
    pub(crate) turn: usize,
    /// Depths at which segments begin, besides the first.
    cuts: Vec<usize>,
    /// What instructions take.
    pub(crate) costs: Costs<'a>,
    /// What the compiler writes to memory, where it decides that by kernels; else everything may be.
    stored: Option<&'a Stored>,
    /// What is given, or follows from that in less time than reading it takes.
    free: SideTable<InstructionId, bool>,
}

impl<'a> Layers<'a> {
    /// `None` if less than `least` waits.
    pub(crate) fn of(
        context: &'a Context<'_>,
        computation: ComputationId,
        least: Bytes,
        stored: Option<&'a Stored>,
    ) -> Option<Self> {
        let module = context.module;
        let costs = Costs::new(module, context.options.machine());
        let mut layers = Self {
            module,
            computation,
            depth: depths(module, computation),
            turn: 0,
            cuts: Vec::new(),
            stored,
            free: free(module, computation, &costs),
            costs,
        };
        let waiting = layers.waiting(context, usize::MAX);
        let (turn, &most) = waiting.iter().enumerate().max_by_key(|&(depth, bytes)| (*bytes, usize::MAX - depth))?;
        if most < least.get() {
            return None;
        }
        layers.turn = turn;
        layers.place_late(context);
        layers.cuts = layers.cuts(context);
        Some(layers)
    }
    /// Whether a value stands in memory, as far as is known.
    pub(crate) fn is_stored(&self, mut id: InstructionId) -> bool {
        let Some(stored) = self.stored else { return true };
        while !stored[id] {
            let inst = self.module.instruction(id);
            id = match inst.opcode {
                Opcode::Reshape | Opcode::Bitcast => inst.operands[0],
                Opcode::GetTupleElement => match element_of_call(self.module, inst) {
                    Some(element) => element,
                    None => return false,
                },
                Opcode::Call => match inst.called_computations().next() {
                    Some(callee) => self.module.computation(callee).root,
                    None => return false,
                },
                _ => return false,
            };
        }
        true
    }
    /// Lets early values stand right before the first early instruction that uses them: what follows from parameters alone then belongs to the layer that it is
    /// made for.
    fn place_late(&mut self, context: &Context<'_>) {
        for &id in self.module.computation(self.computation).instructions.iter().rev() {
            let users = context.users.get(id).iter().map(|&user| self.depth[user]).filter(|&depth| depth < self.turn);
            if let Some(first) = users.min().filter(|_| self.depth[id] < self.turn) {
                self.depth.set(id, first - 1);
            }
        }
    }
    /// Whether a value is there at no cost, whenever it is asked for.
    pub(crate) fn is_free(&self, id: InstructionId) -> bool {
        self.free[id]
    }
    pub(crate) fn depth(&self, id: InstructionId) -> usize {
        self.depth[id]
    }
    pub(crate) fn is_late(&self, id: InstructionId) -> bool {
        self.depth[id] >= self.turn
    }
    /// Whether an early value belongs to the segment that the late ones follow on, where there are others: its late users come first, and what they need
    /// would be computed again while it still counts.
    pub(crate) fn is_last(&self, id: InstructionId) -> bool {
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
    pub(crate) fn segment(&self, id: InstructionId) -> usize {
        self.cuts.partition_point(|&cut| cut <= self.depth[id])
    }
    /// Whether late instructions use an early value, and could as well use another.
    pub(crate) fn waits(&self, context: &Context<'_>, id: InstructionId) -> bool {
        let inst = self.module.instruction(id);
        inst.array().is_some_and(|array| !array.is_dynamic())
            && !self.is_free(id)
            && !self.is_late(id)
            && !self.is_last(id)
            && !self.stays(context, id)
            && self.is_used_late(context, id)
            && self.is_stored(id)
    }
    pub(crate) fn is_used_late(&self, context: &Context<'_>, id: InstructionId) -> bool {
        context.users.get(id).iter().any(|&user| self.is_late(user))
    }
    /// Whether a value stays in memory whatever is chosen: it is a result, or the first late instructions use it.
    pub(crate) fn stays(&self, context: &Context<'_>, id: InstructionId) -> bool {
        let root = self.module.computation(self.computation).root;
        let stays = |user: &InstructionId| *user == root || self.depth(*user) == self.turn;
        id == root || context.users.get(id).iter().any(stays)
    }
    /// Late instructions that use these values, earliest first, without those that come too early to wait for anything.
    pub(crate) fn late_users(&self, context: &Context<'_>, values: &[InstructionId]) -> Vec<InstructionId> {
        let users = values.iter().flat_map(|&id| context.users.get(id).iter().copied());
        let late: IndexSet<InstructionId> = users.filter(|&user| self.depth(user) > self.turn).collect();
        let mut late: Vec<InstructionId> = late.into_iter().collect();
        late.sort_by_key(|&user| (self.depth(user), user));
        late
    }
    /// The latest value that is there before the first of `users` can run.
    pub(crate) fn trigger(&self, users: &[InstructionId]) -> Option<InstructionId> {
        let module = self.module;
        let first = self.depth(*users.first()?);
        let operands = users.iter().flat_map(|&user| module.instruction(user).operands.iter().copied());
        let there = operands.filter(|&id| self.is_late(id) && self.depth(id) < first);
        there.filter(|&id| can_wait_for(module, id)).max_by_key(|&id| (self.depth(id), id))
    }
    /// Where segments begin, the places that fewest bytes pass first.
    ///
    /// What passes is kept, and in return only one of the two segments stands in memory at a time when it is computed again. With segments of `s` bytes of
    /// all `w`, `p * w / s` bytes are kept, and least in all where `s * s = p * w` (Chen et al., "Training Deep Nets with Sublinear Memory Cost", 2016).
    fn cuts(&self, context: &Context<'_>) -> Vec<usize> {
        let passing = self.waiting(context, self.turn);
        let below = self.waiting_below(context);
        let all = below.last().copied().unwrap_or(0);
        let mut places = lowest_places(&passing[..self.turn.min(passing.len())]);
        places.sort_by_key(|&at| (passing[at], at));
        let mut cuts: Vec<usize> = Vec::new();
        for at in places {
            let next = cuts.partition_point(|&cut| cut < at);
            let from = next.checked_sub(1).map_or(0, |before| cuts[before]);
            let to = cuts.get(next).copied().unwrap_or(self.turn);
            let smaller = u128::from((below[at] - below[from]).min(below[to] - below[at]));
            if smaller * smaller >= u128::from(passing[at]) * u128::from(all) && smaller > 0 {
                cuts.insert(next, at);
            }
        }
        cuts
    }
    /// For each depth up to the turn, the bytes of values from below it that late instructions use.
    fn waiting_below(&self, context: &Context<'_>) -> Vec<u64> {
        let mut bytes = vec![0_u64; self.turn + 1];
        for (id, inst) in self.module.instructions_of(self.computation) {
            if !self.is_late(id) && !self.free[id] && context.users.get(id).iter().any(|&user| self.is_late(user)) {
                let at = self.depth[id] + 1;
                bytes[at] = bytes[at].saturating_add(held(inst));
            }
        }
        for at in 1..bytes.len() {
            bytes[at] = bytes[at].saturating_add(bytes[at - 1]);
        }
        bytes
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

/// The instruction of a called computation that a `get-tuple-element` takes.
fn element_of_call(module: &Module, inst: &Instruction) -> Option<InstructionId> {
    let call = module.instruction(inst.operands[0]);
    let callee = call.called_computations().next().filter(|_| call.opcode == Opcode::Call)?;
    let root = module.instruction(module.computation(callee).root);
    let index = usize::try_from(inst.int(&AttrKey::Index)?).ok()?;
    root.operands.get(index).copied().filter(|_| root.opcode == Opcode::Tuple)
}

/// Bytes of an array; tuples stand for their elements.
pub(crate) fn bytes(inst: &Instruction) -> u64 {
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

/// Parameters, and what follows from them by elementwise operations in less time than reading it takes: XLA computes that where it is used.
fn free(module: &Module, computation: ComputationId, costs: &Costs<'_>) -> SideTable<InstructionId, bool> {
    let mut free = SideTable::new(false);
    let mut below = SideTable::new(0.0);
    for (id, inst) in module.instructions_of(computation) {
        let given = inst.parameter_number().is_some() || matches!(inst.opcode, Opcode::Constant | Opcode::Iota);
        let computed = inst.opcode.is_elementwise()
            || matches!(inst.opcode, Opcode::Broadcast | Opcode::Reshape | Opcode::Bitcast | Opcode::GetTupleElement);
        let traffic: f64 = inst.operands.iter().map(|&operand| below[operand]).sum();
        let traffic = traffic + costs.of(id).unwrap_or(f64::INFINITY);
        let quick = computed && inst.operands.iter().all(|&operand| free[operand]) && traffic < bytes(inst) as f64;
        let is_free = given || quick;
        below.set(id, if given { 0.0 } else { traffic });
        free.set(id, is_free);
    }
    free
}

/// Places beside which no number is lower; not the first and not the last.
fn lowest_places(numbers: &[u64]) -> Vec<usize> {
    let lowest = |at: &usize| numbers[*at] <= numbers[at - 1] && numbers[*at] <= numbers[at + 1];
    (1..numbers.len().saturating_sub(1)).filter(lowest).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lowest_places_have_no_lower_neighbor() {
        assert_eq!(lowest_places(&[0, 5, 9, 2, 2, 7, 6, 8, 1, 9, 0]), [3, 4, 6, 8]);
        // Between equal layers as much passes everywhere.
        assert_eq!(lowest_places(&[4, 4, 4]), [1]);
        assert_eq!(lowest_places(&[9, 3, 1]), Vec::<usize>::new());
    }
}
