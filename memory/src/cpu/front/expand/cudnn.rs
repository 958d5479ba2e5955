//! What XLA:GPU makes of convolutions, as the library cuDNN wants them: kernels with the features of the forward result first, and sums computed with them.
//!
//! Source: `ConvRewriter`, `CudnnFusedConvRewriter`, `GpuLayoutAssignment` (xla/service/gpu/transforms).

use hlo_ir::shape::Dims;
use hlo_ir::{AttrKey, AttrValue, Attribute, ConvDims, ElementType, Instruction, Opcode, Shape};

use super::super::build::row_major;
use super::super::cx::{Cx, Id};
use super::super::dims::permute;
use super::super::visit::each;

/// Rewrites the convolutions; returns whether there was one.
pub(crate) fn run(cx: &mut Cx<'_>) -> bool {
    let mut changed = each(cx, Opcode::Convolution, turn_kernel);
    while each(cx, Opcode::Add, join) {
        changed = true;
    }
    changed
}

/// Makes convolutions calls of the library, which return a workspace too: XLA writes nothing over an element of a tuple that a call returns.
pub(crate) fn call_library(cx: &mut Cx<'_>) -> bool {
    each(cx, Opcode::Convolution, |cx, id| {
        let operands = cx.operands(id).to_vec();
        let results = Shape::tuple([cx.shape(id).clone(), row_major(ElementType::U8, [0])]);
        let mut call = Instruction::new(cx.inst(id).name.clone(), results, Opcode::CustomCall, operands);
        call.attributes.clone_from(&cx.inst(id).attributes);
        call.attributes.push(Attribute::new(AttrKey::CustomCallTarget, AttrValue::Raw("\"__cudnn$conv\"".into())));
        let parent = cx.parent(id);
        let call = cx.add(parent, call);
        cx.stems_from(call, id);
        Some(cx.element(id, call, 0))
    })
}

/// What the library computes.
#[derive(PartialEq, Eq)]
pub(super) enum Kind {
    /// What the program's own convolutions are, and everything that is no gradient in the form in which the library computes gradients.
    Forward,
    /// A gradient for the input: the kernel is that of the forward convolution.
    Input,
    /// A gradient for the kernel.
    Kernel,
}

pub(super) fn kind(cx: &Cx<'_>, id: Id, dims: &ConvDims) -> Option<Kind> {
    let AttrValue::Window(window) = cx.inst(id).attribute(&AttrKey::Window)? else { return None };
    if dims.input_batch != dims.output_batch {
        return Some(Kind::Kernel);
    }
    let steps = window.iter().any(|dim| dim.stride != 1);
    let is_reversed = cx.opcode(cx.operand(id, 1)) == Opcode::Reverse;
    Some(if is_reversed && !steps { Kind::Input } else { Kind::Forward })
}

/// Lets a convolution read its kernel in the library's order, in which the gradient for the input reads the kernel of the forward convolution as it is.
fn turn_kernel(cx: &mut Cx<'_>, id: Id) -> Option<Id> {
    let dims = ConvDims::of(cx.inst(id)).filter(|_| cx.operands(id).len() == 2)?;
    let (input, kernel) = (cx.operand(id, 0), cx.operand(id, 1));
    let (kernel, first, last, names) = match kind(cx, id, &dims)? {
        Kind::Forward => (kernel, dims.kernel_output, dims.kernel_input, ['o', 'i']),
        Kind::Input => (cx.operand(kernel, 0), dims.kernel_input, dims.kernel_output, ['i', 'o']),
        // With a dilated input this is no gradient to the library but a forward convolution whose kernel is the other gradient.
        Kind::Kernel if is_dilated(cx, id) => (kernel, dims.kernel_output, dims.kernel_input, ['o', 'i']),
        Kind::Kernel => return None,
    };
    let spatial = dims.kernel_spatial.iter();
    let order: Dims = std::iter::once(&first).chain(spatial).chain([&last]).map(|&dim| dim as i64).collect();
    if order.is_sorted() {
        return None;
    }
    let array = cx.arr(kernel);
    let turned = row_major(array.element_type, permute(&array.dims, &order));
    let turned = cx.transpose_as(id, turned, kernel, &order);
    let labels = labels(cx.inst(id).raw(&AttrKey::DimLabels)?, dims.kernel_spatial.len(), names)?;
    let shape = cx.shape(id).clone();
    let new = cx.like(id, shape, &[input, turned]);
    cx.set_attribute(new, AttrKey::DimLabels, AttrValue::Raw(labels.into()));
    Some(new)
}

/// Whether the library computes a convolution as the gradient for a kernel. Where it does not, although the convolution is one, its second operand was turned to the order of a
/// forward kernel, and what dilated its input was written out.
pub(crate) fn is_kernel_gradient(cx: &Cx<'_>, id: Id, dims: &ConvDims) -> bool {
    let is_turned = dims.kernel_output < dims.kernel_input;
    kind(cx, id, dims) == Some(Kind::Kernel) && !is_dilated(cx, id) && !is_turned
}

fn is_dilated(cx: &Cx<'_>, id: Id) -> bool {
    let window = cx.inst(id).attribute(&AttrKey::Window);
    matches!(window, Some(AttrValue::Window(window)) if window.iter().any(|dim| dim.lhs_dilate != 1))
}

/// Labels with those of the kernel replaced.
fn labels(labels: &str, spatial: usize, [first, last]: [char; 2]) -> Option<String> {
    let (operands, result) = labels.split_once("->")?;
    let (input, _) = operands.split_once('_')?;
    let digits: String = (0..spatial).map(|digit| digit.to_string()).collect();
    Some(format!("{input}_{first}{digits}{last}->{result}"))
}

/// Makes the sum of a convolution's result and something else part of the convolution: what is added becomes an operand.
fn join(cx: &mut Cx<'_>, id: Id) -> Option<Id> {
    let (left, right) = cx.both(id, Opcode::Add)?;
    let (convolution, added) = [(left, right), (right, left)].into_iter().find(|&(side, _)| takes_a_sum(cx, side))?;
    let added = per_feature(cx, convolution, added).unwrap_or(added);
    let operands: Vec<Id> = cx.operands(convolution).iter().copied().chain([added]).collect();
    let shape = cx.shape(id).clone();
    Some(cx.like(convolution, shape, &operands))
}

/// Whether a forward convolution has no other use, and takes one more operand: a number for each feature, and an array.
fn takes_a_sum(cx: &Cx<'_>, id: Id) -> bool {
    let room = |id: Id| match *cx.operands(id) {
        [_, _] => true,
        [_, _, first] => cx.rank(first) <= 1,
        _ => false,
    };
    let is_forward = ConvDims::of(cx.inst(id)).is_some_and(|dims| {
        // A gradient for the input lost its `reverse`, but reads the kernel in the order of the forward convolution.
        let is_gradient = dims.kernel_input < dims.kernel_output;
        !is_gradient && kind(cx, id, &dims) == Some(Kind::Forward)
    });
    cx.user_count(id) == 1 && !cx.is_root(id) && is_forward && room(id)
}

/// The numbers that are added to features, if those are what is added.
fn per_feature(cx: &Cx<'_>, convolution: Id, added: Id) -> Option<Id> {
    let numbers = cx.of(added, Opcode::Broadcast)?;
    let feature = ConvDims::of(cx.inst(convolution))?.output_feature as i64;
    let fits = cx.dimensions(added).iter().all(|&dim| dim == feature);
    (fits && cx.operands(convolution).len() == 2).then_some(numbers)
}
