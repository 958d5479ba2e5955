//! Removal of instructions that nothing needs.
//!
//! Source: `HloDCE` (xla/hlo/transforms/simplifiers/hlo_dce.cc).

use hlo_ir::Opcode;

use super::cx::{Cx, Id};

/// Removes dead instructions of every reachable computation; returns whether there were any. Computations that nothing calls any
/// more need no removal: nothing walks them.
pub(crate) fn run(cx: &mut Cx<'_>) -> bool {
    let mut changed = false;
    for computation in cx.computation_order().into_iter().rev() {
        let dead: Vec<Id> = cx.list(computation).filter(|&id| removable(cx, id)).collect();
        for id in dead {
            if cx.is_alive(id) {
                cx.remove_with_operands(id);
                changed = true;
            }
        }
    }
    changed
}

fn removable(cx: &Cx<'_>, id: Id) -> bool {
    cx.is_dead(id) && cx.opcode(id) != Opcode::Parameter && !cx.has_control(id) && !cx.has_side_effect(id)
}
