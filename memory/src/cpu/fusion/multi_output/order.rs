//! What depends on what among the kernels of a computation, while kernels are merged: an order in which they can run tells of most pairs at once.

// Tests: `memory/tests/devices.rs`.

use hlo_ir::arena::SideTable;
use hlo_ir::{ComputationId, InstructionId, Opcode};

use super::super::super::graph::Graph;

/// An order in which the instructions of a computation can run.
pub(super) struct RunOrder {
    order: Vec<Option<InstructionId>>,
    /// Where each instruction stands in it; elements of what several-result kernels return stand where those do.
    place: SideTable<InstructionId, Option<u32>>,
    seen: SideTable<InstructionId, u32>,
    search: u32,
}

impl RunOrder {
    pub(super) fn of(graph: &Graph, computation: ComputationId) -> Self {
        let order: Vec<Option<InstructionId>> = graph.post_order(computation).into_iter().map(Some).collect();
        let mut place = SideTable::new(None);
        for (at, &id) in order.iter().enumerate() {
            if let Some(id) = id {
                place.set(id, Some(at as u32));
            }
        }
        Self { order, place, seen: SideTable::new(0), search: 0 }
    }

    /// Whether one of `ids` needs `before` to run.
    pub(super) fn need(&mut self, graph: &Graph, ids: &[InstructionId], before: InstructionId) -> bool {
        let first = self.place[before].unwrap_or(0);
        self.behind(graph, ids, before, first).is_none()
    }

    /// Of what `ids` need and themselves what stands at `first` or behind it; `None` if `before` is among it.
    fn behind(
        &mut self,
        graph: &Graph,
        ids: &[InstructionId],
        before: InstructionId,
        first: u32,
    ) -> Option<Vec<InstructionId>> {
        self.search += 1;
        let mut open = ids.to_vec();
        let mut found = Vec::new();
        while let Some(id) = open.pop() {
            if id == before {
                return None;
            }
            if self.seen[id] != self.search && self.place(graph, id) >= first {
                self.seen.set(id, self.search);
                found.push(id);
                open.extend_from_slice(graph.operands(id));
                open.extend_from_slice(graph.control_predecessors(id));
            }
        }
        Some(found)
    }

    /// Notes that a new instruction stands for another one.
    pub(super) fn replace(&mut self, old: InstructionId, new: InstructionId) {
        if let Some(place) = self.place[old] {
            self.order[place as usize] = Some(new);
            self.place.set(new, Some(place));
        }
    }

    /// Notes that `kept` is about to do what `other` does too. Neither needs the other one by way of a third. What the later of them needs moves before both.
    pub(super) fn merge(&mut self, graph: &Graph, kept: InstructionId, other: InstructionId) {
        let (a, b) = (self.place(graph, kept), self.place(graph, other));
        let (early, late, first, last) = if a < b { (kept, other, a, b) } else { (other, kept, b, a) };
        let needed: Vec<InstructionId> = graph
            .operands(late)
            .iter()
            .chain(graph.control_predecessors(late))
            .copied()
            .filter(|&id| id != early)
            .collect();
        let needed = self.behind(graph, &needed, early, first).unwrap_or_default();
        let mut moves = SideTable::new(false);
        for id in needed {
            moves.set(id, true);
        }
        let region = first as usize..=last as usize;
        let old: Vec<Option<InstructionId>> = self.order[region].to_vec();
        let stays = |id: &Option<InstructionId>| id.is_none_or(|id| id != early && id != late);
        let is_moved = |id: &Option<InstructionId>| id.is_some_and(|id| moves[id]);
        let rest = || old.iter().copied().filter(stays);
        let merged = [Some(kept), None];
        let new: Vec<_> = rest().filter(is_moved).chain(merged).chain(rest().filter(|id| !is_moved(id))).collect();
        for (at, id) in (first..).zip(new) {
            self.order[at as usize] = id;
            if let Some(id) = id {
                self.place.set(id, Some(at));
            }
        }
        self.place.set(other, None);
    }

    fn place(&self, graph: &Graph, id: InstructionId) -> u32 {
        match self.place[id] {
            Some(place) => place,
            None if graph.opcode(id) == Opcode::GetTupleElement => self.place(graph, graph.operand(id, 0)),
            // What is not known may stand anywhere.
            None => u32::MAX,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cpu::graph::Origin;

    const TEXT: &str = "HloModule m\n\nENTRY e {\n  p = f32[8] parameter(0)\n  a = f32[8] sine(p)\n  b = f32[8] negate(a)\n  \
                        c = f32[8] cosine(p)\n  d = f32[8] tanh(c)\n  f = f32[8] negate(d)\n  g = f32[8] sqrt(b)\n  \
                        ROOT t = (f32[8], f32[8]) tuple(f, g)\n}\n";

    #[test]
    fn the_order_is_kept_while_kernels_are_merged() {
        let module = hlo_ir::text::parse(TEXT).expect("it is legal");
        let mut graph = Graph::from_module(&module, Origin::Program);
        let entry = graph.entry();
        let [a, b, d, g] = ["a", "b", "d", "g"]
            .map(|name| graph.list(entry).find(|&id| graph.inst(id).name == name).expect("it is there"));
        let mut order = RunOrder::of(&graph, entry);
        assert!(order.need(&graph, &[g], a) && order.need(&graph, &[d, b], a));
        assert!(!order.need(&graph, &[a], g) && !order.need(&graph, &[d], b) && !order.need(&graph, &[b], d));
        let kept = graph.fuse_alone(b, "kLoop", "b_fusion".into());
        order.replace(b, kept);
        order.merge(&graph, kept, d);
        graph.merge_beside(kept, d);
        let is_before = |order: &RunOrder, id: InstructionId, user: InstructionId| order.place[id] <= order.place[user];
        for user in graph.list(entry).filter(|&id| order.place[id].is_some()) {
            for &operand in graph.operands(user).iter().filter(|&&id| order.place[id].is_some()) {
                assert!(is_before(&order, operand, user), "{} {}", graph.inst(operand).name, graph.inst(user).name);
            }
        }
        assert!(order.need(&graph, &[g], kept) && order.need(&graph, &[g], a) && !order.need(&graph, &[a], kept));
    }
}
