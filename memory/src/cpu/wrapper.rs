//! Instructions that fusion left alone become fusions of one instruction, because XLA:CPU only has an emitter for fusions of them.
//!
//! Source: `FusionWrapper` (xla/service/cpu/fusion_wrapper.cc), `FusionWrapperBase` (xla/codegen/emitters/fusion_wrapper_base.cc).

// Tests: `memory/tests/stages.rs`.

use hlo_ir::{ComputationId, ElementType, InstructionId, Opcode};
use smol_str::format_smolstr;

use super::graph::Graph;

/// Wraps in the entry and in everything it runs by `call`, `while` and `conditional`.
pub(crate) fn run(graph: &mut Graph) {
    wrap_in(graph, graph.entry());
}

fn wrap_in(graph: &mut Graph, computation: ComputationId) {
    use Opcode as O;
    for id in graph.post_order(computation) {
        if matches!(graph.opcode(id), O::Conditional | O::While | O::Call | O::AsyncStart) {
            graph.callees(id).into_iter().for_each(|callee| wrap_in(graph, callee));
        } else if must_wrap(graph, id) {
            let name = format_smolstr!("wrapped_{}", graph.inst(id).opcode_name());
            graph.fuse_alone(id, "kLoop", name);
        }
    }
}

/// Whether the instruction is wrapped. Not wrapped although supported: concatenate, dynamic-update-slice, transpose, dot, plain copies.
fn must_wrap(graph: &Graph, id: InstructionId) -> bool {
    use Opcode as O;
    match graph.opcode(id) {
        O::Copy => {
            graph.shape(id) != graph.shape(graph.operand(id, 0))
                && graph.array(id).is_some_and(|array| is_tiled_type(array.element_type))
        }
        O::BitcastConvert
        | O::Broadcast
        | O::DynamicSlice
        | O::Gather
        | O::Iota
        | O::Map
        | O::Pad
        | O::Reduce
        | O::ReduceWindow
        | O::Reshape
        | O::Reverse
        | O::Scatter
        | O::Slice => true,
        opcode => is_wrapped_elementwise(opcode),
    }
}

/// Elementwise opcodes with an emitter; the others of the family stay bare.
fn is_wrapped_elementwise(opcode: Opcode) -> bool {
    use Opcode as O;
    let bare = matches!(
        opcode,
        O::Acos
            | O::Acosh
            | O::Asin
            | O::Asinh
            | O::Atanh
            | O::Copy
            | O::Cosh
            | O::Logistic
            | O::Mulhi
            | O::Sinh
            | O::StochasticConvert
    );
    opcode.is_elementwise() && !bare
}

/// Types the tiled emitter takes.
///
/// Source: `IsSupportedTilingType` (xla/backends/cpu/codegen/tiled/tiled_fusion_emitter.cc).
fn is_tiled_type(element_type: ElementType) -> bool {
    let bits = element_type.bits();
    element_type == ElementType::Pred
        || (element_type.is_signed() && bits >= 8)
        || (element_type.is_float() && bits >= 16)
}
