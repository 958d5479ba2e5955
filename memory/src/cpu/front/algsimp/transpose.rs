//! Transposes.

use hlo_ir::shape::Dims;
use hlo_ir::{AttrKey, AttrValue, DotDims, Opcode};

use super::super::cx::{Cx, Id};
use super::super::dims::{compose, inverse};
use super::layout;

/// Rules for `transpose`.
pub(super) fn transpose(cx: &mut Cx<'_>, id: Id) -> Option<Id> {
    let operand = cx.operand(id, 0);
    let permutation = cx.dimensions(id);
    let shape = cx.shape(id).clone();
    if permutation.is_sorted() {
        return Some(operand);
    }
    if let Some(inner) = cx.of(operand, Opcode::Transpose) {
        let both = compose(&cx.dimensions(operand), &permutation);
        return Some(cx.transpose_as(id, shape, inner, &both));
    }
    if let Some(dot) = of_dot(cx, id, operand, &permutation) {
        return Some(dot);
    }
    if only_moves_ones(&cx.dims(id), &permutation) {
        return Some(cx.reshape(id, shape, operand));
    }
    layout::transpose_to_bitcast(cx, id).or_else(|| of_broadcast(cx, id, operand, &permutation))
}

/// Whether a transpose only moves dimensions of size 1.
fn only_moves_ones(sizes: &[i64], permutation: &[i64]) -> bool {
    let kept = permutation.iter().zip(sizes).filter(|(_, size)| **size != 1).map(|(dim, _)| dim);
    sizes.contains(&1) && kept.is_sorted()
}

/// `transpose(dot(A,B)) = dot(B,A)` over the two last dimensions of a canonical dot that nothing else reads.
fn of_dot(cx: &mut Cx<'_>, id: Id, dot: Id, permutation: &[i64]) -> Option<Id> {
    if cx.opcode(dot) != Opcode::Dot || cx.user_count(dot) != 1 {
        return None;
    }
    let (lhs, rhs) = cx.both(dot, Opcode::Dot)?;
    let numbers = DotDims::of(cx.inst(dot))?;
    let batch = numbers.lhs_batch.len();
    let counts =
        |contracting: &[i64], side: Id| !contracting.is_empty() && contracting.len() + batch + 1 == cx.rank(side);
    let leading: Dims = (0..batch as i64).collect();
    let mut sorted: Dims = numbers.lhs_batch.into();
    sorted.sort_unstable();
    let canonical = numbers.lhs_batch == numbers.rhs_batch
        && sorted == leading
        && counts(numbers.lhs_contracting, lhs)
        && counts(numbers.rhs_contracting, rhs);
    let rank = permutation.len();
    let mut swap: Dims = (0..rank as i64).collect();
    if !canonical || rank < 2 {
        return None;
    }
    swap.swap(rank - 1, rank - 2);
    if permutation != swap.as_slice() {
        return None;
    }
    let (left, right): (Dims, Dims) = (numbers.rhs_contracting.into(), numbers.lhs_contracting.into());
    let shape = cx.shape(id).clone();
    let new = cx.like(dot, shape, &[rhs, lhs]);
    cx.set_attribute(new, AttrKey::LhsContractingDims, AttrValue::ints(left));
    cx.set_attribute(new, AttrKey::RhsContractingDims, AttrValue::ints(right));
    Some(new)
}

/// `transpose(broadcast(X))` is a broadcast of `X` when the dimensions of `X` keep their order.
///
/// Source: `SimplifyTransposeOfBroadcast`.
fn of_broadcast(cx: &mut Cx<'_>, id: Id, operand: Id, permutation: &[i64]) -> Option<Id> {
    let inner = cx.of(operand, Opcode::Broadcast)?;
    let dims = cx.dimensions(operand);
    if !dims.is_sorted() {
        return None;
    }
    let back = inverse(permutation);
    let new: Dims = dims.iter().map(|&dim| back[dim as usize]).collect();
    if !new.is_sorted() || (cx.layout_sensitive && new.len() > 1) {
        return None;
    }
    let shape = cx.shape(id).clone();
    Some(cx.broadcast(id, shape, inner, &new))
}
