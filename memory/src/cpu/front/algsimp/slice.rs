//! Slices with constant bounds.

use hlo_ir::attribute::{PadDim, SliceDim};
use hlo_ir::shape::Dims;
use hlo_ir::{AttrKey, AttrValue, Opcode};

use super::super::build::{row_major, share};
use super::super::cx::{Cx, Id};
use super::window;

/// The bounds of a slice.
pub(super) fn bounds(cx: &Cx<'_>, id: Id) -> Vec<SliceDim> {
    match cx.inst(id).attribute(&AttrKey::Slice) {
        Some(AttrValue::Slice(bounds)) => bounds.to_vec(),
        _ => Vec::new(),
    }
}

/// The padding of a pad.
pub(super) fn padding(cx: &Cx<'_>, id: Id) -> Vec<PadDim> {
    match cx.inst(id).attribute(&AttrKey::Padding) {
        Some(AttrValue::Padding(padding)) => padding.to_vec(),
        _ => Vec::new(),
    }
}

/// Whether a slice takes every element between its bounds.
pub(super) fn is_unstrided(bounds: &[SliceDim]) -> bool {
    bounds.iter().all(|dim| dim.stride == 1)
}

/// Rules for `slice`.
pub(super) fn slice(cx: &mut Cx<'_>, id: Id) -> Option<Id> {
    let operand = cx.operand(id, 0);
    if let Some(same) = cx.if_same(id, operand) {
        return Some(same);
    }
    let taken = bounds(cx, id);
    let found = match cx.opcode(operand) {
        Opcode::Pad => of_pad(cx, id, operand, &taken),
        Opcode::Slice => of_slice(cx, id, operand, &taken),
        Opcode::Broadcast => of_broadcast(cx, id, operand, &taken),
        Opcode::Concatenate => {
            element_of_concatenate(cx, id, operand, &taken).or_else(|| of_concatenate(cx, id, operand, &taken))
        }
        Opcode::ReduceWindow => window::last_of_window(cx, id, operand, &taken),
        Opcode::Reshape => prefix_of_reshape(cx, id, operand, &taken),
        Opcode::Reverse => of_reverse(cx, id, operand, &taken),
        _ => None,
    };
    found.or_else(|| useless_stride(cx, id, operand, &taken))
}

/// A slice of a pad takes only padding, exactly the operand, or a part of the operand.
fn of_pad(cx: &mut Cx<'_>, id: Id, pad: Id, taken: &[SliceDim]) -> Option<Id> {
    let (inner, value) = (cx.operand(pad, 0), cx.operand(pad, 1));
    let (sizes, padding) = (cx.dims(pad), padding(cx, pad));
    let (mut undoes, mut inside) = (true, true);
    let mut moved = taken.to_vec();
    for ((dim, pad), (&size, moved)) in taken.iter().zip(&padding).zip(sizes.iter().zip(&mut moved)) {
        let edge = size - pad.high;
        if dim.limit <= pad.low || dim.start >= edge {
            let shape = cx.shape(id).clone();
            return Some(cx.broadcast(id, shape, value, &[]));
        }
        undoes &= dim.start == pad.low && dim.stride - 1 == pad.interior;
        inside &= dim.start >= pad.low && dim.limit <= edge && pad.interior == 0 && dim.stride == 1;
        moved.start -= pad.low;
        moved.limit -= pad.low;
    }
    if undoes && let Some(same) = cx.if_same(id, inner) {
        return Some(same);
    }
    let shape = cx.shape(id).clone();
    inside.then(|| cx.slice(id, shape, inner, moved))
}

/// A slice of a slice is one slice.
fn of_slice(cx: &mut Cx<'_>, id: Id, operand: Id, taken: &[SliceDim]) -> Option<Id> {
    let inner = bounds(cx, operand);
    if !is_unstrided(taken) || !is_unstrided(&inner) {
        return None;
    }
    let add = |(outer, inner): (&SliceDim, &SliceDim)| SliceDim {
        start: outer.start + inner.start,
        limit: outer.limit + inner.start,
        stride: 1,
    };
    let both = taken.iter().zip(&inner).map(add).collect();
    let (shape, source) = (cx.shape(id).clone(), cx.operand(operand, 0));
    Some(cx.slice(id, shape, source, both))
}

/// A slice of a broadcast is a broadcast of a slice, or of the operand itself if none of its dimensions is cut.
fn of_broadcast(cx: &mut Cx<'_>, id: Id, operand: Id, taken: &[SliceDim]) -> Option<Id> {
    let (inner, dims) = (cx.operand(operand, 0), cx.dimensions(operand));
    let sizes = cx.dims(operand);
    let shape = cx.shape(id).clone();
    if dims.iter().all(|&dim| taken[dim as usize].is_full(sizes[dim as usize])) {
        return Some(cx.broadcast(id, shape, inner, &dims));
    }
    let part: Vec<SliceDim> = dims.iter().map(|&dim| taken[dim as usize]).collect();
    let mut array = cx.arr(inner);
    for (size, dim) in array.dims.iter_mut().zip(&part) {
        *size = (dim.limit - dim.start + dim.stride - 1) / dim.stride;
    }
    let small = cx.slice(id, share(array), inner, part);
    Some(cx.broadcast(operand, shape, small, &dims))
}

/// One element of a concatenation of vectors comes from one of them.
fn element_of_concatenate(cx: &mut Cx<'_>, id: Id, operand: Id, taken: &[SliceDim]) -> Option<Id> {
    if cx.rank(id) != 1 || !cx.is_effective_scalar(id) {
        return None;
    }
    let at = taken[0].start;
    let mut start = 0;
    for piece in cx.operands(operand).to_vec() {
        let end = start + cx.dims(piece)[0];
        if end > at {
            if let Some(same) = cx.if_same(id, piece) {
                return Some(same);
            }
            let bounds = SliceDim { start: at - start, limit: at - start + 1, stride: taken[0].stride };
            let shape = cx.shape(id).clone();
            return Some(cx.slice(id, shape, piece, vec![bounds]));
        }
        start = end;
    }
    None
}

/// A slice that needs only some pieces of a concatenation is a slice of those.
fn of_concatenate(cx: &mut Cx<'_>, id: Id, operand: Id, taken: &[SliceDim]) -> Option<Id> {
    if !is_unstrided(taken) {
        return None;
    }
    let dim = *cx.dimensions(operand).first()? as usize;
    let pieces = cx.operands(operand).to_vec();
    let (mut at, mut first, mut end) = (0, None, None);
    for (index, &piece) in pieces.iter().enumerate() {
        let size = cx.dims(piece)[dim];
        if first.is_none() && at <= taken[dim].start && at + size > taken[dim].start {
            first = Some((index, at));
        }
        at += size;
        if at >= taken[dim].limit {
            end = Some(index + 1);
            break;
        }
    }
    let ((first, start), end) = (first?, end?);
    if first + 1 == end && cx.same_shape(id, pieces[first]) {
        return Some(pieces[first]);
    }
    if end - first >= pieces.len() {
        return None;
    }
    let mut source = pieces[first];
    if first + 1 != end {
        let size = pieces[first..end].iter().map(|&piece| cx.dims(piece)[dim]).sum();
        let array = cx.arr(operand).with_dim(dim, size);
        source = cx.concatenate(operand, share(array), &pieces[first..end], dim as i64);
    }
    let mut moved = taken.to_vec();
    moved[dim].start -= start;
    moved[dim].limit -= start;
    let shape = cx.shape(id).clone();
    Some(cx.slice(id, shape, source, moved))
}

/// The first elements of a reshaped array are a reshape of its first rows.
///
/// Source: `TryToReorderSliceAndReshape`.
fn prefix_of_reshape(cx: &mut Cx<'_>, id: Id, operand: Id, taken: &[SliceDim]) -> Option<Id> {
    let sizes = cx.dims(operand);
    let cut: Vec<usize> = (0..taken.len()).filter(|&dim| !taken[dim].is_full(sizes[dim])).collect();
    if cx.layout_sensitive || cut != [0] || !is_unstrided(taken) || taken[0].start != 0 {
        return None;
    }
    let inner = cx.operand(operand, 0);
    let mut limits: Dims = cx.dims(inner);
    let mut left = cx.elements(id) as i64;
    for limit in limits.iter_mut().rev() {
        if left < *limit {
            *limit = left;
            left = 1;
        } else if *limit == 0 || left % *limit != 0 {
            return None;
        } else {
            left /= *limit;
        }
    }
    let bounds = limits.iter().map(|&limit| SliceDim::full(limit)).collect();
    let shape = row_major(cx.element_type(inner), limits);
    let part = cx.slice(id, shape, inner, bounds);
    let shape = cx.shape(id).clone();
    Some(cx.reshape(id, shape, part))
}

/// A slice of a reverse is a reverse of the mirrored slice.
fn of_reverse(cx: &mut Cx<'_>, id: Id, operand: Id, taken: &[SliceDim]) -> Option<Id> {
    let (inner, dims, sizes) = (cx.operand(operand, 0), cx.dimensions(operand), cx.dims(operand));
    let mut mirrored = taken.to_vec();
    for &dim in &dims {
        let (SliceDim { start, limit, stride }, size) = (taken[dim as usize], sizes[dim as usize]);
        let last = start + (limit - start - 1) / stride * stride;
        let bounds = &mut mirrored[dim as usize];
        bounds.start = (size - start) - (last + 1 - start);
        bounds.limit = size - start;
    }
    let shape = cx.shape(id).clone();
    let part = cx.slice(id, shape.clone(), inner, mirrored);
    let dims = super::super::build::dimensions(dims);
    Some(cx.make(id, shape, Opcode::Reverse, &[part], [dims]))
}

/// A stride that is never taken is 1.
fn useless_stride(cx: &mut Cx<'_>, id: Id, operand: Id, taken: &[SliceDim]) -> Option<Id> {
    let mut bounds = taken.to_vec();
    for dim in &mut bounds {
        if dim.stride != 1 && (dim.stride >= dim.limit || dim.start + dim.stride >= dim.limit) {
            dim.limit = dim.start + 1;
            dim.stride = 1;
        }
    }
    let shape = cx.shape(id).clone();
    (bounds != taken).then(|| cx.slice(id, shape, operand, bounds))
}
