//! Ways to walk over a module while it changes.

use hlo_ir::{ComputationId, Opcode};

use super::cx::{Cx, Id};

/// How far the walk has come with an instruction.
#[derive(Clone, Copy, PartialEq)]
enum State {
    New,
    Open,
    Done,
}

/// One walk over a computation, operands before users, following the graph as it changes: an instruction made on the way is met in this
/// walk only through users that were not reached yet.
///
/// Source: `HloComputation::Accept`, `PostOrderDFS` (xla/hlo/ir/hlo_instruction.cc).
pub(crate) fn walk(
    cx: &mut Cx<'_>,
    computation: ComputationId,
    mut handle: impl FnMut(&mut Cx<'_>, Id) -> bool,
) -> bool {
    let sinks: Vec<Id> =
        cx.list(computation).filter(|&id| cx.is_dead(id) && cx.control_successors(id).is_empty()).collect();
    // By slot: a table by id would be as long as the module for every reducer.
    let mut state = vec![State::New; cx.slots(computation)];
    let mut changed = false;
    for sink in sinks {
        changed |= walk_from(cx, sink, &mut state, &mut handle);
    }
    let root = cx.root(computation);
    walk_from(cx, root, &mut state, &mut handle) || changed
}

fn walk_from(
    cx: &mut Cx<'_>,
    root: Id,
    state: &mut Vec<State>,
    handle: &mut impl FnMut(&mut Cx<'_>, Id) -> bool,
) -> bool {
    let mut changed = false;
    let mut stack = vec![root];
    while let Some(&id) = stack.last() {
        if !cx.is_alive(id) {
            // Removed on the way, and its operands with it.
            stack.pop();
            continue;
        }
        let slot = cx.slot(id);
        if slot >= state.len() {
            state.resize(cx.slots(cx.parent(id)), State::New);
        }
        match state[slot] {
            State::Done => {
                stack.pop();
            }
            State::Open => {
                stack.pop();
                state[slot] = State::Done;
                changed |= handle(cx, id);
            }
            State::New => {
                state[slot] = State::Open;
                let before = cx.control_predecessors(id).iter().rev().chain(cx.operands(id).iter().rev());
                let is_new = |before: &Id| state.get(cx.slot(*before)).is_none_or(|state| *state == State::New);
                stack.extend(before.copied().filter(is_new));
            }
        }
    }
    changed
}

/// [`each`] where `applies` says of some instruction that it is to be rewritten; `false` is the end of it.
pub(crate) fn each_if_any(
    cx: &mut Cx<'_>,
    opcode: Opcode,
    applies: impl Fn(&Cx<'_>, Id) -> bool,
    rewrite: impl Fn(&mut Cx<'_>, Id) -> Option<Id>,
) -> bool {
    let holds = |computation: ComputationId| {
        cx.has_seen_in(computation, opcode) && cx.list(computation).any(|id| cx.opcode(id) == opcode && applies(cx, id))
    };
    cx.has_seen(opcode) && cx.outside_fusions().into_iter().any(holds) && each(cx, opcode, rewrite)
}

/// Replaces every instruction of an opcode by what `rewrite` makes of it; returns whether any was.
///
/// Source: `OpExpanderPass`, which collects first and rewrites then.
pub(crate) fn each(cx: &mut Cx<'_>, opcode: Opcode, rewrite: impl Fn(&mut Cx<'_>, Id) -> Option<Id>) -> bool {
    let mut found = Vec::new();
    if !cx.has_seen(opcode) {
        return false;
    }
    for computation in cx.outside_fusions().into_iter().filter(|&id| cx.has_seen_in(id, opcode)) {
        let mut here = cx.list(computation).filter(|&id| cx.opcode(id) == opcode);
        match (here.next(), here.next()) {
            (Some(_), Some(_)) => {
                found.extend(cx.post_order(computation).into_iter().filter(|&id| cx.opcode(id) == opcode));
            }
            (only, _) => found.extend(only),
        }
    }
    let mut changed = false;
    for id in found {
        if let Some(new) = rewrite(cx, id) {
            cx.replace(id, new);
            changed = true;
        }
    }
    changed
}
