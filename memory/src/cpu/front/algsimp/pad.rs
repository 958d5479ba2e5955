//! Pads.

use hlo_ir::Opcode;
use hlo_ir::attribute::{PadDim, SliceDim};
use hlo_ir::shape::Dims;

use super::super::build::{row_major, share};
use super::super::cx::{Cx, Id};
use super::slice::padding;

/// Rules for `pad`.
pub(super) fn pad(cx: &mut Cx<'_>, id: Id) -> Option<Id> {
    let (operand, value) = (cx.operand(id, 0), cx.operand(id, 1));
    let shape = cx.shape(id).clone();
    if cx.is_empty_array(operand) {
        return Some(cx.broadcast(id, shape, value, &[]));
    }
    let padding = padding(cx, id);
    let sizes = cx.dims(operand);
    let mut cleared = padding.clone();
    for (dim, &size) in cleared.iter_mut().zip(&sizes) {
        if size == 1 {
            dim.interior = 0;
        }
    }
    if cleared != padding {
        return Some(cx.pad(id, shape, operand, value, cleared));
    }
    if padding.iter().all(|dim| dim.low == 0 && dim.high == 0)
        && let Some(same) = cx.if_same(id, operand)
    {
        return Some(same);
    }
    same_value(cx, id, operand, value)
        .or_else(|| of_broadcast(cx, id, operand, value, &padding))
        .or_else(|| negative(cx, id, operand, value, &padding))
}

/// A broadcast of the padding value, padded, is a broadcast.
fn same_value(cx: &mut Cx<'_>, id: Id, operand: Id, value: Id) -> Option<Id> {
    let inner = cx.scalar_broadcast(operand)?;
    let equal = inner == value || (cx.is_constant(inner) && cx.literal(inner) == cx.literal(value));
    let shape = cx.shape(id).clone();
    equal.then(|| cx.broadcast(id, shape, value, &[]))
}

/// A broadcast whose own dimensions are all padded, while others are not, is padded before the others are added.
fn of_broadcast(cx: &mut Cx<'_>, id: Id, operand: Id, value: Id, padding: &[PadDim]) -> Option<Id> {
    let inner = cx.of(operand, Opcode::Broadcast).filter(|_| cx.user_count(operand) == 1)?;
    let padded: Dims = (0..padding.len() as i64).filter(|&dim| padding[dim as usize] != PadDim::default()).collect();
    if padded.len() >= padding.len() || cx.rank(inner) > padded.len() {
        return None;
    }
    let position = |dim: &i64| padded.iter().position(|other| other == dim).map(|at| at as i64);
    let dims: Dims = cx.dimensions(operand).iter().map(position).collect::<Option<_>>()?;
    let sizes = |cx: &Cx<'_>, id: Id| -> Dims { padded.iter().map(|&dim| cx.dims(id)[dim as usize]).collect() };
    let element_type = cx.element_type(id);
    let (small, wide) = (sizes(cx, operand), sizes(cx, id));
    let narrow = cx.broadcast(operand, row_major(element_type, small), inner, &dims);
    let kept = padded.iter().map(|&dim| padding[dim as usize]).collect();
    let narrow = cx.pad(id, row_major(element_type, wide), narrow, value, kept);
    let shape = cx.shape(id).clone();
    Some(cx.broadcast(id, shape, narrow, &padded))
}

/// Negative padding is a slice of a pad.
fn negative(cx: &mut Cx<'_>, id: Id, operand: Id, value: Id, padding: &[PadDim]) -> Option<Id> {
    if padding.iter().all(|dim| dim.low >= 0 && dim.high >= 0) {
        return None;
    }
    let positive: Vec<PadDim> =
        padding.iter().map(|dim| PadDim { low: dim.low.max(0), high: dim.high.max(0), ..*dim }).collect();
    let mut array = cx.arr(id);
    for ((size, &from), dim) in array.dims.iter_mut().zip(&cx.dims(operand)).zip(&positive) {
        *size = from + dim.low + dim.high + (from - 1).max(0) * dim.interior;
    }
    let bounds = padding
        .iter()
        .zip(&array.dims)
        .map(|(dim, &size)| SliceDim { start: (-dim.low).max(0), limit: size + dim.high.min(0), stride: 1 })
        .collect();
    let padded = cx.pad(id, share(array), operand, value, positive);
    let shape = cx.shape(id).clone();
    Some(cx.slice(id, shape, padded, bounds))
}
