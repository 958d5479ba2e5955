//! `and` and `or`.

use hlo_ir::{AttrKey, ElementType, Opcode};

use super::super::cx::{Cx, Id};

/// Rules for `and`.
pub(super) fn and(cx: &mut Cx<'_>, id: Id) -> Option<Id> {
    let (a, b) = cx.both(id, Opcode::And)?;
    let truth = cx.element_type(a) == ElementType::Pred;
    let neutral = |cx: &Cx<'_>, x: Id, other: Id| if truth && cx.is_all(x, 1) { cx.if_same(id, other) } else { None };
    let zero = |cx: &Cx<'_>, x: Id| if cx.is_all(x, 0) { cx.if_same(id, x) } else { None };
    neutral(cx, b, a)
        .or_else(|| neutral(cx, a, b))
        .or_else(|| zero(cx, b))
        .or_else(|| zero(cx, a))
        .or_else(|| tighter_bound(cx, id, a, b))
}

/// `x < C1 and x < C2` is `x < min(C1, C2)`.
fn tighter_bound(cx: &mut Cx<'_>, id: Id, a: Id, b: Id) -> Option<Id> {
    let (x, first) = upper_bound(cx, a)?;
    let (y, second) = upper_bound(cx, b)?;
    if x != y {
        return None;
    }
    let bound = cx.scalar_like(x, first.min(second) as f64);
    Some(cx.compare(id, x, bound, "LT"))
}

/// `(x, C)` of `x < C` or `C > x` with an s32 constant.
fn upper_bound(cx: &Cx<'_>, id: Id) -> Option<(Id, i64)> {
    let (a, b) = cx.both(id, Opcode::Compare)?;
    let (x, constant) = match cx.inst(id).word(&AttrKey::Direction)? {
        "LT" => (a, b),
        "GT" => (b, a),
        _ => return None,
    };
    let is_s32 = cx.element_type(constant) == ElementType::S32;
    Some((x, if is_s32 { cx.int(constant)? } else { return None }))
}

/// Rules for `or`.
pub(super) fn or(cx: &mut Cx<'_>, id: Id) -> Option<Id> {
    let (a, b) = cx.both(id, Opcode::Or)?;
    let truth = cx.element_type(a) == ElementType::Pred;
    let all_true = |cx: &Cx<'_>, x: Id| if truth && cx.is_all(x, 1) { cx.if_same(id, x) } else { None };
    let zero = |cx: &Cx<'_>, x: Id, other: Id| if cx.is_all(x, 0) { cx.if_same(id, other) } else { None };
    all_true(cx, b).or_else(|| all_true(cx, a)).or_else(|| zero(cx, b, a)).or_else(|| zero(cx, a, b))
}
