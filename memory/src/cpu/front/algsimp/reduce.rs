//! Reductions.

use hlo_ir::shape::Dims;
use hlo_ir::{AttrKey, AttrValue, ComputationId, Opcode};

use super::super::build::{apply, share};
use super::super::cx::{Cx, Id};
use super::super::dims::{delete_dims, unmodified_by_reshape};

/// A reduction of one array, taken apart.
struct Parts {
    id: Id,
    operand: Id,
    init: Id,
    dims: Dims,
    to_apply: ComputationId,
    /// The opcode of a reducer that only applies it, such as `add`.
    combine: Option<Opcode>,
}

/// Rules for `reduce`.
pub(super) fn reduce(cx: &mut Cx<'_>, id: Id) -> Option<Id> {
    let many = cx.shape(id).as_tuple().is_some();
    let (operand, count) = (cx.operand(id, 0), cx.operands(id).len() / 2);
    if let Some(result) = trivial(cx, id, operand, count, many) {
        return Some(result);
    }
    if cx.layout_sensitive || many {
        return None;
    }
    let to_apply = cx.to_apply(id)?;
    let combine = cx.binary_of_parameters(to_apply);
    let parts = Parts { id, operand, init: cx.operand(id, count), dims: cx.dimensions(id), to_apply, combine };
    of_negate(cx, &parts)
        .or_else(|| of_transpose(cx, &parts))
        .or_else(|| of_reduce(cx, &parts))
        .or_else(|| of_reshape(cx, &parts))
        .or_else(|| of_concatenate(cx, &parts))
        .or_else(|| also_argument(cx, &parts))
        .or_else(|| of_broadcast_scalar(cx, &parts))
        .or_else(|| before_broadcast(cx, &parts))
        .or_else(|| sum_of_broadcast(cx, &parts))
}

/// Reductions of nothing are broadcasts of the initial values; those that combine nothing are reshapes.
fn trivial(cx: &mut Cx<'_>, id: Id, operand: Id, count: usize, many: bool) -> Option<Id> {
    let shapes: Vec<_> = match cx.shape(id).as_tuple() {
        Some(elements) => elements.to_vec(),
        None => vec![cx.shape(id).clone()],
    };
    let result = shapes.first()?.as_array()?.clone();
    let empty = cx.is_empty_array(operand) || result.dims.contains(&0);
    let same_count = result.elements() == Some(cx.elements(operand));
    let free = !cx.layout_sensitive || super::super::dims::reshape_is_bitcast(&cx.arr(operand), &result);
    if !(empty || same_count && free) {
        return None;
    }
    let mut elements = Vec::new();
    for (index, shape) in shapes.into_iter().enumerate() {
        elements.push(if empty {
            let init = cx.operand(id, count + index);
            cx.broadcast(id, shape, init, &[])
        } else {
            let input = cx.operand(id, index);
            cx.reshape(id, shape, input)
        });
    }
    Some(if many { cx.tuple(id, &elements) } else { elements[0] })
}

/// The sum of negated floats is the negated sum.
fn of_negate(cx: &mut Cx<'_>, parts: &Parts) -> Option<Id> {
    let inner = cx.of(parts.operand, Opcode::Negate)?;
    let sum = parts.combine == Some(Opcode::Add) && cx.is_constant(parts.init) && cx.is_all(parts.init, 0);
    if !sum || !cx.element_type(parts.id).is_float() {
        return None;
    }
    cx.replace_operand(parts.id, 0, inner);
    let shape = cx.shape(parts.id).clone();
    let users = cx.users(parts.id);
    let was_root = cx.is_root(parts.id);
    let negated = cx.elementwise(parts.operand, shape, Opcode::Negate, &[parts.id]);
    for user in users {
        cx.replace_use(parts.id, user, negated);
    }
    if was_root {
        cx.set_root(negated);
    }
    Some(parts.id)
}

/// A reduction of a transpose reduces other dimensions; what is left may need a transpose.
fn of_transpose(cx: &mut Cx<'_>, parts: &Parts) -> Option<Id> {
    let inner = cx.of(parts.operand, Opcode::Transpose)?;
    let worth = cx.rank(parts.id) < 2
        || cx.user_count(parts.operand) == 1
        || cx.each_user(parts.operand).all(|user| cx.opcode(user) == Opcode::Reduce);
    if !worth {
        return None;
    }
    let permutation = cx.dimensions(parts.operand);
    let dims: Dims = parts.dims.iter().map(|&dim| permutation[dim as usize]).collect();
    let shape = delete_in_layout(cx, inner, &dims);
    let reduced = cx.reduce_as(parts.id, shape, inner, parts.init, &dims, parts.to_apply);
    let left: Dims = permutation.iter().copied().filter(|dim| !dims.contains(dim)).collect();
    if left.is_sorted() {
        return Some(reduced);
    }
    let below = |dim: i64| dims.iter().filter(|&&gone| gone < dim).count() as i64;
    let order: Dims = left.iter().map(|&dim| dim - below(dim)).collect();
    Some(cx.transpose(parts.id, reduced, &order))
}

/// The shape without some dimensions, the others in the same order of memory.
fn delete_in_layout(cx: &Cx<'_>, id: Id, gone: &[i64]) -> hlo_ir::shape::ShapeRef {
    let array = cx.arr(id);
    let mut result = delete_dims(&array, gone);
    let below = |dim: i64| gone.iter().filter(|&&other| other < dim).count() as i64;
    if let Some(layout) = &mut result.layout {
        layout.minor_to_major =
            array.minor_to_major().iter().filter(|dim| !gone.contains(dim)).map(|&dim| dim - below(dim)).collect();
    }
    share(result)
}

/// Two reductions with one reducer and initial value are one.
fn of_reduce(cx: &mut Cx<'_>, parts: &Parts) -> Option<Id> {
    let inner = cx.of(parts.operand, Opcode::Reduce).filter(|_| cx.operands(parts.operand).len() == 2)?;
    let init = cx.operand(parts.operand, 1);
    let same_init = init == parts.init || (cx.is_constant(init) && cx.literal(init) == cx.literal(parts.init));
    let other = cx.to_apply(parts.operand)?;
    let simple = |opcode| matches!(opcode, Some(Opcode::Add | Opcode::Multiply | Opcode::And | Opcode::Or));
    let same = other == parts.to_apply || (simple(parts.combine) && parts.combine == cx.binary_of_parameters(other));
    if !same_init || !same {
        return None;
    }
    let mut first: Dims = cx.dimensions(parts.operand);
    first.sort_unstable();
    let mut second = parts.dims.clone();
    for &gone in &first {
        second.iter_mut().filter(|dim| **dim >= gone).for_each(|dim| *dim += 1);
    }
    first.extend(second);
    first.sort_unstable();
    let shape = cx.shape(parts.id).clone();
    Some(cx.reduce_as(parts.id, shape, inner, parts.init, &first, parts.to_apply))
}

/// A reshape before a reduction vanishes when it leaves the kept dimensions alone, and goes behind the reduction when it leaves the
/// reduced ones alone.
fn of_reshape(cx: &mut Cx<'_>, parts: &Parts) -> Option<Id> {
    let inner = cx.of(parts.operand, Opcode::Reshape)?;
    let (from, to) = (cx.dims(inner), cx.dims(parts.operand));
    let same = unmodified_by_reshape(&from, &to);
    let source = |dim: i64| same.iter().find(|pair| pair.1 == dim).map(|pair| pair.0);
    let kept: Option<Dims> = (0..to.len() as i64).filter(|dim| !parts.dims.contains(dim)).map(source).collect();
    if let Some(kept) = kept {
        let dims: Dims = (0..from.len() as i64).filter(|dim| !kept.contains(dim)).collect();
        let shape = cx.shape(parts.id).clone();
        return Some(cx.reduce_as(parts.id, shape, inner, parts.init, &dims, parts.to_apply));
    }
    let reduced: Dims = parts.dims.iter().map(|&dim| source(dim)).collect::<Option<_>>()?;
    if cx.user_count(parts.operand) != 1 {
        return None;
    }
    let small = cx.reduce(parts.id, inner, parts.init, &reduced, parts.to_apply);
    let shape = cx.shape(parts.id).clone();
    Some(cx.reshape(parts.id, shape, small))
}

/// A reduction over the dimension of a concatenation of equal pieces combines their reductions.
fn of_concatenate(cx: &mut Cx<'_>, parts: &Parts) -> Option<Id> {
    if cx.opcode(parts.operand) != Opcode::Concatenate {
        return None;
    }
    let dim = *cx.dimensions(parts.operand).first()?;
    let pieces = cx.operands(parts.operand).to_vec();
    let equal = pieces.iter().all(|&piece| cx.dims(piece) == cx.dims(pieces[0]));
    if !parts.dims.contains(&dim) || !(equal || cx.is_scalar(parts.id)) {
        return None;
    }
    let shape = cx.shape(parts.id).clone();
    let mut sum = None;
    for piece in pieces {
        let part = cx.reduce_as(parts.id, shape.clone(), piece, parts.init, &parts.dims, parts.to_apply);
        sum = Some(match sum {
            None => part,
            Some(sum) => {
                let attributes = [
                    hlo_ir::Attribute::new(AttrKey::Dimensions, AttrValue::ints(0..cx.rank(parts.id) as i64)),
                    apply(parts.to_apply),
                ];
                cx.make(parts.id, shape.clone(), Opcode::Map, &[sum, part], attributes)
            }
        });
    }
    sum
}

/// A maximum (minimum) beside an arg-max (arg-min) of the same array is an element of the latter.
fn also_argument(cx: &mut Cx<'_>, parts: &Parts) -> Option<Id> {
    let limit = match parts.combine? {
        Opcode::Maximum => f64::NEG_INFINITY,
        Opcode::Minimum => f64::INFINITY,
        _ => return None,
    };
    let is_limit = |cx: &Cx<'_>, id: Id| cx.is_constant(id) && cx.is_all_float(id, limit);
    if !is_limit(cx, parts.init) {
        return None;
    }
    let maximum = limit < 0.0;
    let argument = cx.each_user(parts.operand).find(|&user| {
        user != parts.id
            && cx.opcode(user) == Opcode::Reduce
            && cx.operands(user).len() == 4
            && cx.operand(user, 0) == parts.operand
            && cx.opcode(cx.operand(user, 1)) == Opcode::Iota
            && is_limit(cx, cx.operand(user, 2))
            && cx.is_constant(cx.operand(user, 3))
            && cx.is_all(cx.operand(user, 3), 0)
            && cx.dimensions(user) == parts.dims
            && cx.to_apply(user).is_some_and(|reducer| is_argument_reducer(cx, reducer, maximum))
    })?;
    Some(cx.element(parts.id, argument, 0))
}

/// Whether a reducer of (value, index) pairs keeps the larger (smaller) value, NaN first, and the lower index of equals.
fn is_argument_reducer(cx: &Cx<'_>, reducer: ComputationId, maximum: bool) -> bool {
    let number = |id: Id| cx.inst(id).parameter_number();
    let compares = |id: Id, direction: &str, a: i64, b: i64| {
        cx.opcode(id) == Opcode::Compare
            && cx.inst(id).word(&AttrKey::Direction) == Some(direction)
            && number(cx.operand(id, 0)) == Some(a)
            && number(cx.operand(id, 1)) == Some(b)
    };
    let either = |id: Id, opcode, f: &dyn Fn(Id) -> bool, g: &dyn Fn(Id) -> bool| {
        cx.both(id, opcode).is_some_and(|(x, y)| (f(x) && g(y)) || (opcode == Opcode::Or && f(y) && g(x)))
    };
    let better = |id: Id| {
        either(id, Opcode::Or, &|x| compares(x, if maximum { "GT" } else { "LT" }, 0, 2), &|y| compares(y, "NE", 0, 0))
    };
    let first = |id: Id| either(id, Opcode::And, &|x| compares(x, "EQ", 0, 2), &|y| compares(y, "LT", 1, 3));
    let selects = |id: Id, a: i64, b: i64| {
        cx.opcode(id) == Opcode::Select && number(cx.operand(id, 1)) == Some(a) && number(cx.operand(id, 2)) == Some(b)
    };
    let Some((value, index)) = cx.both(cx.root(reducer), Opcode::Tuple) else { return false };
    selects(value, 0, 2)
        && better(cx.operand(value, 0))
        && selects(index, 1, 3)
        && either(cx.operand(index, 0), Opcode::Or, &better, &first)
}

/// The minimum, maximum, conjunction or disjunction of copies of a scalar needs only one.
fn of_broadcast_scalar(cx: &mut Cx<'_>, parts: &Parts) -> Option<Id> {
    let scalar = cx.scalar_broadcast(parts.operand)?;
    let combine = parts.combine?;
    let idempotent = matches!(combine, Opcode::Maximum | Opcode::Minimum | Opcode::And | Opcode::Or);
    if !idempotent || parts.dims.len() != cx.rank(parts.operand) {
        return None;
    }
    let shape = cx.shape(parts.id).clone();
    Some(cx.elementwise(parts.id, shape, combine, &[scalar, parts.init]))
}

/// A reduction over dimensions that a broadcast kept comes before the broadcast.
fn before_broadcast(cx: &mut Cx<'_>, parts: &Parts) -> Option<Id> {
    let inner = cx.of(parts.operand, Opcode::Broadcast)?;
    let dims = cx.dimensions(parts.operand);
    let source = |gone: &i64| dims.iter().position(|dim| dim == gone).map(|position| position as i64);
    let reduced: Dims = parts.dims.iter().map(source).collect::<Option<_>>()?;
    let shape = share(delete_dims(&cx.arr(inner), &reduced));
    let small = cx.reduce_as(parts.id, shape, inner, parts.init, &reduced, parts.to_apply);
    let below = |dim: i64| parts.dims.iter().filter(|&&gone| gone < dim).count() as i64;
    let kept: Dims = dims.iter().filter(|dim| !parts.dims.contains(dim)).map(|&dim| dim - below(dim)).collect();
    let shape = cx.shape(parts.id).clone();
    Some(cx.broadcast(parts.id, shape, small, &kept))
}

/// The sum over dimensions that a broadcast added multiplies by their size.
fn sum_of_broadcast(cx: &mut Cx<'_>, parts: &Parts) -> Option<Id> {
    let inner = cx.of(parts.operand, Opcode::Broadcast)?;
    let dims = cx.dimensions(parts.operand);
    if parts.combine != Some(Opcode::Add) || parts.dims.iter().any(|dim| dims.contains(dim)) {
        return None;
    }
    let sizes = cx.dims(parts.operand);
    let count: f64 = parts.dims.iter().map(|&dim| sizes[dim as usize] as f64).product();
    let below = |dim: i64| parts.dims.iter().filter(|&&gone| gone < dim).count() as i64;
    let kept: Dims = dims.iter().map(|&dim| dim - below(dim)).collect();
    let factor = cx.scalar_like(inner, count);
    let product = cx.binary(parts.id, Opcode::Multiply, inner, factor);
    let shape = cx.shape(product).clone();
    let init = cx.broadcast(parts.id, shape, parts.init, &[]);
    let sum = cx.binary(parts.id, Opcode::Add, init, product);
    let shape = cx.shape(parts.id).clone();
    Some(cx.broadcast(parts.id, shape, sum, &kept))
}
