//! What the way through StableHLO simplifies before the compiler sees a program: sizes of dimensions that are set to what they are, arrays that
//! are sorted along with others although nobody reads them, and broadcasts of constants, which loops make themselves.
//!
//! Source: `SetDimensionSizeOp::fold`, `SortOpDropUnusedArgs` (stablehlo/transforms, mlir_hlo/mhlo/IR/hlo_ops.cc), `SinkConstantsToControlFlow`
//! (mlir_hlo/mhlo/transforms/sink_constants_to_control_flow).

// Tests: `memory/tests/not_stored.rs`.

use hlo_ir::shape::Shape;
use hlo_ir::{AttrKey, AttrValue, Opcode};

use super::cx::{Cx, Id};
use super::visit::each;
use super::{dce, loops};
use crate::cpu::tuples;

/// Simplifies a program that holds any of it.
pub(super) fn run(cx: &mut Cx<'_>) {
    if each(cx, Opcode::SetDimensionSize, whole) {
        tuples::run(cx);
        dce::run(cx);
    }
    each_sort(cx);
    if cx.has_seen(Opcode::While) {
        // There are no tuples on the way.
        tuples::run(cx);
        loops::forward_invariants(cx);
        loops::sink_broadcasts(cx);
    }
}

/// The operand, if its dimension is as large as it is said to be.
fn whole(cx: &mut Cx<'_>, id: Id) -> Option<Id> {
    let (operand, size) = (cx.operand(id, 0), cx.operand(id, 1));
    let dim = usize::try_from(*cx.dimensions(id).first()?).ok()?;
    let said = cx.literal(size)?.one_value()?.int()?;
    let fixed = !cx.array(id)?.is_dynamic() && !cx.array(operand)?.is_dynamic();
    (fixed && said == i128::from(*cx.dims(operand).get(dim)?)).then_some(operand)
}

fn each_sort(cx: &mut Cx<'_>) {
    for computation in cx.outside_fusions() {
        if !cx.has_seen_in(computation, Opcode::Sort) {
            continue;
        }
        for id in cx.post_order(computation) {
            if cx.opcode(id) == Opcode::Sort {
                drop_unread(cx, id);
            }
        }
    }
}

/// Sorts only what is read or compared.
fn drop_unread(cx: &mut Cx<'_>, id: Id) -> Option<()> {
    let comparator = cx.to_apply(id)?;
    let count = cx.shape(id).as_tuple()?.len();
    let users = cx.users(id);
    if cx.is_root(id) || users.iter().any(|&user| cx.opcode(user) != Opcode::GetTupleElement) {
        return None;
    }
    let parameters = cx.parameters(comparator);
    let read = |index: usize| {
        let taken = |&&user: &&Id| cx.inst(user).int(&AttrKey::Index) == Some(index as i64) && !cx.is_dead(user);
        users.iter().any(|user| taken(&user))
    };
    let compared = |index: usize| (0..2).any(|side| !cx.is_dead(parameters[2 * index + side]));
    let kept: Vec<usize> = (0..count).filter(|&index| read(index) || compared(index)).collect();
    if kept.is_empty() || kept.len() == count {
        return None;
    }
    narrow(cx, id, &kept);
    Some(())
}

fn narrow(cx: &mut Cx<'_>, id: Id, kept: &[usize]) {
    let elements = cx.shape(id).as_tuple().unwrap_or_default().to_vec();
    let operands: Vec<Id> = kept.iter().map(|&index| cx.operand(id, index)).collect();
    let shapes: Vec<_> = kept.iter().map(|&index| elements[index].clone()).collect();
    let shape = if let [only] = &shapes[..] { only.clone() } else { Shape::tuple(shapes) };
    let new = cx.like(id, shape, &operands);
    if let Some(comparator) = cx.to_apply(id) {
        let comparator = cx.deep_clone(comparator);
        let dropped = |place: usize| !kept.contains(&(place / 2));
        let parameters = cx.parameters(comparator).into_iter().enumerate().filter(|(place, _)| dropped(*place));
        parameters.map(|(_, parameter)| parameter).collect::<Vec<_>>().into_iter().for_each(|dead| cx.remove(dead));
        cx.renumber_parameters(comparator, 0);
        cx.set_attribute(new, AttrKey::ToApply, AttrValue::Computation(comparator));
    }
    for user in cx.users(id) {
        let index = cx.inst(user).int(&AttrKey::Index).unwrap_or_default() as usize;
        let Some(place) = kept.iter().position(|&kept| kept == index) else { continue };
        let element = if kept.len() == 1 { new } else { cx.element(id, new, place as i64) };
        cx.replace(user, element);
    }
}
