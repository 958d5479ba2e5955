//! The order in which the instructions of a computation run: on XLA:CPU breadth first, without regard to memory; on XLA:GPU and XLA:TPU
//! whichever of three orders needs least.
//!
//! Source: `BFScheduler`, `DefaultMemoryScheduler` (xla/hlo/transforms/simplifiers/hlo_memory_scheduler.cc).

// Tests: `memory/tests/stages.rs`, `memory/tests/tpu.rs`.

mod buffers;
mod depth;
mod list;

use std::collections::VecDeque;

use crate::hash::{IndexMap, IndexSet};
use hlo_ir::host::HostMove;
use hlo_ir::{ComputationId, InstructionId, Opcode};
use smallvec::SmallVec;

use super::graph::{Graph, Schedule};
use crate::Target;
use crate::size::is_elsewhere;
use buffers::Buffers;

/// Orders every computation that is not the body of a fusion.
pub(crate) fn schedule(graph: &Graph, target: Target) -> Schedule {
    if target != Target::Cpu {
        return for_memory(graph, target);
    }
    let mut schedule = Schedule::new(Vec::new());
    for computation in graph.outside_fusions() {
        schedule.set(computation, breadth_first(graph, computation));
    }
    schedule
}

/// The one of three orders in which the whole module needs least memory, fragments aside; the first one of several.
fn for_memory(graph: &Graph, target: Target) -> Schedule {
    let mut schedules = [const { Vec::new() }; 3];
    let mut peaks: IndexMap<ComputationId, [u64; 3]> = IndexMap::default();
    // Callees come first.
    for computation in graph.outside_fusions() {
        let buffers = Buffers::of(graph, computation, target);
        let orders = [
            list::order(graph, computation, &buffers),
            depth::order(graph, computation, &buffers),
            graph.post_order(computation).into_iter().collect(),
        ];
        let mut needed = [0; 3];
        for (way, order) in orders.into_iter().enumerate() {
            let order = if target == Target::Gpu { moves_apart(graph, order) } else { order };
            let of_callee = |callee: ComputationId| peaks.get(&callee).map_or(0, |peaks| peaks[way]);
            let called = |id| graph.callees(id).into_iter().map(of_callee).max().unwrap_or(0);
            needed[way] = buffers.peak(graph, &order, called);
            schedules[way].push((computation, order));
        }
        peaks.insert(computation, needed);
    }
    let needed = peaks.get(&graph.entry()).copied().unwrap_or_default();
    let best = (0..needed.len()).min_by_key(|&way| needed[way]).unwrap_or(0);
    let mut schedule = Schedule::new(Vec::new());
    for (computation, order) in std::mem::take(&mut schedules[best]) {
        schedule.set(computation, order);
    }
    schedule
}

/// Lets rows on their way to and from host memory take as long as they can, in an order of a computation: XLA:GPU starts such copies as early and waits for them as late as
/// it can. What is copied to the host stands on the device until then.
///
/// Source: `PostprocessorToScheduleAsEarlyOrLateAsPossible` (xla/service/gpu/gpu_hlo_schedule.cc).
fn moves_apart(graph: &Graph, mut order: Vec<InstructionId>) -> Vec<InstructionId> {
    let moves = |id: InstructionId| HostMove::of(graph.inst(id));
    if !order.iter().any(|&id| moves(id).is_some()) {
        return order;
    }
    let is_there = |id: InstructionId| is_elsewhere(graph.shape(id));
    let behind_bitcasts = |mut id: InstructionId| {
        while graph.opcode(id) == Opcode::Bitcast {
            id = graph.operand(id, 0);
        }
        id
    };
    let comes_from_device = |id: InstructionId| moves(behind_bitcasts(id)) == Some(HostMove::ToHost);
    let is_write = |id: InstructionId| {
        is_there(id)
            && graph.opcode(id) != Opcode::Bitcast
            && graph.operands(id).iter().any(|&row| comes_from_device(row))
    };
    let is_row =
        |id: InstructionId| graph.each_user(id).all(|user| is_write(user) || graph.opcode(user) == Opcode::Bitcast);
    let writes = |id: InstructionId| is_write(id) || comes_from_device(id) && is_row(id);
    let is_slice = |id: InstructionId| {
        let slices = matches!(graph.opcode(behind_bitcasts(id)), Opcode::DynamicSlice | Opcode::Fusion);
        slices && is_there(id) && !is_write(id)
    };
    let reads = |id: InstructionId| match graph.opcode(id) {
        Opcode::GetTupleElement => is_there(id),
        Opcode::CustomCall => moves(id) == Some(HostMove::ToDevice) && is_slice(graph.operand(id, 0)),
        _ => is_slice(id),
    };
    let mut before = |id: InstructionId| [graph.operands(id), graph.control_predecessors(id)].concat();
    order = moved_up(order, reads, &mut before);
    order.reverse();
    let mut behind =
        |id: InstructionId| graph.each_user(id).chain(graph.control_successors(id).iter().copied()).collect();
    order = moved_up(order, writes, &mut behind);
    order.reverse();
    order
}

/// An order in which some instructions stand right behind the last that they `need`.
fn moved_up(
    order: Vec<InstructionId>,
    is_moved: impl Fn(InstructionId) -> bool,
    need: &mut dyn FnMut(InstructionId) -> Vec<InstructionId>,
) -> Vec<InstructionId> {
    let moved = order.iter().copied().filter(|&id| is_moved(id));
    let mut waiting: Vec<(InstructionId, Vec<InstructionId>)> = moved.map(|id| (id, need(id))).collect();
    let mut done: IndexSet<InstructionId> = IndexSet::default();
    for id in order {
        done.insert(id);
        while let Some(at) = waiting.iter().position(|(_, need)| need.iter().all(|need| done.contains(need))) {
            done.insert(waiting.remove(at).0);
        }
    }
    done.into_iter().collect()
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
