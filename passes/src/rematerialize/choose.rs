//! Which early values are kept for their late users, and which are computed again.

use hlo_ir::edit::has_side_effect;
use hlo_ir::{InstructionId, Module, Opcode};
use hlo_memory::Bytes;
use indexmap::IndexSet;

use super::layers::{Layers, bytes};
use crate::recompute::cut::{NEVER, Network};
use crate::{Context, cost};

/// What keeping a byte costs, in bytes of traffic: it is written and read.
const KEPT: u64 = 2;
/// How many times its operations a product counts.
const PRODUCT: f64 = 4.0;
/// Parts of a byte of traffic in which prices are counted.
const PARTS: f64 = 64.0;

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

/// The cheapest choice where memory is worth so many times its usual price.
pub(super) fn plan(context: &Context<'_>, layers: &Layers<'_>, worth: u64) -> Option<Plan> {
    let module = context.module;
    let mut network = Network::new();
    let waiting: Vec<InstructionId> =
        module.instructions_of(layers.computation).map(|(id, _)| id).filter(|&id| waits(context, layers, id)).collect();
    let mut work = Vec::new();
    for &id in &waiting {
        let seen = Seen { id, from_behind: false };
        work.extend(network.need(seen).then_some(seen));
    }
    while let Some(seen) = work.pop() {
        network.keep(seen, keeping(context, layers, seen.id, worth));
        let price = if seen.from_behind { NEVER } else { computing(context, layers, seen.id) };
        network.compute(seen, price);
        if price == NEVER {
            continue;
        }
        for &operand in &module.instruction(seen.id).operands {
            if layers.is_free(operand) {
                continue;
            }
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
    let gone: u64 = waiting.iter().filter(|id| again.contains(*id)).map(size).sum();
    let come: u64 =
        kept.iter().filter(|id| !waiting.contains(id) && !is_used_late(context, layers, **id)).map(size).sum();
    (gone > come).then(|| Plan { again, saved: Bytes(gone - come) })
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

fn keeping(context: &Context<'_>, layers: &Layers<'_>, id: InstructionId, worth: u64) -> u64 {
    let inst = context.module.instruction(id);
    if inst.array().is_none_or(hlo_ir::ArrayShape::is_dynamic) {
        return NEVER;
    }
    if stays(context, layers, id) {
        return 0;
    }
    bytes(inst).saturating_mul(KEPT * worth).saturating_mul(PARTS as u64).min(NEVER - 1)
}

fn computing(context: &Context<'_>, layers: &Layers<'_>, id: InstructionId) -> u64 {
    let module = context.module;
    let inst = module.instruction(id);
    let is_bound = !inst.control_predecessors().is_empty() || has_side_effect(module, id);
    let Some(traffic) = cost::of(module, context.options.machine(), id).filter(|_| !is_bound && !layers.is_late(id))
    else {
        return NEVER;
    };
    let times = if is_product(inst.opcode) { PRODUCT } else { 1.0 };
    let written = if is_written(context, id) { bytes(inst) as f64 } else { 0.0 };
    (((traffic * times + written) * PARTS) as u64).min(NEVER)
}

/// Whether a value is read by something that wants it in memory.
fn is_written(context: &Context<'_>, id: InstructionId) -> bool {
    let module: &Module = context.module;
    context.users.get(id).iter().any(|&user| is_product(module.instruction(user).opcode))
}

const fn is_product(opcode: Opcode) -> bool {
    matches!(opcode, Opcode::Dot | Opcode::Convolution)
}
