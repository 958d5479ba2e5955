//! Copies from one layout to another move behind what reads them, where that can be computed in the first layout too; reductions read the first layout.
//!
//! Source: `MoveCopyToUsers` (xla/service/gpu/transforms/move_copy_to_users.cc).

// Tests: `memory/tests/layouts.rs`.

use hlo_ir::shape::ArrayShape;
use hlo_ir::{Opcode, Shape};

use super::build::share;
use super::cx::{Cx, Id};
use super::visit::walk;

/// Moves copies in every computation.
pub(crate) fn run(cx: &mut Cx<'_>) {
    for computation in cx.outside_fusions() {
        if cx.has_seen_in(computation, Opcode::Copy) {
            walk(cx, computation, |cx, id| {
                let Some(new) = moved(cx, id) else { return false };
                cx.replace(id, new);
                true
            });
        }
    }
}

fn moved(cx: &mut Cx<'_>, id: Id) -> Option<Id> {
    use Opcode as O;
    cx.array(id)?;
    let opcode = cx.opcode(id);
    if opcode == O::Reduce && cx.operands(id).len() == 2 {
        let copied = cx.of(cx.operand(id, 0), O::Copy)?;
        let (shape, initial) = (cx.shape(id).clone(), cx.operand(id, 1));
        return Some(cx.like(id, shape, &[copied, initial]));
    }
    let copies = match opcode {
        O::Copy | O::BitcastConvert | O::ReducePrecision => return None,
        O::Pad | O::Slice | O::DynamicSlice | O::ReduceWindow | O::Reverse => 1,
        O::Concatenate => cx.operands(id).len(),
        _ if opcode.is_elementwise() && matches!(cx.operands(id).len(), 1 | 2) => cx.operands(id).len(),
        _ => return None,
    };
    let mut operands = cx.operands(id).to_vec();
    for operand in &mut operands[..copies] {
        *operand = cx.of(*operand, O::Copy)?;
    }
    let layout = cx.array(operands[0])?.layout.clone();
    if operands[..copies].iter().any(|&operand| cx.array(operand).is_none_or(|array| array.layout != layout)) {
        return None;
    }
    let result = cx.shape(id).clone();
    let Shape::Array(array) = &*result else { return None };
    let early = cx.like(id, share(ArrayShape { layout, ..array.clone() }), &operands);
    Some(cx.elementwise(id, result, O::Copy, &[early]))
}
