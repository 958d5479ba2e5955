//! What XLA:GPU writes out of the windows of convolutions, because cuDNN pads both ends alike and dilates no input: arrays with the padding in them.
//!
//! Source: `ConvPaddingLegalization`, and `ConvRewriter` for the padding of gradients (xla/service/gpu/transforms).

use std::sync::Arc;

use hlo_ir::attribute::{PadDim, SliceDim, WindowDim};
use hlo_ir::{AttrKey, AttrValue, ConvDims, Opcode};

use super::super::build::row_major;
use super::super::cx::{Cx, Id};
use super::super::value::Scalar;
use super::super::visit::each;
use super::cudnn::{Kind, kind};

/// Writes padding out; returns whether there was any.
pub(crate) fn run(cx: &mut Cx<'_>) -> bool {
    each(cx, Opcode::Convolution, |cx, id| {
        let dims = ConvDims::of(cx.inst(id))?;
        let AttrValue::Window(window) = cx.inst(id).attribute(&AttrKey::Window)? else { return None };
        let window = window.to_vec();
        let turned = dims.kernel_input < dims.kernel_output;
        match kind(cx, id, &dims) {
            Some(Kind::Kernel) => of_kernel_gradient(cx, id, &dims, window),
            Some(Kind::Input) => of_input_gradient(cx, id, &dims, window),
            _ if turned && window.iter().all(|dim| dim.stride == 1) => of_input_gradient(cx, id, &dims, window),
            _ => of_forward(cx, id, &dims, window),
        }
    })
}

/// A forward convolution has all of its padding and dilation written out, if the two ends differ or there is dilation.
fn of_forward(cx: &mut Cx<'_>, id: Id, dims: &ConvDims, mut window: Vec<WindowDim>) -> Option<Id> {
    if window.iter().all(|dim| dim.pad_low == dim.pad_high && dim.lhs_dilate == 1) {
        return None;
    }
    let mut padding = Vec::new();
    for dim in &mut window {
        padding.push(PadDim { low: dim.pad_low, high: dim.pad_high, interior: dim.lhs_dilate - 1 });
        (dim.pad_low, dim.pad_high, dim.lhs_dilate) = (0, 0, 1);
    }
    Some(padded(cx, id, dims, window, &padding))
}

/// A gradient for the kernel has written out what one end has more than the other. One of a dilated input is no such call: its input is dilated.
fn of_kernel_gradient(cx: &mut Cx<'_>, id: Id, dims: &ConvDims, mut window: Vec<WindowDim>) -> Option<Id> {
    let mut padding = Vec::new();
    let (input, result) = (cx.dims(cx.operand(id, 0)), cx.dims(id));
    for (at, dim) in window.iter_mut().enumerate() {
        if dim.lhs_dilate != 1 {
            padding.push(PadDim { interior: dim.lhs_dilate - 1, ..PadDim::default() });
            dim.lhs_dilate = 1;
            continue;
        }
        let whole = result[dims.output_spatial[at]] + (dim.size - 1) * dim.rhs_dilate;
        let high = other_end(dim.pad_low, whole - input[dims.input_spatial[at]], dim.rhs_dilate);
        let even = dim.pad_low.min(high);
        padding.push(PadDim { low: dim.pad_low - even, high: high - even, interior: 0 });
        (dim.pad_low, dim.pad_high) = (even, dim.pad_high - (high - even));
    }
    padding.iter().any(|pad| *pad != PadDim::default()).then(|| padded(cx, id, dims, window, &padding))
}

/// A gradient for the input is computed with what one end has more than the other, which is cut off again.
fn of_input_gradient(cx: &mut Cx<'_>, id: Id, dims: &ConvDims, mut window: Vec<WindowDim>) -> Option<Id> {
    let (input, result) = (cx.dims(cx.operand(id, 0)), cx.dims(id));
    let mut larger = result.clone();
    let mut bounds: Vec<SliceDim> = result.iter().map(|&size| SliceDim::full(size)).collect();
    for (at, dim) in window.iter_mut().enumerate() {
        let (from, to) = (dims.input_spatial[at], dims.output_spatial[at]);
        let low = dim.size - 1 - dim.pad_low;
        let whole = dim.size + (input[from] - 1) * dim.lhs_dilate;
        let high = other_end(low, whole - result[to], dim.lhs_dilate);
        if low < 0 || high < 0 {
            return None;
        }
        let even = low.min(high);
        larger[to] += low + high - 2 * even;
        bounds[to] = SliceDim { start: low - even, limit: low - even + result[to], ..bounds[to] };
        (dim.pad_low, dim.pad_high) = (dim.pad_low + low - even, dim.pad_high + high - even);
    }
    if larger == result {
        return None;
    }
    let operands = cx.operands(id).to_vec();
    let shape = cx.shape(id).clone();
    let element_type = cx.arr(id).element_type;
    let new = cx.like(id, row_major(element_type, larger), &operands);
    cx.set_attribute(new, AttrKey::Window, AttrValue::Window(Arc::new(window)));
    Some(cx.slice(id, shape, new, bounds))
}

/// Padding of the other end of a gradient's window, where both together are `all` at least and less than that and a stride: as much as the first end has, if
/// that is possible.
fn other_end(low: i64, all: i64, stride: i64) -> i64 {
    let least = all - low;
    low.clamp(least, least + stride - 1)
}

/// The convolution with its input padded, and what is left to its window.
fn padded(cx: &mut Cx<'_>, id: Id, dims: &ConvDims, window: Vec<WindowDim>, padding: &[PadDim]) -> Id {
    let input = cx.operand(id, 0);
    let array = cx.arr(input);
    let (mut sizes, mut all) = (array.dims.clone(), vec![PadDim::default(); array.dims.len()]);
    for (&dim, &pad) in dims.input_spatial.iter().zip(padding) {
        sizes[dim] += pad.low + pad.high + (sizes[dim] - 1).max(0) * pad.interior;
        all[dim] = pad;
    }
    let zero = cx.constant(id, array.element_type, Scalar::of(array.element_type, 0.0));
    let wide = cx.pad(id, row_major(array.element_type, sizes), input, zero, all);
    let mut operands = cx.operands(id).to_vec();
    operands[0] = wide;
    let shape = cx.shape(id).clone();
    let new = cx.like(id, shape, &operands);
    cx.set_attribute(new, AttrKey::Window, AttrValue::Window(Arc::new(window)));
    new
}
