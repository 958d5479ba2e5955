//! How often a loop runs, when one element counts from a constant to a constant.
//!
//! Source: `ComputeWhileLoopTripCount` (xla/hlo/analysis/while_loop_analysis.cc).

use hlo_ir::arena::SideTable;
use hlo_ir::{AttrKey, Opcode};

use super::super::cx::{Cx, Id};
use super::super::value::{Scalar, binary, compare};
use super::Loop;

/// Trips that are tried one by one when the loop has no simple form; more than one is all the same to the callers.
const MOST_TRIED: i64 = 1;

/// The number of trips, if it is known; 2 may stand for any larger number.
pub(super) fn trip_count(cx: &Cx<'_>, at: &Loop) -> Option<i64> {
    let index = counter(cx, at)?;
    if cx.opcode(at.init) != Opcode::Tuple {
        return None;
    }
    let init = cx.scalar(*cx.operands(at.init).get(index)?)?;
    simple_count(cx, at, index, init).or_else(|| tried_count(cx, at, index, init))
}

/// The one element that both the condition and its own update depend on.
fn counter(cx: &Cx<'_>, at: &Loop) -> Option<usize> {
    let index = only_dependence(cx, at, cx.root(at.condition))?;
    let root = at.root(cx);
    let update = if cx.opcode(root) == Opcode::Tuple { *cx.operands(root).get(index)? } else { return None };
    (only_dependence(cx, at, update)? == index).then_some(index)
}

/// The one element of the state that a scalar expression depends on.
fn only_dependence(cx: &Cx<'_>, at: &Loop, start: Id) -> Option<usize> {
    let mut found = None;
    let mut seen = SideTable::new(false);
    let mut work = vec![start];
    while let Some(id) = work.pop() {
        if std::mem::replace(&mut seen[id], true) {
            continue;
        }
        if let Some(index) = at.element_read(cx, id) {
            if found.is_some_and(|other| other != index) {
                return None;
            }
            found = Some(index);
        } else if cx.opcode(id) == Opcode::Parameter || !cx.is_effective_scalar(id) {
            return None;
        } else {
            work.extend(cx.operands(id));
        }
    }
    found
}

/// The only operand that is no constant.
fn non_constant_operand(cx: &Cx<'_>, id: Id) -> Option<Id> {
    let mut found = None;
    for &operand in cx.operands(id) {
        if !cx.is_constant(operand) && found.replace(operand).is_some_and(|other| other != operand) {
            return None;
        }
    }
    found
}

/// Whether `id` is the one instruction that reads element `index` of `state`.
fn is_only_read(cx: &Cx<'_>, state: Id, id: Id, index: usize) -> bool {
    let mut reads =
        cx.users(state).into_iter().filter(|&user| cx.inst(user).int(&AttrKey::Index) == Some(index as i64));
    reads.next() == Some(id) && reads.next().is_none()
}

/// The count of `for (i = init; i < bound; i += step)`.
fn simple_count(cx: &Cx<'_>, at: &Loop, index: usize, init: Scalar) -> Option<i64> {
    let init = i64::try_from(init.int()?).ok()?;
    let update = cx.operand(at.root(cx), index);
    let read = non_constant_operand(cx, update)?;
    let (a, b) = cx.both(update, Opcode::Add)?;
    let step = cx.int(if a == read { b } else { a })?;
    let test = cx.root(at.condition);
    let tested = non_constant_operand(cx, test)?;
    let known = is_only_read(cx, at.body_state, read, index) && is_only_read(cx, at.condition_state, tested, index);
    let (x, y) = cx.both(test, Opcode::Compare)?;
    if step <= 0 || !known || x != tested {
        return None;
    }
    let bound = cx.int(y)?;
    let distance = bound.checked_sub(init)?;
    match cx.inst(test).word(&AttrKey::Direction)? {
        "LT" if distance % step == 0 => Some((distance / step).max(0)),
        "LT" => {
            let more = (distance / step).checked_add(1)?;
            Some(if more < bound { more } else { distance / step }.max(0))
        }
        "LE" => Some((distance / step).checked_add(1)?.max(0)),
        _ => None,
    }
}

/// The count found by running condition and update on the counter alone.
fn tried_count(cx: &Cx<'_>, at: &Loop, index: usize, init: Scalar) -> Option<i64> {
    let update = cx.operand(at.root(cx), index);
    let (read, test) = (non_constant_operand(cx, update)?, cx.root(at.condition));
    let tested = non_constant_operand(cx, test)?;
    if !is_only_read(cx, at.body_state, read, index) || !is_only_read(cx, at.condition_state, tested, index) {
        return None;
    }
    let mut value = init;
    for trips in 0..=MOST_TRIED {
        if !apply(cx, test, tested, value)?.is(1.0) {
            return Some(trips);
        }
        value = apply(cx, update, read, value)?;
    }
    None
}

/// The value of an operation on a constant and `variable`.
fn apply(cx: &Cx<'_>, id: Id, variable: Id, value: Scalar) -> Option<Scalar> {
    if id == variable {
        return Some(value);
    }
    let &[a, b] = cx.operands(id) else { return None };
    let of = |operand: Id| if operand == variable { Some(value) } else { cx.scalar(operand) };
    let (a, b) = (of(a)?, of(b)?);
    match cx.opcode(id) {
        Opcode::Compare => {
            let truth = compare(cx.inst(id).word(&AttrKey::Direction)?, a, b)?;
            Some(Scalar::Int(i128::from(truth)))
        }
        opcode => binary(opcode, cx.element_type(id), a, b),
    }
}
