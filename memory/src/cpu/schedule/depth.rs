//! An order that finishes one operand before it begins the next, those first that lead to most shared values, and of those the largest.
//!
//! Source: `DFSMemoryScheduler` (xla/hlo/transforms/simplifiers/hlo_memory_scheduler.cc).

use hlo_ir::{ComputationId, InstructionId, Opcode};

use super::super::graph::Graph;

/// The instructions of a computation in this order, of which each makes so many bytes.
pub(super) fn order(
    graph: &Graph,
    computation: ComputationId,
    bytes_made: impl Fn(InstructionId) -> u64,
) -> Vec<InstructionId> {
    let weights = weights(graph, computation, bytes_made);
    let root = graph.root(computation);
    let others = graph.list(computation).filter(|&id| id != root && graph.user_count(id) == 0);
    let mut walk = Walk { graph, weights, done: vec![None; graph.slots(computation)], sequence: Vec::new() };
    for sink in others.chain([root]).collect::<Vec<_>>() {
        walk.finish(sink);
    }
    walk.sequence
}

/// By slot: users beyond the first, and bytes, of all that leads to an instruction, values that lead to it twice counted twice.
fn weights(graph: &Graph, computation: ComputationId, bytes_made: impl Fn(InstructionId) -> u64) -> Vec<(u64, u64)> {
    let count = graph.len(computation) as u64;
    let mut all_bytes = 0_u64;
    let mut weights = vec![(0, 0); graph.slots(computation)];
    for id in graph.post_order(computation) {
        if matches!(graph.opcode(id), Opcode::Parameter | Opcode::Constant) {
            continue;
        }
        let slot = graph.slot(id);
        let own = bytes_made(id);
        all_bytes = all_bytes.saturating_add(own);
        let mut weight = ((graph.user_count(id) as u64).saturating_sub(1), own);
        let mut operands = graph.operands(id).to_vec();
        operands.sort_unstable();
        operands.dedup();
        for operand in operands {
            let (users, bytes): (u64, u64) = weights[graph.slot(operand)];
            weight = (weight.0.saturating_add(users), weight.1.saturating_add(bytes));
        }
        weights[slot] = (weight.0.min(count), weight.1.min(all_bytes));
    }
    weights
}

struct Walk<'a> {
    graph: &'a Graph,
    weights: Vec<(u64, u64)>,
    /// By slot: whether the walk is done with an instruction, or has only met it.
    done: Vec<Option<bool>>,
    sequence: Vec<InstructionId>,
}

impl Walk<'_> {
    fn finish(&mut self, sink: InstructionId) {
        let mut stack = vec![sink];
        while let Some(&id) = stack.last() {
            let slot = self.graph.slot(id);
            if self.done[slot].is_some() {
                stack.pop();
                if self.done[slot] == Some(false) {
                    self.done[slot] = Some(true);
                    self.sequence.push(id);
                }
                continue;
            }
            self.done[slot] = Some(false);
            let before = self.graph.operands(id).iter().chain(self.graph.control_predecessors(id));
            let mut before: Vec<InstructionId> =
                before.copied().filter(|&id| self.done[self.graph.slot(id)] != Some(true)).collect();
            // The last one of the stack is next.
            before.sort_by(|&a, &b| {
                let weight = |id: InstructionId| self.weights[self.graph.slot(id)];
                let name = |id: InstructionId| &self.graph.inst(id).name;
                weight(a).cmp(&weight(b)).then_with(|| name(b).cmp(name(a)))
            });
            stack.extend(before);
        }
    }
}
