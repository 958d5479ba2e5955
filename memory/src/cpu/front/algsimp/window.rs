//! Windowed reductions.

use hlo_ir::attribute::{SliceDim, WindowDim};
use hlo_ir::shape::Dims;
use hlo_ir::{AttrKey, AttrValue, Opcode};

use super::super::build::share;
use super::super::cx::{Cx, Id};
use super::super::dims::delete_dims;
use super::slice::padding;

/// The window of a `reduce-window`.
pub(crate) fn window_of(cx: &Cx<'_>, id: Id) -> Vec<WindowDim> {
    match cx.inst(id).attribute(&AttrKey::Window) {
        Some(AttrValue::Window(window)) => window.to_vec(),
        _ => Vec::new(),
    }
}

fn is_plain(dim: &WindowDim) -> bool {
    dim.stride == 1 && dim.lhs_dilate == 1 && dim.rhs_dilate == 1
}

/// Rules for `reduce-window`.
pub(super) fn reduce_window(cx: &mut Cx<'_>, id: Id) -> Option<Id> {
    if cx.operands(id).len() != 2 {
        return None;
    }
    let (operand, init) = (cx.operand(id, 0), cx.operand(id, 1));
    let shape = cx.shape(id).clone();
    if cx.is_empty_array(operand) || cx.is_empty_array(id) {
        return Some(cx.broadcast(id, shape, init, &[]));
    }
    if cx.is_scalar(operand) {
        return Some(operand);
    }
    let window = window_of(cx, id);
    of_single_elements(cx, id, operand, init, &window)
        .or_else(|| whole_dims(cx, id, operand, init, &window))
        .or_else(|| of_pad(cx, id, operand, init, &window))
}

/// A window of one element is an elementwise operation with the initial value, and a pad.
fn of_single_elements(cx: &mut Cx<'_>, id: Id, operand: Id, init: Id, window: &[WindowDim]) -> Option<Id> {
    if !window.iter().all(|dim| dim.size == 1 && is_plain(dim) && !dim.reversed) {
        return None;
    }
    let combine = cx.binary_of_parameters(cx.to_apply(id)?)?;
    if !matches!(combine, Opcode::Add | Opcode::Minimum | Opcode::Maximum) {
        return None;
    }
    let shape = cx.shape(operand).clone();
    let wide = cx.broadcast(id, shape, init, &[]);
    let result = cx.binary(id, combine, operand, wide);
    if window.iter().all(|dim| dim.pad_low <= 0 && dim.pad_high <= 0) {
        return Some(result);
    }
    let pads = window.iter().map(|dim| hlo_ir::attribute::PadDim { low: dim.pad_low, high: dim.pad_high, interior: 0 });
    let (pads, shape) = (pads.collect(), cx.shape(id).clone());
    Some(cx.pad(id, shape, result, init, pads))
}

/// Windows that cover whole dimensions are a reduction.
fn whole_dims(cx: &mut Cx<'_>, id: Id, operand: Id, init: Id, window: &[WindowDim]) -> Option<Id> {
    if !window.iter().all(|dim| is_plain(dim) && dim.pad_low == 0 && dim.pad_high == 0) {
        return None;
    }
    let sizes = cx.dims(id);
    let mut dims = Dims::new();
    for (number, dim) in window.iter().enumerate() {
        match (dim.size, sizes[number]) {
            (1, _) => {}
            (_, 1) => dims.push(number as i64),
            _ => return None,
        }
    }
    if dims.is_empty() {
        return None;
    }
    reduce_and_reshape(cx, id, id, operand, init, &dims)
}

fn reduce_and_reshape(cx: &mut Cx<'_>, id: Id, window: Id, operand: Id, init: Id, dims: &[i64]) -> Option<Id> {
    let to_apply = cx.to_apply(window)?;
    let small = share(delete_dims(&cx.arr(window), dims));
    let reduced = cx.reduce_as(id, small, operand, init, dims, to_apply);
    let shape = cx.shape(id).clone();
    Some(cx.reshape(id, shape, reduced))
}

/// The last element of a running reduction over whole dimensions is a reduction.
pub(super) fn last_of_window(cx: &mut Cx<'_>, id: Id, operand: Id, taken: &[SliceDim]) -> Option<Id> {
    let window = window_of(cx, operand);
    let padded = window.iter().any(|dim| dim.pad_low != 0 || dim.pad_high != 0);
    if cx.operands(operand).len() != 2 || !cx.one_use(operand) || !padded || !window.iter().all(is_plain) {
        return None;
    }
    let (whole, part) = (cx.dims(operand), cx.dims(id));
    let mut dims = Dims::new();
    for (number, (dim, bounds)) in window.iter().zip(taken).enumerate() {
        if whole[number] != bounds.limit || dim.pad_low != bounds.start || dim.pad_high != 0 || bounds.stride != 1 {
            return None;
        }
        if dim.size == 1 && whole[number] == part[number] && bounds.start == 0 {
            continue;
        }
        if part[number] != 1 || whole[number] != dim.size {
            return None;
        }
        dims.push(number as i64);
    }
    if dims.is_empty() {
        return None;
    }
    let (input, init) = (cx.operand(operand, 0), cx.operand(operand, 1));
    reduce_and_reshape(cx, id, operand, input, init, &dims)
}

/// A pad with the initial value becomes part of the window.
fn of_pad(cx: &mut Cx<'_>, id: Id, operand: Id, init: Id, window: &[WindowDim]) -> Option<Id> {
    if cx.opcode(operand) != Opcode::Pad {
        return None;
    }
    let (inner, value) = (cx.operand(operand, 0), cx.operand(operand, 1));
    let same = value == init || (cx.is_constant(value) && cx.literal(value) == cx.literal(init));
    let pads = padding(cx, operand);
    let dilated = window.iter().any(|dim| dim.lhs_dilate != 1) && pads.iter().any(|pad| pad.interior != 0);
    if !same || dilated {
        return None;
    }
    let mut folded = window.to_vec();
    for (dim, pad) in folded.iter_mut().zip(&pads) {
        dim.pad_low += dim.lhs_dilate * pad.low;
        dim.pad_high += dim.lhs_dilate * pad.high;
        if pad.interior != 0 {
            dim.lhs_dilate = 1 + pad.interior;
        }
    }
    let (shape, to_apply) = (cx.shape(id).clone(), cx.to_apply(id)?);
    Some(cx.reduce_window(id, shape, &[inner, init], folded, to_apply))
}
