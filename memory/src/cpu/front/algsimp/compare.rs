//! Comparisons.

use hlo_ir::{AttrKey, ElementType, Opcode};

use super::super::cx::{Cx, Id};
use super::sign::is_non_negative;

/// Rules for `compare`.
pub(super) fn compare(cx: &mut Cx<'_>, id: Id) -> Option<Id> {
    let (a, b) = cx.both(id, Opcode::Compare)?;
    let direction = cx.inst(id).word(&AttrKey::Direction)?.to_owned();
    if let Some(truth) = known_truth(cx, a, b, &direction) {
        return Some(cx.scalar_like(id, f64::from(u8::from(truth))));
    }
    truth_with_truth(cx, a, b, &direction)
        .or_else(|| mask_of_mask(cx, id, a, b, &direction))
        .or_else(|| above_extremum(cx, id, a, b, &direction))
}

/// Comparisons whose result is known: unsigned or non-negative values with zero, integers with themselves.
fn known_truth(cx: &Cx<'_>, a: Id, b: Id, direction: &str) -> Option<bool> {
    let element_type = cx.element_type(a);
    let unsigned = element_type.is_unsigned() || element_type == ElementType::Pred;
    let positive = |x: Id| unsigned || is_non_negative(cx, x);
    match direction {
        "LT" if cx.is_all(b, 0) && positive(a) => return Some(false),
        "GE" if cx.is_all(b, 0) && positive(a) => return Some(true),
        "GT" if cx.is_all(a, 0) && positive(b) => return Some(false),
        "LE" if cx.is_all(a, 0) && positive(b) => return Some(true),
        _ => {}
    }
    let whole = element_type.is_integer() || element_type == ElementType::Pred;
    if a == b && whole { Some(matches!(direction, "EQ" | "GE" | "LE")) } else { None }
}

/// `P != false = P`, `P == true = P`
fn truth_with_truth(cx: &Cx<'_>, a: Id, b: Id, direction: &str) -> Option<Id> {
    if cx.element_type(a) != ElementType::Pred {
        return None;
    }
    let neutral = match direction {
        "NE" => 0,
        "EQ" => 1,
        _ => return None,
    };
    if cx.is_all(b, neutral) {
        Some(a)
    } else if cx.is_all(a, neutral) {
        Some(b)
    } else {
        None
    }
}

/// `select(X >= Y, 1, 0) != 0` is `X >= Y`.
fn mask_of_mask(cx: &Cx<'_>, id: Id, a: Id, b: Id, direction: &str) -> Option<Id> {
    if direction != "NE" || !cx.is_all(b, 0) || cx.opcode(a) != Opcode::Select {
        return None;
    }
    let mask = cx.operand(a, 0);
    let fits = cx.opcode(mask) == Opcode::Compare
        && cx.inst(mask).word(&AttrKey::Direction) == Some("GE")
        && cx.is_all(cx.operand(a, 1), 1)
        && cx.is_all(cx.operand(a, 2), 0);
    if fits { cx.if_same(id, mask) } else { None }
}

/// `max(X,Y) > X` is `Y > X`; `X > min(X,Y)` is `X > Y`.
fn above_extremum(cx: &mut Cx<'_>, id: Id, a: Id, b: Id, direction: &str) -> Option<Id> {
    if direction != "GT" {
        return None;
    }
    let (side, pair, other) = match (cx.both(a, Opcode::Maximum), cx.both(b, Opcode::Minimum)) {
        (Some(pair), _) => (0, pair, b),
        (None, Some(pair)) => (1, pair, a),
        _ => return None,
    };
    let kept = if other == pair.0 {
        pair.1
    } else if other == pair.1 {
        pair.0
    } else {
        return None;
    };
    cx.replace_operand(id, side, kept);
    Some(id)
}
