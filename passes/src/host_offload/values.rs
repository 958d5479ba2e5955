//! Values that a computation makes early and uses late, such as those that the gradients of unrolled layers read.
//!
//! What is read back waits for the gradient that arrives there, by a tie as `tie` makes it: nothing else keeps XLA from reading it back at once.

use hlo_ir::host::HostMove;
use hlo_ir::{ComputationId, Instruction, InstructionId};
use hlo_memory::cpu::{Stored, stored};
use hlo_memory::{Bytes, Target};

use super::{Offloaded, condition, moved};
use crate::hash::{IndexMap, IndexSet};
use crate::objective::NEGLIGIBLE;
use crate::recompute::layers::{Layers, bytes};
use crate::recompute::tie::Ties;
use crate::{Context, Finding, Grade};

/// Values are moved in all segments, in half of them and so on: what takes too long in all may not in some.
const PARTS: [usize; 4] = [8, 4, 2, 1];

/// What can be moved in each computation.
pub(super) fn find(context: &Context<'_>) -> Vec<Finding> {
    let stored = (context.options.target == Target::Gpu).then(|| stored(context.module, Target::Gpu));
    let computations = crate::roll::local(context.module);
    computations.into_iter().flat_map(|computation| in_computation(context, computation, stored.as_ref())).collect()
}

fn in_computation(context: &Context<'_>, computation: ComputationId, stored: Option<&Stored>) -> Vec<Finding> {
    let least = Bytes(context.options.min_saving.get().max(context.estimate.total_with_scratch().get() / NEGLIGIBLE));
    let Some(layers) = Layers::of(context, computation, least, stored) else { return Vec::new() };
    let size = |id: InstructionId| bytes(context.module.instruction(id));
    let ids = context.module.computation(computation).instructions.iter().copied();
    let mut waiting: Vec<InstructionId> =
        ids.filter(|&id| size(id) >= context.options.min_saving.get() && layers.waits(context, id)).collect();
    // What was made first waits longest.
    waiting.sort_by_key(|&id| (layers.segment(id), std::cmp::Reverse(size(id)), id));
    let all: u64 = waiting.iter().map(|&id| size(id)).sum();
    let mut counts: Vec<usize> = PARTS
        .iter()
        .map(|&part| {
            let mut sum = 0;
            waiting
                .iter()
                .take_while(|&&id| {
                    let goes_on = sum < all / part as u64;
                    sum += size(id);
                    goes_on
                })
                .count()
        })
        .collect();
    counts.dedup();
    counts
        .into_iter()
        .filter_map(|count| offloaded(context, &layers, &waiting[..count]))
        .map(|found| found.finding(context))
        .collect()
}

/// The change that moves these values, or of them what can wait for something.
fn offloaded(context: &Context<'_>, layers: &Layers<'_>, values: &[InstructionId]) -> Option<Offloaded> {
    let module = context.module;
    let mut ties = Ties::new(module, context.options.target);
    let mut users: IndexMap<InstructionId, Instruction> = IndexMap::default();
    let mut there: IndexSet<InstructionId> = IndexSet::default();
    for &value in values {
        let late = layers.late_users(context, &[value]);
        let Some(after) = layers.trigger(&late) else { continue };
        let to_host = moved(module, value, value, HostMove::ToHost);
        let host = ties.patch.add(layers.computation, to_host.clone());
        ties.patch.set_origin(host, value);
        let waiting = ties.tie_new((host, &to_host), value, after);
        let back = ties.patch.add(layers.computation, moved(module, value, waiting, HostMove::ToDevice));
        ties.patch.set_origin(back, value);
        for user in late {
            let changed = users.entry(user).or_insert_with(|| module.instruction(user).clone());
            changed.operands.iter_mut().filter(|operand| **operand == value).for_each(|operand| *operand = back);
        }
        there.insert(value);
    }
    users.into_iter().for_each(|(id, user)| ties.patch.rewrite(id, user));
    let size = |id: &InstructionId| bytes(module.instruction(*id));
    let owner = there.iter().copied().max_by_key(|id| (size(id), std::cmp::Reverse(*id)))?;
    let bytes = Bytes(there.iter().map(size).sum());
    let grade = if ties.may_contract(context.users) { Grade::HloExact } else { Grade::Bitwise };
    let note = format!("{bytes} in {} values stand in the memory of the host", there.len());
    let conditions =
        vec![condition("no value waits for something that is computed from it, and moves change no bit".to_owned())];
    Some(Offloaded { patch: ties.patch, owner, grade, bytes, note, conditions })
}
