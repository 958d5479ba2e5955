//! Constants that a loop carries unchanged move into its body and condition, and their broadcasts on arrival.
//!
//! Source: `WhileLoopConstantSinking` (xla/service/while_loop_constant_sinking.cc).

use hlo_ir::{AttrKey, Opcode};

use super::super::cx::{Cx, Id};
use super::Loop;
use super::simplify::copy_constant;

/// Sinks constants into every loop, outer loops first; returns whether any was.
pub(crate) fn run(cx: &mut Cx<'_>) -> bool {
    sink_into_all(cx, false)
}

/// The same for broadcasts of constants.
pub(crate) fn sink_broadcasts(cx: &mut Cx<'_>) -> bool {
    sink_into_all(cx, true)
}

/// Readers of what a loop carries unchanged read what it starts from, inner loops first.
pub(crate) fn forward_invariants(cx: &mut Cx<'_>) {
    for computation in cx.computation_order() {
        for id in cx.list(computation).filter(|&id| cx.opcode(id) == Opcode::While).collect::<Vec<_>>() {
            let Some(at) = Loop::of(cx, id).filter(|at| cx.opcode(at.init) == Opcode::Tuple) else { continue };
            for read in cx.users(id) {
                let index = cx.of(read, Opcode::GetTupleElement).and_then(|_| cx.inst(read).int(&AttrKey::Index));
                let index = index.and_then(|index| usize::try_from(index).ok());
                if let Some(index) = index.filter(|&index| at.passes(cx, index)) {
                    let init = cx.operand(at.init, index);
                    cx.replace_all_uses(read, init);
                }
            }
        }
    }
}

fn sink_into_all(cx: &mut Cx<'_>, broadcasts: bool) -> bool {
    let mut changed = false;
    for computation in cx.computation_order().into_iter().rev() {
        for id in cx.list(computation).filter(|&id| cx.opcode(id) == Opcode::While).collect::<Vec<_>>() {
            if let Some(at) = Loop::of(cx, id) {
                changed |= sink(cx, &at, broadcasts);
            }
        }
    }
    changed
}

fn sink(cx: &mut Cx<'_>, at: &Loop, broadcasts: bool) -> bool {
    if cx.opcode(at.init) != Opcode::Tuple || cx.opcode(at.root(cx)) != Opcode::Tuple {
        return false;
    }
    let mut changed = false;
    for index in 0..cx.operands(at.init).len() {
        let init = cx.operand(at.init, index);
        if !is_sunk(cx, init, broadcasts) || !at.passes(cx, index) {
            continue;
        }
        let kept = cx.operand(at.root(cx), index);
        if cx.user_count(kept) > 1 {
            let constant = copy_of(cx, kept, init);
            redirect(cx, kept, constant, index, at.root(cx));
            changed = true;
        }
        for read in cx.users(at.condition_state) {
            if at.element_read(cx, read) == Some(index) && cx.user_count(read) > 0 {
                let constant = copy_of(cx, read, init);
                cx.replace_all_uses(read, constant);
                cx.remove(read);
                changed = true;
            }
        }
    }
    changed
}

/// Whether an initial value is a constant, or a broadcast of one.
fn is_sunk(cx: &Cx<'_>, init: Id, broadcasts: bool) -> bool {
    if broadcasts {
        return cx.opcode(init) == Opcode::Broadcast && cx.is_constant(cx.operand(init, 0));
    }
    cx.is_constant(init)
}

/// A copy of a constant, or of its broadcast, in the computation of `at`.
fn copy_of(cx: &mut Cx<'_>, at: Id, init: Id) -> Id {
    if cx.is_constant(init) {
        return copy_constant(cx, at, init);
    }
    let constant = copy_constant(cx, at, cx.operand(init, 0));
    cx.copy_to(cx.parent(at), init, &[constant])
}

/// Lets every use of `read` except operand `index` of `root` be a use of `constant`.
fn redirect(cx: &mut Cx<'_>, read: Id, constant: Id, index: usize, root: Id) {
    for user in cx.users(read) {
        for slot in 0..cx.operands(user).len() {
            if cx.operand(user, slot) == read && !(user == root && slot == index) {
                cx.replace_operand(user, slot, constant);
            }
        }
    }
}
