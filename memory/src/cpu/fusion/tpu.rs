//! Where XLA:TPU fuses otherwise than XLA:CPU, as far as it decides about large buffers.
//!
//! Read off the modules that the compiler makes of training steps; its sources are not public. A kernel of a product computes its operands on
//! the fly and goes on with what follows; values are computed again in each kernel that reads them, however long that takes; nothing is computed
//! from a reduction or a gather in the same kernel; a gather reads memory.

// Tests: `memory/tests/tpu.rs`.

use hlo_ir::{InstructionId, Opcode};

use super::super::graph::Graph;
use super::super::traits;

/// Whether operand `number` becomes part of `consumer`, where products, reductions or gathers are concerned.
pub(super) fn decides(graph: &Graph, consumer: InstructionId, number: usize) -> Option<bool> {
    let producer = graph.operand(consumer, number);
    if is_gathered(graph, consumer, number) || matches!(graph.opcode(producer), Opcode::Reduce | Opcode::Gather) {
        return Some(false);
    }
    if traits::is_product(graph, producer) {
        return Some(goes_on(graph, producer, consumer, number));
    }
    feeds_product(graph, consumer, number).then(|| is_cheap_producer(graph, producer))
}

/// Whether a gather, which reads memory, takes rows of operand `number`.
fn is_gathered(graph: &Graph, consumer: InstructionId, number: usize) -> bool {
    let operand = match graph.fused(consumer) {
        Some(body) => graph.parameter(body, number),
        None => graph.operand(consumer, number),
    };
    let takes = |&user: &InstructionId| graph.opcode(user) == Opcode::Gather && graph.operand(user, 0) == operand;
    inner_users(graph, consumer, number).iter().any(takes)
}

/// Whether the only reader of a product is computed by the product's kernel.
fn goes_on(graph: &Graph, producer: InstructionId, consumer: InstructionId, number: usize) -> bool {
    let follows = |&user: &InstructionId| {
        traits::is_elementwise(graph, user)
            || matches!(graph.opcode(user), Opcode::Reduce | Opcode::Concatenate | Opcode::Bitcast | Opcode::Reshape)
    };
    graph.user_count(producer) == 1
        && !graph.is_root(producer)
        && traits::is_fusible(graph, consumer)
        && !feeds_product(graph, consumer, number)
        && inner_users(graph, consumer, number).iter().all(follows)
        && has_room(graph, consumer)
}

/// Whether a kernel takes a product: it has one, or joins several where they are written.
fn has_room(graph: &Graph, consumer: InstructionId) -> bool {
    let Some(body) = graph.fused(consumer) else { return true };
    graph.opcode(graph.root(body)) == Opcode::Concatenate || !graph.list(body).any(|id| traits::is_product(graph, id))
}

/// The instructions that read operand `number`: inside a fusion, those of its parameter.
fn inner_users(graph: &Graph, consumer: InstructionId, number: usize) -> Vec<InstructionId> {
    match graph.fused(consumer) {
        Some(body) => graph.each_user(graph.parameter(body, number)).collect(),
        None => vec![consumer],
    }
}

/// Whether a product reads operand `number` of `consumer`, or what is made of it on the way.
fn feeds_product(graph: &Graph, consumer: InstructionId, number: usize) -> bool {
    let mut open = inner_users(graph, consumer, number);
    let Some(body) = graph.fused(consumer) else { return traits::is_product(graph, consumer) };
    let mut seen = vec![false; graph.slots(body)];
    while let Some(id) = open.pop() {
        if traits::is_product(graph, id) {
            return true;
        }
        if !std::mem::replace(&mut seen[graph.slot(id)], true) {
            open.extend(graph.each_user(id).filter(|&user| user != consumer));
        }
    }
    false
}

/// What a kernel of a product computes on the fly: elementwise work, however slow, and data that is only moved.
fn is_cheap_producer(graph: &Graph, producer: InstructionId) -> bool {
    use Opcode as O;
    let moved = match graph.opcode(producer) {
        O::Bitcast | O::Broadcast | O::Iota | O::Reshape | O::Slice | O::Transpose | O::Pad | O::Reverse => true,
        O::Concatenate | O::Gather => graph.user_count(producer) == 1,
        _ => false,
    };
    let scalar = graph.opcode(producer) == O::Constant && traits::is_effective_scalar(graph, producer);
    let computed = traits::is_elementwise(graph, producer) && graph.opcode(producer) != O::Constant;
    graph.opcode(producer) != O::Fusion && !graph.is_root(producer) && (moved || scalar || computed)
}
