//! Tuples that are only taken apart or put together again disappear.
//!
//! Source: `TupleSimplifier` (xla/hlo/transforms/simplifiers/tuple_simplifier.cc).

use hlo_ir::{AttrKey, Opcode};

use super::cx::{Cx, Id};

/// Simplifies tuples in every computation; returns whether anything changed.
pub(crate) fn run(cx: &mut Cx<'_>) -> bool {
    let mut changed = false;
    for computation in cx.computation_order() {
        for id in cx.post_order(computation) {
            if cx.is_alive(id) {
                changed |= simplify(cx, id);
            }
        }
    }
    changed
}

fn simplify(cx: &mut Cx<'_>, id: Id) -> bool {
    let replacement = match cx.opcode(id) {
        Opcode::Tuple => whole_tuple(cx, id),
        Opcode::GetTupleElement => element(cx, id),
        _ => None,
    };
    if let Some(replacement) = replacement {
        cx.replace(id, replacement);
    }
    replacement.is_some()
}

/// A tuple of all elements of one tuple, in order, is that tuple.
fn whole_tuple(cx: &Cx<'_>, tuple: Id) -> Option<Id> {
    let mut source = None;
    for (index, &operand) in cx.operands(tuple).iter().enumerate() {
        let from = cx.of(operand, Opcode::GetTupleElement)?;
        if cx.inst(operand).int(&AttrKey::Index) != Some(index as i64) || source.is_some_and(|other| other != from) {
            return None;
        }
        source = Some(from);
    }
    source.filter(|&source| cx.shape(source).compatible(cx.shape(tuple)))
}

/// An element (of an element ...) of a tuple (of tuples ...) is the operand it was made of.
fn element(cx: &Cx<'_>, id: Id) -> Option<Id> {
    let mut path = Vec::new();
    let mut at = id;
    while let Some(from) = cx.of(at, Opcode::GetTupleElement) {
        path.push(cx.inst(at).int(&AttrKey::Index)? as usize);
        at = from;
    }
    for index in path.into_iter().rev() {
        if cx.opcode(at) != Opcode::Tuple {
            return None;
        }
        at = *cx.operands(at).get(index)?;
    }
    Some(at)
}
