//! Broadcasts.

use crate::cpu::traits::is_elementwise;
use hlo_ir::shape::Dims;
use hlo_ir::{AttrKey, Opcode};

use super::super::build::share;
use super::super::cx::{Cx, Id};
use super::super::dims::{drop_ones, inverse, ones_moved};

/// Rules for `broadcast`.
pub(super) fn broadcast(cx: &mut Cx<'_>, id: Id) -> Option<Id> {
    let operand = cx.operand(id, 0);
    let dims = cx.dimensions(id);
    let shape = cx.shape(id).clone();
    if cx.elements(id) == cx.elements(operand) {
        if dims.is_sorted() {
            return Some(cx.reshape(id, shape, operand));
        }
        if cx.rank(id) == cx.rank(operand) {
            return Some(cx.transpose_as(id, shape, operand, &inverse(&dims)));
        }
    }
    if let Some(merged) = of_inserted_ones(cx, id, operand, &dims) {
        return Some(merged);
    }
    if sink(cx, id, operand, &dims) {
        return Some(id);
    }
    if cx.is_scalar(operand) {
        return into_rearranging_user(cx, id, operand);
    }
    match cx.opcode(operand) {
        Opcode::Iota => {
            let dim = cx.inst(operand).int(&AttrKey::IotaDimension)?;
            Some(cx.iota(id, shape, dims[dim as usize]))
        }
        Opcode::Broadcast => {
            let inner = cx.operand(operand, 0);
            let new: Dims = cx.dimensions(operand).iter().map(|&dim| dims[dim as usize]).collect();
            Some(cx.broadcast(id, shape, inner, &new))
        }
        _ => without_ones(cx, id, operand, &dims),
    }
}

/// `broadcast(reshape(X))` where the reshape only inserts dimensions of size 1.
fn of_inserted_ones(cx: &mut Cx<'_>, id: Id, operand: Id, dims: &Dims) -> Option<Id> {
    let inner = cx.of(operand, Opcode::Reshape)?;
    let moved = ones_moved(&cx.dims(inner), &cx.dims(operand)).filter(|moved| moved.deleted.is_empty())?;
    let kept: Dims =
        (0_i64..).zip(dims).filter(|(position, _)| !moved.inserted.contains(position)).map(|(_, &dim)| dim).collect();
    let shape = cx.shape(id).clone();
    Some(cx.broadcast(id, shape, inner, &kept))
}

/// Elementwise users all of whose operands are broadcasts like this one, or of scalars, are computed on the small shape and broadcast
/// afterwards.
///
/// Source: `TryToSinkBroadcastAfterElementwiseOps`.
fn sink(cx: &mut Cx<'_>, id: Id, operand: Id, dims: &Dims) -> bool {
    if cx.is_scalar(id) {
        return false;
    }
    let mut changed = false;
    for user in cx.users(id) {
        if cx.is_dead(user) || cx.opcode(user) == Opcode::Copy || !is_elementwise(cx, user) {
            continue;
        }
        let equal = |other: Id| {
            cx.of(other, Opcode::Broadcast)
                .is_some_and(|inner| cx.shape(inner) == cx.shape(operand) && cx.dimensions(other) == *dims)
        };
        let fits = cx.operands(user).iter().all(|&other| cx.scalar_broadcast(other).is_some() || equal(other));
        if fits {
            sink_below(cx, id, operand, dims, user);
            changed = true;
        }
    }
    changed
}

fn sink_below(cx: &mut Cx<'_>, id: Id, operand: Id, dims: &Dims, user: Id) {
    let small = cx.arr(operand);
    let mut operands = Vec::new();
    for other in cx.operands(user).to_vec() {
        operands.push(match cx.scalar_broadcast(other) {
            Some(scalar) => {
                let shape = share(small.with_element_type(cx.element_type(other)));
                cx.broadcast(other, shape, scalar, &[])
            }
            None => cx.operand(other, 0),
        });
    }
    let shape = share(small.with_element_type(cx.element_type(user)));
    let new_user = cx.like(user, shape, &operands);
    let shape = cx.shape(user).clone();
    let wide = cx.broadcast(id, shape, new_user, dims);
    cx.replace_all_uses(user, wide);
}

/// A user that only rearranges or picks elements of a broadcast scalar is itself a broadcast of the scalar.
fn into_rearranging_user(cx: &mut Cx<'_>, id: Id, scalar: Id) -> Option<Id> {
    use Opcode as O;
    let rearranges = |cx: &Cx<'_>, user: Id| match cx.opcode(user) {
        O::Reshape | O::Reverse | O::Transpose | O::Slice => true,
        O::Sort => cx.array(user).is_some(),
        O::DynamicSlice => cx.operand(user, 0) == id && !cx.operands(user)[1..].contains(&id),
        _ => false,
    };
    let user = cx.each_user(id).find(|&user| rearranges(cx, user) && !cx.is_dead(user))?;
    let shape = cx.shape(user).clone();
    let new = cx.broadcast(user, shape, scalar, &[]);
    cx.replace_all_uses(user, new);
    Some(id)
}

/// Dimensions of size 1 are reshaped away before the broadcast.
fn without_ones(cx: &mut Cx<'_>, id: Id, operand: Id, dims: &Dims) -> Option<Id> {
    let array = cx.arr(operand);
    if cx.layout_sensitive || !array.dims.contains(&1) {
        return None;
    }
    let small = cx.reshape(operand, share(drop_ones(&array)), operand);
    let kept: Dims = dims.iter().zip(&array.dims).filter(|(_, size)| **size != 1).map(|(&dim, _)| dim).collect();
    let shape = cx.shape(id).clone();
    Some(cx.broadcast(id, shape, small, &kept))
}
