//! The order in which the instructions of a computation run: on XLA:CPU breadth first, without regard to memory; on XLA:GPU and XLA:TPU
//! whichever of three orders needs least.
//!
//! Source: `BFScheduler`, `DefaultMemoryScheduler` (xla/hlo/transforms/simplifiers/hlo_memory_scheduler.cc).

// Tests: `memory/tests/stages.rs`, `memory/tests/tpu.rs`, `memory/tests/not_stored.rs`.

mod buffers;
mod depth;
mod list;

use std::collections::VecDeque;

use crate::assignment::Unordered;
use crate::assignment::flow::Flow;
use crate::hash::IndexSet;
use hlo_ir::arena::Id as _;
use hlo_ir::host::HostMove;
use hlo_ir::{ComputationId, InstructionId, Opcode};
use smallvec::SmallVec;

use super::graph::{Graph, Schedule, Skeleton};
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

/// Orders of the instructions of all computations that are not bodies of fusions, callees first.
type Orders = Vec<(ComputationId, Vec<InstructionId>)>;

/// The one of three orders in which the whole module needs least memory, fragments aside; the first one of several.
fn for_memory(graph: &Graph, target: Target) -> Schedule {
    let (mut ways, needs) = compared(graph, target);
    let best = (0..needs.len()).min_by_key(|&way| needs[way]).unwrap_or(0);
    let mut schedule = Schedule::new(Vec::new());
    for (computation, order) in std::mem::take(&mut ways[best]) {
        schedule.set(computation, order);
    }
    schedule
}

/// Three orders, and bytes alive at most at a time in each; none where there is but one order.
fn compared(graph: &Graph, target: Target) -> ([Orders; 3], [u64; 3]) {
    let Skeleton { snapshot, paths, .. } = &graph.skeleton(None);
    let module = &snapshot.module;
    let unordered = Unordered::of(Flow::beside(module, paths), target);
    let made = unordered.bytes_made();
    let bytes_made = |id: InstructionId| snapshot.in_module(id).map_or(0, |id| made[id.index()]);
    let mut ways: [Orders; 3] = Default::default();
    for computation in graph.outside_fusions() {
        let buffers = Buffers::of(graph, computation, target);
        let orders = [
            list::order(graph, computation, &buffers),
            depth::order(graph, computation, bytes_made),
            graph.post_order(computation).into_iter().collect(),
        ];
        for (way, order) in ways.iter_mut().zip(orders) {
            way.push((computation, if target == Target::Gpu { moves_apart(graph, order) } else { order }));
        }
    }
    if ways.iter().all(|way| *way == ways[0]) {
        return (ways, [0; 3]);
    }
    let needs = ways.each_ref().map(|way| {
        let mut lists = vec![Vec::new(); module.computation_count()];
        for (_, order) in way {
            let order: Vec<InstructionId> = order.iter().filter_map(|&id| snapshot.in_module(id)).collect();
            if let Some(&first) = order.first() {
                lists[module.instruction(first).parent.index()] = order;
            }
        }
        unordered.most_alive(|computation| &lists[computation.index()])
    });
    (ways, needs)
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn loops_make_what_they_change() {
        let module =
            hlo_ir::text::parse(include_str!("../../tests/device_programs/two_loops.hlo")).expect("it is legal");
        let graph = super::super::compile_graph(&module, Target::Gpu);
        let Skeleton { snapshot, paths, .. } = &graph.skeleton(None);
        let made = Unordered::of(Flow::beside(&snapshot.module, paths), Target::Gpu).bytes_made();
        let loops = graph.list(graph.entry()).filter(|&id| graph.opcode(id) == Opcode::While);
        let bytes = loops.filter_map(|id| snapshot.in_module(id)).map(|id| made[id.index()] >> 20);
        assert_eq!(
            bytes.collect::<Vec<_>>(),
            [4 + 256, 128],
            "without 64 MiB that the first one reads, and 256 that the second one reads"
        );
    }

    /// What XLA:GPU itself logs (`TF_CPP_VMODULE=hlo_memory_scheduler=2`), in MiB.
    #[test]
    fn orders_need_what_the_scheduler_says() {
        let needs = |text: &str| {
            let module = hlo_ir::text::parse(text).expect("it is legal");
            let (_, needs) = compared(&super::super::compile_graph(&module, Target::Gpu), Target::Gpu);
            needs.map(|bytes| bytes >> 20)
        };
        assert_eq!(needs(include_str!("../../tests/device_programs/two_loops.hlo")), [716, 588, 716]);
        assert_eq!(needs(include_str!("../../tests/device_programs/layer_norm_gradient.hlo")), [386, 386, 322]);
    }
}
