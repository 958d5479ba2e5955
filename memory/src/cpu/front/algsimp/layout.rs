//! Copies and bitcasts: what depends on how arrays lie in memory.

use hlo_ir::Opcode;

use super::super::cx::{Cx, Id};
use super::super::dims::{reshape_is_bitcast, transpose_is_bitcast};

/// `copy(copy(A)) = copy(A)`; a copy to the same shape is nothing; a copy that moves no byte is a bitcast.
pub(super) fn copy(cx: &mut Cx<'_>, id: Id) -> Option<Id> {
    let operand = cx.operand(id, 0);
    let shape = cx.shape(id).clone();
    if let Some(inner) = cx.of(operand, Opcode::Copy) {
        let same = cx.shape(inner) == &shape;
        return Some(if same { inner } else { cx.elementwise(id, shape, Opcode::Copy, &[inner]) });
    }
    cx.if_same(id, operand).or_else(|| reshape_to_bitcast(cx, id))
}

/// A bitcast of a bitcast is one; a bitcast to the same shape is nothing.
pub(super) fn bitcast(cx: &mut Cx<'_>, id: Id) -> Option<Id> {
    let operand = cx.operand(id, 0);
    if let Some(inner) = cx.of(operand, Opcode::Bitcast) {
        let shape = cx.shape(id).clone();
        return Some(cx.elementwise(id, shape, Opcode::Bitcast, &[inner]));
    }
    cx.if_same(id, operand)
}

/// A bitcast-convert of a bitcast-convert is one; after layout assignment it is a bitcast.
pub(super) fn bitcast_convert(cx: &mut Cx<'_>, id: Id) -> Option<Id> {
    let operand = cx.operand(id, 0);
    let shape = cx.shape(id).clone();
    if let Some(inner) = cx.of(operand, Opcode::BitcastConvert) {
        return Some(cx.elementwise(id, shape, Opcode::BitcastConvert, &[inner]));
    }
    if cx.layout_sensitive {
        let (from, to) = (cx.arr(operand), cx.arr(id));
        let same = from.dims == to.dims && from.layout == to.layout;
        let longer = if from.rank() > to.rank() { &from } else { &to };
        if same || longer.minor_to_major().first().copied() == Some(longer.rank() as i64 - 1) {
            return Some(cx.elementwise(id, shape, Opcode::Bitcast, &[operand]));
        }
    }
    cx.if_same(id, operand)
}

/// After layout assignment: a chain of reshapes and copies that moves no byte is a bitcast.
///
/// Source: `BitcastingOperandOfReshapeOrCopyChain`.
pub(super) fn reshape_to_bitcast(cx: &mut Cx<'_>, id: Id) -> Option<Id> {
    if !cx.layout_sensitive {
        return None;
    }
    let to = cx.arr(id);
    let mut source = cx.operand(id, 0);
    loop {
        if reshape_is_bitcast(&cx.arr(source), &to) {
            let shape = cx.shape(id).clone();
            return Some(cx.elementwise(id, shape, Opcode::Bitcast, &[source]));
        }
        match cx.opcode(source) {
            Opcode::Reshape | Opcode::Copy => source = cx.operand(source, 0),
            _ => return None,
        }
    }
}

/// After layout assignment: a transpose that moves no byte is a bitcast.
pub(super) fn transpose_to_bitcast(cx: &mut Cx<'_>, id: Id) -> Option<Id> {
    let operand = cx.operand(id, 0);
    let free = cx.layout_sensitive && transpose_is_bitcast(&cx.arr(operand), &cx.arr(id), &cx.dimensions(id));
    let shape = cx.shape(id).clone();
    free.then(|| cx.elementwise(id, shape, Opcode::Bitcast, &[operand]))
}
