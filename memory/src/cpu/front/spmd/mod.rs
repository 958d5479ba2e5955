//! Programs for several devices: each device runs the same program on its share of every array.
//!
//! Modelled are bodies of `shard_map` and `pmap`, which say by themselves what each device does, and around them what can be done to the
//! shares one by one. Shardings that the compiler would have to choose are not: such a module stays whole, and a caveat says so.
//!
//! Source: `SpmdPartitioner` (xla/service/spmd/spmd_partitioner.cc), behind Shardy's export of manual computations
//! (xla/service/spmd/shardy/sdy_round_trip).

mod factors;
mod partition;
mod propagate;
mod sharding;

use hlo_ir::{AttrKey, AttrValue};

use super::cx::Cx;
use super::{calls, dce};
use crate::cpu::tuples;

/// Replaces the program by the one that each device runs, and notes that it did. Nothing changes for a program of one device and for one
/// that the model cannot partition.
pub(crate) fn run(cx: &mut Cx<'_>) {
    if partitions(cx) <= 1 {
        return;
    }
    let Some(entry) = partition::run(cx) else { return };
    cx.partitioned = true;
    cx.set_entry(entry);
    dce::run(cx);
    tuples::run(cx);
    calls::inline(cx);
}

fn partitions(cx: &Cx<'_>) -> i64 {
    match hlo_ir::attribute::find(&cx.attributes, &AttrKey::NumPartitions) {
        Some(AttrValue::Int(count)) => *count,
        _ => 1,
    }
}
