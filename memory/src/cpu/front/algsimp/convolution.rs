//! Convolutions: padding they can do themselves, and those that are matrix products.

use std::sync::Arc;

use hlo_ir::attribute::{PadDim, WindowDim};
use hlo_ir::{AttrKey, AttrValue, Attribute, ConvDims, Opcode};

use super::super::build::row_major;
use super::super::cx::{Cx, Id};

/// The rules for `convolution`.
pub(super) fn convolution(cx: &mut Cx<'_>, id: Id) -> Option<Id> {
    let dims = ConvDims::of(cx.inst(id)).filter(|_| cx.operands(id).len() == 2)?;
    let AttrValue::Window(window) = cx.inst(id).attribute(&AttrKey::Window)? else { return None };
    let window = window.clone();
    if cx.is_empty_array(cx.operand(id, 0)) || cx.is_empty_array(cx.operand(id, 1)) {
        return Some(cx.scalar_like(id, 0.0));
    }
    take_input_padding(cx, id, &dims, &window)
        .or_else(|| take_kernel_dilation(cx, id, &dims, &window))
        .or_else(|| matrix_product(cx, id, &dims, &window))
}

/// The padding of a `pad` with zeros.
fn zero_padding(cx: &Cx<'_>, id: Id) -> Option<(Id, Vec<PadDim>)> {
    let source = cx.of(id, Opcode::Pad)?;
    let Some(AttrValue::Padding(padding)) = cx.inst(id).attribute(&AttrKey::Padding) else { return None };
    cx.is_all(cx.operand(id, 1), 0).then(|| (source, padding.to_vec()))
}

fn with_window(cx: &mut Cx<'_>, id: Id, operands: &[Id], window: Vec<WindowDim>) -> Id {
    let shape = cx.shape(id).clone();
    let new = cx.like(id, shape, operands);
    cx.set_attribute(new, AttrKey::Window, AttrValue::Window(Arc::new(window)));
    new
}

/// `convolution(pad(A), B)` pads by its window instead.
///
/// Source: `FoldConvInputPad`.
fn take_input_padding(cx: &mut Cx<'_>, id: Id, dims: &ConvDims, window: &[WindowDim]) -> Option<Id> {
    let (source, padding) = zero_padding(cx, cx.operand(id, 0))?;
    let nothing = PadDim::default();
    if padding[dims.input_batch] != nothing || padding[dims.input_feature] != nothing {
        return None;
    }
    let mut window = window.to_vec();
    for (of_window, &dim) in window.iter_mut().zip(&dims.input_spatial) {
        let pad = padding[dim];
        let padded = of_window.pad_low != 0 || of_window.pad_high != 0;
        if (pad.interior != 0 && (padded || of_window.lhs_dilate != 1)) || (of_window.lhs_dilate != 1 && pad != nothing)
        {
            return None;
        }
        of_window.pad_low += pad.low;
        of_window.pad_high += pad.high;
        of_window.lhs_dilate += pad.interior;
    }
    let kernel = cx.operand(id, 1);
    Some(with_window(cx, id, &[source, kernel], window))
}

/// `convolution(A, pad(B))` dilates its window instead, where the padding lies between elements.
///
/// Source: `FoldConvFilterPad`.
fn take_kernel_dilation(cx: &mut Cx<'_>, id: Id, dims: &ConvDims, window: &[WindowDim]) -> Option<Id> {
    let (source, padding) = zero_padding(cx, cx.operand(id, 1))?;
    let nothing = PadDim::default();
    if padding[dims.kernel_input] != nothing || padding[dims.kernel_output] != nothing {
        return None;
    }
    let mut window = window.to_vec();
    for (of_window, &dim) in window.iter_mut().zip(&dims.kernel_spatial) {
        let pad = padding[dim];
        if pad.low != 0 || pad.high != 0 || (pad.interior != 0 && of_window.rhs_dilate > 1) {
            return None;
        }
        if pad.interior != 0 {
            of_window.rhs_dilate = 1 + pad.interior;
            of_window.size = cx.dims(source)[dim];
        }
    }
    let input = cx.operand(id, 0);
    Some(with_window(cx, id, &[input, source], window))
}

/// After layout assignment: a convolution with a window of one element, features last, is a matrix product.
///
/// Source: `SimplifyConvToDot`.
fn matrix_product(cx: &mut Cx<'_>, id: Id, dims: &ConvDims, window: &[WindowDim]) -> Option<Id> {
    let (lhs, rhs) = (cx.operand(id, 0), cx.operand(id, 1));
    let (input, kernel, output) = (cx.arr(lhs), cx.arr(rhs), cx.arr(id));
    let plain = |dim: &WindowDim| dim.stride == 1 && dim.pad_low == 0 && dim.pad_high == 0 && dim.lhs_dilate == 1;
    let order = kernel.minor_to_major();
    let place = |dim: usize| order.iter().position(|&other| other == dim as i64);
    let groups = |key| cx.inst(id).int(key).unwrap_or(1);
    if !cx.layout_sensitive
        || dims.kernel_spatial.iter().any(|&dim| kernel.dims[dim] != 1)
        || !window.iter().all(plain)
        || input.minor_to_major() != output.minor_to_major()
        || input.minor_to_major().first() != Some(&(dims.input_feature as i64))
        || output.minor_to_major().first() != Some(&(dims.output_feature as i64))
        || place(dims.kernel_input) < place(dims.kernel_output)
        || groups(&AttrKey::FeatureGroupCount) != 1
        || groups(&AttrKey::BatchGroupCount) != 1
    {
        return None;
    }
    let (from, to) = (input.dims[dims.input_feature], kernel.dims[dims.kernel_output]);
    let rows = (0..input.rank()).filter(|&dim| dim != dims.input_feature).map(|dim| input.dims[dim]).product();
    let left = cx.elementwise(id, row_major(input.element_type, [rows, from]), Opcode::Bitcast, &[lhs]);
    let right = cx.elementwise(id, row_major(kernel.element_type, [from, to]), Opcode::Bitcast, &[rhs]);
    let contracting =
        [Attribute::ints(AttrKey::LhsContractingDims, [1]), Attribute::ints(AttrKey::RhsContractingDims, [0])];
    let product = cx.make(id, row_major(output.element_type, [rows, to]), Opcode::Dot, &[left, right], contracting);
    let shape = cx.shape(id).clone();
    Some(cx.elementwise(id, shape, Opcode::Bitcast, &[product]))
}
