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

use hlo_ir::{AttrKey, AttrValue, Opcode};

use super::cx::{Cx, Id};
use super::visit::each;
use super::{calls, dce};
use crate::cpu::tuples;

/// Replaces the program by the one that each device runs, and notes that it did. Nothing changes for one that the model cannot partition, or that comes
/// from behind the partitioner; of a program of one device annotations go.
pub(crate) fn run(cx: &mut Cx<'_>) {
    if cx.partitioned {
        return;
    }
    if partitions(cx) <= 1 {
        each(cx, Opcode::CustomCall, without_annotation);
        return;
    }
    let Some(entry) = partition::run(cx) else { return };
    cx.partitioned = true;
    cx.set_entry(entry);
    dce::run(cx);
    tuples::run(cx);
    calls::inline(cx);
}

/// What an annotation is given, which is what it gives.
///
/// Source: `ShardingRemover` (xla/service/sharding_remover.cc).
fn without_annotation(cx: &mut Cx<'_>, id: Id) -> Option<Id> {
    let [operand] = *cx.operands(id) else { return None };
    let is_annotation = cx.inst(id).raw(&AttrKey::CustomCallTarget) == Some("\"Sharding\"");
    (is_annotation && cx.shape(id) == cx.shape(operand)).then_some(operand)
}

fn partitions(cx: &Cx<'_>) -> i64 {
    match hlo_ir::attribute::find(&cx.attributes, &AttrKey::NumPartitions) {
        Some(AttrValue::Int(count)) => *count,
        _ => 1,
    }
}
