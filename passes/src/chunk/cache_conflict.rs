//! Loops that alternate between tables which fit a cache one by one only: how many rows their blocks need, and which scatters get loops of their own.
//!
//! A table of some MiB stays in the caches while a kernel walks it. Where a block reads one table and adds into another, each of them evicts the other, and every
//! block fetches the lines again. So blocks of such loops are as large as memory allows, and where they would save little there is no loop. Tables that fit together
//! do not conflict, and those larger than any cache were fetched anyway. Two scatters that share little but indices run faster in loops of their own for the same
//! reason. The measurements stand in docs/measured/log.md.

// Tests: `passes/tests/chunk_time.rs`.

use crate::hash::IndexSet;
use hlo_ir::{InstructionId, Opcode};
use hlo_memory::size::shape_size;
use hlo_memory::{Bytes, Target};

use super::region::{Block, Part, Region, Source};
use super::sink::{Kind, Sink, Sum};
use super::size::LARGEST_BLOCK;
use crate::Context;
use crate::flow::{is_fusible, is_transcendental, producer};
use crate::machine::LINE;
use crate::objective::{ALWAYS_AVAILABLE, NEGLIGIBLE};
use crate::small_programs::asks_for_memory;

/// Part of the arguments and results, as a divisor, that blocks may take for it.
const SHARE: u64 = 4;
/// Bytes that loops must save for each update to be worth the cache lines that they fetch again, if nobody asks for memory and there is [enough of it](ALWAYS_AVAILABLE):
/// with these, loops keep about the speed of the original (docs/measured/log.md, "Figures behind constants").
const LEAST_PER_UPDATE: u64 = 16;
/// What is said where they spare less.
pub(super) const SAVES_LITTLE: &str = "would alternate between tables that fit the processor's caches one by one only, and save little for that; \
                                    `--chunk-bytes`, `--objective=memory` or a `--budget` asks for memory all the same";

/// Fewest rows of a block, of which each takes `row_bytes`: 1 where tables do not matter, or memory matters more.
pub(super) fn fewest_rows(context: &Context<'_>, sinks: &[&Sink], region: &Region, row_bytes: u64) -> i64 {
    let Some(largest) = conflicting_bytes(context, sinks, region).filter(|_| !asks_for_memory(context)) else {
        return 1;
    };
    let updates = updates(sinks);
    let floor = context.estimate.floor.get();
    // Each turn makes as many updates as a table has bytes, 64 for each line: fetching one takes about as long as two uses of one that is there. Larger blocks where they matter to nobody.
    let affordable = (floor / SHARE).min(LARGEST_BLOCK.max(floor / NEGLIGIBLE)) / row_bytes.max(1);
    (largest / updates).min(affordable).max(1) as i64
}

/// Bytes that loops must spare for the turns that they take between tables: none where they take none, or where memory is asked for.
pub(super) fn least_saving<'l>(
    context: &Context<'_>,
    loops: impl Iterator<Item = (&'l [&'l Sink], &'l Region)>,
) -> Bytes {
    let conflicting = loops.filter(|(sinks, region)| conflicting_bytes(context, sinks, region).is_some());
    let places = |sinks: &[&Sink]| sinks.iter().map(|sink| sink.rows.max(1) as u64).max().unwrap_or(1) * updates(sinks);
    let bytes =
        conflicting.map(|(sinks, _)| places(sinks).saturating_mul(LEAST_PER_UPDATE)).fold(0, u64::saturating_add);
    // Turns may take twice the time, for which there is no reason below twice as much memory.
    if asks_for_memory(context) { Bytes::ZERO } else { (ALWAYS_AVAILABLE + ALWAYS_AVAILABLE).min(Bytes(bytes)) }
}

/// Updates of a row.
fn updates(sinks: &[&Sink]) -> u64 {
    sinks.iter().map(|sink| sink.inner).max().unwrap_or(1).max(1) as u64
}

/// Whether a loop would alternate between tables, so that it is made only if memory is asked for.
pub(super) fn only_if_asked(context: &Context<'_>, sinks: &[&Sink], region: &Region) -> bool {
    conflicting_bytes(context, sinks, region).is_some() && !asks_for_memory(context)
}

/// Bytes of the largest table if a loop gathers and scatters in turns, and its tables fit the caches one by one only.
fn conflicting_bytes(context: &Context<'_>, sinks: &[&Sink], region: &Region) -> Option<u64> {
    let bytes = |id: InstructionId| shape_size(context.module.shape(id)).map_or(u64::MAX, Bytes::get);
    let sizes = |tables: IndexSet<InstructionId>| tables.into_iter().map(bytes).collect::<Vec<u64>>();
    let (read, written) = (sizes(gathered(context, region)), sizes(scattered(sinks)));
    let sum = |sizes: &[u64]| sizes.iter().copied().fold(0, u64::saturating_add);
    let (of_read, of_written) = (sum(&read), sum(&written));
    // Two tables that fill the cache stay in part of it one by one; beside one that fills half of it enough of the other stays.
    let reach = 2 * context.options.machine().cache.get();
    let together = of_read.saturating_add(of_written) >= reach && of_read.min(of_written) >= reach / 4;
    // A wider update pays for finding its place.
    let narrow = sinks.iter().all(|sink| update_bytes(context, sink) < LINE);
    let largest = read.into_iter().chain(written).max()?;
    (context.options.target == Target::Cpu && together && narrow && largest <= reach).then_some(largest)
}

/// Whether two scatters that could share a loop had better have one each: they turn between tables, and what they share is read and computed in little
/// time.
pub(super) fn should_split(context: &Context<'_>, loops: [(&Sink, &Region); 2]) -> bool {
    let tables = loops.iter().flat_map(|(sink, region)| gathered(context, region).into_iter().chain([sink.inst]));
    let tables: IndexSet<InstructionId> = tables.collect();
    let sizes = tables.iter().filter_map(|&table| shape_size(context.module.shape(table)));
    let far = sizes.sum::<Bytes>() > context.options.machine().cache;
    loops.iter().all(|(sink, _)| may_split(context, sink)) && far && shares_little(context, loops)
}

/// Whether a sink is a scatter that an access to its table makes slow, and which no sum ties to others.
pub(super) fn may_split(context: &Context<'_>, sink: &Sink) -> bool {
    let scatters = matches!(sink.kind, Kind::Scatter { .. }) && sink.sum == Sum::None;
    context.options.target == Target::Cpu && scatters && update_bytes(context, sink) < LINE
}

/// Whether what both loops need is read and computed for each row in less time than a table takes.
fn shares_little(context: &Context<'_>, [(sink, one), (_, other)]: [(&Sink, &Region); 2]) -> bool {
    let module = context.module;
    let rows = sink.rows.max(1) as u64;
    let shared = || one.blocks.iter().filter(|(block, _)| other.blocks.contains_key(*block));
    let computed = || shared().filter(|(_, source)| matches!(source, Source::Computed(_))).map(|(block, _)| block);
    let read = shared().filter(|(_, source)| matches!(source, Source::Read(_)));
    let read: IndexSet<InstructionId> = read.map(|(block, _)| block.value.inst).collect();
    let bytes = read.iter().filter_map(|&value| shape_size(module.shape(value))).sum::<Bytes>().get();
    // What could come out differently in two loops is computed in one.
    let rounded = one.rounded(module);
    let cheap = |block: &Block| {
        let op = producer(module, block.value.inst).0;
        let opcode = module.instruction(op).opcode;
        is_fusible(opcode) && !is_transcendental(opcode) && !rounded.contains(&op)
    };
    let arithmetic = computed().count() as f64 * context.options.machine().arithmetic_traffic();
    computed().all(cheap) && bytes as f64 + rows as f64 * arithmetic < (rows * LINE) as f64
}

/// Bytes of one update of a scatter.
fn update_bytes(context: &Context<'_>, sink: &Sink) -> u64 {
    let updates = context.module.instruction(sink.inst).operands.last();
    let bytes = updates.and_then(|&updates| shape_size(context.module.shape(updates))).map_or(0, Bytes::get);
    bytes / (sink.rows.max(1) as u64).saturating_mul(sink.inner.max(1) as u64)
}

/// Tables that the loop gathers from.
fn gathered(context: &Context<'_>, region: &Region) -> IndexSet<InstructionId> {
    let table = |(block, source): (&Block, &Source)| match source {
        Source::Computed(parts) => match parts.first() {
            Some(Part::Whole(table)) if opcode(context, block) == Opcode::Gather => Some(table.inst),
            _ => None,
        },
        Source::Read(_) | Source::ReadThrough(..) => None,
    };
    region.blocks.iter().filter_map(table).collect()
}

fn opcode(context: &Context<'_>, block: &Block) -> Opcode {
    context.module.instruction(producer(context.module, block.value.inst).0).opcode
}

/// Tables that the loop scatters into.
fn scattered(sinks: &[&Sink]) -> IndexSet<InstructionId> {
    sinks.iter().filter(|sink| matches!(sink.kind, Kind::Scatter { .. })).map(|sink| sink.inst).collect()
}
