//! Buffers: sets of values that must share memory.
//!
//! Source: `HloAliasAnalysis` (xla/hlo/analysis/hlo_alias_analysis.cc).

// Tests: `memory/tests/rules.rs`.

use hlo_ir::{AttrKey, Instruction, InstructionId, Opcode};

use super::csr::Csr;
use super::flow::Flow;
use super::shape_positions::ShapePosition;
use super::values::ValueId;

/// The buffer of every value. Buffers are numbered densely, in XLA's order.
#[derive(Clone, Debug)]
pub(crate) struct Buffers {
    of_value: Vec<u32>,
    values: Csr,
    count: u32,
}

impl Buffers {
    /// Unites values that must alias.
    pub(crate) fn of(flow: &Flow<'_>) -> Self {
        let mut pairs = collect_pairs(flow);
        pairs.sort_unstable();
        pairs.dedup();
        let mut sets = Sets::new(flow.values.table_len());
        for group in pairs.chunk_by(|a, b| a.0 == b.0) {
            let mut slots: Vec<u32> = group.iter().flat_map(|&(a, b)| [sets.slot(a), sets.slot(b)]).collect();
            slots.sort_unstable();
            slots.dedup();
            sets.unite(&slots);
        }
        Self::number(flow.values.list(), &sets)
    }
    /// Numbers the sets that are left in the order of their slots.
    fn number(list: &[ValueId], sets: &Sets) -> Self {
        let mut buffer_of_slot = vec![u32::MAX; sets.slot_of.len()];
        for &value in list {
            buffer_of_slot[sets.slot(value) as usize] = 0;
        }
        let mut count = 0;
        for buffer in buffer_of_slot.iter_mut().filter(|buffer| **buffer == 0) {
            *buffer = count;
            count += 1;
        }
        let mut of_value = vec![u32::MAX; sets.slot_of.len()];
        let mut pairs = Vec::with_capacity(list.len());
        for &value in list {
            let buffer = buffer_of_slot[sets.slot(value) as usize];
            of_value[value.index()] = buffer;
            pairs.push((buffer, value.0));
        }
        Self { of_value, values: Csr::new(count as usize, &pairs), count }
    }
    /// Number of buffers.
    pub(crate) fn len(&self) -> u32 {
        self.count
    }
    /// The buffer a value belongs to.
    pub(crate) fn of_value(&self, value: ValueId) -> u32 {
        self.of_value[value.index()]
    }
    /// The values of a buffer, by id.
    pub(crate) fn values(&self, buffer: u32) -> impl ExactSizeIterator<Item = ValueId> + '_ {
        self.values.get(buffer).iter().copied().map(ValueId)
    }
    /// Number of values of a buffer.
    pub(crate) fn value_count(&self, buffer: u32) -> usize {
        self.values.get(buffer).len()
    }
    /// The value with the smallest id.
    pub(crate) fn first_value(&self, buffer: u32) -> ValueId {
        ValueId(self.values.get(buffer)[0])
    }
}

/// All pairs of a value and another that must share its memory.
fn collect_pairs(flow: &Flow<'_>) -> Vec<(ValueId, ValueId)> {
    let mut pairs = Pairs { flow, found: Vec::new() };
    pairs.outputs_with_parameters();
    for &id in flow.places.order() {
        let inst = flow.module.instruction(id);
        match inst.opcode {
            Opcode::While => pairs.loop_state(id, inst),
            Opcode::Conditional => pairs.branch_results(id, inst),
            _ => {}
        }
    }
    pairs.in_place();
    pairs.found
}

struct Pairs<'a, 'm> {
    flow: &'a Flow<'m>,
    found: Vec<(ValueId, ValueId)>,
}

impl Pairs<'_, '_> {
    fn add(&mut self, a: Option<ValueId>, b: Option<ValueId>) {
        if let (Some(a), Some(b)) = (a, b)
            && a != b
        {
            self.found.push((a, b));
        }
    }
    fn at(&self, place: Option<ShapePosition>) -> Option<ValueId> {
        self.flow.values.at(place?)
    }
    /// Outputs and the donated parameters whose memory they reuse.
    fn outputs_with_parameters(&mut self) {
        let module = self.flow.module;
        let parameters = module.parameters(module.entry());
        for alias in module.input_output_aliases() {
            let output = self.flow.places.at(module.computation(module.entry()).root, &alias.output);
            let parameter = usize::try_from(alias.operand).ok().and_then(|k| parameters.get(k).copied());
            let parameter = parameter.and_then(|id| self.flow.places.at(id, &alias.operand_index));
            self.add(self.at(output), self.at(parameter));
        }
    }
    /// The initial state of a loop, the state that its body and condition receive, and the state that its body returns.
    fn loop_state(&mut self, id: InstructionId, inst: &Instruction) {
        let module = self.flow.module;
        let initial = inst.operands.first().copied();
        self.trees(initial, id, |_, _| true);
        for key in [AttrKey::Body, AttrKey::Condition] {
            let Some(callee) = inst.computation(&key) else { continue };
            let parameter = module.parameters(callee).first().copied();
            // A parameter that only passes on a value defined outside adds nothing.
            self.trees(parameter, id, |flow, place| {
                flow.values.at(place).is_some_and(|v| flow.values.place(v) == place)
            });
            if key == AttrKey::Body {
                self.trees(Some(module.computation(callee).root), id, |_, _| true);
            }
        }
    }
    fn branch_results(&mut self, id: InstructionId, inst: &Instruction) {
        for branch in inst.called_computations() {
            self.trees(Some(self.flow.module.computation(branch).root), id, |_, _| true);
        }
    }
    /// Pairs the values of two instructions, tuple index by tuple index, where `wanted` holds for the first.
    fn trees(
        &mut self,
        from: Option<InstructionId>,
        to: InstructionId,
        wanted: impl Fn(&Flow<'_>, ShapePosition) -> bool,
    ) {
        let places = &self.flow.places;
        let (Some(from), Some(to)) = (from.and_then(|id| places.root(id)), places.root(to)) else { return };
        for k in 0..places.tree_len(from).min(places.tree_len(to)) {
            if wanted(self.flow, from.plus(k)) {
                self.add(self.at(Some(from.plus(k))), self.at(Some(to.plus(k))));
            }
        }
    }
    fn in_place(&mut self) {
        for (operand, output) in self.flow.in_place.iter() {
            let (operand, output) = (self.at(Some(operand)), self.at(Some(output)));
            self.add(operand, output);
            self.add(output, operand);
        }
    }
}

/// Disjoint sets of values; a set lives in the slot of one of the values it began with.
struct Sets {
    slot_of: Vec<u32>,
    members: Vec<Vec<u32>>,
    smallest: Vec<u32>,
}

impl Sets {
    fn new(count: usize) -> Self {
        let slot_of: Vec<u32> = (0..count as u32).collect();
        Self { smallest: slot_of.clone(), slot_of, members: vec![Vec::new(); count] }
    }
    fn slot(&self, value: ValueId) -> u32 {
        self.slot_of[value.index()]
    }
    /// Members of a slot beside the value the slot began with.
    fn size(&self, slot: u32) -> usize {
        self.members[slot as usize].len() + 1
    }
    /// Merges sets into the largest of them; of equally large ones into the one with the smallest value.
    fn unite(&mut self, slots: &[u32]) {
        let smallest = |slot: u32| std::cmp::Reverse(self.smallest[slot as usize]);
        let Some(target) = slots.iter().copied().max_by_key(|&slot| (self.size(slot), smallest(slot))) else { return };
        for &slot in slots.iter().filter(|&&slot| slot != target) {
            let mut moved = std::mem::take(&mut self.members[slot as usize]);
            moved.push(slot);
            for &value in &moved {
                self.slot_of[value as usize] = target;
            }
            self.members[target as usize].append(&mut moved);
            let least = self.smallest[slot as usize].min(self.smallest[target as usize]);
            self.smallest[target as usize] = least;
        }
    }
}
