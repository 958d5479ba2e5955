//! Constants that a loop carries unchanged move into its body and condition.
//!
//! Source: `WhileLoopConstantSinking` (xla/service/while_loop_constant_sinking.cc).

use hlo_ir::Opcode;

use super::super::cx::{Cx, Id};
use super::Loop;
use super::simplify::copy_constant;

/// Sinks constants into every loop, outer loops first; returns whether any was.
pub(crate) fn run(cx: &mut Cx<'_>) -> bool {
    let mut changed = false;
    for computation in cx.computation_order().into_iter().rev() {
        for id in cx.list(computation).filter(|&id| cx.opcode(id) == Opcode::While).collect::<Vec<_>>() {
            if let Some(at) = Loop::of(cx, id) {
                changed |= sink(cx, &at);
            }
        }
    }
    changed
}

fn sink(cx: &mut Cx<'_>, at: &Loop) -> bool {
    if cx.opcode(at.init) != Opcode::Tuple || cx.opcode(at.root(cx)) != Opcode::Tuple {
        return false;
    }
    let mut changed = false;
    for index in 0..cx.operands(at.init).len() {
        let init = cx.operand(at.init, index);
        if !cx.is_constant(init) || !at.passes(cx, index) {
            continue;
        }
        let kept = cx.operand(at.root(cx), index);
        if cx.user_count(kept) > 1 {
            let constant = copy_constant(cx, kept, init);
            redirect(cx, kept, constant, index, at.root(cx));
            changed = true;
        }
        for read in cx.users(at.condition_state) {
            if at.element_read(cx, read) == Some(index) && cx.user_count(read) > 0 {
                let constant = copy_constant(cx, read, init);
                cx.replace_all_uses(read, constant);
                cx.remove(read);
                changed = true;
            }
        }
    }
    changed
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
