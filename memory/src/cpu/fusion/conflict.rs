//! Fusing must not let an instruction read a buffer that the same fusion overwrites.
//!
//! Source: `InstructionFusion::ShouldFuseInPlaceOp` (xla/service/instruction_fusion.cc).

use crate::hash::IndexMap;
use hlo_ir::{AttrKey, AttrValue, InstructionId, Opcode};

use super::super::graph::Graph;
use super::super::{in_place, traits};

/// Whether `producer` may move into `consumer` as far as buffers updated in place are concerned.
pub(super) fn is_safe_in_place(graph: &Graph, producer: InstructionId, consumer: InstructionId) -> bool {
    for (number, output) in in_place::pairs(graph, consumer) {
        let buffer = graph.operand(consumer, number);
        if graph.operands(consumer).iter().filter(|&&operand| operand == buffer).count() > 1 {
            return false;
        }
        if buffer == producer || graph.operands(producer).contains(&buffer) {
            return shares_safely(graph, producer, consumer, &output);
        }
    }
    true
}

/// Whether a kernel that writes `update` in place may make `value`, which reads the array that is updated.
pub(super) fn may_read_updated(graph: &Graph, value: InstructionId, update: InstructionId) -> bool {
    !is_rearranging(graph, value)
        || reads_what_is_updated(graph, value, update, update) && is_computed_in_place(graph, value, update)
}

/// Whether what `update` writes follows from `value` element by element.
fn is_computed_in_place(graph: &Graph, value: InstructionId, update: InstructionId) -> bool {
    let mut open = vec![graph.operand(update, 1)];
    let mut seen: IndexMap<InstructionId, ()> = IndexMap::default();
    while let Some(id) = open.pop() {
        if id == value {
            return true;
        }
        if seen.insert(id, ()).is_none() && !is_rearranging(graph, id) {
            open.extend(graph.operands(id));
        }
    }
    false
}

/// `producer` is or reads the buffer that `consumer` updates.
fn shares_safely(graph: &Graph, producer: InstructionId, consumer: InstructionId, output: &[i64]) -> bool {
    if !is_rearranging(graph, producer) {
        return graph.opcode(consumer) != Opcode::Fusion || !rearranges_after(graph, producer, consumer, output);
    }
    let updates = contained(graph, consumer, Opcode::DynamicUpdateSlice);
    match updates.as_slice() {
        [] => true,
        [update] => reads_what_is_updated(graph, producer, consumer, *update),
        _ => false,
    }
}

/// Whether an instruction reads elements at other positions than it writes. (Bitcasts count as elementwise here.)
fn is_rearranging(graph: &Graph, id: InstructionId) -> bool {
    !matches!(graph.opcode(id), Opcode::Fusion | Opcode::Bitcast | Opcode::Parameter)
        && !traits::is_elementwise(graph, id)
}

/// Instructions of this opcode: the instruction itself, or those inside a fusion.
fn contained(graph: &Graph, id: InstructionId, opcode: Opcode) -> Vec<InstructionId> {
    if graph.opcode(id) == opcode {
        return vec![id];
    }
    let inside = graph.fused(id).into_iter().flat_map(|body| graph.list(body));
    inside.filter(|&inner| graph.opcode(inner) == opcode).collect()
}

/// Whether the fusion's parameter for `producer` reaches a rearranging instruction other than the in-place root.
fn rearranges_after(graph: &Graph, producer: InstructionId, fusion: InstructionId, output: &[i64]) -> bool {
    let Some(body) = graph.fused(fusion) else { return false };
    let (root, _) = in_place::behind_tuples(graph, graph.root(body), output.iter().copied().collect());
    let number = graph.operands(fusion).iter().position(|&operand| operand == producer);
    let Some(number) = number else { return false };
    let mut work = vec![graph.parameter(body, number)];
    let mut seen: IndexMap<InstructionId, ()> = IndexMap::default();
    while let Some(id) = work.pop() {
        if seen.insert(id, ()).is_none() {
            if id != root && is_rearranging(graph, id) {
                return true;
            }
            work.extend(graph.each_user(id));
        }
    }
    false
}

/// Whether `producer` is a slice of exactly the elements that `update` overwrites.
fn reads_what_is_updated(
    graph: &Graph,
    producer: InstructionId,
    consumer: InstructionId,
    update: InstructionId,
) -> bool {
    let rank = graph.array(update).map_or(0, hlo_ir::ArrayShape::rank);
    if !matches!(graph.opcode(producer), Opcode::Slice | Opcode::DynamicSlice)
        || graph.shape(producer) != graph.shape(graph.operand(update, 1))
    {
        return false;
    }
    let outside = |id: InstructionId| match (graph.inst(id).parameter_number(), graph.fused(consumer)) {
        (Some(number), Some(_)) => graph.operand(consumer, number as usize),
        _ => id,
    };
    let same_start = |dim: usize| {
        let start = outside(graph.operand(update, 2 + dim));
        if let Some(AttrValue::Slice(dims)) = graph.inst(producer).attribute(&AttrKey::Slice) {
            traits::integer_constant(graph, start) == Some(dims[dim].start) && dims[dim].stride == 1
        } else {
            let own = graph.operand(producer, 1 + dim);
            let (a, b) = (traits::integer_constant(graph, own), traits::integer_constant(graph, start));
            a == b && (a.is_some() || own == start)
        }
    };
    (0..rank).all(same_start)
        && (graph.opcode(consumer) != Opcode::Fusion || only_the_update_rearranges(graph, producer, consumer, update))
}

/// Whether, inside the fusion, the update is the only rearranging instruction that the parameter for `producer` reaches.
fn only_the_update_rearranges(
    graph: &Graph,
    producer: InstructionId,
    fusion: InstructionId,
    update: InstructionId,
) -> bool {
    let Some(body) = graph.fused(fusion) else { return true };
    let parameters = graph.parameters(body);
    let mut work: Vec<InstructionId> = (0..parameters.len())
        .filter(|&number| graph.operand(fusion, number) == producer)
        .map(|number| parameters[number])
        .collect();
    let mut seen: IndexMap<InstructionId, ()> = IndexMap::default();
    while let Some(id) = work.pop() {
        if seen.insert(id, ()).is_some() {
            continue;
        }
        let plain = id == update || graph.opcode(id) == Opcode::Parameter || traits::is_elementwise(graph, id);
        if !plain {
            return false;
        }
        work.extend(graph.each_user(id));
    }
    true
}
