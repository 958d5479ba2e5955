//! How many rows a block needs where a loop turns between tables: it gathers from one and then scatters into another.
//!
//! A processor finds the places of some MiB of memory without asking (the reach of its second table of pages, 2,048 of 4 KiB on current
//! servers). A table that fits is walked at full speed; where two take turns that fit one by one only, each turn finds the places again.
//! Steps of gradient descent on a table of 4 or 8 MiB ran at 0.36 to 0.72 of their speed in blocks of 1 MiB, at 0.54 to 0.91 in blocks of 12 MiB,
//! while tables of 2 MiB and of 16 to 64 MiB gained nothing by it.

use hlo_ir::{InstructionId, Opcode};
use hlo_memory::size::shape_size;
use hlo_memory::{Bytes, Target};
use indexmap::IndexSet;

use super::region::{Block, Part, Region, Source};
use super::sink::{Kind, Sink};
use crate::Context;
use crate::flow::producer;

/// Bytes whose places a processor knows.
const REACH: u64 = 8 << 20;
/// Bytes that come from memory at once.
pub(super) const LINE: u64 = 64;
/// How often a turn should use each line of a table.
const USES: u64 = 4;
/// Part of the arguments and results, as a divisor, that blocks may take for it.
const SHARE: u64 = 4;

/// Fewest rows of a block, of which each takes `row_bytes`: 1 where tables do not matter.
pub(super) fn fewest_rows(context: &Context<'_>, sinks: &[&Sink], region: &Region, row_bytes: u64) -> i64 {
    let bytes = |id: InstructionId| shape_size(context.module.shape(id)).map_or(u64::MAX, Bytes::get);
    let (read, written) = (gathered(context, region), scattered(sinks));
    let sizes: Vec<u64> = read.iter().chain(&written).map(|&table| bytes(table)).collect();
    let largest = sizes.iter().copied().max().unwrap_or(0);
    let turns = context.options.target == Target::Cpu && !read.is_empty() && !written.is_empty();
    // A wider update pays for finding its place.
    let narrow = sinks.iter().all(|sink| update_bytes(context, sink) < LINE);
    if !turns || !narrow || largest > REACH || sizes.iter().sum::<u64>() < REACH {
        return 1;
    }
    let updates = sinks.iter().map(|sink| sink.inner).max().unwrap_or(1).max(1) as u64;
    let affordable = context.estimate.floor.get() / SHARE / row_bytes.max(1);
    (USES * largest / LINE / updates).min(affordable).max(1) as i64
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
