//! The last passes before layouts: matrix-vector products become matrix products, transposes fold into dots, barriers go.
//!
//! Source: `GemvRewriter` (xla/service/gpu/transforms/gemv_rewriter.cc), `TransposeFolding` (xla/service/transpose_folding.cc),
//! `OptimizationBarrierExpander`.

use hlo_ir::Opcode;
use hlo_ir::shape::Dims;

use super::algsimp::dot::{Numbers, make_dot};
use super::build::row_major;
use super::cx::{Cx, Id};
use super::visit::each;

/// Gives the vector of a matrix-vector product a second dimension of size 1.
pub(crate) fn widen_vectors(cx: &mut Cx<'_>) -> bool {
    each(cx, Opcode::Dot, |cx, id| {
        let numbers = Numbers::of(cx, id)?;
        let (lhs, rhs) = cx.both(id, Opcode::Dot)?;
        let free = |cx: &Cx<'_>, side: Id, batch: &Dims, contracting: &Dims| {
            cx.rank(side) == batch.len() + contracting.len() + 1
        };
        let left = free(cx, lhs, &numbers.lhs_batch, &numbers.lhs_contracting);
        let right = free(cx, rhs, &numbers.rhs_batch, &numbers.rhs_contracting);
        let plain = |id: Id| cx.arr(id).layout.is_none_or(|layout| layout.is_descending());
        if left == right || !plain(id) || !plain(lhs) || !plain(rhs) {
            return None;
        }
        let mut sizes = cx.dims(id);
        sizes.insert(if left { sizes.len() } else { sizes.len() - 1 }, 1);
        let widen = |cx: &mut Cx<'_>, side: Id| {
            let dims: Dims = cx.dims(side).iter().copied().chain([1]).collect();
            cx.reshape_to(id, side, dims)
        };
        let (lhs, rhs) = if left { (lhs, widen(cx, rhs)) } else { (widen(cx, lhs), rhs) };
        let shape = row_major(cx.element_type(id), sizes);
        let wide = cx.like(id, shape, &[lhs, rhs]);
        let shape = cx.shape(id).clone();
        Some(cx.reshape(id, shape, wide))
    })
}

/// A transpose of the two dimensions of a side that are no batch dimensions becomes part of the dot.
pub(crate) fn fold_transposes(cx: &mut Cx<'_>) -> bool {
    each(cx, Opcode::Dot, |cx, id| {
        let (mut lhs, mut rhs) = cx.both(id, Opcode::Dot)?;
        let transposed = |side: Id| cx.opcode(side) == Opcode::Transpose;
        if !(transposed(lhs) || transposed(rhs)) || cx.rank(lhs) < 2 || cx.rank(rhs) < 2 {
            return None;
        }
        let mut numbers = Numbers::of(cx, id)?;
        let folds = |cx: &Cx<'_>, side: Id, batch: &Dims, contracting: &Dims| {
            let permutation = cx.dimensions(side);
            cx.opcode(side) == Opcode::Transpose
                && !permutation.is_sorted()
                && batch.len() + 2 == permutation.len()
                && contracting.len() == 1
                && batch.iter().all(|&dim| permutation[dim as usize] == dim)
        };
        let before = (lhs, rhs);
        if folds(cx, lhs, &numbers.lhs_batch, &numbers.lhs_contracting) {
            let permutation = cx.dimensions(lhs);
            numbers.lhs_contracting[0] = permutation[numbers.lhs_contracting[0] as usize];
            lhs = cx.operand(lhs, 0);
        }
        if folds(cx, rhs, &numbers.rhs_batch, &numbers.rhs_contracting) {
            let permutation = cx.dimensions(rhs);
            numbers.rhs_contracting[0] = permutation[numbers.rhs_contracting[0] as usize];
            rhs = cx.operand(rhs, 0);
        }
        if before == (lhs, rhs) {
            return None;
        }
        let new = make_dot(cx, id, lhs, rhs, numbers);
        let shape = cx.shape(id).clone();
        cx.set_shape(new, shape);
        Some(new)
    })
}

/// Removes optimization barriers.
pub(crate) fn drop_barriers(cx: &mut Cx<'_>) -> bool {
    each(cx, Opcode::OptBarrier, |cx, id| Some(cx.operand(id, 0)))
}
