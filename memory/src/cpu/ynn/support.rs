//! What the YNN library can compute.
//!
//! Source: xla/backends/cpu/ynn_support.cc, xla/backends/cpu/transforms/ynn_matcher.h, xla/backends/cpu/runtime/dot_dims.cc.

use hlo_ir::shape::ArrayShape;
use hlo_ir::{AttrKey, AttrValue, DotDims, ElementType, InstructionId, Opcode};

use super::super::graph::Graph;
use super::super::traits;

/// Most dimensions of an array.
const MOST_DIMENSIONS: usize = 8;
/// Instructions with fewer elements on either side are not worth a call.
pub const FEWEST_ELEMENTS: u64 = 4096;
/// A dot all of whose sizes are below this is not worth a call.
const SMALLEST_DOT: i64 = 8;
/// A convolution of at most this many features is not worth a call.
const SMALL_FEATURES: i64 = 16;

/// Whether the instruction can be part of a library fusion.
pub(crate) fn is_supported(graph: &Graph, id: InstructionId) -> bool {
    use Opcode as O;
    match graph.opcode(id) {
        O::Constant => graph.array(id).is_some_and(has_library_type),
        O::Iota => graph.array(id).is_some_and(|array| {
            matches!(array.element_type, ElementType::F32 | ElementType::S32) && has_plain_layout(array)
        }),
        O::Reshape | O::Bitcast | O::Transpose => moves_one_operand(graph, id),
        O::Broadcast => {
            moves_one_operand(graph, id)
                && graph.inst(id).ints(&AttrKey::Dimensions).windows(2).all(|pair| pair[0] < pair[1])
        }
        O::Pad => moves_one_operand(graph, id) && is_plain_padding(graph, id),
        _ if !is_preferred(graph, id) => false,
        O::Dot => is_dot_supported(graph, id),
        O::Reduce | O::ReduceWindow => is_reduction_supported(graph, id),
        O::Convolution => is_convolution_supported(graph, id),
        _ => is_elementwise_supported(graph, id),
    }
}

/// Whether calling the library for the instruction is worth its overhead.
pub(crate) fn is_preferred(graph: &Graph, id: InstructionId) -> bool {
    matches!(graph.opcode(id), Opcode::Dot | Opcode::Convolution)
        || traits::elements(graph, id) >= FEWEST_ELEMENTS
        || graph.operands(id).iter().any(|&operand| traits::elements(graph, operand) >= FEWEST_ELEMENTS)
}

fn has_library_type(array: &ArrayShape) -> bool {
    use ElementType as T;
    matches!(array.element_type, T::S4 | T::U4 | T::S8 | T::U8 | T::Bf16 | T::F16 | T::F32 | T::F64 | T::S32)
}

/// Row-major and of few enough dimensions.
fn has_plain_layout(array: &ArrayShape) -> bool {
    array.rank() <= MOST_DIMENSIONS && array.layout.as_ref().is_none_or(hlo_ir::Layout::is_descending)
}

/// Data movement of a type the library knows, between plain layouts.
fn moves_one_operand(graph: &Graph, id: InstructionId) -> bool {
    let (Some(result), Some(&operand)) = (graph.array(id), graph.operands(id).first()) else { return false };
    graph.array(operand).is_some_and(|operand| {
        has_library_type(result)
            && (operand.element_type == result.element_type || graph.opcode(id) == Opcode::Broadcast)
            && has_plain_layout(result)
            && has_plain_layout(operand)
    })
}

/// No padding between elements, and none around a dimension of size 1, which the library would broadcast.
fn is_plain_padding(graph: &Graph, id: InstructionId) -> bool {
    let (Some(operand), Some(AttrValue::Padding(dims))) =
        (graph.array(graph.operand(id, 0)), graph.inst(id).attribute(&AttrKey::Padding))
    else {
        return false;
    };
    dims.iter()
        .zip(&operand.dims)
        .all(|(pad, &size)| pad.interior == 0 && (size != 1 || (pad.low == 0 && pad.high == 0)))
}

fn is_elementwise_supported(graph: &Graph, id: InstructionId) -> bool {
    use ElementType as T;
    use Opcode as O;
    let allowed = |id: InstructionId| {
        traits::element_type(graph, id).is_some_and(|t| matches!(t, T::F64 | T::F32 | T::Bf16 | T::S8 | T::U8))
    };
    let known = match graph.operands(id).len() {
        1 => matches!(
            graph.opcode(id),
            O::Abs
                | O::Ceil
                | O::Convert
                | O::Erf
                | O::Exponential
                | O::ExponentialMinusOne
                | O::Floor
                | O::Log
                | O::LogPlusOne
                | O::Logistic
                | O::Negate
                | O::RoundNearestEven
                | O::Rsqrt
                | O::Sign
                | O::Sqrt
                | O::Tanh
        ),
        2 => matches!(
            graph.opcode(id),
            O::Add | O::Divide | O::Maximum | O::Minimum | O::Multiply | O::Power | O::Subtract
        ),
        _ => false,
    };
    known && allowed(id) && graph.operands(id).iter().all(|&operand| allowed(operand))
}

/// Element types of both operands and the result, all three of plain layout.
fn operand_and_result_types(graph: &Graph, id: InstructionId) -> Option<(ElementType, ElementType, ElementType)> {
    let [lhs, rhs] = graph.operands(id) else { return None };
    let (lhs, rhs, out) = (graph.array(*lhs)?, graph.array(*rhs)?, graph.array(id)?);
    let plain = has_plain_layout(lhs) && has_plain_layout(rhs) && has_plain_layout(out);
    plain.then_some((lhs.element_type, rhs.element_type, out.element_type))
}

/// Matrix products with leading batch dimensions, no vector on either side, contracting the last dimension of the left side.
pub(crate) fn is_dot_supported(graph: &Graph, id: InstructionId) -> bool {
    use ElementType as T;
    let types = operand_and_result_types(graph, id);
    let known = matches!(
        types,
        Some(
            (T::F64, T::F64, T::F64)
                | (T::F32, T::F32, T::F32)
                | (T::Bf16, T::Bf16, T::F32)
                | (T::S8 | T::U8, T::S8, T::S32)
        )
    );
    known && matrix_sizes(graph, id).is_some_and(|(m, k, n)| m != 1 && n != 1 && m.max(k).max(n) >= SMALLEST_DOT)
}

/// Rows, contracted size and columns of a dot in canonical form.
fn matrix_sizes(graph: &Graph, id: InstructionId) -> Option<(i64, i64, i64)> {
    let dims = DotDims::of(graph.inst(id))?;
    let (lhs, rhs) = (graph.array(graph.operand(id, 0))?, graph.array(graph.operand(id, 1))?);
    let batch = dims.lhs_batch.len();
    let leading = (0..batch as i64).eq(dims.lhs_batch.iter().copied()) && dims.lhs_batch == dims.rhs_batch;
    let ([lhs_contracted], [rhs_contracted]) = (dims.lhs_contracting, dims.rhs_contracting) else { return None };
    if !leading || lhs.rank() > batch + 2 || rhs.rank() > batch + 2 {
        return None;
    }
    let free = |array: &ArrayShape, contracted: i64| {
        let mut others = (batch..array.rank()).filter(|&dim| dim as i64 != contracted);
        others.next().map_or(1, |dim| array.dims[dim])
    };
    let canonical = lhs.rank() <= batch + 1 || *lhs_contracted == batch as i64 + 1;
    let sizes = (free(lhs, *lhs_contracted), lhs.dims[*lhs_contracted as usize], free(rhs, *rhs_contracted));
    canonical.then_some(sizes)
}

/// Sums, maxima and minima over whole dimensions or over windows that do not overlap.
pub(crate) fn is_reduction_supported(graph: &Graph, id: InstructionId) -> bool {
    use ElementType as T;
    let [input, init] = graph.operands(id) else { return false };
    let (Some(from), Some(to)) = (graph.array(*input), graph.array(id)) else { return false };
    let regular = match graph.opcode(id) {
        Opcode::Reduce => !graph.inst(id).ints(&AttrKey::Dimensions).is_empty(),
        _ => is_tiling(graph, id),
    };
    let plain = has_library_type(to) && has_plain_layout(to) && has_plain_layout(from);
    if !regular || !plain || traits::element_type(graph, *init) != Some(to.element_type) {
        return false;
    }
    let types = (from.element_type, to.element_type);
    match combiner(graph, id) {
        Some(Opcode::Add) => {
            matches!(types, (T::F64, T::F64) | (T::F32 | T::F16 | T::Bf16, T::F32) | (T::S8 | T::U8, T::S32))
        }
        Some(Opcode::Maximum | Opcode::Minimum) => {
            types.0 == types.1 && matches!(types.0, T::U8 | T::S8 | T::Bf16 | T::F16 | T::F32 | T::F64)
        }
        _ => false,
    }
}

/// The opcode of a reduction's combiner, if it combines its two parameters and nothing else.
fn combiner(graph: &Graph, id: InstructionId) -> Option<Opcode> {
    let root = graph.root(graph.inst(id).computation(&AttrKey::ToApply)?);
    let mut numbers: Vec<Option<i64>> =
        graph.operands(root).iter().map(|&operand| graph.inst(operand).parameter_number()).collect();
    numbers.sort_unstable();
    (numbers == [Some(0), Some(1)]).then(|| graph.opcode(root))
}

/// Whether the windows of a reduce-window lie side by side.
fn is_tiling(graph: &Graph, id: InstructionId) -> bool {
    let Some(AttrValue::Window(window)) = graph.inst(id).attribute(&AttrKey::Window) else { return false };
    let used: Vec<_> = window.iter().filter(|dim| dim.size > 1 || dim.stride > 1).collect();
    let rank = graph.array(id).map_or(0, ArrayShape::rank);
    let side_by_side = |dim: &&hlo_ir::attribute::WindowDim| {
        (dim.size <= 1 || dim.stride == dim.size) && dim.lhs_dilate == 1 && dim.rhs_dilate == 1 && !dim.reversed
    };
    !used.is_empty() && used.iter().all(side_by_side) && rank + used.len() <= MOST_DIMENSIONS
}

/// Two-dimensional convolutions in the library's order of dimensions, with enough features.
pub(crate) fn is_convolution_supported(graph: &Graph, id: InstructionId) -> bool {
    use ElementType as T;
    let inst = graph.inst(id);
    let known = matches!(
        operand_and_result_types(graph, id),
        Some((T::F64, T::F64, T::F64) | (T::F32, T::F32, T::F32) | (T::S8, T::S8, T::S32))
    );
    let Some(AttrValue::Window(window)) = inst.attribute(&AttrKey::Window) else { return false };
    if !known
        || inst.int(&AttrKey::BatchGroupCount).unwrap_or(1) != 1
        || inst.raw(&AttrKey::DimLabels) != Some("b01f_01io->b01f")
        || window.len() != 2
        || window.iter().any(|dim| dim.lhs_dilate != 1 || dim.reversed)
    {
        return false;
    }
    let (Some(input), Some(kernel), Some(output)) =
        (graph.array(graph.operand(id, 0)), graph.array(graph.operand(id, 1)), graph.array(id))
    else {
        return false;
    };
    let fits = |axis: usize| output.dims[1 + axis] <= input.dims[1 + axis] && kernel.dims[axis] <= input.dims[1 + axis];
    input.dims[3].max(output.dims[3]) > SMALL_FEATURES && fits(0) && fits(1)
}
