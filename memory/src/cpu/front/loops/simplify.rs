//! Loop simplification: repeated, dead and constant elements leave the state, nested tuples are flattened, induction variables merged, and
//! loops of no or one trip replaced.
//!
//! Source: `WhileLoopSimplifier` (xla/service/while_loop_simplifier.cc).

use crate::hash::IndexMap;
use hlo_ir::{AttrKey, AttrValue, Attribute, Opcode};

use super::super::calls::inline_one;
use super::super::cx::{Cx, Id};
use super::super::dce;
use super::{Loop, all_loops, counters, dead, elements, trips};

/// Simplifies every loop once; returns whether anything changed.
pub(crate) fn run(cx: &mut Cx<'_>) -> bool {
    let mut changed = false;
    let callers = cx.callers();
    for id in all_loops(cx) {
        let Some(at) = Loop::of(cx, id).filter(|_| cx.is_alive(id)) else { continue };
        if callers[at.body].len() > 1 || callers[at.condition].len() > 1 {
            continue;
        }
        changed |= simplify_one(cx, &at);
    }
    if changed {
        dce::run(cx);
    }
    changed
}

fn simplify_one(cx: &mut Cx<'_>, at: &Loop) -> bool {
    let free = !cx.has_control(at.id);
    (free && merge_repeated(cx, at))
        || counters::flatten(cx, at)
        || (free && dead::drop(cx, at))
        || drop_constant(cx, at)
        || propagate_and_remove(cx, at, free)
}

fn propagate_and_remove(cx: &mut Cx<'_>, at: &Loop, free: bool) -> bool {
    if exchanges_with_host(cx, at) {
        return false;
    }
    let propagated = propagate_constants(cx, at);
    if free && remove_loop(cx, at) {
        return true;
    }
    counters::merge(cx, at) || propagated
}

fn exchanges_with_host(cx: &Cx<'_>, at: &Loop) -> bool {
    use Opcode as O;
    [at.body, at.condition]
        .iter()
        .any(|&callee| cx.list(callee).any(|id| matches!(cx.opcode(id), O::Send | O::SendDone | O::Recv | O::RecvDone)))
}

/// Whether the state is a tuple made by `tuple` on both ends and read element by element.
fn is_plain(cx: &Cx<'_>, at: &Loop) -> bool {
    cx.opcode(at.init) == Opcode::Tuple && cx.opcode(at.root(cx)) == Opcode::Tuple && at.reads_elements_only(cx)
}

/// Elements that start equal and are passed on, or are updated by equal writes, are one.
fn merge_repeated(cx: &mut Cx<'_>, at: &Loop) -> bool {
    if !is_plain(cx, at) {
        return false;
    }
    let mut first: IndexMap<Id, usize> = IndexMap::default();
    let count = cx.operands(at.init).len();
    let mut merged = IndexMap::default();
    for index in (0..count).filter(|&index| at.passes(cx, index)) {
        let kept = *first.entry(cx.operand(at.init, index)).or_insert(index);
        if kept != index {
            merged.insert(index, kept);
        }
    }
    let mut current = *at;
    let mut changed = false;
    if !merged.is_empty() {
        let new = merge_into(cx, at, &merged, false);
        changed = true;
        let Some(next) = Loop::of(cx, new) else { return true };
        current = next;
    }
    let merged = equal_writes(cx, &current);
    if !merged.is_empty() {
        merge_into(cx, &current, &merged, true);
        changed = true;
    }
    changed
}

/// Elements that start equal and are updated by the same `dynamic-update-slice`.
fn equal_writes(cx: &Cx<'_>, at: &Loop) -> IndexMap<usize, usize> {
    let mut first: IndexMap<Vec<Id>, usize> = IndexMap::default();
    let mut merged = IndexMap::default();
    for (index, &update) in cx.operands(at.root(cx)).iter().enumerate() {
        if cx.opcode(update) != Opcode::DynamicUpdateSlice || at.element_read(cx, cx.operand(update, 0)) != Some(index)
        {
            continue;
        }
        let mut key = vec![cx.operand(at.init, index)];
        key.extend_from_slice(&cx.operands(update)[1..]);
        let kept = *first.entry(key).or_insert(index);
        if kept != index {
            merged.insert(index, kept);
        }
    }
    merged
}

/// Lets reads of merged elements read the ones they are merged into, and drops the former. `results_too` says that results behind the loop
/// follow; else they are the initial values.
fn merge_into(cx: &mut Cx<'_>, at: &Loop, merged: &IndexMap<usize, usize>, results_too: bool) -> Id {
    for state in [at.body_state, at.condition_state] {
        let mut reads: IndexMap<usize, Id> = IndexMap::default();
        for read in cx.users(state) {
            let index = cx.inst(read).int(&AttrKey::Index).unwrap_or(0) as usize;
            let Some(&kept) = merged.get(&index) else { continue };
            let new = match reads.get(&kept) {
                Some(&new) => new,
                None => cx.element(state, state, kept as i64),
            };
            reads.insert(kept, new);
            cx.replace(read, new);
        }
    }
    let count = cx.operands(at.init).len();
    let kept: Vec<bool> = (0..count).map(|index| !merged.contains_key(&index)).collect();
    let none = IndexMap::default();
    elements::keep(cx, at, &kept, if results_too { merged } else { &none })
}

/// Drops elements that are the same constant before and after every trip.
fn drop_constant(cx: &mut Cx<'_>, at: &Loop) -> bool {
    let root = at.root(cx);
    if cx.opcode(at.init) != Opcode::Tuple || cx.opcode(root) != Opcode::Tuple || !at.reads_elements_only(cx) {
        return false;
    }
    let same = |index: usize| {
        let (before, after) = (cx.operand(at.init, index), cx.operand(root, index));
        cx.is_constant(before) && cx.is_constant(after) && cx.literal(before) == cx.literal(after)
    };
    let kept: Vec<bool> = (0..cx.operands(root).len()).map(|index| !same(index)).collect();
    if kept.iter().all(|&kept| kept) {
        return false;
    }
    if !kept.contains(&true) {
        cx.replace(at.id, at.init);
        return true;
    }
    for state in [at.body_state, at.condition_state] {
        for read in cx.users(state) {
            let index = cx.inst(read).int(&AttrKey::Index).unwrap_or(0) as usize;
            if !kept[index] {
                let init = cx.operand(at.init, index);
                let constant = copy_constant(cx, read, init);
                cx.replace_all_uses(read, constant);
            }
        }
    }
    elements::keep(cx, at, &kept, &IndexMap::default());
    true
}

/// A copy of a constant in the computation of `at`.
pub(super) fn copy_constant(cx: &mut Cx<'_>, at: Id, constant: Id) -> Id {
    cx.copy_to(cx.parent(at), constant, &[])
}

/// Reads of scalar elements that start as a constant and never change become the constant.
fn propagate_constants(cx: &mut Cx<'_>, at: &Loop) -> bool {
    if cx.opcode(at.init) != Opcode::Tuple || cx.opcode(at.root(cx)) != Opcode::Tuple {
        return false;
    }
    let mut changed = false;
    let fixed: Vec<bool> = (0..cx.operands(at.init).len())
        .map(|index| {
            let init = cx.operand(at.init, index);
            cx.is_constant(init) && cx.is_scalar(init) && at.passes(cx, index)
        })
        .collect();
    for state in [at.condition_state, at.body_state] {
        for read in cx.users(state) {
            let Some(index) = at.element_read(cx, read).filter(|&index| fixed[index]) else { continue };
            let init = cx.operand(at.init, index);
            let constant = copy_constant(cx, read, init);
            cx.replace_all_uses(read, constant);
            changed = true;
        }
    }
    changed
}

/// A loop that never runs is its initial state; one that runs once is its body.
fn remove_loop(cx: &mut Cx<'_>, at: &Loop) -> bool {
    let effect = |callee| cx.list(callee).any(|id| cx.has_side_effect(id));
    if effect(at.condition) {
        return false;
    }
    match trips::trip_count(cx, at) {
        Some(0) => {
            cx.replace(at.id, at.init);
            true
        }
        Some(1) if !effect(at.body) => {
            let shape = cx.shape(at.id).clone();
            let body = Attribute::new(AttrKey::ToApply, AttrValue::Computation(at.body));
            let call = cx.make(at.id, shape, Opcode::Call, &[at.init], [body]);
            cx.replace(at.id, call);
            inline_one(cx, call).is_some()
        }
        _ => false,
    }
}
