//! Where XLA:GPU fuses otherwise than XLA:CPU, as far as it decides about large buffers. [`tpu`](mod@super::tpu) has the same of XLA:TPU.
//!
//! Read off what the compiler reports for some 130 programs, not off its cost model: kernels of scatters compute indices and updates on the
//! fly.

// Tests: `memory/tests/devices.rs`.

use hlo_ir::{InstructionId, Opcode, ScatterDims};

use super::super::graph::Graph;
use crate::Target;

/// Whether operand `number` becomes part of `consumer`, where the target differs from XLA:CPU.
pub(super) fn decides(graph: &Graph, target: Target, consumer: InstructionId, number: usize) -> Option<bool> {
    let producer = graph.operand(consumer, number);
    match target {
        Target::Cpu => None,
        Target::Gpu if is_window_of_several(graph, consumer) => Some(is_numbering(graph, producer)),
        Target::Gpu => scatter_of(graph, consumer)
            .filter(|&scatter| is_destination(graph, consumer, scatter, number))
            .map(|_| false),
        Target::Tpu => super::tpu::decides(graph, consumer, number),
    }
}

/// Whether an instruction is or ends in a reduction of windows of several arrays, as the gradient of pooling has one.
fn is_window_of_several(graph: &Graph, consumer: InstructionId) -> bool {
    root_of(graph, consumer, Opcode::ReduceWindow).is_some_and(|root| graph.operands(root).len() > 2)
}

/// What such a kernel computes on the fly: the positions that it finds the largest elements by, and padding.
fn is_numbering(graph: &Graph, producer: InstructionId) -> bool {
    use Opcode as O;
    matches!(graph.opcode(producer), O::Iota | O::Broadcast | O::Pad) && !graph.is_root(producer)
}

/// The scatter that an instruction is or ends in.
fn scatter_of(graph: &Graph, id: InstructionId) -> Option<InstructionId> {
    root_of(graph, id, Opcode::Scatter)
}

/// The instruction of this opcode that `id` is, or that is the root of the fusion `id`.
fn root_of(graph: &Graph, id: InstructionId, opcode: Opcode) -> Option<InstructionId> {
    let root = if graph.opcode(id) == Opcode::Fusion { graph.root(graph.fused(id)?) } else { id };
    (graph.opcode(root) == opcode).then_some(root)
}

/// Whether operand `number` of a scatter, or of a fusion that ends in one, is what the updates go into.
fn is_destination(graph: &Graph, consumer: InstructionId, scatter: InstructionId, number: usize) -> bool {
    let operands = graph.operands(scatter);
    let updated = &operands[..ScatterDims::input_count(operands.len()).min(operands.len())];
    let inside = if consumer == scatter {
        graph.operand(consumer, number)
    } else {
        let Some(body) = graph.fused(consumer) else { return false };
        graph.parameter(body, number)
    };
    updated.contains(&inside)
}
