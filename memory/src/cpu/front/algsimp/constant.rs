//! Constants, iotas and optimization barriers.

use std::sync::Arc;

use hlo_ir::shape::Shape;
use hlo_ir::{AttrKey, AttrValue, Opcode};

use super::super::cx::{Cx, Id};
use super::super::value::{Literal, Scalar};

/// An array whose elements are equal is a broadcast; one that counts from zero is an iota, in steps a multiple of one.
pub(super) fn constant(cx: &mut Cx<'_>, id: Id) -> Option<Id> {
    if cx.elements(id) < 2 {
        return None;
    }
    let (literal, shape) = (cx.literal(id)?, cx.shape(id).clone());
    if let Some(value) = literal.one_value() {
        let scalar = cx.constant(id, literal.element_type, value);
        return Some(cx.broadcast(id, shape, scalar, &[]));
    }
    if cx.rank(id) != 1 {
        return None;
    }
    let step = iota_step(&literal)?;
    let iota = cx.iota(id, shape.clone(), 0);
    if step == 1.0 {
        return Some(iota);
    }
    let factor = cx.scalar_like(id, step);
    Some(cx.elementwise(id, shape, Opcode::Multiply, &[iota, factor]))
}

/// The step of `0, step, 2*step, ...`.
fn iota_step(literal: &Literal) -> Option<f64> {
    let values = literal.values()?;
    let step = values[1].float();
    let complex = literal.element_type.is_complex();
    let counts = values.iter().enumerate().all(|(k, value)| value.is(step * k as f64));
    let whole = matches!(values[1], Scalar::Int(_)) || step == 1.0;
    (counts && whole && !complex && step != 0.0).then_some(step)
}

/// An iota over a dimension of size 1 is zero.
pub(super) fn iota(cx: &mut Cx<'_>, id: Id) -> Option<Id> {
    let dim = cx.inst(id).int(&AttrKey::IotaDimension)?;
    (*cx.dims(id).get(usize::try_from(dim).ok()?)? <= 1).then(|| cx.scalar_like(id, 0.0))
}

/// Elements of a barrier that nothing reads leave it, if only the barrier keeps them alive.
pub(super) fn opt_barrier(cx: &mut Cx<'_>, id: Id) -> Option<Id> {
    let count = cx.shape(id).as_tuple()?.len();
    if cx.is_root(id) {
        return None;
    }
    let users = cx.users(id);
    let mut used = vec![false; count];
    for &user in &users {
        if cx.opcode(user) != Opcode::GetTupleElement {
            return None;
        }
        *used.get_mut(cx.inst(user).int(&AttrKey::Index)? as usize)? = true;
    }
    let operand = cx.operand(id, 0);
    if cx.opcode(operand) == Opcode::Tuple {
        for (index, &element) in cx.operands(operand).iter().enumerate() {
            used[index] |= cx.user_count(element) > 1 || cx.is_root(element) || cx.has_side_effect(element);
        }
    }
    if used.iter().all(|&used| used) {
        return None;
    }
    shrink_barrier(cx, id, operand, &used);
    Some(id)
}

fn shrink_barrier(cx: &mut Cx<'_>, id: Id, operand: Id, used: &[bool]) {
    let kept: Vec<usize> = (0..used.len()).filter(|&index| used[index]).collect();
    let elements: Vec<Id> = kept
        .iter()
        .map(|&index| match cx.opcode(operand) {
            Opcode::Tuple => cx.operand(operand, index),
            _ => cx.element(id, operand, index as i64),
        })
        .collect();
    let tuple = cx.tuple(operand, &elements);
    cx.replace_operand(id, 0, tuple);
    let shape: Arc<Shape> = cx.shape(tuple).clone();
    cx.set_shape(id, shape);
    for user in cx.users(id) {
        let old = cx.inst(user).int(&AttrKey::Index).unwrap_or(0) as usize;
        let new = kept.iter().position(|&index| index == old).unwrap_or(0) as i64;
        cx.set_attribute(user, AttrKey::Index, AttrValue::Int(new));
    }
}
