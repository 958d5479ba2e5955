//! Operations of a kernel's instructions: what the cost model of XLA:GPU knows of each kind, as measured on an H100.
//!
//! Source: the entries `sm_90` of xla/service/gpu/model/hlo_op_profiles_data.h; `GpuHloCostAnalysis` for what is not elementwise.

// Tests: `memory/tests/devices.rs`.

use hlo_ir::{AttrKey, AttrValue, ElementType, InstructionId, Opcode};

use super::super::super::graph::Graph;
use super::super::super::traits;

/// What an elementwise operation takes that nobody measured (`kDefaultFlopsPerElement`).
const OTHER: f64 = 3.0;
/// A comparison and a branch for each element of a concatenation; far more where pieces part the lanes of a warp.
const JOINED: f64 = 6.0;
const JOINED_UNEVENLY: f64 = 400.0;
/// Lanes of a warp.
const WARP: i64 = 32;

/// Operations for all elements of a result.
pub(super) fn operations(graph: &Graph, id: InstructionId) -> f64 {
    use Opcode as O;
    let elements = |id| traits::elements(graph, id) as f64;
    match graph.opcode(id) {
        O::Constant | O::Parameter | O::Copy => 0.0,
        O::Concatenate => elements(id) * if is_uneven(graph, id) { JOINED_UNEVENLY } else { JOINED },
        O::Reduce => (elements(graph.operand(id, 0)) - elements(id)).max(0.0) * combined(graph, id),
        O::ReduceWindow => elements(id) * window_size(graph, id) * combined(graph, id),
        opcode if traits::is_elementwise_alone(graph, id) => {
            let from = graph.operands(id).first().copied().unwrap_or(id);
            let kind = if opcode == O::Compare { from } else { id };
            elements(id) * traits::element_type(graph, kind).map_or(OTHER, |kind| of_element(graph, id, kind))
        }
        _ => 0.0,
    }
}

/// Operations of one element, conversions included: most of `bf16` is computed in `f32`.
fn of_element(graph: &Graph, id: InstructionId, kind: ElementType) -> f64 {
    let opcode = graph.opcode(id);
    if kind != ElementType::Bf16 || computes_bf16(opcode) {
        return of(opcode, kind);
    }
    let conversions = graph.operands(id).len() + 1;
    of(opcode, ElementType::F32) + conversions as f64 * OTHER
}

/// Whether an H100 has the operation for `bf16`.
///
/// Source: `GpuFloatSupport::IsSupported` (xla/service/gpu/gpu_float_support.cc).
fn computes_bf16(opcode: Opcode) -> bool {
    use Opcode as O;
    matches!(
        opcode,
        O::Abs
            | O::Add
            | O::BitcastConvert
            | O::Compare
            | O::Convert
            | O::Exponential
            | O::Log
            | O::Maximum
            | O::Minimum
            | O::Multiply
            | O::Negate
            | O::ReducePrecision
            | O::Select
            | O::Subtract
            | O::Xor
    )
}

/// Operations of what a reduction calls for two elements.
fn combined(graph: &Graph, id: InstructionId) -> f64 {
    let inside = graph.callees(id).into_iter().flat_map(|body| graph.list(body));
    let work =
        inside.filter(|&inner| !matches!(graph.opcode(inner), Opcode::Parameter | Opcode::Tuple | Opcode::Constant));
    work.map(|inner| traits::element_type(graph, inner).map_or(OTHER, |kind| of(graph.opcode(inner), kind))).sum()
}

fn is_uneven(graph: &Graph, id: InstructionId) -> bool {
    let dim = graph.inst(id).ints(&AttrKey::Dimensions).first().copied().unwrap_or(0);
    let first = graph.array(graph.operand(id, 0)).map_or(0, |array| array.dims[dim as usize]);
    dim > 0 && first % WARP != 0
}

/// Operations of one element.
fn of(opcode: Opcode, kind: ElementType) -> f64 {
    use Opcode as O;
    if kind.is_complex() {
        return of_complex(opcode);
    }
    let column = match kind {
        ElementType::F16 => 0,
        ElementType::F32 => 1,
        ElementType::F64 => 2,
        ElementType::S64 | ElementType::U64 => 4,
        kind if kind.is_integer() => 3,
        _ => return OTHER,
    };
    let row: [f64; 5] = match opcode {
        O::Cbrt => [201.0, 178.0, 586.0, OTHER, OTHER],
        O::Cosine | O::Sine => [997.0, 978.0, 558.0, OTHER, OTHER],
        O::Exponential => [102.0, 79.0, 376.0, OTHER, OTHER],
        O::ExponentialMinusOne => [217.0, 190.0, 712.0, OTHER, OTHER],
        O::Log => [182.0, 166.0, 815.0, OTHER, OTHER],
        O::LogPlusOne => [245.0, 229.0, 1259.0, OTHER, OTHER],
        O::Rsqrt => [95.0, 75.0, 277.0, OTHER, OTHER],
        O::Sqrt => [95.0, 75.0, 332.0, OTHER, OTHER],
        O::Tanh => [502.0, 467.0, 431.0, OTHER, OTHER],
        O::Add | O::Subtract => [7.0, 7.0, 15.0, OTHER, OTHER],
        O::Atan2 => [451.0, 431.0, 930.0, OTHER, OTHER],
        O::Divide => [43.0, 19.0, 526.0, 297.0, 685.0],
        O::Multiply => [7.0, 3.0, 15.0, 3.0, 11.0],
        O::Power => [526.0, 510.0, 2205.0, 71.0, 253.0],
        _ => [OTHER; 5],
    };
    row[column]
}

/// Operations of one complex number.
fn of_complex(opcode: Opcode) -> f64 {
    use Opcode as O;
    match opcode {
        O::Cosine | O::Sine => 2415.0,
        O::Exponential => 641.0,
        O::ExponentialMinusOne => 2055.0,
        O::Log => 756.0,
        O::LogPlusOne => 633.0,
        O::Rsqrt => 3148.0,
        O::Sqrt => 4344.0,
        O::Tanh => 2379.0,
        O::Add | O::Subtract => 7.0,
        O::Atan2 => 6462.0,
        O::Divide => 498.0,
        O::Multiply => 79.0,
        O::Power => 5532.0,
        _ => OTHER,
    }
}

/// Positions of a window.
pub(super) fn window_size(graph: &Graph, id: InstructionId) -> f64 {
    match graph.inst(id).attribute(&AttrKey::Window) {
        Some(AttrValue::Window(dims)) => dims.iter().map(|dim| dim.size as f64).product(),
        _ => 1.0,
    }
}
