//! Which instructions can be part of a loop fusion, and which are too expensive to compute twice.

use hlo_ir::{ElementType, InstructionId, Opcode};

use super::super::graph::Graph;
use super::super::traits;

/// Whether the instruction can be computed element by element inside a loop.
///
/// Source: `CanBeLoopFused` (xla/service/cpu/cpu_instruction_fusion.cc).
pub(super) fn is_loop_fusible(graph: &Graph, id: InstructionId) -> bool {
    use Opcode as O;
    matches!(
        graph.opcode(id),
        O::Bitcast
            | O::Broadcast
            | O::Concatenate
            | O::DynamicSlice
            | O::DynamicUpdateSlice
            | O::Gather
            | O::Iota
            | O::Pad
            | O::Reduce
            | O::Reshape
            | O::Reverse
            | O::Slice
            | O::Transpose
    ) || traits::is_elementwise(graph, id)
}

/// Whether computing the instruction costs clearly more than writing its result.
///
/// Source: `CpuInstructionFusion::IsExpensive`.
pub(super) fn is_expensive(graph: &Graph, id: InstructionId) -> bool {
    use Opcode as O;
    match graph.opcode(id) {
        O::Abs | O::Sign | O::Cosine | O::Sine | O::Tan => traits::is_complex(graph, id),
        O::Convert => {
            traits::element_type(graph, id) == Some(ElementType::Bf16)
                && traits::element_type(graph, graph.operand(id, 0)) == Some(ElementType::F32)
        }
        O::Divide | O::Remainder => {
            let integral = traits::element_type(graph, id).is_some_and(ElementType::is_integer);
            !integral || !is_constant_scalar_or_broadcast(graph, graph.operand(id, 0))
        }
        opcode => !is_cheap(opcode),
    }
}

fn is_cheap(opcode: Opcode) -> bool {
    use Opcode as O;
    matches!(
        opcode,
        O::Add
            | O::And
            | O::Bitcast
            | O::BitcastConvert
            | O::Broadcast
            | O::Ceil
            | O::Clamp
            | O::CountLeadingZeros
            | O::Compare
            | O::Complex
            | O::Concatenate
            | O::Constant
            | O::Copy
            | O::CopyDone
            | O::CopyStart
            | O::DynamicReshape
            | O::DynamicSlice
            | O::DynamicUpdateSlice
            | O::Floor
            | O::GetTupleElement
            | O::Imag
            | O::Infeed
            | O::Iota
            | O::IsFinite
            | O::Maximum
            | O::Minimum
            | O::Multiply
            | O::Mulhi
            | O::Negate
            | O::Not
            | O::OptBarrier
            | O::Or
            | O::Outfeed
            | O::Pad
            | O::PartitionId
            | O::Popcnt
            | O::Real
            | O::ReducePrecision
            | O::ReplicaId
            | O::Reshape
            | O::Reverse
            | O::RoundNearestAfz
            | O::RoundNearestEven
            | O::Select
            | O::ShiftLeft
            | O::ShiftRightArithmetic
            | O::ShiftRightLogical
            | O::Slice
            | O::StochasticConvert
            | O::Subtract
            | O::Transpose
            | O::Tuple
            | O::Xor
    )
}

fn is_constant_scalar_or_broadcast(graph: &Graph, id: InstructionId) -> bool {
    let is_scalar = |id| graph.opcode(id) == Opcode::Constant && traits::is_effective_scalar(graph, id);
    is_scalar(id) || (graph.opcode(id) == Opcode::Broadcast && is_scalar(graph.operand(id, 0)))
}
