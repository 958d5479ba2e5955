//! Values that a computation makes early and uses late, such as those that the gradients of unrolled layers read.
//!
//! What is read back waits for the gradient that arrives there, by a tie as `tie` makes it: nothing else keeps XLA from reading it back at once. And the next segment
//! waits for what is copied to the host, behind its first value: XLA waits for copies as late as it can, and until then the original stands on the device.

use std::cmp::Reverse;

use hlo_ir::host::HostMove;
use hlo_ir::{ComputationId, Instruction, InstructionId};
use hlo_memory::{Bytes, Stored};

use super::{Offloaded, condition, moved};
use crate::hash::{IndexMap, IndexSet};
use crate::objective::least_saving;
use crate::recompute::layers::{Layers, PARTS, bytes};
use crate::recompute::tie::{Ties, can_wait_for};
use crate::{Context, Finding, Grade};

/// What can be moved in each computation.
pub(super) fn find(context: &Context<'_>) -> Vec<Finding> {
    let stored = context.stored();
    let computations = crate::roll::local(context.module);
    computations.into_iter().flat_map(|computation| in_computation(context, computation, stored)).collect()
}

fn in_computation(context: &Context<'_>, computation: ComputationId, stored: Option<&Stored>) -> Vec<Finding> {
    let least = least_saving(context);
    let Some(layers) = Layers::of(context, computation, least, stored) else { return Vec::new() };
    let size = |id: InstructionId| bytes(context.module.instruction(id));
    let ids = context.module.computation(computation).instructions.iter().copied();
    let mut waiting: Vec<InstructionId> =
        ids.filter(|&id| size(id) >= context.options.min_saving.get() && can_go(context, &layers, id)).collect();
    // What was made first waits longest.
    waiting.sort_by_key(|&id| (layers.segment(id), Reverse(size(id)), id));
    let sizes: Vec<u64> = waiting.iter().map(|&id| size(id)).collect();
    let all: u64 = sizes.iter().sum();
    let mut counts: Vec<usize> = PARTS.iter().map(|&part| first_of(&sizes, all / part as u64)).collect();
    counts.dedup();
    let parts = counts.into_iter().filter_map(|count| offloaded(context, &layers, &waiting[..count]));
    parts.map(|found| found.finding(context)).collect()
}

/// How many of the first sizes make up so much.
fn first_of(sizes: &[u64], wanted: u64) -> usize {
    let sums = sizes.iter().scan(0, |sum, size| Some(std::mem::replace(sum, *sum + size)));
    sums.take_while(|&before| before < wanted).count()
}

/// Whether a value waits, and its late users are all that reads it late: no kernel computes from it, late, what does not stand in memory.
fn can_go(context: &Context<'_>, layers: &Layers<'_>, id: InstructionId) -> bool {
    let mut waiting = vec![id];
    let mut seen: IndexSet<InstructionId> = IndexSet::default();
    while let Some(from) = waiting.pop() {
        for &user in context.users.get(from) {
            let is_fused = !layers.is_late(user) && !layers.is_stored(user);
            if is_fused && seen.insert(user) {
                if layers.is_used_late(context, user) {
                    return false;
                }
                waiting.push(user);
            }
        }
    }
    layers.waits(context, id)
}

/// The change that moves these values, or of them what can wait for something.
fn offloaded(context: &Context<'_>, layers: &Layers<'_>, values: &[InstructionId]) -> Option<Offloaded> {
    let module = context.module;
    let mut mover = Mover {
        context,
        layers,
        ties: Ties::new(module, context.options.target),
        users: IndexMap::default(),
        there: IndexSet::default(),
        back: IndexMap::default(),
    };
    let mut segments: IndexMap<usize, Vec<InstructionId>> = IndexMap::default();
    for &value in values {
        segments.entry(layers.segment(value)).or_default().push(value);
    }
    segments.into_iter().for_each(|(segment, values)| mover.segment(segment, &values));
    mover.hold_late();
    let Mover { mut ties, users, there, .. } = mover;
    users.into_iter().for_each(|(id, user)| ties.patch.rewrite(id, user));
    let size = |id: &InstructionId| bytes(module.instruction(*id));
    let owner = there.iter().copied().max_by_key(|id| (size(id), Reverse(*id)))?;
    let bytes = Bytes(there.iter().map(size).sum());
    let grade = if ties.may_contract(context.users) { Grade::HloExact } else { Grade::Bitwise };
    let note = format!("{bytes} in {} values stand in the memory of the host", there.len());
    let text = "no value waits for something that is computed from it, and moves change no bit".to_owned();
    Some(Offloaded { patch: ties.patch, owner, grade, bytes, note, conditions: vec![condition(text)] })
}

/// What is written so far.
struct Mover<'a, 'b> {
    context: &'a Context<'b>,
    layers: &'a Layers<'a>,
    ties: Ties<'a>,
    /// Users of what is moved, and of what waits, as they become.
    users: IndexMap<InstructionId, Instruction>,
    /// What is moved.
    there: IndexSet<InstructionId>,
    /// What is moved back, by what it waits for.
    back: IndexMap<InstructionId, Vec<InstructionId>>,
}

impl Mover<'_, '_> {
    /// Moves values of one segment, and lets the next one wait for them.
    fn segment(&mut self, segment: usize, values: &[InstructionId]) {
        let Some(next) = self.begins(segment + 1) else { return };
        let copies: Vec<InstructionId> = values.iter().filter_map(|&value| self.value(value)).collect();
        let users = self.context.users.get(next).iter().copied();
        let early: Vec<InstructionId> = users.filter(|&user| !self.layers.is_late(user)).collect();
        self.hold(next, &early, &copies);
    }

    /// Lets what follows on a late value that something waits for wait for all that was moved back before it: a scheduler that minds memory would go on without, and keep the
    /// gradients that meet it.
    fn hold_late(&mut self) {
        let mut back = std::mem::take(&mut self.back);
        back.sort_by_key(|&after, _| (self.layers.depth(after), after));
        for ((_, copies), (&next, _)) in back.iter().zip(back.iter().skip(1)) {
            let users = self.layers.late_users(self.context, &[next]);
            self.hold(next, &users, copies);
        }
    }

    /// Lets some users of a value wait for copies.
    fn hold(&mut self, value: InstructionId, users: &[InstructionId], copies: &[InstructionId]) {
        let waiting = copies.iter().fold(value, |waiting, &copy| self.ties.wait(waiting, value, copy));
        self.change(users, value, waiting);
    }

    /// The first value of a segment that others are computed from.
    fn begins(&self, segment: usize) -> Option<InstructionId> {
        let Self { context, layers, .. } = self;
        let module = context.module;
        let ids = module.computation(layers.computation).instructions.iter().copied();
        let is_there = |&id: &InstructionId| {
            layers.segment(id) == segment && !layers.is_free(id) && !layers.is_late(id) && can_wait_for(module, id)
        };
        let is_passed_on = |id: &InstructionId| {
            let users = context.users.get(*id);
            users.iter().any(|&user| !layers.is_late(user))
                && bytes(module.instruction(*id)) >= context.options.min_saving.get()
        };
        ids.filter(is_there).filter(is_passed_on).min_by_key(|&id| (layers.depth(id), id))
    }

    /// Moves a value to the host, and back when its first late user can run; the copy on the host.
    fn value(&mut self, value: InstructionId) -> Option<InstructionId> {
        let (module, to) = (self.context.module, self.layers.computation);
        let late = self.layers.late_users(self.context, &[value]);
        let after = self.layers.trigger(&late)?;
        let to_host = moved(module, value, value, HostMove::ToHost);
        let host = self.ties.patch.add(to, to_host.clone());
        self.ties.patch.set_origin(host, value);
        let waiting = self.ties.tie_new((host, &to_host), value, after);
        let back = self.ties.patch.add(to, moved(module, value, waiting, HostMove::ToDevice));
        self.ties.patch.set_origin(back, value);
        self.change(&late, value, back);
        self.back.entry(after).or_default().push(back);
        self.there.insert(value);
        Some(host)
    }

    /// Lets users read another value.
    fn change(&mut self, users: &[InstructionId], old: InstructionId, new: InstructionId) {
        for &user in users {
            let changed = self.users.entry(user).or_insert_with(|| self.context.module.instruction(user).clone());
            changed.operands.iter_mut().filter(|operand| **operand == old).for_each(|operand| *operand = new);
        }
    }
}
