//! Constant folding: instructions whose operands are known become constants of the module, and count in its total.
//!
//! Source: `HloConstantFolding` (xla/hlo/transforms/simplifiers/hlo_constant_folding.cc).

use hlo_ir::Opcode;

use super::cx::{Cx, Id};
use super::value::evaluate;

/// Arrays with more elements are left alone.
const MOST_ELEMENTS: u64 = 45_000_000;

/// Folds what can be folded, callers before callees; returns whether anything was.
pub(crate) fn run(cx: &mut Cx<'_>) -> bool {
    let mut changed = false;
    for computation in cx.computation_order().into_iter().rev() {
        // Only what can be folded makes something else foldable.
        let may = cx.has_seen_in(computation, Opcode::Constant);
        if !may || !cx.list(computation).any(|id| !cx.is_dead(id) && foldable(cx, id)) {
            continue;
        }
        for id in cx.post_order(computation) {
            if cx.is_alive(id) && !cx.is_dead(id) && foldable(cx, id) {
                changed |= fold(cx, id);
            }
        }
    }
    changed
}

fn fold(cx: &mut Cx<'_>, id: Id) -> bool {
    let Some(literal) = evaluate(cx, id) else { return false };
    let array = cx.arr(id);
    let constant = cx.array_constant(id, array, literal);
    cx.replace_all_uses(id, constant);
    cx.remove_with_operands(id);
    true
}

fn foldable(cx: &Cx<'_>, id: Id) -> bool {
    use Opcode as O;
    let opcode = cx.opcode(id);
    let never = [O::Parameter, O::Constant, O::Tuple, O::Broadcast, O::Iota, O::Fft, O::While, O::AfterAll, O::Rng];
    !never.contains(&opcode)
        && any_constant(cx, id)
        && all_known(cx, id)
        && !cx.has_side_effect(id)
        && !cx.has_control(id)
        && !is_pad_of_broadcast(cx, id)
        && small_enough(cx, id)
}

fn any_constant(cx: &Cx<'_>, id: Id) -> bool {
    cx.operands(id).iter().any(|&operand| match cx.opcode(operand) {
        Opcode::Tuple => any_constant(cx, operand),
        opcode => opcode == Opcode::Constant,
    })
}

fn all_known(cx: &Cx<'_>, id: Id) -> bool {
    cx.operands(id).iter().all(|&operand| match cx.opcode(operand) {
        Opcode::Tuple => all_known(cx, operand),
        Opcode::Broadcast => cx.is_constant(cx.operand(operand, 0)),
        opcode => matches!(opcode, Opcode::Constant | Opcode::Iota),
    })
}

fn is_pad_of_broadcast(cx: &Cx<'_>, id: Id) -> bool {
    cx.opcode(id) == Opcode::Pad
        && cx.opcode(cx.operand(id, 0)) == Opcode::Broadcast
        && cx.is_constant(cx.operand(id, 1))
}

fn small_enough(cx: &Cx<'_>, id: Id) -> bool {
    let inputs: u64 = cx.operands(id).iter().map(|&operand| cx.elements(operand)).fold(0, u64::saturating_add);
    cx.array(id).is_none() || cx.elements(id).max(inputs) <= MOST_ELEMENTS
}
