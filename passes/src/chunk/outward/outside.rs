//! What is computed whole outside of the loops of a plan, of which they should not compute again what takes long.

use hlo_ir::InstructionId;
use indexmap::IndexSet;

use super::closure::Plan;
use super::graph::Graph;
use super::inputs;
use crate::chunk::region::Region;

/// What is computed whole outside of the loops, for them or for others.
pub(super) fn made_outside(graph: &Graph<'_>, plan: &Plan, regions: &[Region]) -> IndexSet<InstructionId> {
    let sinks = || plan.loops.iter().flatten();
    let made_inside: IndexSet<InstructionId> = sinks().map(|sink| graph.op(sink.inst)).collect();
    let given = sinks().flat_map(|sink| sink.outer_operands(graph.module)).copied();
    let given = given.chain(regions.iter().flat_map(inputs).map(|value| value.inst)).map(|value| graph.op(value));
    let leaving =
        graph.ops.iter().copied().filter(|&op| graph.results(op).iter().any(|&value| graph.is_outside(value)));
    let mut made: IndexSet<InstructionId> = given.chain(leaving).filter(|op| !made_inside.contains(op)).collect();
    let mut next = 0;
    while let Some(&op) = made.get_index(next) {
        next += 1;
        let operands = graph.operands(op).iter().map(|&operand| graph.op(operand));
        made.extend(operands.filter(|operand| !made_inside.contains(operand)));
    }
    made
}
