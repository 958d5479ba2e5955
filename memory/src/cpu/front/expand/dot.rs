//! Dots in canonical form: batch dimensions first, one free and one contracted dimension per side.
//!
//! Source: `DotDecomposer` (xla/hlo/transforms/expanders/dot_decomposer.cc), `BatchDotSimplification`
//! (xla/hlo/transforms/simplifiers/batch_dot_simplification.cc).

use hlo_ir::shape::Dims;
use hlo_ir::{AttrKey, Opcode};

use super::super::algsimp::dot::{Numbers, make_dot};
use super::super::build::row_major;
use super::super::cx::{Cx, Id};
use super::super::dims::permute;

/// Dots of the module in list order.
fn all_dots(cx: &Cx<'_>) -> Vec<Id> {
    let computations = cx.outside_fusions();
    computations.iter().flat_map(|&id| cx.list(id)).filter(|&id| cx.opcode(id) == Opcode::Dot).collect()
}

/// Decomposes every dot that is not canonical; returns whether there was one.
pub(crate) fn decompose(cx: &mut Cx<'_>) -> bool {
    let mut changed = false;
    for id in all_dots(cx) {
        if let Some(numbers) = Numbers::of(cx, id).filter(|numbers| !is_canonical(cx, id, numbers)) {
            let new = canonical(cx, id, &numbers);
            cx.replace(id, new);
            changed = true;
        }
    }
    changed
}

fn is_canonical(cx: &Cx<'_>, id: Id, numbers: &Numbers) -> bool {
    let batch = numbers.lhs_batch.len();
    let leading = |dims: &Dims| dims.iter().copied().eq(0..batch as i64);
    numbers.lhs_contracting.len() == 1
        && batch + 2 >= cx.rank(cx.operand(id, 0))
        && batch + 2 >= cx.rank(cx.operand(id, 1))
        && leading(&numbers.lhs_batch)
        && leading(&numbers.rhs_batch)
}

fn product(sizes: &[i64], dims: &[i64]) -> i64 {
    dims.iter().map(|&dim| sizes[dim as usize]).product()
}

fn canonical(cx: &mut Cx<'_>, id: Id, numbers: &Numbers) -> Id {
    let (lhs, rhs) = (cx.operand(id, 0), cx.operand(id, 1));
    let (left, right) = (cx.dims(lhs), cx.dims(rhs));
    let batch: Dims =
        (0_i64..).zip(&left).filter(|(dim, _)| numbers.lhs_batch.contains(dim)).map(|(_, &size)| size).collect();
    let left_free = Numbers::free(&numbers.lhs_batch, &numbers.lhs_contracting, left.len());
    let right_free = Numbers::free(&numbers.rhs_batch, &numbers.rhs_contracting, right.len());
    let (m, n) = (product(&left, &left_free), product(&right, &right_free));
    let k = product(&left, &numbers.lhs_contracting);
    let free = |size: i64| (size != 1).then_some(size);

    let order: Dims = numbers.lhs_batch.iter().chain(&left_free).chain(&numbers.lhs_contracting).copied().collect();
    let lhs = transposed(cx, lhs, &order);
    let sizes: Dims = batch.iter().copied().chain(free(m)).chain([k]).collect();
    let lhs = cx.reshape_to(lhs, lhs, sizes);
    let order: Dims = numbers.rhs_batch.iter().chain(&numbers.rhs_contracting).chain(&right_free).copied().collect();
    let rhs = transposed(cx, rhs, &order);
    let sizes: Dims = batch.iter().copied().chain([k]).chain(free(n)).collect();
    let rhs = cx.reshape_to(rhs, rhs, sizes);

    let count = batch.len() as i64;
    let leading: Dims = (0..count).collect();
    let numbers = Numbers {
        lhs_batch: leading.clone(),
        lhs_contracting: [count + i64::from(m != 1)].into_iter().collect(),
        rhs_batch: leading,
        rhs_contracting: [count].into_iter().collect(),
    };
    let small = make_dot(cx, id, lhs, rhs, numbers);
    let shape = cx.shape(id).clone();
    cx.reshape(id, shape, small)
}

/// A transpose, even if nothing moves: the simplifier removes it.
fn transposed(cx: &mut Cx<'_>, operand: Id, order: &[i64]) -> Id {
    let array = cx.arr(operand);
    let shape = row_major(array.element_type, permute(&array.dims, order));
    cx.transpose_as(operand, shape, operand, order)
}

/// Reshapes batch dimensions of size 1 away; returns whether there was one.
pub(crate) fn drop_unit_batches(cx: &mut Cx<'_>) -> bool {
    let mut changed = false;
    for id in all_dots(cx) {
        if let Some(new) = without_unit_batches(cx, id) {
            cx.replace(id, new);
            changed = true;
        }
    }
    changed
}

fn without_unit_batches(cx: &mut Cx<'_>, id: Id) -> Option<Id> {
    if cx.inst(id).ints(&AttrKey::LhsBatchDims).is_empty() {
        // Nearly all.
        return None;
    }
    let numbers = Numbers::of(cx, id)?;
    let batch = numbers.lhs_batch.len() as i64;
    let leading = numbers.lhs_batch == numbers.rhs_batch && numbers.lhs_batch.iter().copied().eq(0..batch);
    let (lhs, rhs) = (cx.operand(id, 0), cx.operand(id, 1));
    let ones: Dims = numbers.lhs_batch.iter().copied().filter(|&dim| cx.dims(lhs)[dim as usize] == 1).collect();
    if !leading || numbers.lhs_contracting.len() != 1 || ones.is_empty() {
        return None;
    }
    let mut shrink = |operand: Id| {
        let sizes = cx.dims(operand);
        let kept: Dims = (0_i64..).zip(sizes).filter(|(dim, _)| !ones.contains(dim)).map(|(_, size)| size).collect();
        cx.reshape_to(operand, operand, kept)
    };
    let (lhs, rhs) = (shrink(lhs), shrink(rhs));
    let gone = ones.len() as i64;
    let left: Dims = (0..batch - gone).collect();
    let numbers = Numbers {
        lhs_batch: left.clone(),
        lhs_contracting: [numbers.lhs_contracting[0] - gone].into_iter().collect(),
        rhs_batch: left,
        rhs_contracting: [numbers.rhs_contracting[0] - gone].into_iter().collect(),
    };
    let small = make_dot(cx, id, lhs, rhs, numbers);
    let shape = cx.shape(id).clone();
    Some(cx.reshape(id, shape, small))
}
