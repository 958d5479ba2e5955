//! What compilers for devices store because a kernel would read each of its elements several times, and none of the slow operations behind it is done that often.
//!
//! XLA:CPU stores the result of each of these operations instead. Source: what XLA:GPU and XLA:TPU make of a gradient of distances, where an exponential, a
//! quotient and a root are combined before they meet eight coordinates.

// Tests: `memory/tests/devices.rs`.

use hlo_ir::{ArrayShape, ComputationId, InstructionId, Opcode};
use smallvec::SmallVec;

use super::super::graph::Graph;
use super::super::traits;
use super::cost::is_expensive;

/// More instructions than this are not looked through.
const MOST_BEHIND: usize = 64;

/// Elementwise values of several slow operations that a broadcast repeats.
pub(super) fn repeated(graph: &Graph, computation: ComputationId) -> Vec<InstructionId> {
    let stands = |&id: &InstructionId| {
        traits::is_elementwise(graph, id)
            && !graph.is_root(id)
            && graph.each_user(id).any(|user| repeats(graph, id, user))
            && combines_slow_values(graph, id)
    };
    graph.list(computation).filter(stands).collect()
}

fn repeats(graph: &Graph, id: InstructionId, user: InstructionId) -> bool {
    let elements = |id| graph.array(id).and_then(ArrayShape::elements).unwrap_or(0);
    graph.opcode(user) == Opcode::Broadcast && elements(user) > elements(id)
}

/// Whether an elementwise value is made of more than one slow one.
fn combines_slow_values(graph: &Graph, id: InstructionId) -> bool {
    let mut open: SmallVec<[InstructionId; 16]> = SmallVec::from_slice(&[id]);
    let mut slow: SmallVec<[InstructionId; 4]> = SmallVec::new();
    for _ in 0..MOST_BEHIND {
        let Some(id) = open.pop() else { break };
        if !traits::is_elementwise(graph, id) {
            continue;
        }
        if !is_expensive(graph, id) {
            open.extend_from_slice(graph.operands(id));
        } else if !slow.contains(&id) {
            slow.push(id);
        }
    }
    slow.len() > 1
}
