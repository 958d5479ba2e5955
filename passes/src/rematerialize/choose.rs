//! Which early values are kept for their late users, and which are computed again.

use hlo_ir::edit::has_side_effect;
use hlo_ir::{InstructionId, Module};
use hlo_memory::Bytes;
use indexmap::IndexSet;

use super::layers::{Layers, bytes};
use crate::Context;
use crate::flow::is_product;
use crate::pass::MAX_SLOWDOWN;
use crate::recompute::cut::{NEVER, Network};

/// What keeping a byte costs, in bytes of traffic: it is written and read.
const KEPT: u64 = 2;

/// What is computed again.
pub(super) struct Plan {
    /// The values that are computed again.
    pub(super) again: IndexSet<InstructionId>,
    /// Bytes that do not wait any more.
    pub(super) saved: Bytes,
}

/// A value as its segment sees it, or as segments behind it do: those can only have it kept.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
struct Seen {
    id: InstructionId,
    from_behind: bool,
}

/// The cheapest choice where memory is worth so many times its usual price. At its usual price products are computed again only if they take little time.
pub(super) fn plan(context: &Context<'_>, layers: &Layers<'_>, worth: u64) -> Option<Plan> {
    let module = context.module;
    let ids = || module.instructions_of(layers.computation).map(|(id, _)| id);
    let cost = |id: InstructionId| layers.costs.of(id).unwrap_or(0.0);
    let products = |plan: &Plan| {
        let again = plan.again.iter().filter(|&&id| is_product(module.instruction(id).opcode));
        again.map(|&id| cost(id)).sum::<f64>()
    };
    let all: f64 = ids().map(cost).sum();
    let free_to_choose = plan_with(context, layers, worth, true);
    free_to_choose
        .filter(|plan| worth > 1 || products(plan) <= all * (MAX_SLOWDOWN - 1.0))
        .or_else(|| plan_with(context, layers, worth, false))
}

/// The same, with products computed again or not.
fn plan_with(context: &Context<'_>, layers: &Layers<'_>, worth: u64, products: bool) -> Option<Plan> {
    let module = context.module;
    let prices = Prices { context, layers, worth, products, most: most(context, layers) };
    let mut network = Network::new();
    let waiting: IndexSet<InstructionId> =
        module.instructions_of(layers.computation).map(|(id, _)| id).filter(|&id| waits(context, layers, id)).collect();
    let mut work = Vec::new();
    for &id in &waiting {
        let seen = Seen { id, from_behind: false };
        work.extend(network.need(seen).then_some(seen));
    }
    while let Some(seen) = work.pop() {
        network.keep(seen, prices.keeping(seen.id));
        let price = if seen.from_behind { NEVER } else { prices.computing(seen.id) };
        network.compute(seen, price);
        if price == NEVER {
            continue;
        }
        for &operand in module.instruction(seen.id).operands.iter().filter(|&&operand| !layers.is_free(operand)) {
            let from_behind = layers.segment(operand) != layers.segment(seen.id);
            let operand = Seen { id: operand, from_behind };
            work.extend(network.follows(seen, operand).then_some(operand));
        }
    }
    let chosen = network.choose();
    let kept: IndexSet<InstructionId> = chosen.kept.into_iter().map(|seen| seen.id).collect();
    let again = chosen.again.into_iter().filter(|seen| !seen.from_behind && !kept.contains(&seen.id));
    let again: IndexSet<InstructionId> = again.map(|seen| seen.id).collect();
    let size = |id: &InstructionId| bytes(module.instruction(*id));
    let sum = |sizes: &mut dyn Iterator<Item = u64>| sizes.fold(0, u64::saturating_add);
    let gone = sum(&mut waiting.iter().filter(|id| again.contains(*id)).map(size));
    let new = |id: &&InstructionId| !waiting.contains(*id) && !is_used_late(context, layers, **id);
    let come = sum(&mut kept.iter().filter(new).map(size));
    (gone > come).then(|| Plan { again, saved: Bytes(gone - come) })
}

/// No price may be more: all of them together stay below what is never done.
fn most(context: &Context<'_>, layers: &Layers<'_>) -> u64 {
    let instructions = context.module.computation(layers.computation).instructions.len() as u64;
    // Each is looked at from its segment and from behind, and is kept or computed.
    NEVER / (4 * instructions).max(1)
}

/// Whether late instructions use an early value, and could as well use another.
fn waits(context: &Context<'_>, layers: &Layers<'_>, id: InstructionId) -> bool {
    let inst = context.module.instruction(id);
    inst.array().is_some_and(|array| !array.is_dynamic())
        && !layers.is_free(id)
        && !layers.is_late(id)
        && !layers.is_last(id)
        && !stays(context, layers, id)
        && is_used_late(context, layers, id)
}

fn is_used_late(context: &Context<'_>, layers: &Layers<'_>, id: InstructionId) -> bool {
    context.users.get(id).iter().any(|&user| layers.is_late(user))
}

/// Whether a value stays in memory whatever is chosen: it is a result, or the first late instructions use it.
fn stays(context: &Context<'_>, layers: &Layers<'_>, id: InstructionId) -> bool {
    let root = context.module.computation(layers.computation).root;
    let stays = |user: &InstructionId| *user == root || layers.depth(*user) == layers.turn;
    id == root || context.users.get(id).iter().any(stays)
}

/// What keeping and computing cost.
struct Prices<'a> {
    context: &'a Context<'a>,
    layers: &'a Layers<'a>,
    worth: u64,
    products: bool,
    most: u64,
}

impl Prices<'_> {
    fn keeping(&self, id: InstructionId) -> u64 {
        let inst = self.context.module.instruction(id);
        if inst.array().is_none_or(hlo_ir::ArrayShape::is_dynamic) {
            return NEVER;
        }
        if stays(self.context, self.layers, id) {
            0
        } else {
            bytes(inst).saturating_mul(KEPT * self.worth).min(self.most)
        }
    }
    fn computing(&self, id: InstructionId) -> u64 {
        let module = self.context.module;
        let inst = module.instruction(id);
        let is_bound = !inst.control_predecessors().is_empty() || has_side_effect(module, id);
        if is_bound || self.layers.is_late(id) || (is_product(inst.opcode) && !self.products) {
            return NEVER;
        }
        let Some(traffic) = self.layers.costs.of(id) else { return NEVER };
        let written = if is_written(self.context, id) { bytes(inst) as f64 } else { 0.0 };
        ((traffic + written) as u64).min(self.most)
    }
}

/// Whether a value is read by something that wants it in memory.
fn is_written(context: &Context<'_>, id: InstructionId) -> bool {
    let module: &Module = context.module;
    context.users.get(id).iter().any(|&user| is_product(module.instruction(user).opcode))
}
