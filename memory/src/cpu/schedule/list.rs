//! An order that takes, of what can run, what frees most memory: greedy, so that the memory of a step falls, not of all steps.
//!
//! Source: `ListScheduler` (xla/hlo/transforms/simplifiers/hlo_memory_scheduler.cc).

use std::collections::BTreeMap;

use hlo_ir::{ComputationId, InstructionId, Shape};

use super::super::graph::Graph;
use super::buffers::Buffers;

/// Bytes freed, then how many use the result; the last one that came comes first among equals.
type Priority = (i64, i64, usize);

/// The instructions of a computation in this order.
pub(super) fn order(graph: &Graph, computation: ComputationId, buffers: &Buffers) -> Vec<InstructionId> {
    List::new(graph, computation, buffers).run(computation)
}

struct List<'a> {
    graph: &'a Graph,
    buffers: &'a Buffers,
    /// Instructions that use a buffer and have not run, by buffer.
    uses_left: Vec<usize>,
    /// What an instruction still waits for, by slot.
    waiting_for: Vec<usize>,
    ready: BTreeMap<Priority, InstructionId>,
    /// The priority under which an instruction is ready, by slot.
    known: Vec<Option<Priority>>,
    /// How many entries there have been.
    entries: usize,
}

impl<'a> List<'a> {
    fn new(graph: &'a Graph, computation: ComputationId, buffers: &'a Buffers) -> Self {
        let slots = graph.slots(computation);
        let mut uses_left = vec![0; buffers.sizes.len()];
        let mut waiting_for = vec![0; slots];
        for id in graph.list(computation) {
            buffers.used[graph.slot(id)].iter().for_each(|&buffer| uses_left[buffer] += 1);
            let next = graph.each_user(id).chain(graph.control_successors(id).iter().copied());
            next.for_each(|next| waiting_for[graph.slot(next)] += 1);
        }
        buffers.live_out.iter().for_each(|&buffer| uses_left[buffer] += 1);
        Self { graph, buffers, uses_left, waiting_for, ready: BTreeMap::new(), known: vec![None; slots], entries: 0 }
    }

    fn run(mut self, computation: ComputationId) -> Vec<InstructionId> {
        let graph = self.graph;
        let first = graph.list(computation).filter(|&id| self.waiting_for[graph.slot(id)] == 0);
        for id in first.collect::<Vec<_>>() {
            self.enter(id);
        }
        let mut sequence = Vec::with_capacity(graph.len(computation));
        while let Some((_, id)) = self.ready.pop_last() {
            self.known[graph.slot(id)] = None;
            sequence.push(id);
            let mut last_use = false;
            for &buffer in &self.buffers.used[graph.slot(id)] {
                self.uses_left[buffer] -= 1;
                last_use |= self.uses_left[buffer] == 1;
            }
            for next in graph.each_user(id).chain(graph.control_successors(id).iter().copied()) {
                self.waiting_for[graph.slot(next)] -= 1;
                if self.waiting_for[graph.slot(next)] == 0 {
                    self.enter(next);
                }
            }
            if last_use {
                self.raise_beside(id);
            }
        }
        sequence
    }

    fn enter(&mut self, id: InstructionId) {
        let (freed, users) = self.priority(id);
        self.entries += 1;
        let priority = (freed, users, self.entries);
        self.ready.insert(priority, id);
        self.known[self.graph.slot(id)] = Some(priority);
    }

    fn priority(&self, id: InstructionId) -> (i64, i64) {
        if is_scalar(self.graph.shape(id)) {
            return (i64::MAX, i64::MAX);
        }
        let slot = self.graph.slot(id);
        let ends = |&&buffer: &&usize| !self.buffers.ignored[buffer] && self.uses_left[buffer] == 1;
        let freed: i64 =
            self.buffers.used[slot].iter().filter(ends).map(|&buffer| self.buffers.sizes[buffer] as i64).sum();
        (freed - self.buffers.bytes_defined(slot), self.graph.user_count(id) as i64)
    }

    /// Gives instructions that share an operand with `id` the priority that they have by now.
    fn raise_beside(&mut self, id: InstructionId) {
        for &operand in self.graph.operands(id) {
            let beside: Vec<InstructionId> = self.graph.each_user(operand).collect();
            for other in beside {
                let Some(known) = self.known[self.graph.slot(other)] else { continue };
                let (freed, users) = self.priority(other);
                if (freed, users) != (known.0, known.1) {
                    self.ready.remove(&known);
                    self.enter(other);
                }
            }
        }
    }
}

/// Whether a value is one number, or a tuple of one such value.
fn is_scalar(shape: &Shape) -> bool {
    match shape {
        Shape::Array(array) => array.elements() == Some(1),
        Shape::Tuple(elements) => matches!(&elements[..], [element] if is_scalar(element)),
        _ => false,
    }
}
