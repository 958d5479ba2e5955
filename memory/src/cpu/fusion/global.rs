//! Producers that no consumer may take: those with several large operands that would have to be computed in more than one place.
//!
//! Source: `InstructionFusion::ComputeGloballyUnfusible` (xla/service/instruction_fusion.cc).

use crate::hash::{IndexMap, IndexSet};
use hlo_ir::{ComputationId, InstructionId, Opcode};
use smallvec::SmallVec;

use super::super::graph::Graph;
use super::super::traits;
use super::rules::Fuser;
use crate::reachability::Reachability;

/// The producers of `computation` that must not be fused into any consumer.
pub(super) fn globally_unfusible(
    graph: &Graph,
    computation: ComputationId,
    fuser: &mut Fuser,
) -> IndexSet<InstructionId> {
    let order = graph.post_order(computation);
    let mut position = vec![0_u32; graph.slots(computation)];
    order.iter().enumerate().for_each(|(index, &id)| position[graph.slot(id)] = index as u32);
    let mut barred = IndexSet::default();
    let mut reach = None;
    for &producer in order.iter().rev() {
        if reads_one_large_operand(graph, producer) || reads_no_more_than_it_writes(graph, producer) {
            continue;
        }
        let mut paths = Paths {
            graph,
            position: &position,
            barred: &barred,
            producer,
            reach: reach.get_or_insert_with(|| reach_in(graph, &order, &position)),
            known: IndexMap::default(),
        };
        let everywhere =
            traits::is_fusible(graph, producer) && graph.each_user(producer).all(|user| paths.can_fuse(user, fuser));
        if !everywhere {
            barred.insert(producer);
        }
    }
    barred
}

/// Whether at most one operand has as many true dimensions as the result; broadcasts, iotas and scalar constants do not count.
fn reads_one_large_operand(graph: &Graph, id: InstructionId) -> bool {
    let rank = result_rank(graph.shape(id));
    let large = |&&operand: &&InstructionId| match graph.opcode(operand) {
        Opcode::Broadcast | Opcode::Iota => false,
        Opcode::Constant if traits::is_effective_scalar(graph, operand) => false,
        _ => graph.array(operand).map_or(0, traits::true_rank) >= rank,
    };
    graph.operands(id).iter().filter(large).count() <= 1
}

fn result_rank(shape: &hlo_ir::Shape) -> usize {
    match shape {
        hlo_ir::Shape::Array(array) => traits::true_rank(array),
        hlo_ir::Shape::Tuple(elements) => elements.iter().map(|element| result_rank(element)).max().unwrap_or(0),
        _ => 0,
    }
}

/// Whether all distinct operands together have at most as many elements as the result.
fn reads_no_more_than_it_writes(graph: &Graph, id: InstructionId) -> bool {
    let mut distinct: SmallVec<[InstructionId; 16]> = graph.operands(id).into();
    distinct.sort_unstable();
    distinct.dedup();
    let read = distinct.iter().map(|&operand| total_elements(graph.shape(operand))).fold(0, u64::saturating_add);
    read <= total_elements(graph.shape(id))
}

fn total_elements(shape: &hlo_ir::Shape) -> u64 {
    match shape {
        hlo_ir::Shape::Array(array) => array.elements().unwrap_or(u64::MAX),
        hlo_ir::Shape::Tuple(elements) => {
            elements.iter().map(|element| total_elements(element)).fold(0, u64::saturating_add)
        }
        _ => 0,
    }
}

/// The paths from one producer to its consumers.
struct Paths<'a> {
    graph: &'a Graph,
    /// Place in the post-order, by slot.
    position: &'a [u32],
    barred: &'a IndexSet<InstructionId>,
    producer: InstructionId,
    /// What depends on what.
    reach: &'a Reachability,
    /// Whether the producer can be fused into an instruction on all paths.
    known: IndexMap<InstructionId, bool>,
}

impl Paths<'_> {
    /// Whether everything between the producer and `consumer` can be fused into `consumer`.
    fn can_fuse(&mut self, consumer: InstructionId, fuser: &mut Fuser) -> bool {
        if consumer == self.producer {
            return true;
        }
        if !traits::is_fusible(self.graph, consumer) || self.takes_nothing(consumer) {
            return false;
        }
        if let Some(&known) = self.known.get(&consumer) {
            return known;
        }
        let graph = self.graph;
        let result = (0..graph.operands(consumer).len()).all(|number| {
            let operand = graph.operand(consumer, number);
            !self.reaches(operand)
                || (!self.barred.contains(&operand)
                    && fuser.should_fuse(graph, consumer, number)
                    && self.can_fuse(operand, fuser))
        });
        self.known.insert(consumer, result);
        result
    }

    /// Whether a consumer that reads what the producer made is a tuple, into which nothing is fused. The tuple of a program's results is asked
    /// about once for each of them: looking through its operands for the one on the way would take time that grows with their square.
    fn takes_nothing(&self, consumer: InstructionId) -> bool {
        self.graph.opcode(consumer) == Opcode::Tuple && self.graph.control_predecessors(consumer).is_empty()
    }

    /// Whether there is a path from the producer to `id`.
    fn reaches(&self, id: InstructionId) -> bool {
        let place = |id: InstructionId| self.position[self.graph.slot(id)] as usize;
        id == self.producer || self.reach.needs_to_run(place(id), place(self.producer))
    }
}

/// What depends on what in a computation, by place in its post-order.
fn reach_in(graph: &Graph, order: &[InstructionId], position: &[u32]) -> Reachability {
    Reachability::of(order.len(), |place, needs| {
        let id = order[place];
        let before = graph.operands(id).iter().chain(graph.control_predecessors(id));
        needs.extend(before.map(|&other| position[graph.slot(other)]));
    })
}
