//! The order in which XLA:CPU runs the instructions of a computation: breadth first, without regard to memory.
//!
//! Source: `BFScheduler` (xla/hlo/transforms/simplifiers/hlo_memory_scheduler.cc).

use std::collections::VecDeque;

use hlo_ir::{ComputationId, InstructionId};
use smallvec::SmallVec;

use super::graph::{Graph, Schedule};

/// Orders every computation that is not the body of a fusion.
pub(crate) fn schedule(graph: &Graph) -> Schedule {
    let mut schedule = Schedule::new(Vec::new());
    for computation in graph.outside_fusions() {
        schedule.set(computation, breadth_first(graph, computation));
    }
    schedule
}

/// First-in first-out from the instructions that wait for nothing, in list order; an instruction enters the queue when the last one it
/// waits for has run: users in user-list order, then control successors.
fn breadth_first(graph: &Graph, computation: ComputationId) -> Vec<InstructionId> {
    let mut waiting_for = vec![0_u32; graph.slots(computation)];
    let mut ready = VecDeque::new();
    for id in graph.list(computation) {
        let count = distinct(graph.operands(id)) + graph.control_predecessors(id).len();
        waiting_for[graph.slot(id)] = count as u32;
        if count == 0 {
            ready.push_back(id);
        }
    }
    let mut sequence = Vec::with_capacity(graph.len(computation));
    while let Some(id) = ready.pop_front() {
        for next in graph.each_user(id).chain(graph.control_successors(id).iter().copied()) {
            let waiting = &mut waiting_for[graph.slot(next)];
            *waiting -= 1;
            if *waiting == 0 {
                ready.push_back(next);
            }
        }
        sequence.push(id);
    }
    sequence
}

/// How many different instructions are in a list.
fn distinct(operands: &[InstructionId]) -> usize {
    match operands {
        [] => 0,
        [_] => 1,
        [a, b] => 1 + usize::from(a != b),
        _ => {
            let mut distinct: SmallVec<[InstructionId; 16]> = operands.into();
            distinct.sort_unstable();
            distinct.dedup();
            distinct.len()
        }
    }
}
