//! Removal of instructions that nothing needs.
//!
//! Source: `HloDCE` (xla/hlo/transforms/simplifiers/hlo_dce.cc).

use hlo_ir::{InstructionId, Opcode};

use super::graph::Graph;

/// Removes dead instructions of every reachable computation; returns whether there were any. Computations that nothing calls any more need no
/// removal: nothing walks them.
pub(crate) fn run(graph: &mut Graph) -> bool {
    if graph.is_clean() {
        return false;
    }
    let mut changed = false;
    for computation in graph.computation_order().into_iter().rev() {
        if !graph.may_need_removal(computation) {
            continue;
        }
        let dead: Vec<InstructionId> = graph.list(computation).filter(|&id| is_removable(graph, id)).collect();
        for &id in &dead {
            graph.remove_with_operands(id);
        }
        if dead.is_empty() {
            graph.note_settled(computation);
        }
        changed |= !dead.is_empty();
    }
    if !changed {
        graph.note_clean();
    }
    changed
}

fn is_removable(graph: &Graph, id: InstructionId) -> bool {
    graph.is_dead(id) && graph.opcode(id) != Opcode::Parameter && !graph.has_control(id) && !graph.has_side_effect(id)
}
