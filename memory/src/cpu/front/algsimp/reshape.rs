//! Reshapes.

use hlo_ir::shape::Dims;
use hlo_ir::{AttrKey, Opcode};

use super::super::cx::{Cx, Id};
use super::super::dims::{common_factors, compose, leaves_unmodified, ones_moved, true_rank};
use super::super::value::Literal;
use super::layout;

/// Rules for `reshape`.
pub(super) fn reshape(cx: &mut Cx<'_>, id: Id) -> Option<Id> {
    let operand = cx.operand(id, 0);
    let shape = cx.shape(id).clone();
    if cx.is_empty_array(id) {
        let array = cx.arr(id);
        let literal = Literal::known(array.element_type, Vec::new());
        return Some(cx.array_constant(id, array, literal));
    }
    if cx.same_shape(id, operand) {
        return Some(operand);
    }
    if let Some(inner) = cx.of(operand, Opcode::Reshape) {
        return Some(cx.reshape(id, shape, inner));
    }
    chain(cx, id)
        .or_else(|| of_broadcast(cx, id, operand))
        .or_else(|| of_iota(cx, id, operand))
        .or_else(|| before_update(cx, id, operand))
        .or_else(|| layout::reshape_to_bitcast(cx, id))
}

/// `reshape(broadcast(X))` where the reshape leaves the dimensions of `X` alone.
fn of_broadcast(cx: &mut Cx<'_>, id: Id, operand: Id) -> Option<Id> {
    let inner = cx.of(operand, Opcode::Broadcast)?;
    let dims = leaves_unmodified(&cx.dims(operand), &cx.dims(id), &cx.dimensions(operand))?;
    let shape = cx.shape(id).clone();
    Some(cx.broadcast(id, shape, inner, &dims))
}

/// `reshape(iota)` is an iota, or a sum of scaled iotas when the counted dimension is split.
fn of_iota(cx: &mut Cx<'_>, id: Id, operand: Id) -> Option<Id> {
    if cx.opcode(operand) != Opcode::Iota {
        return None;
    }
    let counted = usize::try_from(cx.inst(operand).int(&AttrKey::IotaDimension)?).ok()?;
    let sizes = cx.dims(id);
    let bounds = common_factors(&cx.dims(operand), &sizes);
    let first = bounds.iter().position(|&(from, to)| from == counted && sizes.get(to).is_some_and(|&size| size > 1))?;
    bounds.iter().find(|bound| bound.0 == counted + 1)?;
    let (start, end) = (bounds[first].1, bounds.get(first + 1)?.1);
    let shape = cx.shape(id).clone();
    let (mut sum, mut step) = (None, 1_i64);
    for dim in (start..end).rev() {
        let iota = cx.iota(operand, shape.clone(), dim as i64);
        sum = Some(match sum {
            None => iota,
            Some(sum) => {
                let factor = cx.scalar_like(id, step as f64);
                let scaled = cx.elementwise(id, shape.clone(), Opcode::Multiply, &[iota, factor]);
                cx.elementwise(id, shape.clone(), Opcode::Add, &[sum, scaled])
            }
        });
        step *= sizes[dim];
    }
    sum
}

/// `reshape(update(X, U, at))` that only moves dimensions of size 1 is an update of the reshaped arrays.
fn before_update(cx: &mut Cx<'_>, id: Id, update: Id) -> Option<Id> {
    if cx.layout_sensitive || cx.opcode(update) != Opcode::DynamicUpdateSlice || cx.user_count(update) != 1 {
        return None;
    }
    let moved = ones_moved(&cx.dims(update), &cx.dims(id))?;
    let (whole, part) = (cx.operand(update, 0), cx.operand(update, 1));
    let starts = cx.operands(update)[2..].to_vec();
    let shape = cx.shape(id).clone();
    let new_whole = cx.reshape(id, shape, whole);
    let zero = cx.scalar_like(starts[0], 0.0);
    let (sizes, mut new_sizes, mut new_starts) = (cx.dims(part), Dims::new(), Vec::new());
    let mut kept = (0_i64..).zip(sizes.iter().zip(&starts)).filter(|(dim, _)| !moved.deleted.contains(dim));
    for dim in 0..cx.rank(id) as i64 {
        let (size, start) = if moved.inserted.contains(&dim) {
            (1, zero)
        } else {
            kept.next().map(|(_, (&size, &start))| (size, start))?
        };
        new_sizes.push(size);
        new_starts.push(start);
    }
    let new_part = cx.reshape_to(id, part, new_sizes);
    Some(cx.dynamic_update_slice(id, new_whole, new_part, &new_starts))
}

/// A chain of transposes and of reshapes that move at most one dimension of size 1 vanishes when the transposes cancel out.
///
/// Source: `TryRemovingReshapeTransposeChain`.
fn chain(cx: &Cx<'_>, id: Id) -> Option<Id> {
    if cx.layout_sensitive || !moves_one(cx, id) {
        return None;
    }
    let mut permutation: Dims = (0..true_rank(&cx.arr(id)) as i64).collect();
    let mut at = cx.operand(id, 0);
    let mut source = None;
    loop {
        match cx.opcode(at) {
            Opcode::Reshape if moves_one(cx, at) => {}
            Opcode::Reshape => return None,
            Opcode::Transpose if cx.dimensions(at).is_sorted() => return None,
            Opcode::Transpose => permutation = compose(&without_one(cx, at)?, &permutation),
            _ => break,
        }
        source = Some(cx.operand(at, 0));
        at = cx.operand(at, 0);
    }
    let source = source?;
    let same = cx.dims(source) == cx.dims(id) && cx.element_type(source) == cx.element_type(id);
    (same && permutation.is_sorted()).then_some(source)
}

fn ones(cx: &Cx<'_>, id: Id) -> usize {
    cx.dims(id).iter().filter(|&&size| size == 1).count()
}

fn moves_one(cx: &Cx<'_>, reshape: Id) -> bool {
    let operand = cx.operand(reshape, 0);
    ones(cx, reshape) <= 1 && ones(cx, operand) <= 1 && ones_moved(&cx.dims(operand), &cx.dims(reshape)).is_some()
}

/// The permutation of a transpose without its dimension of size 1.
fn without_one(cx: &Cx<'_>, transpose: Id) -> Option<Dims> {
    let from = cx.dims(cx.operand(transpose, 0));
    let permutation = cx.dimensions(transpose);
    match ones(cx, transpose) {
        0 => Some(permutation),
        1 => {
            let one = from.iter().position(|&size| size == 1)? as i64;
            Some(permutation.iter().filter(|&&dim| dim != one).map(|&dim| dim - i64::from(dim > one)).collect())
        }
        _ => None,
    }
}
