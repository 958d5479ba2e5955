//! Orders: post-order of a computation, order of computations, callers.

use std::ops::Deref;
use std::sync::Arc;

use hlo_ir::arena::{Id as _, SideTable};
use hlo_ir::graph::Callers;
use hlo_ir::{ComputationId, InstructionId};
use smallvec::SmallVec;

use super::Graph;

/// A list that the graph keeps and hands out: cheap to ask for, and it stays as it is while the graph changes.
#[derive(Clone, Debug)]
pub(crate) struct Order<T>(Arc<[T]>);

impl<T> Deref for Order<T> {
    type Target = [T];
    fn deref(&self) -> &[T] {
        &self.0
    }
}

impl<T: Copy> IntoIterator for Order<T> {
    type Item = T;
    type IntoIter = Steps<T>;
    fn into_iter(self) -> Steps<T> {
        Steps { at: 0, end: self.0.len(), list: self.0 }
    }
}

/// The walk over an [`Order`].
pub(crate) struct Steps<T> {
    list: Arc<[T]>,
    at: usize,
    end: usize,
}

impl<T: Copy> Iterator for Steps<T> {
    type Item = T;
    fn next(&mut self) -> Option<T> {
        let item = (self.at < self.end).then(|| self.list[self.at])?;
        self.at += 1;
        Some(item)
    }
}

impl<T: Copy> DoubleEndedIterator for Steps<T> {
    fn next_back(&mut self) -> Option<T> {
        self.end = self.end.checked_sub(1).filter(|&end| end >= self.at)?;
        Some(self.list[self.end])
    }
}

/// The memory of the last walk, so that the many small computations need none of their own.
#[derive(Debug, Default)]
pub(super) struct Walk {
    /// By instruction: twice the number of the walk that last met it, and one more once that walk was done with it.
    mark: Vec<u32>,
    number: u32,
    stack: Vec<InstructionId>,
    order: Vec<InstructionId>,
}

impl Walk {
    /// Gets ready for a walk among so many instructions.
    fn begin(&mut self, instructions: usize) {
        if self.number == u32::MAX / 2 {
            self.mark.clear();
            self.number = 0;
        }
        self.number += 1;
        if self.mark.len() < instructions {
            self.mark.resize(instructions, 0);
        }
        self.order.clear();
    }
}

impl Graph {
    /// Instructions of a computation, operands and control predecessors before users: from each instruction without users, in list order,
    /// a depth-first walk that takes control predecessors first (last one first), then operands in order.
    ///
    /// Source: `HloComputation::MakeInstructionPostOrder` (xla/hlo/ir/hlo_computation.cc).
    pub(crate) fn post_order(&self, computation: ComputationId) -> Order<InstructionId> {
        let body = &self.bodies[computation];
        if let Some(known) = body.post_order.get() {
            return known.clone();
        }
        let mut walk = self.walk.take_turn();
        walk.begin(self.users.len());
        for sink in self.list(computation).filter(|&id| self.user_count(id) == 0) {
            self.walk_from(sink, &mut walk);
        }
        let order = Order(walk.order.as_slice().into());
        body.post_order.get_or_init(|| order).clone()
    }

    fn walk_from(&self, root: InstructionId, Walk { mark, number, stack, order }: &mut Walk) {
        let (open, done) = (2 * *number, 2 * *number + 1);
        stack.push(root);
        while let Some(&id) = stack.last() {
            let mine = &mut mark[id.index()];
            if *mine == open || *mine == done {
                stack.pop();
                if *mine == open {
                    *mine = done;
                    order.push(id);
                }
                continue;
            }
            *mine = open;
            let height = stack.len();
            let is_open = |before: &&InstructionId| mark[before.index()] != done;
            stack.extend(self.operands(id).iter().rev().filter(is_open));
            stack.extend(self.control_predecessors(id).iter().filter(is_open));
            if stack.len() == height {
                // Nothing to wait for.
                stack.pop();
                mark[id.index()] = done;
                order.push(id);
            }
        }
    }

    /// Computations reachable from the entry, callees before callers, the entry last: a depth-first walk over instruction lists.
    ///
    /// Source: `HloModule::MakeComputationPostOrder` with `dfs_postorder` (xla/hlo/ir/hlo_module.cc).
    pub(crate) fn computation_order(&self) -> Order<ComputationId> {
        if let Some(known) = self.order.get() {
            return known.clone();
        }
        let mut visited = SideTable::new(false);
        visited.set(self.entry, true);
        let mut order = Vec::new();
        let mut stack = vec![(self.entry, 0_usize)];
        while let Some((computation, at)) = stack.last_mut() {
            let body = &self.bodies[*computation];
            let Some(&slot) = body.calling.get(*at) else {
                order.push(*computation);
                stack.pop();
                continue;
            };
            *at += 1;
            let Some(inst) = body.list[slot as usize] else { continue };
            for callee in self.callees(inst).into_iter().rev() {
                if !std::mem::replace(&mut visited[callee], true) {
                    stack.push((callee, 0));
                }
            }
        }
        let order = Order(order.into());
        self.order.get_or_init(|| order).clone()
    }

    /// Forgets the order of computations, because a call changed.
    pub(super) fn forget_order(&mut self) {
        self.order.take();
        self.outside.take();
    }

    /// Reachable computations that are not the body of a fusion, in their order.
    ///
    /// Source: `HloModule::MakeNonfusionComputations`.
    pub(crate) fn outside_fusions(&self) -> Order<ComputationId> {
        if let Some(known) = self.outside.get() {
            return known.clone();
        }
        let order = self.computation_order();
        let mut fused = SideTable::new(false);
        for &id in order.iter() {
            self.calling(id).filter_map(|inst| self.fused(inst)).for_each(|body| fused.set(body, true));
        }
        let outside = Order(order.iter().copied().filter(|&id| !fused[id]).collect());
        self.outside.get_or_init(|| outside).clone()
    }

    /// The instructions that call each computation, in list order of reachable computations.
    pub(crate) fn callers(&self) -> Callers {
        let mut table = Callers::new(SmallVec::new());
        for computation in self.computation_order() {
            for id in self.calling(computation) {
                for callee in self.callees(id) {
                    table[callee].push(id);
                }
            }
        }
        table
    }
}
