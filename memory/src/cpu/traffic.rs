//! Bytes that instructions read and write, as XLA's cost analysis counts them.
//!
//! Source: `HloCostAnalysis` (xla/service/hlo_cost_analysis.cc).

use hlo_ir::{AttrKey, ComputationId, InstructionId, Opcode, ScatterDims, Shape};

use super::graph::Graph;
use crate::size::shape_size;

/// Bytes one execution of `id` reads and writes; a loop counts one round.
pub(crate) fn bytes_accessed(graph: &Graph, id: InstructionId) -> u64 {
    use Opcode as O;
    let operand = |k: usize| bytes(graph, graph.operand(id, k));
    let result = bytes(graph, id);
    match graph.opcode(id) {
        O::Parameter | O::Constant | O::GetTupleElement | O::Bitcast | O::Domain | O::AfterAll | O::AddDependency => 0,
        O::Tuple => result,
        O::Slice => 2 * result,
        O::DynamicSlice if graph.operands(id).len() > 1 => 2 * result + operand(1),
        O::DynamicUpdateSlice if graph.operands(id).len() > 2 => 2 * operand(1) + operand(2),
        O::Gather => 2 * result + operand(1),
        O::Scatter => {
            let inputs = ScatterDims::input_count(graph.operands(id).len());
            operand(inputs) + 3 * (inputs + 1..graph.operands(id).len()).map(operand).sum::<u64>()
        }
        O::Transpose if is_bitcast_transpose(graph, id) => 0,
        O::Fusion => fusion_bytes(graph, id),
        O::While | O::Call => graph.callees(id).into_iter().map(|callee| computation_bytes(graph, callee)).sum(),
        O::Conditional => {
            graph.callees(id).into_iter().map(|callee| computation_bytes(graph, callee)).max().unwrap_or(0)
        }
        _ => leaves(graph.shape(id)) + (0..graph.operands(id).len()).map(operand).sum::<u64>(),
    }
}

fn computation_bytes(graph: &Graph, computation: ComputationId) -> u64 {
    graph.list(computation).map(|id| bytes_accessed(graph, id)).fold(0, u64::saturating_add)
}

/// Bytes of a result, tuple tables included; no more than can be added up.
pub(crate) fn bytes(graph: &Graph, id: InstructionId) -> u64 {
    shape_size(graph.shape(id)).map_or(u64::MAX / 8, |bytes| bytes.get().min(u64::MAX / 8))
}

/// Bytes of the arrays of a result, without tuple tables.
fn leaves(shape: &Shape) -> u64 {
    match shape {
        Shape::Tuple(elements) => elements.iter().map(|element| leaves(element)).fold(0, u64::saturating_add),
        _ => shape_size(shape).map_or(u64::MAX / 8, |bytes| bytes.get().min(u64::MAX / 8)),
    }
}

/// A transpose whose result layout makes it a reinterpretation of its operand.
fn is_bitcast_transpose(graph: &Graph, id: InstructionId) -> bool {
    let (Some(from), Some(to)) = (graph.array(graph.operand(id, 0)), graph.array(id)) else { return false };
    let permutation = graph.inst(id).ints(&AttrKey::Dimensions);
    let mapped = to.minor_to_major().iter().map(|&dim| permutation[dim as usize]).collect::<Vec<_>>();
    mapped == from.minor_to_major().to_vec()
}

/// What a fusion writes, and of each operand what its body reads.
fn fusion_bytes(graph: &Graph, id: InstructionId) -> u64 {
    let Some(body) = graph.fused(id) else { return 0 };
    let root = graph.root(body);
    let outputs = match (graph.opcode(root), graph.shape(id).as_ref()) {
        (Opcode::Tuple, Shape::Tuple(_)) => graph.operands(root).to_vec(),
        _ => vec![root],
    };
    let written = outputs.into_iter().map(|output| match graph.opcode(output) {
        Opcode::DynamicUpdateSlice => bytes(graph, graph.operand(output, 1)),
        _ => leaves(graph.shape(output)),
    });
    let read = graph.parameters(body).into_iter().map(|parameter| parameter_bytes(graph, parameter));
    written.chain(read).fold(0, u64::saturating_add)
}

/// What a fusion reads of one parameter: each slice once, everything once if anything needs it all.
fn parameter_bytes(graph: &Graph, parameter: InstructionId) -> u64 {
    let whole = bytes(graph, parameter);
    let mut total = 0_u64;
    let mut seen_whole = false;
    for user in graph.each_user(parameter) {
        let first = graph.operand(user, 0) == parameter;
        total += match graph.opcode(user) {
            Opcode::Slice => bytes(graph, user),
            Opcode::DynamicSlice if first => bytes(graph, user),
            Opcode::DynamicUpdateSlice if first => 0,
            Opcode::Broadcast | Opcode::Reshape => whole,
            _ if std::mem::replace(&mut seen_whole, true) => 0,
            _ => whole,
        };
    }
    total
}
