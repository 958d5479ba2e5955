//! Kernels that keep rows in registers: what they compute besides a normalization, and which rows fit.
//!
//! A kernel that normalizes rows takes in what else is computed row by row, further reductions too, and reads each array once. It can take in nothing else.
//!
//! Source: `GpuPriorityFusion::CanFuseTriton` (xla/backends/gpu/transforms/gpu_priority_fusion.cc), `IsTritonSupportedInstruction`
//! (xla/backends/gpu/codegen/triton/support.cc).

// Tests: `memory/tests/devices.rs`.

use hlo_ir::{ArrayShape, AttrKey, InstructionId, Opcode};

use super::super::super::graph::Graph;
use super::super::super::traits;

/// The largest row, padded to powers of two: four tenths of the 65,536 registers of a block (`DoesTileFitsInRegisters`).
const LONGEST_ROW: u64 = 26_214;

/// Whether XLA:GPU can keep a row of an array, along its last dimension, in the registers of a block of threads.
pub fn fits_registers(array: &ArrayShape) -> bool {
    array.dims.last().is_some_and(|&row| (row.max(1) as u64).next_power_of_two() <= LONGEST_ROW)
}

/// Whether a kernel computes an instruction from the rows that it keeps.
pub(super) fn is_computed_by_row(graph: &Graph, id: InstructionId) -> bool {
    use Opcode as O;
    match graph.opcode(id) {
        O::Reduce => {
            let Some(array) = graph.array(graph.operand(id, 0)) else { return false };
            graph.array(id).is_some()
                && graph.inst(id).ints(&AttrKey::Dimensions) == [array.rank() as i64 - 1]
                && fits_registers(array)
        }
        O::Bitcast | O::Reshape => row(graph, id).is_some() && row(graph, id) == row(graph, graph.operand(id, 0)),
        O::Broadcast | O::Iota | O::Constant => graph.array(id).is_some(),
        _ => traits::is_elementwise_alone(graph, id),
    }
}

/// Elements of a row.
fn row(graph: &Graph, id: InstructionId) -> Option<i64> {
    graph.array(id).and_then(|array| array.dims.last().copied())
}
