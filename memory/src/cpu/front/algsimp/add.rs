//! Sums and differences.

use hlo_ir::{AttrKey, Opcode};

use super::super::cx::{Cx, Id};
use super::sign::is_power_of_two;

/// Rules for `add`.
pub(super) fn add(cx: &mut Cx<'_>, id: Id) -> Option<Id> {
    let (a, b) = cx.both(id, Opcode::Add)?;
    zero(cx, id, a, b)
        .or_else(|| constant_to_the_right(cx, id, a, b))
        .or_else(|| two_constants(cx, id, a, b))
        .or_else(|| constant_minus_plus_constant(cx, id, a, b))
        .or_else(|| add_into_update(cx, id, a, b))
        .or_else(|| common_factor(cx, id, a, b))
        .or_else(|| if cx.layout_sensitive { None } else { into_scatter(cx, id, a, b) })
}

/// `A + 0 = A`
fn zero(cx: &Cx<'_>, id: Id, a: Id, b: Id) -> Option<Id> {
    let right = if cx.is_all(b, 0) { cx.if_same(id, a) } else { None };
    right.or_else(|| if cx.is_all(a, 0) { cx.if_same(id, b) } else { None })
}

/// `C + A = A + C`
fn constant_to_the_right(cx: &mut Cx<'_>, id: Id, a: Id, b: Id) -> Option<Id> {
    if !cx.is_constant(a) || cx.is_constant(b) {
        return None;
    }
    let shape = cx.shape(id).clone();
    Some(cx.elementwise(id, shape, Opcode::Add, &[b, a]))
}

/// The constant itself, or the scalar constant that is broadcast. Both sides of a rule must be of one form.
pub(super) fn constant_pair(cx: &Cx<'_>, x: Id, y: Id) -> Option<(Id, Id)> {
    if cx.is_constant(x) && cx.is_constant(y) {
        return Some((x, y));
    }
    Some((cx.constant_broadcast(x)?, cx.constant_broadcast(y)?))
}

/// `c1 OP c2` in the shape of `id`.
pub(super) fn combine_constants(cx: &mut Cx<'_>, id: Id, opcode: Opcode, c1: Id, c2: Id) -> Id {
    let combined = cx.binary(id, opcode, c1, c2);
    if cx.is_scalar(combined) && !cx.is_scalar(id) {
        let shape = cx.shape(id).clone();
        return cx.broadcast(id, shape, combined, &[]);
    }
    combined
}

/// `(A + C1) + C2 = A + (C1 + C2)`
fn two_constants(cx: &mut Cx<'_>, id: Id, a: Id, b: Id) -> Option<Id> {
    let (x, c1) = cx.both(a, Opcode::Add)?;
    let (c1, c2) = constant_pair(cx, c1, b)?;
    if cx.is_constant(x) {
        return None;
    }
    let sum = combine_constants(cx, id, Opcode::Add, c1, c2);
    let shape = cx.shape(id).clone();
    Some(cx.elementwise(id, shape, Opcode::Add, &[x, sum]))
}

/// `(C1 - A) + C2 = (C1 + C2) - A`
fn constant_minus_plus_constant(cx: &mut Cx<'_>, id: Id, a: Id, b: Id) -> Option<Id> {
    let (c1, x) = cx.both(a, Opcode::Subtract)?;
    let (c1, c2) = constant_pair(cx, c1, b)?;
    if cx.is_constant(x) {
        return None;
    }
    let sum = combine_constants(cx, id, Opcode::Add, c1, c2);
    let shape = cx.shape(id).clone();
    Some(cx.elementwise(id, shape, Opcode::Subtract, &[sum, x]))
}

/// `A + update(zeros, U, at) = update(A, A[at] + U, at)`
fn add_into_update(cx: &mut Cx<'_>, id: Id, a: Id, b: Id) -> Option<Id> {
    let of_zeros = |cx: &Cx<'_>, id: Id| {
        cx.opcode(id) == Opcode::DynamicUpdateSlice
            && cx
                .of(cx.operand(id, 0), Opcode::Broadcast)
                .is_some_and(|value| cx.is_effective_scalar(value) && cx.is_constant(value) && cx.is_all(value, 0))
    };
    let (whole, update) = if of_zeros(cx, b) {
        (a, b)
    } else if of_zeros(cx, a) {
        (b, a)
    } else {
        return None;
    };
    let (part, starts) = (cx.operand(update, 1), cx.operands(update)[2..].to_vec());
    let shape = cx.shape(part).clone();
    let old = cx.dynamic_slice(whole, shape.clone(), whole, &starts);
    let sum = cx.elementwise(update, shape, Opcode::Add, &[old, part]);
    Some(cx.dynamic_update_slice(id, whole, sum, &starts))
}

/// `A*C + B*C = (A+B)*C` for integers and for powers of two.
fn common_factor(cx: &mut Cx<'_>, id: Id, left: Id, right: Id) -> Option<Id> {
    let (p, q) = cx.both(left, Opcode::Multiply)?;
    let (r, s) = cx.both(right, Opcode::Multiply)?;
    let other = |c: Id| {
        if r == c {
            Some(s)
        } else if s == c {
            Some(r)
        } else {
            None
        }
    };
    let (a, b, c) = other(q).map(|b| (p, b, q)).or_else(|| other(p).map(|b| (q, b, p)))?;
    let exact = cx.element_type(id).is_integer() || is_power_of_two(cx, c);
    if cx.user_count(left) != 1 || cx.user_count(right) != 1 || !exact {
        return None;
    }
    let shape = cx.shape(id).clone();
    let sum = cx.elementwise(left, shape.clone(), Opcode::Add, &[a, b]);
    Some(cx.elementwise(id, shape, Opcode::Multiply, &[sum, c]))
}

/// Whether this is a scatter of one array that adds and is used once.
fn adding_scatter(cx: &Cx<'_>, id: Id) -> bool {
    cx.opcode(id) == Opcode::Scatter
        && cx.operands(id).len() == 3
        && cx.one_use(id)
        && cx.to_apply(id).and_then(|apply| cx.binary_of_parameters(apply)) == Some(Opcode::Add)
}

/// `A + scatter-add(X, ...) = scatter-add(A + X, ...)`, which needs no array of zeros; two scatters are chained. (XLA also concatenates two
/// scatters whose updates are small together.)
fn into_scatter(cx: &mut Cx<'_>, id: Id, a: Id, b: Id) -> Option<Id> {
    let (left, right) = (adding_scatter(cx, a), adding_scatter(cx, b));
    if left && right && cx.rank(cx.operand(a, 1)) == cx.rank(cx.operand(b, 1)) {
        let (x, y) = (cx.operand(a, 0), cx.operand(b, 0));
        if let Some(joined) = join_scatters(cx, id, a, b) {
            return Some(joined);
        }
        if updates_are_large(cx, a, b) {
            return None;
        }
        let sum = cx.binary(id, Opcode::Add, x, y);
        cx.replace_operand(b, 0, sum);
        cx.replace_operand(a, 0, b);
        return Some(a);
    }
    let (scatter, other) = match (left, right) {
        (false, true) => (b, a),
        (true, false) => (a, b),
        _ => return None,
    };
    let old = cx.operand(scatter, 0);
    let sum =
        if scatter == b { cx.binary(id, Opcode::Add, other, old) } else { cx.binary(id, Opcode::Add, old, other) };
    cx.replace_operand(scatter, 0, sum);
    Some(scatter)
}

fn updates_are_large(cx: &Cx<'_>, a: Id, b: Id) -> bool {
    cx.elements(cx.operand(a, 2)).saturating_add(cx.elements(cx.operand(b, 2))) >= cx.elements(a)
}

/// One scatter of the concatenated indices and updates, when both scatters have the same dimension numbers and differ in at most one
/// scatter dimension.
fn join_scatters(cx: &mut Cx<'_>, id: Id, a: Id, b: Id) -> Option<Id> {
    let (index_dim, update_dim) = joint_dims(cx, a, b)?;
    if updates_are_large(cx, a, b) || !same_numbers(cx, a, b) {
        return None;
    }
    let plain = |id: Id| {
        let inst = cx.inst(id);
        !inst.flag(&AttrKey::UniqueIndices) && !inst.flag(&AttrKey::IndicesAreSorted)
    };
    if !plain(a) || !plain(b) || cx.element_type(cx.operand(a, 1)) != cx.element_type(cx.operand(b, 1)) {
        return None;
    }
    let sum = cx.binary(id, Opcode::Add, cx.operand(a, 0), cx.operand(b, 0));
    let join = |cx: &mut Cx<'_>, operand: usize, dim: usize| {
        let (x, y) = (cx.operand(a, operand), cx.operand(b, operand));
        let array = cx.arr(x).with_dim(dim, cx.dims(x)[dim] + cx.dims(y)[dim]);
        cx.concatenate(id, super::super::build::share(array), &[x, y], dim as i64)
    };
    let indices = join(cx, 1, index_dim);
    let updates = join(cx, 2, update_dim);
    let shape = cx.shape(id).clone();
    Some(cx.like(a, shape, &[sum, indices, updates]))
}

/// The index dimension and the update dimension along which two scatters can be concatenated.
fn joint_dims(cx: &Cx<'_>, a: Id, b: Id) -> Option<(usize, usize)> {
    let (indices_a, indices_b) = (cx.dims(cx.operand(a, 1)), cx.dims(cx.operand(b, 1)));
    let inst = cx.inst(a);
    let windows = inst.ints(&AttrKey::UpdateWindowDims);
    let vector = inst.int(&AttrKey::IndexVectorDim).unwrap_or(0);
    let mut scatter_dims = (0..cx.rank(cx.operand(a, 2)) as i64).rev().filter(|dim| !windows.contains(dim));
    let (mut unequal, mut equal) = (None, None);
    for dim in (0..indices_a.len()).rev().filter(|&dim| dim as i64 != vector) {
        let pair = (dim, scatter_dims.next()? as usize);
        if indices_a[dim] == indices_b[dim] {
            equal = Some(pair);
        } else if unequal.replace(pair).is_some() {
            return None;
        }
    }
    unequal.or(equal)
}

fn same_numbers(cx: &Cx<'_>, a: Id, b: Id) -> bool {
    let keys = [
        AttrKey::UpdateWindowDims,
        AttrKey::InsertedWindowDims,
        AttrKey::ScatterDimsToOperandDims,
        AttrKey::InputBatchingDims,
        AttrKey::ScatterIndicesBatchingDims,
    ];
    let (x, y) = (cx.inst(a), cx.inst(b));
    x.int(&AttrKey::IndexVectorDim) == y.int(&AttrKey::IndexVectorDim)
        && keys.iter().all(|key| x.ints(key) == y.ints(key))
}

/// Rules for `subtract`.
pub(super) fn subtract(cx: &mut Cx<'_>, id: Id) -> Option<Id> {
    let (a, b) = cx.both(id, Opcode::Subtract)?;
    if a == b && cx.element_type(id).is_integer() {
        return Some(cx.scalar_like(id, 0.0));
    }
    if cx.is_all(b, 0)
        && let Some(same) = cx.if_same(id, a)
    {
        return Some(same);
    }
    minus_constant(cx, id, a, b)
}

/// `A - C = A + (-C)`
fn minus_constant(cx: &mut Cx<'_>, id: Id, a: Id, b: Id) -> Option<Id> {
    let constant =
        if cx.is_constant(b) { b } else { cx.of(b, Opcode::Broadcast).filter(|&inner| cx.is_constant(inner))? };
    if cx.is_constant(a) {
        return None;
    }
    let shape = cx.shape(constant).clone();
    let mut negative = cx.elementwise(constant, shape, Opcode::Negate, &[constant]);
    if constant != b {
        let (shape, dims) = (cx.shape(b).clone(), cx.dimensions(b));
        negative = cx.broadcast(b, shape, negative, &dims);
    }
    let shape = cx.shape(id).clone();
    Some(cx.elementwise(id, shape, Opcode::Add, &[a, negative]))
}
