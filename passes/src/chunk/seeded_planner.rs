//! Finds loops from the largest values outwards: what flows along with a dimension of them is computed on blocks, and what ends it is
//! written or accumulated.
//!
//! Every large value and each of its dimensions is tried with four thresholds of what counts as large. Plans that save too little, or cost
//! too much run time, are dropped; of the rest the best few are offered, and the manager measures them.

// Tests: `passes/tests/chunk_planner.rs`.

mod dim_propagation;
mod discontinuity;
mod graph;
mod join;
mod loop_partition;
mod loop_price;
mod masks;
mod materialized;
mod price;
mod split_loops;
mod windows;

use crate::hash::{IndexMap, IndexSet};
use hlo_ir::{ComputationId, InstructionId, Module, Opcode};
use hlo_memory::{Bytes, Target};

use dim_propagation::{Flow, PropagatedDims};
use discontinuity::recomputes_branch_input;
use graph::Graph;
use join::join;
use loop_partition::{Plan, close, close_behind};
use materialized::held;
use price::Price;

use super::build::{Built, build};
use super::cache_conflict::{fewest_rows, least_saving};
use super::devices::{hoisted, unfit};
use super::faithful;
use super::planned::Planned;
use super::region::{Region, Source, grow};
use super::sharding::sharded;
use super::sink::{Kind, Sink};
use super::size::{BlockSize, Limits, granule};
use super::sum::settle_sums;
use crate::flow::Value;
use crate::small_programs::{least_gain, possible};
use crate::{Condition, Context, Finding, Grade, Outcome};

/// Plans offered at a time.
const MOST_OFFERS: usize = 6;
/// Values from which plans are grown.
const MOST_SEEDS: usize = 16;
/// Those of them that have the same dimensions.
const MOST_ALIKE: usize = 4;
/// Loops save memory and cost run time in small programs; below this it is not worth it.
const LEAST_GAIN: u64 = 8 << 20;
/// Part of all memory, as a divisor, that loops save beside their blocks, at least, if they take long inside a loop: they fill their results again in each of its iterations.
const LITTLE: u64 = 16;

/// A plan with its regions, sizes and price.
struct Offer {
    plan: Plan,
    price: Price,
    sizes: Vec<BlockSize>,
    /// The fewest blocks with which the program meets its budget, where that is missed and they are fewer.
    fewest: Option<Vec<BlockSize>>,
    regions: Vec<Region>,
}

impl Offer {
    /// What tells one thing that is done from another, wherever it is done.
    fn kind(&self) -> (u64, Vec<BlockSize>) {
        (self.price.gain, self.sizes.clone())
    }
    /// What the plan saves, less the blocks that are there instead.
    fn rest(&self) -> u64 {
        let blocks =
            self.sizes.iter().zip(&self.price.row_bytes).map(|(size, row)| row.saturating_mul(size.rows as u64));
        self.price.gain.saturating_sub(blocks.max().unwrap_or(0))
    }
    fn slowdown(&self) -> f64 {
        self.price.slowdown(&self.sizes)
    }
}

/// Findings about the large values of one computation.
pub(super) fn find(context: &Context<'_>, computation: ComputationId) -> Vec<Finding> {
    if context.estimate.temporaries + context.estimate.hidden_scratch == Bytes::ZERO {
        return Vec::new();
    }
    let mut graph = Graph::of(context, computation);
    graph.held = held(&graph);
    // What other passes do inside of a loop spares more, and comes first where nobody asks for memory. Loops inside of loops are cut together with these.
    let callers = hlo_ir::graph::callers(context.module);
    let is_body = callers[computation].iter().any(|&id| context.module.instruction(id).opcode == Opcode::While);
    let is_late = !is_body && (context.recompute_large || context.misses_goal());
    let plain = Flow::new(context, &graph, false);
    let mut offers = chosen(&plain);
    if is_late && plain.meets_loops() {
        let through = Flow::new(context, &graph, true);
        let keys: IndexSet<_> = offers.iter().map(|offer| key(&offer.plan)).collect();
        offers.extend(chosen(&through).into_iter().filter(|offer| !keys.contains(&key(&offer.plan))));
    }
    let both = |offer: &Offer| {
        let fewest = offer.fewest.as_ref().and_then(|sizes| finding(context, offer, sizes));
        fewest.into_iter().chain(finding(context, offer, &offer.sizes))
    };
    offers.iter().flat_map(both).collect()
}

/// The offers that are worth a try.
fn chosen(flow: &Flow<'_, '_>) -> Vec<Offer> {
    let context = flow.context;
    let mut offers: Vec<Offer> = plans(flow).into_iter().filter_map(|plan| offer(flow, plan)).collect();
    offers.sort_by_key(|offer| std::cmp::Reverse((offer.price.gain, offer.rest())));
    let (offers, mut repeated): (Vec<Offer>, Vec<Offer>) =
        offers.into_iter().partition(|offer| !offer.plan.repeats_shape);
    // Neither a limit on the command line nor a goal of memory that is not met asks for run time.
    let memory_first = context.options.chunk_bytes.is_some() || context.misses_goal();
    let mut offers = if memory_first { offers } else { affordable(offers) };
    repeated.splice(..0, offers.split_off(offers.len().min(MOST_OFFERS)));
    // What is done at one place may be done at all that are like it.
    let kinds: IndexSet<_> = offers.iter().map(Offer::kind).collect();
    offers.extend(repeated.into_iter().filter(|offer| kinds.contains(&offer.kind())));
    offers
}

/// The offers without those to which another one that saves almost as much is clearly preferable for its run time.
fn affordable(offers: Vec<Offer>) -> Vec<Offer> {
    /// Share of the saving that may be given up, and run time that must be won for it, as a share of the original.
    const MARGINS: (f64, f64) = (0.1, 0.1);
    /// The same where products of few rows are slow.
    const OF_PRODUCTS: (f64, f64) = (0.15, 0.15);
    let judged: Vec<(u64, f64)> = offers.iter().map(|offer| (offer.rest(), offer.slowdown())).collect();
    let beaten = |(offer, &(rest, slowdown)): (&Offer, &(u64, f64))| {
        let (saving, time) = if offer.price.has_few_rows() { OF_PRODUCTS } else { MARGINS };
        let least = rest as f64 * (1.0 - saving);
        judged.iter().any(|&(other, faster)| other as f64 >= least && faster + time < slowdown)
    };
    let keep: Vec<bool> = offers.iter().zip(&judged).map(|offer| !beaten(offer)).collect();
    offers.into_iter().zip(keep).filter_map(|(offer, keep)| keep.then_some(offer)).collect()
}

/// The plans that grow from the largest values; none twice.
fn plans(flow: &Flow<'_, '_>) -> Vec<Plan> {
    let graph = flow.graph;
    let least = flow.context.options.min_saving.get().max(1);
    let values = graph.ops.iter().flat_map(|&op| graph.results(op)).copied();
    let mut seeds: Vec<InstructionId> = values.filter(|&value| flow.is_big(value, least)).collect();
    seeds.sort_by_key(|&value| std::cmp::Reverse(graph.bytes(value)));
    let Some(largest) = seeds.first().map(|&value| graph.bytes(value)) else { return Vec::new() };
    let mut plans = Vec::new();
    let mut known = IndexSet::default();
    let lowest = (flow.context.estimate.floor.get() / 32).clamp(least, (largest / 64).max(least));
    let thresholds = graph.telling([largest - largest / 3, largest / 8, largest / 64, lowest]);
    // Products computed again are slow: only where the program would not fit otherwise.
    let modes: &[bool] = if flow.context.misses_goal() { &[false, true] } else { &[false] };
    for (again, least) in modes.iter().flat_map(|&again| thresholds.iter().map(move |&least| (again, least))) {
        let mut grown = Grown { again, ..Grown::default() };
        let mut shapes: Vec<&[i64]> = Vec::new();
        for &seed in seeds.iter().filter(|&&seed| graph.bytes(seed) >= least) {
            let dims = graph.dims(seed);
            let cut = (0..dims.len()).filter(|&dim| dims[dim] > 1);
            if !cut.clone().all(|dim| grown.of.contains_key(&(seed, dim))) {
                let alike = shapes.iter().filter(|&&other| other == dims).count();
                // Layers of a model have seeds of one shape: more of one shape are looked at until the whole was reached in each dimension.
                grown.repeats_shape = shapes.len() >= MOST_SEEDS || alike >= MOST_ALIKE;
                if grown.repeats_shape
                    && !(graph.has_few_instructions() && grown.reached < graph.ops.len() * dims.len())
                {
                    continue;
                }
                shapes.push(dims);
            }
            let through: Vec<usize> = cut.map(|dim| grown.grow(flow, seed, dim, least)).collect();
            // What one dimension leaves to others is written, unless a second loop cuts another dimension.
            grown.join(flow, &through, least);
        }
        plans.extend(grown.plans.into_iter().flatten().filter(|plan| known.insert(key(plan))));
    }
    plans
}

/// Plans for one threshold.
#[derive(Default)]
struct Grown {
    /// Whether later loops compute again what can round differently there.
    again: bool,
    plans: Vec<Option<Plan>>,
    /// The plan that cuts a value in a dimension.
    of: IndexMap<(InstructionId, usize), usize>,
    joined: IndexSet<(usize, usize)>,
    /// What the plans of these numbers are only parts of, since all of it would need too many loops.
    too_long: IndexMap<usize, PropagatedDims>,
    /// Values reached from all seeds together.
    reached: usize,
    /// Whether seeds have the shape of earlier ones, and so are looked at only for the same change at more places.
    repeats_shape: bool,
}

impl Grown {
    /// The number of the plan that cuts `seed` in a dimension.
    fn grow(&mut self, flow: &Flow<'_, '_>, seed: InstructionId, dim: usize, least: u64) -> usize {
        if let Some(&known) = self.of.get(&(seed, dim)) {
            return known;
        }
        let reach = flow.reach(seed, dim, least);
        self.reached += reach.cuts.len();
        let number = self.plans.len();
        let repeats_shape = self.repeats_shape;
        let closed = close(flow, &reach, least, self.again);
        let mut plans = closed.plans.into_iter().map(|plan| Plan { repeats_shape, ..plan });
        self.plans.push(plans.next());
        self.plans.extend(plans.map(Some));
        for (&value, cut) in &reach.cuts {
            self.of.entry((value, cut.dim)).or_insert(number);
        }
        self.of.insert((seed, dim), number);
        if closed.is_too_long {
            self.too_long.insert(number, reach);
        }
        number
    }
    /// Adds what becomes of each two of these plans together.
    fn join(&mut self, flow: &Flow<'_, '_>, numbers: &[usize], least: u64) {
        for (one, other) in pairs(numbers.len()) {
            let (one, other) = (numbers[one], numbers[other]);
            if one == other || !self.joined.insert((one, other)) {
                continue;
            }
            let Some(first) = &self.plans[one] else { continue };
            let long = self.too_long.get(&other).filter(|_| !self.too_long.contains_key(&one));
            let behind = long.and_then(|reach| close_behind(flow, reach, least, self.again, first));
            let seconds = behind.iter().chain(&self.plans[other]);
            let joined: Vec<_> = seconds.filter_map(|second| join(flow.graph, first, second)).map(Some).collect();
            self.plans.extend(joined);
        }
    }
}

/// All pairs of two different numbers below `count`, in both orders.
fn pairs(count: usize) -> Vec<(usize, usize)> {
    (0..count).flat_map(|one| (0..count).map(move |other| (one, other))).filter(|(one, other)| one != other).collect()
}

/// What tells plans apart: members with their dimensions, and the sinks of each loop.
fn key(plan: &Plan) -> Vec<(InstructionId, usize)> {
    let mut key: Vec<_> = plan.members.iter().map(|(&value, cut)| (value, cut.dim)).collect();
    key.sort_unstable();
    let sinks = plan.loops.iter().enumerate();
    key.extend(sinks.flat_map(|(index, sinks)| sinks.iter().map(move |sink| (sink.inst, index))));
    key
}

/// Regions, block sizes and price of a plan; `None` if it cannot be made or is not worth it.
fn offer(flow: &Flow<'_, '_>, mut plan: Plan) -> Option<Offer> {
    let context = flow.context;
    masks::store_pred_not_convert(flow.graph, &mut plan);
    for sinks in &mut plan.loops {
        settle_sums(context, sinks);
    }
    split_loops::split(context, &mut plan);
    let mut regions = Vec::new();
    for (sinks, allowed) in plan.loops.iter().zip(&plan.allowed) {
        let all: Vec<&Sink> = sinks.iter().collect();
        let grades = sinks.iter().map(|sink| sink.grade(context.module, &all));
        if grades.max()? > context.options.exactness {
            return None;
        }
        let region = grow(context, &all, &all, &IndexSet::default(), Some(allowed)).ok()?;
        if sharded(context, &all, &region).is_some() || unfit(context, &all, &region).is_some() {
            return None;
        }
        regions.push(region);
    }
    if is_cyclic(context.module, &plan, &regions) {
        return None;
    }
    if recomputes_branch_input(flow, &plan, &regions) {
        return None;
    }
    let price = Price::of(flow, &plan, &regions)?;
    let copies = if context.options.target == Target::Tpu { hoisted(context, &regions) } else { 0 };
    if copies.saturating_mul(2) > price.gain {
        return None;
    }
    let sizes_of = |bytes: Option<Bytes>| -> Option<Vec<BlockSize>> {
        (0..regions.len()).map(|index| size(context, &plan, &regions[index], (&price, bytes), index)).collect()
    };
    let sizes = sizes_of(None)?;
    let fewest =
        left_for_blocks(context, &price).and_then(|bytes| sizes_of(Some(bytes))).filter(|other| *other != sizes);
    let (part_of_all, _) = least_gain(context, context.estimate.total_with_scratch());
    let least = context.options.min_saving.max(part_of_all).get();
    let least = if context.options.chunk_bytes.is_some() { least } else { least.max(LEAST_GAIN) };
    let offer = Offer { plan, price, sizes, fewest, regions };
    let gains = possible(context, Bytes(offer.price.gain)).get() >= least.max(1);
    (gains && offer.rest() >= cache_conflict_cost(context, &offer) && !takes_long(context, &offer)).then_some(offer)
}

/// Bytes that loops must save to be worth the cache lines that they fetch again, where they alternate between tables.
fn cache_conflict_cost(context: &Context<'_>, offer: &Offer) -> u64 {
    let sinks: Vec<Vec<&Sink>> = offer.plan.loops.iter().map(|sinks| sinks.iter().collect()).collect();
    least_saving(context, sinks.iter().map(Vec::as_slice).zip(&offer.regions)).get()
}

/// Whether loops inside a loop take long for what they spare, though nobody asks for memory. How other devices fill results was not measured.
fn takes_long(context: &Context<'_>, offer: &Offer) -> bool {
    let asked = context.misses_goal() || context.options.chunk_bytes.is_some();
    let counts = context.options.target == Target::Cpu && !asked;
    counts && offer.price.fills_again && offer.rest() < context.estimate.total_with_scratch().get() / LITTLE
}

/// Bytes that blocks may take in a program that misses its budget, if it meets it with them.
fn left_for_blocks(context: &Context<'_>, price: &Price) -> Option<Bytes> {
    let budget = context.options.budget.filter(|_| context.misses_goal() && context.options.chunk_bytes.is_none())?;
    let total = context.estimate.total_with_scratch();
    // The budget is held against the total and what the model may be off.
    let certain = context.options.peak(context.estimate).get().max(1);
    let within = (u128::from(budget.get()) * u128::from(total.get()) / u128::from(certain)) as u64;
    let left = within.saturating_add(price.gain).checked_sub(total.get())?;
    (left > 0).then_some(Bytes(left))
}

/// The size of a block: a share of the program's arguments and outputs, or so many bytes, but so large that iterations cost little.
fn size(
    context: &Context<'_>,
    plan: &Plan,
    region: &Region,
    (price, bytes): (&Price, Option<Bytes>),
    index: usize,
) -> Option<BlockSize> {
    const MIB: u64 = 1 << 20;
    const LEAST_BYTES: u64 = 64 << 10;
    let row_bytes = price.row_bytes[index].max(1);
    let rows = plan.rows(index);
    let fewest_bytes = context.options.machine().least_block().get().max(4 * MIB);
    let by_rule = Bytes((context.estimate.floor.get() / 16).clamp(fewest_bytes, fewest_bytes.max(64 * MIB)));
    let single = |sink: &Sink| matches!(sink.kind, Kind::Scatter { .. }) && sink.inner == 1;
    let fewest = if plan.loops[index].iter().any(single) { 2 } else { faithful::fewest_rows(context, region) };
    // Who asks for so many bytes gets blocks of them, whatever they cost.
    let cheap = match price.most_blocks {
        ..2 => return None,
        most if bytes.is_none() => (rows - 1) / most + 1,
        _ => 1,
    };
    // Blocks are powers of two of rows where they can be. (The price of other devices is too rough to be rounded.)
    let cheap = match context.options.target {
        Target::Cpu => u64::try_from(cheap).ok()?.next_power_of_two().try_into().ok()?,
        Target::Tpu | Target::Gpu => cheap,
    };
    let sinks: Vec<&Sink> = plan.loops[index].iter().collect();
    let turns = fewest_rows(context, &sinks, region, row_bytes);
    let least = i64::try_from(LEAST_BYTES / row_bytes).ok()?.min(1 << 12).max(fewest).max(cheap).max(turns);
    let limits = Limits {
        target: context.options.target,
        rows,
        row_bytes,
        granule: granule(context.options.target, rows, region.granule),
        bytes: context.options.chunk_bytes.unwrap_or_else(|| bytes.unwrap_or(by_rule).max(by_rule)),
        least: if context.options.chunk_bytes.is_some() { fewest } else { least },
        fewest,
    };
    limits.block_size()
}

/// Whether a loop reads something that only it or a later one makes.
fn is_cyclic(module: &Module, plan: &Plan, regions: &[Region]) -> bool {
    regions.iter().enumerate().any(|(index, region)| {
        let outer = plan.loops[index].iter().flat_map(|sink| sink.outer_operands(module));
        let needed = hlo_ir::graph::cone(module, inputs(region).map(|value| value.inst).chain(outer));
        plan.loops[index..].iter().flatten().any(|sink| needed[sink.inst])
    })
}

/// What a loop reads from memory.
fn inputs(region: &Region) -> impl Iterator<Item = Value> + '_ {
    let read = region.blocks.iter().filter_map(|(block, source)| match source {
        Source::Computed(_) => None,
        Source::Read(_) => Some(block.value),
        Source::ReadThrough(value, _) => Some(*value),
    });
    read.chain(region.wholes.iter().copied())
}

/// What loops write and read: members of a plan that stand in memory all the same, and what it was made from.
fn kept<'p>(plan: &'p Plan, regions: &'p [Region]) -> impl Iterator<Item = InstructionId> + 'p {
    let written = plan.loops.iter().flatten().filter(|sink| matches!(sink.kind, Kind::Write { .. }));
    let read = regions.iter().flat_map(inputs).map(|value| value.inst);
    written.map(|sink| sink.inst).chain(read)
}

fn finding(context: &Context<'_>, offer: &Offer, sizes: &[BlockSize]) -> Option<Finding> {
    let Offer { plan, price, regions, .. } = offer;
    let mut planned: Vec<Planned<'_>> = plan
        .loops
        .iter()
        .zip(regions.iter().zip(sizes))
        .map(|(sinks, (region, size))| Planned::new(sinks.iter().collect(), region.clone(), *size))
        .collect();
    let module = context.module;
    let grade = planned.iter().map(|plan| plan.grade(context)).fold(Grade::Bitwise, Grade::max);
    let note = planned.iter().map(Planned::note).collect::<Vec<_>>().join("; ");
    let conditions = conditions(&planned);
    let instruction = *plan.members.keys().max_by_key(|&&value| hlo_memory::size::shape_size(module.shape(value)))?;
    let Built { patch, grade: behind } = build(context, &mut planned)?;
    let grade = grade.max(behind);
    let wasted = Bytes(price.gain);
    Some(Finding { instruction, grade, wasted, outcome: Outcome::Rewrite { patch, note, conditions } })
}

fn conditions(planned: &[Planned<'_>]) -> Vec<Condition> {
    let structure = |text: &str| Condition { text: text.to_owned(), discharged_by: "structure" };
    let mut conditions =
        vec![structure("every value inside the loop is computed from the same rows by the same operations")];
    let kinds = || planned.iter().flat_map(|plan| &plan.sinks).map(|sink| sink.kind);
    if kinds().any(|kind| matches!(kind, Kind::Scatter { .. })) {
        conditions.push(structure(
            "updates are applied in their original order: the first row dimension is cut, front to back",
        ));
    }
    if kinds().any(|kind| matches!(kind, Kind::Reduce { .. } | Kind::Contraction { .. })) {
        conditions.push(structure(
            "results of blocks are joined by the reduction's own operation, starting from its neutral element",
        ));
    }
    conditions.extend(planned.iter().map(|Planned { size: BlockSize { rows, count, rest }, .. }| Condition {
        text: format!("{count} blocks of {rows} rows and {rest} rows behind them are all rows"),
        discharged_by: "shape",
    }));
    if kinds().any(|kind| kind == Kind::Loop) {
        conditions.push(structure(
            "an iteration of a loop adds linear functions of sums over the rows, and blocks go on from the sums before them",
        ));
    }
    if kinds().any(|kind| matches!(kind, Kind::Write { .. })) {
        let text =
            "each row of an array that is written is written exactly once, by the block that holds it".to_owned();
        conditions.push(Condition { text, discharged_by: "shape" });
    }
    conditions
}
