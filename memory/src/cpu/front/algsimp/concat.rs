//! Concatenations and reverses.

use hlo_ir::Opcode;
use hlo_ir::attribute::PadDim;
use hlo_ir::shape::Dims;

use super::super::build::{dimensions, row_major, share};
use super::super::cx::{Cx, Id};
use super::super::dims::ones_moved;
use super::slice::{bounds, is_unstrided};

/// Rules for `concatenate`.
pub(super) fn concatenate(cx: &mut Cx<'_>, id: Id) -> Option<Id> {
    let operands = cx.operands(id).to_vec();
    let dim = *cx.dimensions(id).first()?;
    if let [only] = operands[..] {
        return cx.if_same(id, only);
    }
    let full: Vec<Id> = operands.iter().copied().filter(|&operand| !cx.is_empty_array(operand)).collect();
    if full.len() < operands.len() {
        let new = match full[..] {
            [] => operands[0],
            [only] => only,
            _ => {
                let shape = cx.shape(id).clone();
                cx.like(id, shape, &full)
            }
        };
        return cx.if_same(id, new);
    }
    if cx.layout_sensitive {
        return None;
    }
    nested(cx, id, &operands, dim)
        .or_else(|| adjacent_slices(cx, id, &operands, dim as usize))
        .or_else(|| to_pad(cx, id, &operands, dim as usize))
        .or_else(|| repeated(cx, id, &operands, dim))
}

/// Concatenations along one dimension are one.
fn nested(cx: &mut Cx<'_>, id: Id, operands: &[Id], dim: i64) -> Option<Id> {
    let inner = |operand: Id| cx.opcode(operand) == Opcode::Concatenate && cx.dimensions(operand)[..] == [dim];
    if !operands.iter().any(|&operand| inner(operand)) {
        return None;
    }
    let flat: Vec<Id> = operands
        .iter()
        .flat_map(|operand| if inner(*operand) { cx.operands(*operand) } else { std::slice::from_ref(operand) })
        .copied()
        .collect();
    if flat.len() == operands.len() {
        return None;
    }
    let shape = cx.shape(id).clone();
    Some(cx.concatenate(id, shape, &flat, dim))
}

/// Slices of one array that lie next to each other are one slice.
fn adjacent_slices(cx: &mut Cx<'_>, id: Id, operands: &[Id], dim: usize) -> Option<Id> {
    let mut new = Vec::new();
    let mut at = 0;
    while at < operands.len() {
        let first = operands[at];
        let mut end = at + 1;
        if cx.opcode(first) == Opcode::Slice && is_unstrided(&bounds(cx, first)) {
            let mut taken = bounds(cx, first);
            let source = cx.operand(first, 0);
            while let Some(&next) = operands.get(end) {
                if cx.opcode(next) != Opcode::Slice || cx.operand(next, 0) != source {
                    break;
                }
                let other = bounds(cx, next);
                let beside = (0..taken.len()).all(|d| d == dim || other[d].start == taken[d].start);
                if !is_unstrided(&other) || other[dim].start != taken[dim].limit || !beside {
                    break;
                }
                taken[dim].limit = other[dim].limit;
                end += 1;
            }
            if end - at > 1 {
                let array = cx.arr(first).with_dim(dim, taken[dim].limit - taken[dim].start);
                new.push(cx.slice(first, share(array), source, taken));
                at = end;
                continue;
            }
        }
        new.push(first);
        at = end;
    }
    if new.len() == operands.len() {
        return None;
    }
    let shape = cx.shape(id).clone();
    let replacement = cx.like(id, shape, &new);
    cx.if_same(id, replacement)
}

/// An array beside a broadcast scalar is a pad.
fn to_pad(cx: &mut Cx<'_>, id: Id, operands: &[Id], dim: usize) -> Option<Id> {
    let &[left, right] = operands else { return None };
    let (array, filler, value, low) = match (cx.scalar_broadcast(left), cx.scalar_broadcast(right)) {
        (Some(value), _) => (right, left, value, true),
        (None, Some(value)) => (left, right, value, false),
        (None, None) => return None,
    };
    let size = cx.dims(filler)[dim];
    let mut padding = vec![PadDim::default(); cx.rank(id)];
    if low {
        padding[dim].low = size;
    } else {
        padding[dim].high = size;
    }
    let shape = cx.shape(id).clone();
    Some(cx.pad(id, shape, array, value, padding))
}

/// One array of size 1 repeated is a broadcast.
fn repeated(cx: &mut Cx<'_>, id: Id, operands: &[Id], dim: i64) -> Option<Id> {
    let first = operands[0];
    if operands.iter().any(|&operand| operand != first) || cx.dims(first)[dim as usize] != 1 {
        return None;
    }
    let array = cx.arr(first);
    let kept: Dims = (0..array.rank() as i64).filter(|&d| d != dim).collect();
    let small = row_major(array.element_type, kept.iter().map(|&d| array.dims[d as usize]));
    let small = cx.reshape(first, small, first);
    let shape = cx.shape(id).clone();
    Some(cx.broadcast(id, shape, small, &kept))
}

/// Rules for `reverse`.
pub(super) fn reverse(cx: &mut Cx<'_>, id: Id) -> Option<Id> {
    let (operand, dims, sizes) = (cx.operand(id, 0), cx.dimensions(id), cx.dims(id));
    if dims.iter().all(|&dim| sizes[dim as usize] == 1) {
        return Some(operand);
    }
    if cx.layout_sensitive {
        return None;
    }
    match cx.opcode(operand) {
        Opcode::Reverse => of_reverse(cx, id, operand, &dims),
        Opcode::Reshape => of_reshape(cx, id, operand, &dims),
        Opcode::Compare => None,
        opcode if opcode.is_elementwise() && cx.operands(operand).len() == 2 => of_binary(cx, id, operand, &dims),
        _ => None,
    }
}

fn make_reverse(cx: &mut Cx<'_>, at: Id, operand: Id, dims: &[i64]) -> Id {
    let shape = cx.shape(operand).clone();
    cx.make(at, shape, Opcode::Reverse, &[operand], [dimensions(dims.iter().copied())])
}

/// Two reverses leave the dimensions that only one of them reverses.
fn of_reverse(cx: &mut Cx<'_>, id: Id, operand: Id, dims: &[i64]) -> Option<Id> {
    let (inner, other) = (cx.operand(operand, 0), cx.dimensions(operand));
    let mut left: Dims = dims.iter().filter(|dim| !other.contains(dim)).copied().collect();
    left.extend(other.iter().filter(|dim| !dims.contains(dim)).copied());
    left.sort_unstable();
    Some(if left.is_empty() { inner } else { make_reverse(cx, id, inner, &left) })
}

/// A reverse of an operation with a broadcast scalar moves to the other operand.
fn of_binary(cx: &mut Cx<'_>, id: Id, operand: Id, dims: &[i64]) -> Option<Id> {
    let &[a, b] = cx.operands(operand) else { return None };
    let (opcode, shape) = (cx.opcode(operand), cx.shape(operand).clone());
    let (a, b) = if cx.scalar_broadcast(a).is_some() {
        (a, make_reverse(cx, id, b, dims))
    } else if cx.scalar_broadcast(b).is_some() {
        (make_reverse(cx, id, a, dims), b)
    } else {
        return None;
    };
    Some(cx.elementwise(id, shape, opcode, &[a, b]))
}

/// A reverse of a reshape that only inserts dimensions of size 1 goes before it.
fn of_reshape(cx: &mut Cx<'_>, id: Id, operand: Id, dims: &[i64]) -> Option<Id> {
    let (inner, sizes) = (cx.operand(operand, 0), cx.dims(operand));
    let moved = ones_moved(&cx.dims(inner), &sizes).filter(|moved| moved.deleted.is_empty())?;
    let before = |dim: i64| moved.inserted.iter().filter(|&&inserted| inserted < dim).count() as i64;
    let new: Dims = dims.iter().filter(|&&dim| sizes[dim as usize] != 1).map(|&dim| dim - before(dim)).collect();
    let reversed = make_reverse(cx, id, inner, &new);
    let shape = cx.shape(operand).clone();
    Some(cx.reshape(id, shape, reversed))
}
