//! Writes what is computed again, and lets late users read that.

use std::collections::BTreeMap;

use crate::hash::{IndexMap, IndexSet};
use hlo_ir::edit::Patch;
use hlo_ir::{Instruction, InstructionId, Module};

use super::choose::Plan;
use crate::Context;
use crate::recompute::bits::exact;
use crate::recompute::emit::Emit;
use crate::recompute::layers::{Layers, bytes};
use crate::recompute::tie::{Ties, can_tie};

/// The change.
pub(super) struct Written {
    pub(super) patch: Patch,
    /// The largest value that does not wait any more.
    pub(super) owner: InstructionId,
    /// How many values are computed again, in how many segments.
    pub(super) values: usize,
    pub(super) segments: usize,
    /// Whether all bits stay: no float is computed again, and what waits stands between no product and a sum.
    pub(super) is_exact: bool,
}

/// The change that a plan asks for, or of it what can be written; `None` if nothing can.
pub(super) fn patch(context: &Context<'_>, layers: &Layers<'_>, plan: &Plan) -> Option<Written> {
    let module = context.module;
    let mut segments: IndexMap<usize, Vec<InstructionId>> = IndexMap::default();
    for (id, _) in module.instructions_of(layers.computation).filter(|(id, _)| plan.again.contains(id)) {
        segments.entry(layers.segment(id)).or_default().push(id);
    }
    let mut writer = Writer {
        context,
        layers,
        ties: Ties::new(module, context.options.target),
        users: IndexMap::default(),
        values: 0,
        segments: 0,
    };
    for values in segments.values() {
        writer.write(values);
    }
    writer.read_behind_barriers();
    let Writer { mut ties, users, values, segments, .. } = writer;
    let owner = plan.again.iter().copied().max_by_key(|&id| (bytes(module.instruction(id)), std::cmp::Reverse(id)))?;
    for (id, user) in users {
        ties.patch.rewrite(id, user);
    }
    let is_exact = exact(module, &ties.patch) && !ties.may_contract(context.users);
    (values > 0).then_some(Written { patch: ties.patch, owner, values, segments, is_exact })
}

struct Writer<'a, 'b> {
    context: &'a Context<'b>,
    layers: &'a Layers<'a>,
    ties: Ties<'a>,
    /// Late users as they become.
    users: IndexMap<InstructionId, Instruction>,
    values: usize,
    segments: usize,
}

impl Writer<'_, '_> {
    /// Writes the values of one segment again, if there is something that they can wait for.
    fn write(&mut self, values: &[InstructionId]) {
        let module = self.context.module;
        let users = self.layers.late_users(self.context, values);
        let Some(after) = self.layers.trigger(&users) else { return };
        if !values.iter().all(|&id| self.can_wait(id, values)) {
            return;
        }
        let (layers, ties) = (self.layers, &mut self.ties);
        let own = values.iter().copied().collect();
        let mut segment =
            Segment { module, layers, ties, values: own, after, tied: IndexMap::default(), emitted: BTreeMap::new() };
        if values.iter().any(|&id| segment.emit(id).is_none()) {
            return;
        }
        let again = segment.emitted;
        for user in users {
            let changed = self.users.entry(user).or_insert_with(|| module.instruction(user).clone());
            for operand in &mut changed.operands {
                *operand = again.get(operand).copied().unwrap_or(*operand);
            }
        }
        self.values += values.len();
        self.segments += 1;
    }
    /// Lets the first late user of what is waited for read it from behind the barriers, which hold only then. Others go on to be fused with what makes it.
    fn read_behind_barriers(&mut self) {
        let module = self.context.module;
        let root = module.computation(self.layers.computation).root;
        for (after, held) in self.ties.passed_on() {
            let users = self.layers.late_users(self.context, &[after]);
            if let Some(user) = users.into_iter().find(|&user| user != root) {
                let changed = self.users.entry(user).or_insert_with(|| module.instruction(user).clone());
                changed.operands.iter_mut().filter(|operand| **operand == after).for_each(|operand| *operand = held);
            }
        }
    }
    /// Whether a value can be made to wait: by one it is computed from.
    fn can_wait(&self, id: InstructionId, values: &[InstructionId]) -> bool {
        let operands = &self.context.module.instruction(id).operands;
        let waits = |operand: &InstructionId| values.contains(operand) || can_tie(self.context.module, *operand);
        operands.iter().filter(|&&operand| !self.layers.is_free(operand)).all(waits) && operands.iter().any(waits)
    }
}

/// Values of one segment, which wait for `after`.
struct Segment<'a, 'm> {
    module: &'m Module,
    layers: &'a Layers<'a>,
    ties: &'a mut Ties<'m>,
    values: IndexSet<InstructionId>,
    after: InstructionId,
    /// What is read from outside of the segment, as it waits.
    tied: IndexMap<InstructionId, InstructionId>,
    emitted: BTreeMap<InstructionId, InstructionId>,
}

impl Emit for Segment<'_, '_> {
    type Key = InstructionId;

    fn emitted(&mut self) -> &mut BTreeMap<InstructionId, InstructionId> {
        &mut self.emitted
    }

    fn needs(&self, id: InstructionId) -> Option<Vec<InstructionId>> {
        let operands = self.module.instruction(id).operands.iter().copied();
        Some(operands.filter(|operand| self.values.contains(operand)).collect())
    }

    fn emit_one(&mut self, id: InstructionId, _: &[InstructionId]) -> Option<InstructionId> {
        let mut copy = self.module.instruction(id).clone();
        let is_first = !copy.operands.iter().any(|&operand| !self.layers.is_free(operand));
        for operand in &mut copy.operands {
            let at = *operand;
            *operand = match self.emitted.get(&at) {
                Some(&again) => again,
                None if self.layers.is_free(at) && !is_first => at,
                None if !can_tie(self.module, at) => at,
                None => *self.tied.entry(at).or_insert_with(|| self.ties.tie_and_pass_on(at, self.after)),
            };
        }
        let new = self.ties.patch.add(self.layers.computation, copy);
        self.ties.patch.set_origin(new, id);
        Some(new)
    }
}
