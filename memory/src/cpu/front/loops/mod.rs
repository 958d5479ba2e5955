//! Loops: constants move in, invariants move out, elements that nothing needs disappear, loops of no or one trip vanish.

mod counters;
mod dead;
mod elements;
mod motion;
mod simplify;
mod sink;
mod trips;

use hlo_ir::{AttrKey, ComputationId, Opcode};

use super::cx::{Cx, Id};

pub(crate) use motion::run as hoist_invariants;
pub(crate) use simplify::run as simplify;
pub(crate) use sink::{forward_invariants, run as sink_constants, sink_broadcasts};

/// A `while` and the computations it runs.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Loop {
    /// The `while`.
    pub(crate) id: Id,
    /// The initial state.
    pub(crate) init: Id,
    /// Runs once per trip.
    pub(crate) body: ComputationId,
    /// Says whether there is another trip.
    pub(crate) condition: ComputationId,
    /// The state inside the body.
    pub(crate) body_state: Id,
    /// The state inside the condition.
    pub(crate) condition_state: Id,
}

impl Loop {
    /// The parts of a `while` whose computations have one parameter each.
    pub(crate) fn of(cx: &Cx<'_>, id: Id) -> Option<Self> {
        let inst = cx.inst(id);
        let (body, condition) = (inst.computation(&AttrKey::Body)?, inst.computation(&AttrKey::Condition)?);
        let state = |callee: ComputationId| cx.list(callee).find(|&id| cx.opcode(id) == Opcode::Parameter);
        let (body_state, condition_state) = (state(body)?, state(condition)?);
        (inst.opcode == Opcode::While).then(|| Self {
            id,
            init: cx.operand(id, 0),
            body,
            condition,
            body_state,
            condition_state,
        })
    }
    /// What the body returns.
    pub(crate) fn root(&self, cx: &Cx<'_>) -> Id {
        cx.root(self.body)
    }
    /// Number of elements of the state; `None` if it is no tuple.
    pub(crate) fn len(&self, cx: &Cx<'_>) -> Option<usize> {
        cx.shape(self.id).as_tuple().map(<[_]>::len)
    }
    /// The element of the state that `id` reads, if it reads one.
    pub(crate) fn element_read(&self, cx: &Cx<'_>, id: Id) -> Option<usize> {
        let from = cx.of(id, Opcode::GetTupleElement)?;
        let index = cx.inst(id).int(&AttrKey::Index)?;
        (from == self.body_state || from == self.condition_state).then_some(index as usize)
    }
    /// Whether the body passes element `index` on unchanged.
    pub(crate) fn passes(&self, cx: &Cx<'_>, index: usize) -> bool {
        let root = self.root(cx);
        cx.opcode(root) == Opcode::Tuple
            && cx.operands(root).get(index).is_some_and(|&operand| self.element_read(cx, operand) == Some(index))
    }
    /// Whether body and condition read the state only element by element.
    pub(crate) fn reads_elements_only(&self, cx: &Cx<'_>) -> bool {
        [self.body_state, self.condition_state].into_iter().all(|state| {
            cx.users(state).into_iter().all(|user| cx.opcode(user) == Opcode::GetTupleElement) && !cx.is_root(state)
        })
    }
}

/// Every `while` of the module, computation by computation.
fn all_loops(cx: &Cx<'_>) -> Vec<Id> {
    let mut found = Vec::new();
    if !cx.has_seen(Opcode::While) {
        return found;
    }
    for computation in cx.computation_order() {
        found.extend(cx.list(computation).filter(|&id| cx.opcode(id) == Opcode::While));
    }
    found
}
