//! Library fusions: dots, convolutions and reductions that the YNN library computes, reductions together with what surrounds them.
//!
//! Source: `LibraryRewriter` (xla/backends/cpu/transforms/library_rewriter.cc).

// Tests: `memory/tests/stages.rs`.

pub(crate) mod support;

use std::collections::VecDeque;

use crate::hash::IndexSet;
use hlo_ir::{AttrKey, ComputationId, InstructionId, Opcode};
use smol_str::format_smolstr;

use super::graph::Graph;

/// A fusion of this many instructions does not grow.
const MOST_INSTRUCTIONS: usize = 100;

/// Makes the library fusions of every computation that is not applied by a reduction or the like.
pub(crate) fn run(graph: &mut Graph) {
    let callers = graph.callers();
    for computation in graph.computation_order() {
        let skipped = callers[computation].iter().any(|&caller| {
            graph.opcode(caller) == Opcode::Fusion
                || (graph.opcode(caller) != Opcode::Call && graph.inst(caller).computation(&AttrKey::ToApply).is_some())
        });
        if !skipped {
            Rewriter { fused: IndexSet::default() }.run(graph, computation);
        }
    }
}

/// Where a neighbour stands, seen from the fusion.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Side {
    /// It produces an operand.
    Up,
    /// It uses the result.
    Down,
    /// The fusion itself.
    Both,
}

struct Rewriter {
    /// Instructions that became part of some fusion.
    fused: IndexSet<InstructionId>,
}

impl Rewriter {
    fn run(&mut self, graph: &mut Graph, computation: ComputationId) {
        use Opcode as O;
        let starters: Vec<InstructionId> = graph
            .post_order(computation)
            .into_iter()
            .rev()
            .filter(|&id| matches!(graph.opcode(id), O::Dot | O::Convolution | O::Reduce | O::ReduceWindow))
            .collect();
        for id in starters {
            if self.fused.contains(&id) || !support::is_preferred(graph, id) || !support::is_supported(graph, id) {
                continue;
            }
            self.fused.insert(id);
            let grows = matches!(graph.opcode(id), O::Reduce | O::ReduceWindow);
            let name = format_smolstr!("ynn_{}_fusion", graph.inst(id).opcode_name());
            let mut fusion = graph.fuse_alone(id, "kCustom", name);
            while grows && self.grow(graph, &mut fusion) {}
        }
    }

    /// Takes in neighbours, breadth first; whether any was taken.
    fn grow(&mut self, graph: &mut Graph, fusion: &mut InstructionId) -> bool {
        let mut frontier = Frontier { queue: VecDeque::new(), seen: IndexSet::from_iter([*fusion]) };
        frontier.add(graph, *fusion, *fusion, Side::Both, &self.fused);
        let mut changed = false;
        while body_len(graph, *fusion) < MOST_INSTRUCTIONS {
            let Some((id, side)) = frontier.queue.pop_front() else { break };
            if is_library_fusion(graph, id) {
                *fusion = merge(graph, *fusion, id, side);
            } else if support::is_supported(graph, id) {
                self.fused.insert(id);
                frontier.add(graph, *fusion, id, side, &self.fused);
                take(graph, *fusion, id, side);
            } else {
                continue;
            }
            changed = true;
        }
        changed
    }
}

/// Neighbours still to be looked at.
struct Frontier {
    queue: VecDeque<(InstructionId, Side)>,
    seen: IndexSet<InstructionId>,
}

impl Frontier {
    /// Adds operands of `id` that nothing outside the fusion uses, and its only user.
    fn add(
        &mut self,
        graph: &Graph,
        fusion: InstructionId,
        id: InstructionId,
        side: Side,
        fused: &IndexSet<InstructionId>,
    ) {
        if side != Side::Down {
            for &operand in graph.operands(id) {
                let inside = |user: InstructionId| user == fusion || user == id || fused.contains(&user);
                let free = !fused.contains(&operand) && !self.seen.contains(&operand);
                if free && graph.each_user(operand).all(inside) {
                    self.queue.push_back((operand, Side::Up));
                    self.seen.insert(operand);
                }
            }
        }
        let user = graph.user(id, 0).filter(|_| graph.user_count(id) == 1);
        if let (Some(user), true) = (user, side != Side::Up)
            && !fused.contains(&user)
            && self.seen.insert(user)
        {
            self.queue.push_back((user, Side::Down));
        }
    }
}

fn body_len(graph: &Graph, fusion: InstructionId) -> usize {
    graph.fused(fusion).map_or(0, |body| graph.len(body))
}

fn is_library_fusion(graph: &Graph, id: InstructionId) -> bool {
    graph.opcode(id) == Opcode::Fusion && graph.inst(id).word(&AttrKey::Kind) == Some("kCustom")
}

/// Joins two library fusions; the one that is used by the other disappears.
fn merge(graph: &mut Graph, fusion: InstructionId, neighbour: InstructionId, side: Side) -> InstructionId {
    let (kept, merged) = if side == Side::Up { (fusion, neighbour) } else { (neighbour, fusion) };
    graph.merge_fusion(kept, merged);
    graph.remove(merged);
    kept
}

/// Takes one instruction into the fusion: a producer as an inner instruction, a consumer as the new root.
fn take(graph: &mut Graph, fusion: InstructionId, id: InstructionId, side: Side) {
    if side == Side::Down {
        graph.fuse_consumer(fusion, id);
        return;
    }
    graph.fuse_into(fusion, id);
    if graph.user_count(id) == 0 {
        graph.drop_control(id);
        graph.remove(id);
    }
}
