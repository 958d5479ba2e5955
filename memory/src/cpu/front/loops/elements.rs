//! Taking elements out of a loop's state.
//!
//! Source: `RemoveDeadTupleIndices` (xla/service/while_loop_simplifier.cc).

use crate::hash::IndexMap;
use hlo_ir::shape::{Shape, ShapeRef};
use hlo_ir::{AttrKey, AttrValue, Opcode};

use super::super::cx::{Cx, Id};
use super::Loop;

/// Keeps only the elements marked in `kept`; body and condition read the state element by element, and the body returns a tuple. What
/// reads a dropped element behind the loop gets the element it was merged into, or else its initial value. Returns the new loop.
pub(super) fn keep(cx: &mut Cx<'_>, at: &Loop, kept: &[bool], merged_into: &IndexMap<usize, usize>) -> Id {
    let numbers: Vec<Option<usize>> = kept
        .iter()
        .scan(0, |next, &kept| {
            *next += usize::from(kept);
            Some(kept.then(|| *next - 1))
        })
        .collect();
    let elements: Vec<ShapeRef> = cx.shape(at.id).as_tuple().unwrap_or_default().to_vec();
    let narrow = Shape::tuple(elements.iter().zip(kept).filter(|(_, kept)| **kept).map(|(shape, _)| shape.clone()));
    narrow_root(cx, at, kept);
    for state in [at.body_state, at.condition_state] {
        narrow_reads(cx, state, &numbers, &narrow);
    }
    let init: Vec<Id> = (0..kept.len()).filter(|&index| kept[index]).map(|index| initial(cx, at, index)).collect();
    let init = cx.tuple(at.id, &init);
    let new = cx.like(at.id, narrow, &[init]);
    let results: Vec<Id> = (0..kept.len())
        .map(|index| {
            let source = merged_into.get(&index).copied().unwrap_or(index);
            match numbers[source] {
                Some(number) => cx.element(at.id, new, number as i64),
                None => cx.element(at.id, at.init, index as i64),
            }
        })
        .collect();
    let all = cx.tuple(at.id, &results);
    cx.replace(at.id, all);
    new
}

/// The initial value of an element.
fn initial(cx: &mut Cx<'_>, at: &Loop, index: usize) -> Id {
    match cx.opcode(at.init) {
        Opcode::Tuple => cx.operand(at.init, index),
        _ => cx.element(at.id, at.init, index as i64),
    }
}

/// Replaces the body's result by one without the dropped elements.
fn narrow_root(cx: &mut Cx<'_>, at: &Loop, kept: &[bool]) {
    let root = at.root(cx);
    let elements: Vec<Id> =
        cx.operands(root).iter().zip(kept).filter(|(_, kept)| **kept).map(|(&operand, _)| operand).collect();
    let narrow = cx.tuple(root, &elements);
    cx.set_root(narrow);
    cx.remove_with_operands(root);
}

/// Renumbers what is read of the state, and removes reads of dropped elements, which are dead by now.
fn narrow_reads(cx: &mut Cx<'_>, state: Id, numbers: &[Option<usize>], narrow: &ShapeRef) {
    for read in cx.users(state) {
        let old = cx.inst(read).int(&AttrKey::Index).unwrap_or(0) as usize;
        match numbers.get(old).copied().flatten() {
            Some(number) => cx.set_attribute(read, AttrKey::Index, AttrValue::Int(number as i64)),
            None => remove_dead_uses(cx, read),
        }
    }
    cx.set_shape(state, narrow.clone());
}

/// Removes an instruction and whatever still uses it: all of it is dead.
fn remove_dead_uses(cx: &mut Cx<'_>, id: Id) {
    for user in cx.users(id) {
        remove_dead_uses(cx, user);
    }
    if cx.is_alive(id) && cx.is_dead(id) {
        cx.remove(id);
    }
}
