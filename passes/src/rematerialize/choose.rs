//! Which early values are kept for their late users, and which are computed again.

use crate::hash::{IndexMap, IndexSet};
use hlo_ir::edit::has_side_effect;
use hlo_ir::{InstructionId, Opcode};
use hlo_memory::Bytes;

use super::row_statistics::RowStatistics;
use crate::Context;
use crate::flow::is_product;
use crate::objective::MATTERS;
use crate::recompute::cut::{NEVER, Network};
use crate::recompute::layers::{Layers, bytes};

/// What is computed again.
pub(super) struct Plan {
    /// The values that are computed again.
    pub(super) again: IndexSet<InstructionId>,
    /// Bytes that do not wait any more.
    pub(super) saved: Bytes,
}

impl Plan {
    /// The same in one of so many segments only, those in which most bytes do not wait any more.
    pub(super) fn part(&self, context: &Context<'_>, layers: &Layers<'_>, of: usize) -> Self {
        let mut gone = self.gone(context, layers);
        gone.sort_by(|one, less, other, more| more.cmp(less).then(one.cmp(other)));
        gone.truncate(gone.len().div_ceil(of));
        let again = self.again.iter().copied().filter(|&id| gone.contains_key(&layers.segment(id))).collect();
        let saved = Bytes(gone.values().sum::<u64>().min(self.saved.get()));
        Self { again, saved }
    }

    /// Parts of the same, each of which does it in more segments than the one before, by what is worth time: in the first ones, because their values wait longest. In all others they do what
    /// `less` does.
    pub(super) fn parts(&self, context: &Context<'_>, layers: &Layers<'_>, less: Option<&Self>) -> Vec<Self> {
        let from = less.map_or(0, |less| less.saved.get());
        let more = self.saved.get() - from;
        let wanted = (1..=MATTERS).map(|part| Bytes(from + more * part / MATTERS));
        let mut parts: Vec<Self> = wanted.map(|wanted| self.up_to(context, layers, less, wanted)).collect();
        parts.dedup_by(|later, earlier| later.again == earlier.again);
        parts
    }

    /// The part that lets so many bytes wait no more.
    fn up_to(&self, context: &Context<'_>, layers: &Layers<'_>, less: Option<&Self>, wanted: Bytes) -> Self {
        let mut gone = less.map(|less| less.gone(context, layers)).unwrap_or_default();
        let mut saved: u64 = gone.values().sum();
        let mut all = self.gone(context, layers);
        all.sort_unstable_keys();
        let mut full: IndexSet<usize> = IndexSet::default();
        for (segment, bytes) in all {
            if saved >= wanted.get() {
                break;
            }
            saved += bytes.saturating_sub(gone.swap_remove(&segment).unwrap_or(0));
            full.insert(segment);
        }
        let is_full = |id: &InstructionId| full.contains(&layers.segment(*id));
        let others = less.into_iter().flat_map(|less| less.again.iter().copied()).filter(|id| !is_full(id));
        Self { again: self.again.iter().copied().filter(is_full).chain(others).collect(), saved: Bytes(saved) }
    }

    /// Bytes that do not wait any more, by segment.
    fn gone(&self, context: &Context<'_>, layers: &Layers<'_>) -> IndexMap<usize, u64> {
        let mut gone: IndexMap<usize, u64> = IndexMap::default();
        for &id in &self.again {
            let waits = if layers.waits(context, id) { bytes(context.module.instruction(id)) } else { 0 };
            *gone.entry(layers.segment(id)).or_default() += waits;
        }
        gone
    }
}

/// A value as its segment sees it, or as segments behind it do: those can only have it kept.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
struct ValueInSegment {
    id: InstructionId,
    from_behind: bool,
}

/// The cheapest choice where memory is worth so many times its usual price.
pub(super) fn plan(context: &Context<'_>, layers: &Layers<'_>, worth: f64) -> Option<Plan> {
    let module = context.module;
    let statistics = RowStatistics::of(context, layers.computation);
    let prices = Prices { context, layers, statistics, most: most(context, layers) };
    let mut network = Network::new();
    let waiting: IndexSet<InstructionId> =
        module.instructions_of(layers.computation).map(|(id, _)| id).filter(|&id| layers.waits(context, id)).collect();
    let mut work = Vec::new();
    for &id in &waiting {
        let seen = ValueInSegment { id, from_behind: false };
        work.extend(network.need(seen).then_some(seen));
    }
    while let Some(seen) = work.pop() {
        network.keep(seen, prices.keeping(seen.id, worth));
        let price = if seen.from_behind { NEVER } else { prices.computing(seen.id) };
        network.compute(seen, price);
        if price == NEVER {
            continue;
        }
        for &operand in module.instruction(seen.id).operands.iter().filter(|&&operand| !layers.is_free(operand)) {
            let from_behind = layers.segment(operand) != layers.segment(seen.id);
            let operand = ValueInSegment { id: operand, from_behind };
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
    let new = |id: &&InstructionId| !waiting.contains(*id) && !layers.is_used_late(context, **id);
    let come = sum(&mut kept.iter().filter(new).map(size));
    (gone > come).then(|| Plan { again, saved: Bytes(gone - come) })
}

/// No price may be more: all of them together stay below what is never done.
fn most(context: &Context<'_>, layers: &Layers<'_>) -> u64 {
    let instructions = context.module.computation(layers.computation).instructions.len() as u64;
    // Each is looked at from its segment and from behind, and is kept or computed.
    NEVER / (4 * instructions).max(1)
}

/// What keeping and computing cost.
struct Prices<'a> {
    context: &'a Context<'a>,
    layers: &'a Layers<'a>,
    statistics: RowStatistics,
    most: u64,
}

impl Prices<'_> {
    /// What keeping a value costs where memory is worth so many times its usual price: late kernels read it, and it is written if it does not stand in memory for
    /// early products anyway. A kept statistic of rows is written by a kernel that reads the rows.
    fn keeping(&self, id: InstructionId, worth: f64) -> u64 {
        let inst = self.context.module.instruction(id);
        if inst.array().is_none_or(hlo_ir::ArrayShape::is_dynamic) {
            return NEVER;
        }
        if self.layers.stays(self.context, id) {
            return 0;
        }
        let stands = is_product(inst.opcode) || self.has_user(id, |late, product| !late && product);
        let by_products = self.has_user(id, |late, product| late && product);
        let by_kernels = !by_products || self.has_user(id, |late, product| late && !product);
        let moved = [!stands, by_products, by_kernels].map(u64::from).iter().sum::<u64>();
        let rows = self.statistics.rows_of(id).map_or(0, |rows| bytes(self.context.module.instruction(rows)));
        ((bytes(inst).saturating_mul(moved) as f64 * worth) as u64).saturating_add(rows).min(self.most)
    }
    /// What computing a value again costs, what keeping its operands costs apart. Kernels that read it compute it, but late products want it in memory: a kernel
    /// of its own reads what it is made of and writes it, and the product reads it. A product reads its operands and writes its result.
    fn computing(&self, id: InstructionId) -> u64 {
        let module = self.context.module;
        let inst = module.instruction(id);
        let is_bound = !inst.control_predecessors().is_empty() || has_side_effect(module, id);
        if is_bound || self.layers.is_late(id) {
            return NEVER;
        }
        let Some(mut traffic) = self.layers.costs.of(id) else { return NEVER };
        if inst.opcode == Opcode::Reduce && self.statistics.rows_of(id).is_some() {
            // The rows are in registers.
            traffic = 0.0;
        }
        let is_stored = self.has_user(id, |late, product| late && product);
        let moved = if is_product(inst.opcode) {
            let operands = inst.operands.iter().map(|&operand| bytes(module.instruction(operand)));
            operands.fold(bytes(inst), u64::saturating_add)
        } else {
            bytes(inst).saturating_mul(if is_stored { 3 } else { 0 })
        };
        (traffic + moved as f64).min(self.most as f64) as u64
    }
    /// Whether a value has a user of which this holds: whether it is late, and whether it is a product.
    fn has_user(&self, id: InstructionId, holds: impl Fn(bool, bool) -> bool) -> bool {
        let is_product = |user| is_product(self.context.module.instruction(user).opcode);
        self.context.users.get(id).iter().any(|&user| holds(self.layers.is_late(user), is_product(user)))
    }
}
