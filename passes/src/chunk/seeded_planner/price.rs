//! What a plan saves and what it costs, in bytes of memory traffic.

use crate::hash::{IndexMap, IndexSet};
use hlo_ir::{DotDims, ElementType, InstructionId, Opcode};
use hlo_memory::{Bytes, Target};

use super::dim_propagation::Flow;
use super::graph::Graph;
use super::kept;
use super::loop_partition::Plan;
use super::loop_price::LoopPrices;
use super::materialized::shapes;
use super::windows::Windows;
use crate::MAX_SLOWDOWN;
use crate::chunk::region::{Block, Part, Region, Source};
use crate::chunk::sink::{Kind, Sink};
use crate::chunk::size::BlockSize;
use crate::cost::multiplications;
use crate::flow::{Value, first_array, is_fusible, is_transcendental, producer};
use crate::small_programs::{above_floor, fits_malloc_cache};
use crate::{Context, Machine};

/// Gain and cost of a plan.
pub(super) struct Price {
    /// Bytes that do not have to be in memory at once any more.
    pub(super) gain: u64,
    /// For each loop, the bytes that one of its rows takes in memory.
    pub(super) row_bytes: Vec<u64>,
    /// Most iterations that cost little beside the work itself.
    pub(super) most_blocks: i64,
    /// Whether the loops are inside a loop, and take long to fill their results in each of its iterations.
    pub(super) fills_again: bool,
    /// Cost of the original, of what is computed again, and of an iteration of all loops, as memory traffic.
    base: f64,
    again: f64,
    per_block: f64,
    /// Arrays read in pieces: their bytes, and the bytes of a piece that a row of the loop is.
    pieces: Vec<(u64, u64)>,
    rows: i64,
    /// Products cut in a dimension that is neither batch nor contracted: their loop, their cost, and the rows that a row of the loop has there.
    products: Vec<(usize, f64, i64)>,
    /// With this many rows a product takes twice as long as its operations would.
    few_rows: f64,
}

/// Where runs reuse memory, what a program keeps in the cache moves so many times as fast as what it does not, and a kernel is worth as much more traffic.
const CACHED_SPEED: f64 = 3.0;
/// Share of the original cost that loops may add. Up to here run time is flat, because blocks that fit the cache save as much...
const ALLOWANCE: f64 = 0.3;
/// ...but products of few rows reach two thirds of the speed of large ones, which the price leaves out. A program that takes this little fits any
/// machine, and can as well have larger blocks where there are products.
const SMALL_ALLOWANCE: f64 = 0.15;
const SMALL: Bytes = Bytes(1 << 30);
/// The same where memory costs no time: reused from run to run (see `small_programs.rs`), or taken once for all runs as on devices, so that loops win nothing and what they add
/// shows in full. Measured: docs/measured/log.md, "Figures behind constants".
const REUSED_MEMORY_ALLOWANCE: f64 = 0.1;
/// The same where a budget is not met.
const BUDGET_ALLOWANCE: f64 = 2.0;
/// Traffic of a byte that a loop writes, inside loops and where runs reuse memory: it is filled before, and copied by one thread.
const WRITTEN: f64 = 3.0;

/// Pieces below this are read at a cost, so much of their traffic: most of a cache line or page goes unused, and loops over them stay short.
const PIECE: u64 = 4 << 10;
const SCATTERED: f64 = 0.5;

/// Values are computed again at most to this share of the original cost...
const SMALL_SHARE: f64 = 0.05;
/// ...unless this many bytes are saved, more than caches hold: then computing again may cost this share of the memory traffic saved. Programs
/// that saved less ran slower, and those that saved more faster (docs/measured/log.md, "Figures behind constants").
const LARGE: u64 = 128 << 20;
const LARGE_RECOMPUTE_SHARE: f64 = 0.35;
/// Where there are products, which take most of the time, what computing again costs beyond the traffic saved may be as much as a program may become
/// slower, and all of it this share of the original cost: scores of an attention are made again for its gradient (`passes/tests/time_programs/heads_gradient.hlo`), and
/// messages of a graph (`families.py --only message-network`). Both run faster (docs/measured/log.md, "Figures behind constants").
const PRODUCTS_SHARE: f64 = 0.33;
/// With this many bytes at stake, memory decides whether the program runs at all.
const HUGE: u64 = 2 << 30;
const HUGE_RECOMPUTE_SHARE: f64 = 0.7;

impl Price {
    /// The price of a plan; `None` if it computes so much again that it is not worth it.
    pub(super) fn of(flow: &Flow<'_, '_>, plan: &Plan, regions: &[Region]) -> Option<Self> {
        let graph = flow.graph;
        // What is larger than all memory was fused, and would stand in it now.
        if kept(plan, regions).any(|value| !graph.fits(value)) {
            return None;
        }
        let kept: IndexSet<InstructionId> = kept(plan, regions).collect();
        let held = plan.members.keys().copied().filter(|&value| graph.is_held(value));
        let gone: Vec<InstructionId> =
            held.filter(|&value| !shapes(graph, value).iter().any(|shape| kept.contains(shape))).collect();
        let mut times: IndexMap<InstructionId, usize> = IndexMap::default();
        for region in regions {
            for op in computed(graph, region) {
                *times.entry(op).or_insert(0) += 1;
            }
        }
        let sinks = || plan.loops.iter().flatten();
        let accumulators: u64 = sinks().filter(|sink| accumulates(sink)).map(|sink| graph.bytes(sink.inst)).sum();
        let machine = flow.context.options.machine();
        let loops = LoopPrices::of(flow, regions);
        let work = |op: InstructionId| loops.work(op).unwrap_or_else(|| work(graph, machine, op));
        let sums = sinks().filter(|sink| accumulates(sink)).map(|sink| sink.inst);
        let all = times.keys().copied().chain(sums).map(work).sum::<f64>() + loops.of_sinks();
        // What is not kept is neither written nor read.
        let saved_bytes = gone.iter().map(|&value| graph.bytes(value)).fold(0, u64::saturating_add);
        let saved_traffic = 2.0 * saved_bytes as f64;
        let is_reused = fits_malloc_cache(flow.context);
        // Of what the library sums it keeps tiles only.
        let base =
            all + if is_reused { saved_traffic.min(2.0 * above_floor(flow.context) as f64) } else { saved_traffic };
        let again = times.iter().map(|(&op, &count)| work(op) * (count - 1) as f64).sum::<f64>();
        let reread: f64 = regions.iter().map(|region| whole_traffic(graph, machine, region)).sum();
        let beginnings = regions.iter().map(|region| beginning(flow, region)).sum::<f64>();
        let per_block = 3.0 * accumulators as f64 + reread + beginnings + loops.per_block();
        let options = flow.context.options;
        let has_budget = flow.context.misses_goal();
        let multiplies = times.keys().any(|&op| graph.module.instruction(op).opcode == Opcode::Dot);
        let allowed = base * allowance(flow.context, multiplies);
        let filled = WRITTEN * written_bytes(graph, plan) as f64;
        let most = |allowed: f64| Windows::of(flow, plan, regions).most_blocks(allowed, per_block);
        let filling = most(allowed - filled);
        let most_blocks = if is_reused { filling } else { most(allowed) };
        // A limit on the command line is an order: run time is not asked for.
        let most_blocks = if options.chunk_bytes.is_some() { f64::INFINITY } else { most_blocks };
        let fused =
            |(&op, &count): (&InstructionId, &usize)| count < 2 || is_fusible(graph.module.instruction(op).opcode);
        let may_repeat = flow.context.recompute_large && times.iter().all(fused);
        let multiplies_again =
            times.iter().any(|(&op, &count)| count > 1 && graph.module.instruction(op).opcode == Opcode::Dot);
        let beside_products = multiplies_again && saved_bytes >= LARGE;
        let of_products = (saved_traffic + base * (MAX_SLOWDOWN - 1.0)).min(base * PRODUCTS_SHARE);
        let again_at_most = [
            base * SMALL_SHARE,
            saved_traffic * recompute_share(saved_bytes, may_repeat),
            if beside_products { of_products } else { 0.0 },
        ];
        let affordable = has_budget || again_at_most.iter().any(|&most| again <= most);
        if most_blocks < 2.0 || (most_blocks.is_finite() && !affordable) {
            return None;
        }
        let row_bytes =
            regions.iter().enumerate().map(|(index, region)| row_bytes(graph, plan.rows(index), region)).collect();
        // Nor is it saved: what is larger than all memory does not stand in it now.
        let gone: u64 = gone.iter().filter(|&&value| graph.fits(value)).map(|&value| graph.bytes(value)).sum();
        Some(Self {
            gain: gone.saturating_sub(accumulators),
            row_bytes,
            most_blocks: most_blocks.min(1e15) as i64,
            fills_again: is_inside(graph, plan) && filling < 2.0,
            base,
            again,
            per_block,
            pieces: regions.iter().flat_map(|region| pieces(graph, region)).collect(),
            products: products(flow, regions),
            few_rows: machine.few_rows as f64,
            rows: (0..regions.len()).map(|index| plan.rows(index)).max().unwrap_or(1),
        })
    }
    /// Whether products are charged for the rows of a block.
    pub(super) fn has_few_rows(&self) -> bool {
        !self.products.is_empty()
    }
    /// What the loops cost beyond the work itself, with blocks of these sizes, as a share of the original cost.
    pub(super) fn slowdown(&self, sizes: &[BlockSize]) -> f64 {
        let blocks = sizes.iter().map(|size| size.count).max().unwrap_or(0);
        let of_few = |&(at, work, rows): &(usize, f64, i64)| {
            work * self.few_rows / (self.few_rows + (rows * sizes[at].rows) as f64)
        };
        let products = self.products.iter().map(of_few).sum::<f64>();
        let block = (self.rows / blocks.max(1)).max(1) as u64;
        let small = self.pieces.iter().filter(|(_, piece)| piece.saturating_mul(block) < PIECE);
        let scattered = small.map(|(bytes, _)| SCATTERED * *bytes as f64).sum::<f64>();
        (self.again + self.per_block * blocks as f64 + scattered + products) / self.base
    }
}

/// What loops may add to the original cost, as a share of it.
fn allowance(context: &Context<'_>, multiplies: bool) -> f64 {
    match (context.misses_goal(), is_small(context) && multiplies) {
        (true, _) => BUDGET_ALLOWANCE,
        _ if context.options.target != Target::Cpu || fits_malloc_cache(context) => REUSED_MEMORY_ALLOWANCE,
        (false, true) => SMALL_ALLOWANCE,
        (false, false) => ALLOWANCE,
    }
}

/// What computing values again may cost, as a share of the memory traffic saved, where so many bytes are not kept.
fn recompute_share(bytes: u64, may_repeat: bool) -> f64 {
    match bytes {
        HUGE.. => HUGE_RECOMPUTE_SHARE,
        LARGE.. if may_repeat => LARGE_RECOMPUTE_SHARE,
        _ => 0.0,
    }
}

/// Whether the program fits any machine, and had better be fast.
fn is_small(context: &Context<'_>) -> bool {
    context.options.target == Target::Cpu && context.before < SMALL
}

/// Whether a plan makes loops in another computation than the entry: most of those are bodies of loops.
fn is_inside(graph: &Graph<'_>, plan: &Plan) -> bool {
    let module = graph.module;
    plan.loops.iter().flatten().any(|sink| module.instruction(sink.inst).parent != module.entry())
}

/// Bytes of results that loops write block by block.
fn written_bytes(graph: &Graph<'_>, plan: &Plan) -> u64 {
    let written = plan.loops.iter().flatten().filter(|sink| matches!(sink.kind, Kind::Write { .. }));
    written.map(|sink| graph.bytes(sink.inst)).fold(0, u64::saturating_add)
}

fn accumulates(sink: &Sink) -> bool {
    matches!(sink.kind, Kind::Reduce { .. } | Kind::Contraction { .. })
}

/// Instructions that a region computes on blocks; each as often as it has forms.
fn computed<'r>(graph: &'r Graph<'_>, region: &'r Region) -> impl Iterator<Item = InstructionId> + 'r {
    let blocks = region.blocks.iter().filter(|(_, source)| matches!(source, Source::Computed(_)));
    // Results of a loop have their rows in several dimensions.
    let dim = |block: &Block| if is_of_loop(graph, block.value.inst) { 0 } else { block.dim };
    let forms: IndexSet<_> =
        blocks.map(|(block, _)| (producer(graph.module, block.value.inst).0, dim(block), block.rows)).collect();
    forms.into_iter().map(|(op, ..)| op)
}

fn is_of_loop(graph: &Graph<'_>, value: InstructionId) -> bool {
    graph.module.instruction(producer(graph.module, value).0).opcode == Opcode::While
}

/// What computing an instruction costs, its reads and writes of memory aside.
fn work(graph: &Graph<'_>, machine: &Machine, op: InstructionId) -> f64 {
    let inst = graph.module.instruction(op);
    let bytes = graph.results(op).iter().map(|&value| graph.bytes(value)).sum::<u64>() as f64;
    let read = || graph.operands(op).iter().map(|&operand| graph.bytes(operand)).max().unwrap_or(0) as f64;
    let element = first_array(&inst.shape).map_or(ElementType::F32, |array| array.element_type);
    let elements = |bytes: f64| bytes * 8.0 / f64::from(element.storage_bits().max(1));
    match inst.opcode {
        Opcode::Dot | Opcode::Convolution => {
            machine.product_traffic(element)
                * multiplications(graph.module, op, machine.target).unwrap_or(u64::MAX) as f64
        }
        Opcode::Reduce | Opcode::ReduceWindow => 0.5 * read(),
        Opcode::Sort => 20.0 * bytes,
        Opcode::Gather | Opcode::Scatter => 2.0 * bytes,
        opcode if is_transcendental(opcode) => machine.transcendental_traffic() * elements(bytes),
        opcode if is_fusible(opcode) => 0.1 * bytes,
        _ => 2.0 * bytes,
    }
}

/// Traffic of the values that every iteration reads as a whole, in the cache or not. What is gathered from is read where an index points.
fn whole_traffic(graph: &Graph<'_>, machine: &Machine, region: &Region) -> f64 {
    let mut read: IndexSet<Value> = IndexSet::default();
    for (block, source) in &region.blocks {
        let Source::Computed(parts) = source else { continue };
        let op = producer(graph.module, block.value.inst).0;
        let tables = usize::from(graph.module.instruction(op).opcode == Opcode::Gather);
        read.extend(parts.iter().skip(tables).filter_map(|part| match part {
            Part::Whole(value) => Some(*value),
            Part::Block(_) => None,
        }));
    }
    let wholes = region.wholes.iter().chain(&region.reversed);
    let sizes = wholes.filter(|&whole| read.contains(whole)).map(|value| graph.bytes(value.inst));
    let traffic = |bytes: u64| {
        if bytes > machine.cache.get() { bytes as f64 } else { machine.cached_traffic(bytes as f64) }
    };
    sizes.map(traffic).sum()
}

/// Traffic of what an iteration begins with: kernels, and what XLA:CPU's library prepares for them. Other devices' libraries prepare nothing.
fn beginning(flow: &Flow<'_, '_>, region: &Region) -> f64 {
    let machine = flow.context.options.machine();
    let started = machine.traffic(machine.iteration + machine.kernel * kernels(flow.graph, region) as u64);
    match flow.context.options.target {
        Target::Cpu if fits_malloc_cache(flow.context) => {
            packed_bytes(flow.graph, region) as f64 + CACHED_SPEED * started
        }
        Target::Cpu => packed_bytes(flow.graph, region) as f64 + started,
        Target::Tpu | Target::Gpu => started,
    }
}

/// Traffic of preparing whole operands of products, once an iteration: XLA:CPU's library packs them, however few rows they meet, which
/// counts half because most stay in the cache. And its products take batches first; what has them elsewhere is transposed before that
/// (`xla/service/dot_decomposer.cc`), which reads and writes it.
fn packed_bytes(graph: &Graph<'_>, region: &Region) -> u64 {
    let mut packed: IndexMap<Value, u64> = IndexMap::default();
    for (block, source) in &region.blocks {
        let inst = graph.module.instruction(producer(graph.module, block.value.inst).0);
        let (Source::Computed(parts), Some(dims)) = (source, DotDims::of(inst)) else { continue };
        for (part, batch) in parts.iter().zip([dims.lhs_batch, dims.rhs_batch]) {
            if let Part::Whole(value) = part {
                let in_order = (0..).zip(batch).all(|(at, &dim)| at == dim);
                let halves = packed.entry(*value).or_default();
                *halves = (*halves).max(if in_order { 1 } else { 5 });
            }
        }
    }
    packed.iter().map(|(value, halves)| graph.bytes(value.inst).saturating_mul(*halves) / 2).sum()
}

/// Arrays of which a region reads a dimension that is not the first, with the bytes that lie together in a row of it.
fn pieces(graph: &Graph<'_>, region: &Region) -> Vec<(u64, u64)> {
    let read = region.blocks.iter().filter(|(_, source)| matches!(source, Source::Read(_))).map(|(block, _)| block);
    let piece = |block: &Block| {
        let (before, after) = graph.dims(block.value.inst).split_at_checked(block.dim)?;
        let count = before.iter().chain(after.first()).map(|&size| size.max(1) as u64).fold(1, u64::saturating_mul);
        let bytes = graph.bytes(block.value.inst);
        before.iter().any(|&size| size > 1).then_some((bytes, bytes / count))
    };
    read.filter_map(piece).collect()
}

/// Products that regions cut where a program is small, with the number of the region, their cost, and the rows of a block of one row.
fn products(flow: &Flow<'_, '_>, regions: &[Region]) -> Vec<(usize, f64, i64)> {
    let all = regions.iter().enumerate().flat_map(|(at, region)| products_of(flow, at, region));
    if is_small(flow.context) { all.collect() } else { Vec::new() }
}

fn products_of(flow: &Flow<'_, '_>, at: usize, region: &Region) -> Vec<(usize, f64, i64)> {
    let (graph, machine) = (flow.graph, flow.context.options.machine());
    let product = |block: &Block| {
        let op = producer(graph.module, block.value.inst).0;
        let inst = graph.module.instruction(op);
        let dims = DotDims::of(inst)?;
        let left = graph.dims(*graph.operands(op).first()?).len() - dims.lhs_contracting.len();
        let (batches, result) = (dims.lhs_batch.len(), graph.dims(block.value.inst));
        let side = if block.dim < left { batches..left } else { left..result.len() };
        let others = side.filter(|&dim| dim != block.dim).map(|dim| result[dim]).fold(1, i64::saturating_mul);
        (block.dim >= batches).then_some((at, work(graph, machine, op), others))
    };
    let computed = region.blocks.iter().filter(|(_, source)| matches!(source, Source::Computed(_)));
    computed.filter_map(|(block, _)| product(block)).collect()
}

/// Kernels of an iteration: one for each block that is held, and one for the result.
fn kernels(graph: &Graph<'_>, region: &Region) -> usize {
    let held = region.blocks.iter().filter(|(block, source)| {
        matches!(source, Source::Computed(parts) if parts.iter().any(|part| matches!(part, Part::Block(_))))
            && graph.is_held(block.value.inst)
    });
    held.count() + 1
}

/// Bytes that a row of the loop takes: blocks that are held, and blocks read for instructions that are not fused.
fn row_bytes(graph: &Graph<'_>, rows: i64, region: &Region) -> u64 {
    let mut held: IndexSet<Block> = IndexSet::default();
    for (block, source) in &region.blocks {
        let Source::Computed(parts) = source else { continue };
        let op = producer(graph.module, block.value.inst).0;
        let free = parts.iter().all(|part| matches!(part, Part::Whole(_)));
        if graph.is_held(block.value.inst) && !free {
            held.insert(*block);
        }
        if !is_fusible(graph.module.instruction(op).opcode) {
            held.extend(parts.iter().filter_map(|part| match part {
                Part::Block(block) => Some(*block),
                Part::Whole(_) => None,
            }));
        }
    }
    let bytes = held.iter().map(|block| graph.bytes(block.value.inst)).fold(0, u64::saturating_add);
    bytes.div_ceil(rows as u64)
}
