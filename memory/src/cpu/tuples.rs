//! Tuples that are only taken apart, or only put together again, disappear.
//!
//! Source: `TupleSimplifier` (xla/hlo/transforms/simplifiers/tuple_simplifier.cc).

// Tests: `memory/tests/stages.rs`.

use hlo_ir::{AttrKey, InstructionId, Opcode};

use super::graph::Graph;

/// Simplifies the tuples of every computation; returns whether anything changed.
pub(crate) fn run(graph: &mut Graph) -> bool {
    let mut changed = false;
    for computation in graph.computation_order() {
        if ![Opcode::Tuple, Opcode::GetTupleElement].iter().any(|&opcode| graph.has_seen_in(computation, opcode)) {
            continue;
        }
        if !graph.list(computation).any(|id| replacement(graph, id).is_some()) {
            continue;
        }
        for id in graph.post_order(computation) {
            if graph.is_alive(id) {
                changed |= simplify(graph, id);
            }
        }
    }
    changed
}

/// What may stand for an instruction.
fn replacement(graph: &Graph, id: InstructionId) -> Option<InstructionId> {
    match graph.opcode(id) {
        Opcode::Tuple if !graph.has_control(id) => whole_tuple(graph, id),
        Opcode::GetTupleElement => element(graph, id),
        _ => None,
    }
}

fn simplify(graph: &mut Graph, id: InstructionId) -> bool {
    let replacement = replacement(graph, id);
    if let Some(replacement) = replacement {
        graph.replace(id, replacement);
    }
    replacement.is_some()
}

/// The operand of a `get-tuple-element`.
fn taken_from(graph: &Graph, id: InstructionId) -> Option<InstructionId> {
    (graph.opcode(id) == Opcode::GetTupleElement).then(|| graph.operand(id, 0))
}

/// A tuple of all elements of one tuple, in order, is that tuple.
fn whole_tuple(graph: &Graph, tuple: InstructionId) -> Option<InstructionId> {
    // Asked first, because opcodes are at hand.
    if !graph.operands(tuple).iter().all(|&operand| graph.opcode(operand) == Opcode::GetTupleElement) {
        return None;
    }
    let mut source = None;
    for (index, &operand) in graph.operands(tuple).iter().enumerate() {
        let from = taken_from(graph, operand)?;
        if graph.inst(operand).int(&AttrKey::Index) != Some(index as i64) || source.is_some_and(|other| other != from) {
            return None;
        }
        source = Some(from);
    }
    source.filter(|&source| graph.shape(source).compatible(graph.shape(tuple)))
}

/// An element (of an element ...) of a tuple (of tuples ...) is the operand it was made of.
fn element(graph: &Graph, id: InstructionId) -> Option<InstructionId> {
    let mut path = Vec::new();
    let mut at = id;
    while let Some(from) = taken_from(graph, at) {
        path.push(graph.inst(at).int(&AttrKey::Index)? as usize);
        at = from;
    }
    for index in path.into_iter().rev() {
        if graph.opcode(at) != Opcode::Tuple {
            return None;
        }
        at = *graph.operands(at).get(index)?;
    }
    Some(at)
}
