//! Views of a module as a graph: users, orders, callers. Computed on demand, never stored in the module.

// Tests: `ir/tests/graph.rs`.

use petgraph::graph::DiGraph;
use smallvec::SmallVec;

use crate::arena::SideTable;
use crate::{ComputationId, InstructionId, Module};

/// Who uses whom inside each computation.
#[derive(Clone, Debug)]
pub struct Users {
    table: SideTable<InstructionId, SmallVec<[InstructionId; 4]>>,
}

impl Users {
    /// Users of every live instruction of `module`, each user once, in text order of the users.
    pub fn of(module: &Module) -> Self {
        let mut table: SideTable<InstructionId, SmallVec<[InstructionId; 4]>> = SideTable::new(SmallVec::new());
        for (id, inst) in module.live_instructions() {
            for &operand in &inst.operands {
                if table[operand].last() != Some(&id) {
                    table[operand].push(id);
                }
            }
        }
        Self { table }
    }
    /// Instructions that have `id` as an operand.
    pub fn get(&self, id: InstructionId) -> &[InstructionId] {
        &self.table[id]
    }
}

/// The instructions that call each computation.
pub type Callers = SideTable<ComputationId, SmallVec<[InstructionId; 2]>>;

/// The instructions that call each computation, in text order.
pub fn callers(module: &Module) -> Callers {
    let mut table = Callers::new(SmallVec::new());
    for (id, inst) in module.live_instructions() {
        for callee in inst.called_computations() {
            table[callee].push(id);
        }
    }
    table
}

/// Operands and control predecessors, the instructions that must stand before `id`.
pub fn predecessors(module: &Module, id: InstructionId) -> impl Iterator<Item = InstructionId> + '_ {
    let inst = module.instruction(id);
    inst.operands.iter().chain(inst.control_predecessors()).copied()
}

/// The instructions of `order` rearranged so that definitions come before uses, moving as little as possible:
/// an order that is already legal comes back unchanged. `None` if the instructions form a cycle.
pub fn stable_order(module: &Module, order: &[InstructionId]) -> Option<Vec<InstructionId>> {
    #[derive(Clone, Copy, PartialEq)]
    enum State {
        New,
        Open,
        Done,
    }
    let mut state = SideTable::new(State::New);
    let mut sorted = Vec::with_capacity(order.len());
    for &start in order {
        let mut stack = vec![(start, false)];
        while let Some((id, operands_done)) = stack.pop() {
            match (state[id], operands_done) {
                (State::Done, _) => {}
                (_, true) => {
                    state.set(id, State::Done);
                    sorted.push(id);
                }
                (State::Open, false) => return None,
                (State::New, false) => {
                    state.set(id, State::Open);
                    stack.push((id, true));
                    let before: SmallVec<[InstructionId; 8]> = predecessors(module, id).collect();
                    stack.extend(before.into_iter().rev().filter(|&op| state[op] != State::Done).map(|op| (op, false)));
                }
            }
        }
    }
    Some(sorted)
}

/// Instructions reachable from `start` through operands and control predecessors, `start` included.
pub fn cone(module: &Module, start: impl IntoIterator<Item = InstructionId>) -> SideTable<InstructionId, bool> {
    let mut seen = SideTable::new(false);
    let mut work: Vec<InstructionId> = start.into_iter().collect();
    while let Some(id) = work.pop() {
        if !std::mem::replace(&mut seen[id], true) {
            work.extend(predecessors(module, id).filter(|&before| !seen[before]));
        }
    }
    seen
}

/// The data-flow graph of one computation for petgraph's algorithms: node `k` is the `k`-th live instruction, edges run from
/// definition to use.
pub fn petgraph(module: &Module, computation: ComputationId) -> DiGraph<InstructionId, ()> {
    let list = &module.computation(computation).instructions;
    let mut graph = DiGraph::with_capacity(list.len(), 2 * list.len());
    let mut node = SideTable::new(petgraph::graph::NodeIndex::end());
    for &id in list {
        node.set(id, graph.add_node(id));
    }
    for &id in list {
        for before in predecessors(module, id) {
            graph.add_edge(node[before], node[id], ());
        }
    }
    graph
}

/// Instructions of `computation` in post-order: for each instruction without users, in text order, operands before users.
/// XLA's printer and most of its passes walk a computation this way.
pub fn post_order(module: &Module, computation: ComputationId) -> Vec<InstructionId> {
    let list = &module.computation(computation).instructions;
    let mut used = SideTable::new(false);
    for &id in list {
        for before in predecessors(module, id) {
            used.set(before, true);
        }
    }
    let sinks: Vec<InstructionId> = list.iter().copied().filter(|&id| !used[id]).collect();
    stable_order(module, &sinks).unwrap_or_else(|| list.clone())
}
