//! Programs for several devices: each device runs the same program on its share of every array.
//!
//! Modelled are manual computations (`shard_map`, `pmap`), which say by themselves what each device does; around them shardings are propagated
//! as Shardy does it, through loops and branches too, and what each device computes follows from its factors. Where devices would need parts of
//! their neighbours' rows, where an axis would have to be split, or where the partitioner weighs several ways, the module stays whole, and a
//! caveat says so. The rules are those of Shardy; modules without it are taken to be propagated alike.
//!
//! Source: `SpmdPartitioner` (xla/service/spmd/spmd_partitioner.cc), behind Shardy's export of manual computations
//! (xla/service/spmd/shardy/sdy_round_trip).

// Tests: `memory/tests/partitioned.rs`.

mod factors;
mod operation;
mod partition;
mod plan;
mod propagate;
mod reshard;
mod sharding;
mod spread;
mod tables;
mod values;

use hlo_ir::{AttrKey, Opcode, per_device};

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
    if per_device::partitions(&cx.attributes) <= 1 {
        each(cx, Opcode::CustomCall, without_annotation);
        return;
    }
    dce::run(cx);
    calls::inline_unless(cx, is_manual);
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

/// Whether a call is one of a manual computation, by the name that Shardy gives those.
///
/// Source: `kManualComputationFuncName` (xla/service/spmd/shardy/constants.h).
fn is_manual(cx: &Cx<'_>, call: Id) -> bool {
    cx.to_apply(call).is_some_and(|callee| cx.computation_name(callee).starts_with("xla.sdy.manual_computation_body"))
}
