//! Slices and updates at computed positions.

use hlo_ir::Opcode;
use hlo_ir::attribute::{PadDim, SliceDim};
use hlo_ir::shape::Dims;

use super::super::build::{row_major, share};
use super::super::cx::{Cx, Id};
use super::super::dims::{inverse, ones_moved, permute};

/// Rules for `dynamic-slice`.
pub(super) fn dynamic_slice(cx: &mut Cx<'_>, id: Id) -> Option<Id> {
    let operand = cx.operand(id, 0);
    if cx.is_scalar(id) || cx.same_shape(operand, id) {
        return Some(operand);
    }
    let starts = cx.operands(id)[1..].to_vec();
    if starts.len() != cx.rank(operand) {
        return None;
    }
    whole_dims_to_zero(cx, id, operand, 1)
        .or_else(|| of_broadcast(cx, id, operand, &starts))
        .or_else(|| of_reshape(cx, id, operand, &starts))
        .or_else(|| of_transpose(cx, id, operand, &starts))
        .or_else(|| to_slice(cx, id, operand, &starts))
        .or_else(|| of_iota(cx, id, operand, &starts))
        .or_else(|| of_dynamic_slice(cx, id, operand, &starts))
}

/// A start in a dimension that is taken whole is zero. `first` is the operand number of the first start.
fn whole_dims_to_zero(cx: &mut Cx<'_>, id: Id, part: Id, first: usize) -> Option<Id> {
    let (sizes, whole) = (cx.dims(part), cx.dims(id));
    let starts = cx.operands(id)[first..].to_vec();
    let is_zero = |start: Id| cx.is_constant(start) && cx.is_all(start, 0);
    let free: Vec<usize> = (0..sizes.len()).filter(|&dim| !is_zero(starts[dim]) && sizes[dim] == whole[dim]).collect();
    if free.is_empty() {
        return None;
    }
    let zero = cx.scalar_like(starts[0], 0.0);
    let mut operands = cx.operands(id).to_vec();
    for dim in free {
        operands[first + dim] = zero;
    }
    let shape = cx.shape(id).clone();
    Some(cx.like(id, shape, &operands))
}

/// A slice of a broadcast is a broadcast of a slice.
fn of_broadcast(cx: &mut Cx<'_>, id: Id, operand: Id, starts: &[Id]) -> Option<Id> {
    let inner = cx.of(operand, Opcode::Broadcast)?;
    let (dims, sizes) = (cx.dimensions(operand), cx.dims(id));
    let mut part = inner;
    if !dims.is_empty() {
        let mut array = cx.arr(inner);
        array.dims = dims.iter().map(|&dim| sizes[dim as usize]).collect();
        let inner_starts = permute(starts, &dims);
        part = cx.dynamic_slice(id, share(array), inner, &inner_starts);
    }
    let shape = cx.shape(id).clone();
    Some(cx.broadcast(operand, shape, part, &dims))
}

/// A slice of an array whose dimensions of size 1 were moved is such a reshape of a slice.
fn of_reshape(cx: &mut Cx<'_>, id: Id, operand: Id, starts: &[Id]) -> Option<Id> {
    let inner = cx.of(operand, Opcode::Reshape)?;
    let (from, to, sizes) = (cx.dims(inner), cx.dims(operand), cx.dims(id));
    if cx.layout_sensitive || ones_moved(&from, &to).is_none() {
        return None;
    }
    let zero = cx.scalar_like(starts[0], 0.0);
    let (mut new_starts, mut new_sizes) = (Vec::new(), Dims::new());
    let mut real = (0..to.len()).filter(|&dim| to[dim] != 1);
    for &size in &from {
        let dim = if size == 1 { None } else { Some(real.next()?) };
        new_starts.push(dim.map_or(zero, |dim| starts[dim]));
        new_sizes.push(dim.map_or(1, |dim| sizes[dim]));
    }
    let shape = row_major(cx.element_type(id), new_sizes);
    let part = cx.dynamic_slice(id, shape, inner, &new_starts);
    let shape = cx.shape(id).clone();
    Some(cx.reshape(id, shape, part))
}

/// A slice of a transpose is a transpose of a slice.
fn of_transpose(cx: &mut Cx<'_>, id: Id, operand: Id, starts: &[Id]) -> Option<Id> {
    let inner = cx.of(operand, Opcode::Transpose).filter(|_| !cx.layout_sensitive)?;
    let permutation = cx.dimensions(operand);
    let back = inverse(&permutation);
    let array = super::super::dims::permute_shape(&cx.arr(id), &back);
    let part = cx.dynamic_slice(id, share(array), inner, &permute(starts, &back));
    let shape = cx.shape(id).clone();
    Some(cx.transpose_as(id, shape, part, &permutation))
}

/// Constant starts make a plain slice.
fn to_slice(cx: &mut Cx<'_>, id: Id, operand: Id, starts: &[Id]) -> Option<Id> {
    if cx.is_constant(operand) {
        return None;
    }
    let (whole, sizes) = (cx.dims(operand), cx.dims(id));
    let mut bounds = Vec::new();
    for (dim, &start) in starts.iter().enumerate() {
        let start = cx.int(start).filter(|&start| start >= 0)?.min(whole[dim] - sizes[dim]);
        bounds.push(SliceDim { start, limit: start + sizes[dim], stride: 1 });
    }
    let shape = cx.shape(id).clone();
    Some(cx.slice(id, shape, operand, bounds))
}

/// One element of an iota (times a constant) is its clamped position.
fn of_iota(cx: &mut Cx<'_>, id: Id, operand: Id, starts: &[Id]) -> Option<Id> {
    use hlo_ir::ElementType as T;
    let narrow = |t: T| matches!(t, T::S32 | T::U32);
    let (index, element_type) = (*starts.first()?, cx.element_type(id));
    if cx.rank(operand) != 1 || cx.elements(id) != 1 || !narrow(element_type) || !narrow(cx.element_type(index)) {
        return None;
    }
    let scaled = cx.both(operand, Opcode::Multiply).and_then(|(x, y)| Some((x, cx.scalar_broadcast(y)?)));
    let (iota, factor) = scaled.map_or((operand, None), |(x, factor)| (x, Some(factor)));
    if cx.opcode(iota) != Opcode::Iota {
        return None;
    }
    let (low, high) = (cx.scalar_like(index, 0.0), cx.scalar_like(index, (cx.dims(iota)[0] - 1) as f64));
    let shape = cx.shape(index).clone();
    let mut value = cx.elementwise(id, shape, Opcode::Clamp, &[low, index, high]);
    if cx.element_type(index) != element_type {
        value = cx.convert(id, value, element_type);
    }
    if let Some(factor) = factor {
        value = cx.binary(id, Opcode::Multiply, value, factor);
    }
    let shape = cx.shape(id).clone();
    Some(cx.reshape(id, shape, value))
}

/// A slice of a slice is one slice at the sum of both starts.
fn of_dynamic_slice(cx: &mut Cx<'_>, id: Id, operand: Id, starts: &[Id]) -> Option<Id> {
    let inner = cx.of(operand, Opcode::DynamicSlice)?;
    let (whole, sizes) = (cx.dims(inner), cx.dims(id));
    cx.replace_operand(id, 0, inner);
    for (dim, &start) in starts.iter().enumerate() {
        let inner_start = cx.operand(operand, dim + 1);
        let sum = clamped_sum(cx, start, inner_start, whole[dim] - sizes[dim]);
        cx.replace_operand(id, dim + 1, sum);
    }
    Some(id)
}

/// `outer + clamp(0, inner, most)` in the type of `outer`.
fn clamped_sum(cx: &mut Cx<'_>, outer: Id, inner: Id, most: i64) -> Id {
    let (low, high) = (cx.scalar_like(inner, 0.0), cx.scalar_like(inner, most as f64));
    let shape = cx.shape(inner).clone();
    let mut clamped = cx.elementwise(inner, shape, Opcode::Clamp, &[low, inner, high]);
    if cx.element_type(inner) != cx.element_type(outer) {
        clamped = cx.convert(inner, clamped, cx.element_type(outer));
    }
    cx.binary(inner, Opcode::Add, outer, clamped)
}

/// Rules for `dynamic-update-slice`.
pub(super) fn dynamic_update_slice(cx: &mut Cx<'_>, id: Id) -> Option<Id> {
    let (whole, part) = (cx.operand(id, 0), cx.operand(id, 1));
    let starts = cx.operands(id)[2..].to_vec();
    if starts.len() != cx.rank(whole) {
        return None;
    }
    if let Some(pad) = to_pad(cx, id, whole, part, &starts) {
        return Some(pad);
    }
    if cx.same_shape(id, part) {
        return Some(part);
    }
    if let Some(new) = whole_dims_to_zero(cx, id, part, 2) {
        return Some(new);
    }
    if cx.is_empty_array(part) {
        return Some(whole);
    }
    update_of_update(cx, id, whole, part, &starts)
}

/// An update of a broadcast scalar at constant starts is a pad.
fn to_pad(cx: &mut Cx<'_>, id: Id, whole: Id, part: Id, starts: &[Id]) -> Option<Id> {
    let value = cx.scalar_broadcast(whole)?;
    let (sizes, parts) = (cx.dims(whole), cx.dims(part));
    let mut padding = Vec::new();
    for (dim, &start) in starts.iter().enumerate() {
        let low = cx.int(start)?.max(0).min(sizes[dim] - parts[dim]);
        padding.push(PadDim { low, high: sizes[dim] - low - parts[dim], interior: 0 });
    }
    let shape = cx.shape(whole).clone();
    Some(cx.pad(id, shape, part, value, padding))
}

/// `update(A, update(A[at], C, inner), at) = update(A, C, at + inner)`
fn update_of_update(cx: &mut Cx<'_>, id: Id, whole: Id, part: Id, starts: &[Id]) -> Option<Id> {
    if cx.opcode(part) != Opcode::DynamicUpdateSlice {
        return None;
    }
    let old = cx.operand(part, 0);
    let reads_same = cx.of(old, Opcode::DynamicSlice) == Some(whole) && cx.operands(old)[1..] == *starts;
    if !reads_same {
        return None;
    }
    let (sizes, inner) = (cx.dims(part), cx.operand(part, 1));
    let inner_sizes = cx.dims(inner);
    let inner_starts = cx.operands(part)[2..].to_vec();
    cx.replace_operand(id, 1, inner);
    for (dim, &start) in starts.iter().enumerate() {
        let sum = clamped_sum(cx, start, inner_starts[dim], sizes[dim] - inner_sizes[dim]);
        cx.replace_operand(id, dim + 2, sum);
    }
    Some(id)
}
