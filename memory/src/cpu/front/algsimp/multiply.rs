//! Products.

use hlo_ir::{ElementType, Opcode};

use super::super::cx::{Cx, Id};
use super::add::{combine_constants, constant_pair};
use super::sign::is_non_negative;

/// Rules for `multiply`.
pub(super) fn multiply(cx: &mut Cx<'_>, id: Id) -> Option<Id> {
    let (a, b) = cx.both(id, Opcode::Multiply)?;
    one_or_zero(cx, id, a, b)
        .or_else(|| signs(cx, id, a, b))
        .or_else(|| by_truth_value(cx, id, a, b))
        .or_else(|| both_have_constants(cx, id, a, b))
        .or_else(|| two_constants(cx, id, a, b))
        .or_else(|| constant_into_broadcast(cx, id, a, b))
        .or_else(|| two_broadcast_constants(cx, id, a, b))
        .or_else(|| exponentials(cx, id, a, b))
        .or_else(|| roots(cx, id, a, b))
}

/// `A*1 = A`; `A*0 = 0` for integers.
fn one_or_zero(cx: &Cx<'_>, id: Id, a: Id, b: Id) -> Option<Id> {
    let one = |x: Id, other: Id| if cx.is_all(x, 1) { cx.if_same(id, other) } else { None };
    let whole = cx.element_type(id).is_integer() || cx.element_type(id) == ElementType::Pred;
    let zero = |x: Id| if whole && cx.is_all(x, 0) { cx.if_same(id, x) } else { None };
    one(b, a).or_else(|| one(a, b)).or_else(|| zero(a)).or_else(|| zero(b))
}

/// `(-A)*(-B) = A*B`, `abs(A)*abs(A) = A*A`
fn signs(cx: &mut Cx<'_>, id: Id, a: Id, b: Id) -> Option<Id> {
    let pair = if let (Some(x), Some(y)) = (cx.of(a, Opcode::Negate), cx.of(b, Opcode::Negate)) {
        (x, y)
    } else {
        let inner = cx.of(a, Opcode::Abs).filter(|&x| a == b && !cx.element_type(x).is_complex())?;
        (inner, inner)
    };
    cx.replace_operand(id, 0, pair.0);
    cx.replace_operand(id, 1, pair.1);
    Some(id)
}

/// `A * convert(P) = select(P, A, 0)`
fn by_truth_value(cx: &mut Cx<'_>, id: Id, a: Id, b: Id) -> Option<Id> {
    let truth = |x: Id| cx.of(x, Opcode::Convert).filter(|&p| cx.element_type(p) == ElementType::Pred);
    let (predicate, value) = truth(b).map(|p| (p, a)).or_else(|| truth(a).map(|p| (p, b)))?;
    let zero = cx.scalar_like(id, 0.0);
    let shape = cx.shape(id).clone();
    Some(cx.elementwise(id, shape, Opcode::Select, &[predicate, value, zero]))
}

/// `(X, C)` of a product with exactly one constant factor, in any order.
fn with_constant(cx: &Cx<'_>, id: Id) -> Option<(Id, Id)> {
    let (x, y) = cx.both(id, Opcode::Multiply)?;
    match (cx.is_constant(x), cx.is_constant(y)) {
        (false, true) => Some((x, y)),
        (true, false) => Some((y, x)),
        _ => None,
    }
}

/// `(X*C1) * (Y*C2) = (X*Y) * (C1*C2)`
fn both_have_constants(cx: &mut Cx<'_>, id: Id, a: Id, b: Id) -> Option<Id> {
    let ((x, c1), (y, c2)) = (with_constant(cx, a)?, with_constant(cx, b)?);
    let constants = combine_constants(cx, id, Opcode::Multiply, c1, c2);
    let shape = cx.shape(id).clone();
    let product = cx.elementwise(id, shape.clone(), Opcode::Multiply, &[x, y]);
    Some(cx.elementwise(id, shape, Opcode::Multiply, &[product, constants]))
}

/// `(X*C1) * C2 = X * (C1*C2)`
fn two_constants(cx: &mut Cx<'_>, id: Id, a: Id, b: Id) -> Option<Id> {
    let (product, c2) = if cx.is_constant(b) {
        (a, b)
    } else if cx.is_constant(a) {
        (b, a)
    } else {
        return None;
    };
    let (x, c1) = with_constant(cx, product)?;
    let constants = combine_constants(cx, id, Opcode::Multiply, c1, c2);
    let shape = cx.shape(id).clone();
    Some(cx.elementwise(id, shape, Opcode::Multiply, &[x, constants]))
}

/// `(X*c) * broadcast(B) = X * broadcast(B*c)` for a scalar constant `c`, itself or broadcast.
fn constant_into_broadcast(cx: &mut Cx<'_>, id: Id, a: Id, b: Id) -> Option<Id> {
    let (x, constant, other) = scaled(cx, a, b).or_else(|| scaled(cx, b, a))?;
    let inner = cx.of(other, Opcode::Broadcast).filter(|&inner| !cx.is_constant(inner))?;
    let dims = cx.dimensions(other);
    let inner_shape = cx.shape(inner).clone();
    let factor = if cx.is_scalar(inner) { constant } else { cx.broadcast(id, inner_shape.clone(), constant, &[]) };
    let product = cx.elementwise(id, inner_shape, Opcode::Multiply, &[inner, factor]);
    let shape = cx.shape(id).clone();
    let wide = cx.broadcast(id, shape.clone(), product, &dims);
    Some(cx.elementwise(id, shape, Opcode::Multiply, &[x, wide]))
}

/// `(X, c, other)` if `product` is `X*c` with a scalar constant and `other` a broadcast of something else.
fn scaled(cx: &Cx<'_>, product: Id, other: Id) -> Option<(Id, Id, Id)> {
    let (x, y) = cx.both(product, Opcode::Multiply)?;
    let scalar = |c: Id| {
        let inner = if cx.is_constant(c) { c } else { cx.of(c, Opcode::Broadcast)? };
        (cx.is_constant(inner) && cx.is_scalar(inner)).then_some(inner)
    };
    let pick = |x: Id, c: Id| scalar(c).filter(|_| !cx.is_constant(x)).map(|c| (x, c, other));
    let found = pick(x, y).or_else(|| pick(y, x))?;
    let is_open = cx.of(other, Opcode::Broadcast).is_some_and(|inner| !cx.is_constant(inner));
    is_open.then_some(found)
}

/// `(A*broadcast(c1)) * broadcast(c2) = A * broadcast(c1*c2)`
fn two_broadcast_constants(cx: &mut Cx<'_>, id: Id, a: Id, b: Id) -> Option<Id> {
    let (x, c1) = cx.both(a, Opcode::Multiply)?;
    let (c1, c2) = constant_pair(cx, c1, b)?;
    let constants = combine_constants(cx, id, Opcode::Multiply, c1, c2);
    let shape = cx.shape(id).clone();
    Some(cx.elementwise(id, shape, Opcode::Multiply, &[x, constants]))
}

/// `exp(A) * exp(B) = exp(A+B)`
fn exponentials(cx: &mut Cx<'_>, id: Id, a: Id, b: Id) -> Option<Id> {
    let (x, y) = (cx.of(a, Opcode::Exponential)?, cx.of(b, Opcode::Exponential)?);
    let shape = cx.shape(id).clone();
    let sum = cx.elementwise(id, shape.clone(), Opcode::Add, &[x, y]);
    Some(cx.elementwise(id, shape, Opcode::Exponential, &[sum]))
}

/// `sqrt(A)*sqrt(A) = A`, `rsqrt(A)*rsqrt(A) = 1/A` where `A` is not negative.
fn roots(cx: &mut Cx<'_>, id: Id, a: Id, b: Id) -> Option<Id> {
    let same = |opcode| cx.of(a, opcode).filter(|&x| cx.of(b, opcode) == Some(x) && is_non_negative(cx, x));
    if let Some(x) = same(Opcode::Sqrt) {
        return Some(x);
    }
    let x = same(Opcode::Rsqrt)?;
    let one = cx.scalar_like(x, 1.0);
    let shape = cx.shape(id).clone();
    Some(cx.elementwise(id, shape, Opcode::Divide, &[one, x]))
}
