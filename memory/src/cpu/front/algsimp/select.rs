//! Choices between values: select, minimum, maximum and clamp.

use hlo_ir::{AttrKey, ElementType, Opcode};

use super::super::build::share;
use super::super::cx::{Cx, Id};
use super::super::value;

/// Rules for `select`.
pub(super) fn select(cx: &mut Cx<'_>, id: Id) -> Option<Id> {
    let &[predicate, on_true, on_false] = cx.operands(id) else { return None };
    let shape = cx.shape(id).clone();
    let chosen = if on_true == on_false || cx.is_all(predicate, 1) {
        cx.if_same(id, on_true)
    } else if cx.is_all(predicate, 0) {
        cx.if_same(id, on_false)
    } else {
        None
    };
    if chosen.is_some() {
        return chosen;
    }
    if let Some(inner) = cx.of(predicate, Opcode::Not) {
        return Some(cx.elementwise(id, shape, Opcode::Select, &[inner, on_false, on_true]));
    }
    if cx.element_type(id) == ElementType::Pred
        && let Some(result) = truth(cx, id, predicate, on_true, on_false)
    {
        return Some(result);
    }
    update_of_select(cx, id, predicate, on_true, on_false)
}

/// `select(P, true, false) = P`, `select(P, false, true) = not P`, `select(A > B, A, B) = A or B` and the like.
fn truth(cx: &mut Cx<'_>, id: Id, predicate: Id, on_true: Id, on_false: Id) -> Option<Id> {
    if cx.is_all(on_true, 1) && cx.is_all(on_false, 0) {
        return Some(predicate);
    }
    if cx.is_all(on_true, 0) && cx.is_all(on_false, 1) {
        let shape = cx.shape(predicate).clone();
        return Some(cx.elementwise(id, shape, Opcode::Not, &[predicate]));
    }
    if cx.both(predicate, Opcode::Compare)? != (on_true, on_false) {
        return None;
    }
    let opcode = match cx.inst(predicate).word(&AttrKey::Direction)? {
        "GT" | "GE" => Opcode::Or,
        "LT" | "LE" => Opcode::And,
        "EQ" => return Some(on_false),
        _ => return Some(on_true),
    };
    let shape = cx.shape(id).clone();
    Some(cx.elementwise(id, shape, opcode, &[on_true, on_false]))
}

/// `select(P, X, update(X, U, at)) = update(X, select(P, X[at], U), at)`: masked writes stay in place.
fn update_of_select(cx: &mut Cx<'_>, id: Id, predicate: Id, on_true: Id, on_false: Id) -> Option<Id> {
    let updates = |cx: &Cx<'_>, update: Id, whole: Id| {
        cx.opcode(update) == Opcode::DynamicUpdateSlice && cx.operand(update, 0) == whole && cx.one_use(update)
    };
    let (update, whole, update_is_false) = if updates(cx, on_false, on_true) {
        (on_false, on_true, true)
    } else if updates(cx, on_true, on_false) {
        (on_true, on_false, false)
    } else {
        return None;
    };
    let (part, starts) = (cx.operand(update, 1), cx.operands(update)[2..].to_vec());
    let shape = cx.shape(part).clone();
    let mask = if cx.is_scalar(predicate) {
        predicate
    } else {
        let mask_shape = share(cx.arr(part).with_element_type(cx.element_type(predicate)));
        cx.dynamic_slice(id, mask_shape, predicate, &starts)
    };
    let old = cx.dynamic_slice(id, shape.clone(), whole, &starts);
    let operands = if update_is_false { [mask, old, part] } else { [mask, part, old] };
    let chosen = cx.elementwise(id, shape, Opcode::Select, &operands);
    Some(cx.dynamic_update_slice(id, whole, chosen, &starts))
}

/// Rules for `maximum`.
pub(super) fn maximum(cx: &mut Cx<'_>, id: Id) -> Option<Id> {
    let (a, b) = cx.both(id, Opcode::Maximum)?;
    if let Some(result) = extremum(cx, id, Opcode::Maximum, Opcode::Minimum) {
        return Some(result);
    }
    if let Some(clamp) = max_of_clamp(cx, a, b).and_then(|clamp| cx.if_same(id, clamp)) {
        return Some(clamp);
    }
    // max(f(x), f(y)) = f(max(x, y)) for functions that never decrease and never grow beyond their operand.
    let sinks = matches!(cx.opcode(a), Opcode::Cbrt | Opcode::Erf | Opcode::Logistic | Opcode::Tanh);
    if !sinks || cx.opcode(a) != cx.opcode(b) {
        return None;
    }
    let (opcode, shape) = (cx.opcode(a), cx.shape(id).clone());
    let inner = cx.binary(id, Opcode::Maximum, cx.operand(a, 0), cx.operand(b, 0));
    Some(cx.elementwise(id, shape, opcode, &[inner]))
}

/// `max(L, clamp(L, X, H))` is the clamp.
fn max_of_clamp(cx: &Cx<'_>, a: Id, b: Id) -> Option<Id> {
    let bounded = |clamp: Id, low: Id| cx.of(clamp, Opcode::Clamp) == Some(low);
    if bounded(b, a) {
        Some(b)
    } else if bounded(a, b) {
        Some(a)
    } else {
        None
    }
}

/// Rules for `minimum`.
pub(super) fn minimum(cx: &mut Cx<'_>, id: Id) -> Option<Id> {
    extremum(cx, id, Opcode::Minimum, Opcode::Maximum)
}

/// What maximum and minimum have in common; `opposite` is the other of the two.
fn extremum(cx: &mut Cx<'_>, id: Id, opcode: Opcode, opposite: Opcode) -> Option<Id> {
    let (a, b) = cx.both(id, opcode)?;
    if a == b {
        return Some(a);
    }
    if is_limit(cx, a, opcode) {
        return Some(b);
    }
    if is_limit(cx, b, opcode) {
        return Some(a);
    }
    if let Some((x, y)) = cx.both(a, opcode)
        && (x == b || y == b)
    {
        return Some(a);
    }
    if let Some((x, y)) = cx.both(b, opcode) {
        if x == a {
            return Some(b);
        }
        if y == a {
            cx.replace_operand(id, 1, x);
            return Some(id);
        }
    }
    to_clamp(cx, id, opcode, opposite, a, b).or_else(|| to_clamp(cx, id, opcode, opposite, b, a))
}

/// Whether `id` is the smallest (for a maximum) or largest (for a minimum) value of its type everywhere; infinity for floats.
fn is_limit(cx: &Cx<'_>, id: Id, opcode: Opcode) -> bool {
    let smallest = opcode == Opcode::Maximum;
    let element_type = cx.element_type(id);
    if element_type.is_float() {
        return cx.is_all_float(id, if smallest { f64::NEG_INFINITY } else { f64::INFINITY });
    }
    let constant = cx.of(id, Opcode::Broadcast).unwrap_or(id);
    let Some((least, most)) = element_type.integer_range() else { return false };
    let limit = if smallest { least } else { most };
    let all = |literal: value::Literal| {
        literal.values().is_some_and(|values| !values.is_empty() && values.iter().all(|v| v.int() == Some(limit)))
    };
    cx.literal(constant).is_some_and(all)
}

/// `max(broadcast(L), min(X, broadcast(H))) = clamp(L, X, H)` for constants `L < H`.
fn to_clamp(cx: &mut Cx<'_>, id: Id, opcode: Opcode, opposite: Opcode, bound: Id, inner: Id) -> Option<Id> {
    let constant = |x: Id| cx.of(x, Opcode::Broadcast).filter(|&c| cx.is_constant(c) && cx.is_effective_scalar(c));
    let outer = constant(bound)?;
    let (x, y) = cx.both(inner, opposite)?;
    let (value, inner_bound, limit) = constant(y).map(|c| (x, y, c)).or_else(|| constant(x).map(|c| (y, x, c)))?;
    let maximum = opcode == Opcode::Maximum;
    let (low, high) = if maximum { (outer, limit) } else { (limit, outer) };
    if !value::compare("LT", cx.scalar(low)?, cx.scalar(high)?)? {
        return None;
    }
    let (low, high) = if maximum { (bound, inner_bound) } else { (inner_bound, bound) };
    let shape = cx.shape(value).clone();
    Some(cx.elementwise(id, shape, Opcode::Clamp, &[low, value, high]))
}

/// `clamp(L, clamp(L, X, H), H) = clamp(L, X, H)`
pub(super) fn clamp(cx: &mut Cx<'_>, id: Id) -> Option<Id> {
    let &[low, value, high] = cx.operands(id) else { return None };
    let same = cx.opcode(value) == Opcode::Clamp && cx.operand(value, 0) == low && cx.operand(value, 2) == high;
    if same { cx.if_same(id, value) } else { None }
}
