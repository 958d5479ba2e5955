//! Kernels that keep rows in registers: what they compute besides a normalization, and which rows fit.
//!
//! A kernel that normalizes rows takes in what else is computed row by row, further reductions too, and reads each array once. It can take in nothing else.
//!
//! Source: `GpuPriorityFusion::CanFuseTriton` (xla/backends/gpu/transforms/gpu_priority_fusion.cc), `IsTritonSupportedInstruction`
//! (xla/backends/gpu/codegen/triton/support.cc).

// Tests: `memory/tests/row_kernels.rs`.

use hlo_ir::{ArrayShape, AttrKey, ElementType, InstructionId, Opcode};
use smallvec::SmallVec;

use super::super::super::graph::Graph;

/// The largest row, padded to powers of two: four tenths of the 65,536 registers of a block (`DoesTileFitsInRegisters`).
const LONGEST_ROW: u64 = 26_214;

/// Whether XLA:GPU can keep a row of an array, along its last dimension, in the registers of a block of threads.
pub fn fits_registers(array: &ArrayShape) -> bool {
    array.dims.last().is_some_and(|&row| (row.max(1) as u64).next_power_of_two() <= LONGEST_ROW)
}

/// Whether a kernel computes an instruction from the rows that it keeps.
pub(super) fn is_computed_by_row(graph: &Graph, id: InstructionId) -> bool {
    use Opcode as O;
    if !graph.operands(id).iter().chain([&id]).all(|&value| graph.array(value).is_some_and(has_supported_type)) {
        return false;
    }
    match graph.opcode(id) {
        O::Reduce => {
            let Some(array) = graph.array(graph.operand(id, 0)) else { return false };
            graph.inst(id).ints(&AttrKey::Dimensions) == [array.rank() as i64 - 1] && fits_registers(array)
        }
        O::Bitcast | O::BitcastConvert | O::Reshape => keeps_rows(graph, id),
        O::Broadcast | O::Iota | O::Constant | O::Convert => true,
        opcode => {
            let of = graph.operands(id).last().and_then(|&operand| graph.array(operand));
            of.is_some_and(|array| is_supported_elementwise(opcode, array.element_type))
        }
    }
}

/// Whether Triton has the type of these elements. It has no unsigned integers, of which random numbers are made.
fn has_supported_type(array: &ArrayShape) -> bool {
    use ElementType as E;
    matches!(
        array.element_type,
        E::Pred | E::S8 | E::S16 | E::S32 | E::S64 | E::F16 | E::Bf16 | E::F32 | E::F64 | E::F8e5m2 | E::F8e4m3fn
    )
}

/// Whether Triton has an elementwise operation on this type.
fn is_supported_elementwise(opcode: Opcode, element: ElementType) -> bool {
    use {ElementType as E, Opcode as O};
    let is_float = matches!(element, E::F16 | E::Bf16 | E::F32 | E::F64);
    match opcode {
        O::Select => true,
        _ if matches!(element, E::F8e5m2 | E::F8e4m3fn) => false,
        O::Abs | O::Add | O::Clamp | O::Compare | O::Copy | O::Maximum | O::Minimum | O::Multiply => true,
        O::And | O::Or | O::Xor | O::Not => !is_float,
        O::Negate | O::Subtract => element != E::Pred,
        // `bf16` is divided in `f32`.
        O::Divide => element != E::F16 && (is_float || element.is_integer()),
        O::Acosh
        | O::Atan2
        | O::Cbrt
        | O::Ceil
        | O::Cosine
        | O::Erf
        | O::Exponential
        | O::ExponentialMinusOne
        | O::Floor
        | O::Log
        | O::LogPlusOne
        | O::Power
        | O::ReducePrecision
        | O::Remainder
        | O::Rsqrt
        | O::Sine
        | O::Sqrt
        | O::Tan
        | O::Tanh => is_float,
        _ => false,
    }
}

/// Whether a change of the shape leaves rows whole, or only adds or drops dimensions of one element, as for numbers of rows.
fn keeps_rows(graph: &Graph, id: InstructionId) -> bool {
    let (Some(to), Some(from)) = (graph.array(id), graph.array(graph.operand(id, 0))) else { return false };
    let dims = |array: &ArrayShape| array.dims.iter().copied().filter(|&dim| dim != 1).collect::<SmallVec<[i64; 6]>>();
    to.dims.last().is_some_and(|row| from.dims.last() == Some(row)) || dims(to) == dims(from)
}
