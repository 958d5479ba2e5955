//! Gathers, scatters, sorts and maps whose operands make them trivial.

use crate::cpu::traits::is_elementwise;
use hlo_ir::{Opcode, ScatterDims};

use super::super::build::row_major;
use super::super::cx::{Cx, Id};

/// A gather from an empty array is zero, from a single element a broadcast.
pub(super) fn gather(cx: &mut Cx<'_>, id: Id) -> Option<Id> {
    let operand = cx.operand(id, 0);
    if cx.is_empty_array(operand) {
        return Some(cx.scalar_like(id, 0.0));
    }
    if !cx.is_effective_scalar(operand) {
        return None;
    }
    let mut scalar = operand;
    if !cx.is_scalar(operand) {
        let shape = row_major(cx.element_type(operand), []);
        scalar = cx.reshape(id, shape, operand);
    }
    let shape = cx.shape(id).clone();
    Some(cx.broadcast(id, shape, scalar, &[]))
}

/// A scatter of nothing is its operand.
pub(super) fn scatter(cx: &mut Cx<'_>, id: Id) -> Option<Id> {
    let count = ScatterDims::input_count(cx.operands(id).len());
    let operands = cx.operands(id).to_vec();
    if !operands[count + 1..].iter().all(|&updates| cx.is_empty_array(updates)) {
        return None;
    }
    match operands[..count] {
        [only] => cx.if_same(id, only),
        _ => Some(cx.tuple(id, &operands[..count])),
    }
}

/// A sort along a dimension of size 1 is its operands.
pub(super) fn sort(cx: &mut Cx<'_>, id: Id) -> Option<Id> {
    let (operands, dim) = (cx.operands(id).to_vec(), *cx.dimensions(id).first()?);
    if cx.dims(operands[0])[dim as usize] > 1 && !cx.is_empty_array(operands[0]) {
        return None;
    }
    Some(if let [only] = operands[..] { only } else { cx.tuple(id, &operands) })
}

/// A map of a single elementwise operation is that operation.
pub(crate) fn map(cx: &mut Cx<'_>, id: Id) -> Option<Id> {
    let root = cx.root(cx.to_apply(id)?);
    let operands = cx.operands(id).to_vec();
    let argument = |number: i64| operands.get(usize::try_from(number).ok()?).copied();
    if let Some(number) = cx.inst(root).parameter_number() {
        return argument(number).and_then(|operand| cx.if_same(id, operand));
    }
    let shape = cx.shape(id).clone();
    if cx.is_constant(root) {
        let (element_type, value) = (cx.element_type(root), cx.scalar(root)?);
        let constant = cx.constant(id, element_type, value);
        return Some(if cx.is_scalar(id) { constant } else { cx.broadcast(id, shape, constant, &[]) });
    }
    if !is_elementwise(cx, root) {
        return None;
    }
    let inputs: Vec<Id> = cx
        .operands(root)
        .iter()
        .map(|&operand| argument(cx.inst(operand).parameter_number()?))
        .collect::<Option<_>>()?;
    let mut inst = cx.inst(root).clone();
    inst.shape = shape;
    inst.operands = inputs.into_iter().collect();
    let parent = cx.parent(id);
    debug_assert!(cx.opcode(root) != Opcode::Fusion, "fusions are not elementwise");
    Some(cx.add(parent, inst))
}
