//! Masks: where a loop would write a converted mask, it writes the mask.
//!
//! It takes less memory, and XLA still sees that a product with it only selects (`HandleMultiply` in XLA's `algebraic_simplifier.cc`): kept as
//! a float, a mask lets through the NaN of what it masks.

use hlo_ir::{ElementType, InstructionId, Opcode};

use super::graph::Graph;
use super::loop_partition::Plan;
use crate::chunk::sink::Kind;

/// Writes masks instead of the numbers that are made of them, where later loops read these and whatever else does converts as it reads.
pub(super) fn store_pred_not_convert(graph: &Graph<'_>, plan: &mut Plan) {
    for index in 0..plan.loops.len() {
        for place in 0..plan.loops[index].len() {
            let sink = &plan.loops[index][place];
            let (value, is_written) = (sink.inst, matches!(sink.kind, Kind::Write { .. }));
            let behind = &plan.allowed[index + 1..];
            let is_read = graph.uses(value).iter().any(|&(user, _)| behind.iter().any(|later| later[user]));
            let Some(mask) = mask_of(graph, plan, value).filter(|_| is_written && is_read) else { continue };
            plan.loops[index][place].inst = mask;
            for later in &mut plan.allowed[index + 1..] {
                later.set(graph.op(value), true);
                later.set(graph.op(mask), false);
            }
        }
    }
}

/// The mask that a member is made of, if nothing needs the member itself in memory.
fn mask_of(graph: &Graph<'_>, plan: &Plan, value: InstructionId) -> Option<InstructionId> {
    let op = graph.op(value);
    let &[mask] = graph.operands(op) else { return None };
    let is_mask = graph.module.instruction(mask).array()?.element_type == ElementType::Pred;
    let is_converted = graph.module.instruction(op).opcode == Opcode::Convert;
    let same_rows = plan.members.get(&mask).is_some_and(|cut| plan.members.get(&value) == Some(cut));
    let is_sink = |id: InstructionId| plan.loops.iter().flatten().any(|sink| sink.inst == id);
    let converts = |user: InstructionId| {
        let opcode = graph.module.instruction(user).opcode;
        let planned = is_sink(user) || graph.results(user).iter().any(|result| plan.members.contains_key(result));
        planned || opcode.is_elementwise() || opcode == Opcode::Reduce
    };
    let free = !graph.is_outside(value) && graph.uses(value).iter().all(|&(user, _)| converts(user));
    (is_mask && is_converted && same_rows && free && !is_sink(mask)).then_some(mask)
}
