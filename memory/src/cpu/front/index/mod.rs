//! Gathers and scatters: batch dimensions become index columns, single indices become dynamic slices, and what is left takes the one form
//! the code generator knows.
//!
//! Source: `BatchedGatherScatterNormalizer`, `GatherExpander`, `ScatterExpander` (xla/service), `GatherSimplifier`
//! (xla/hlo/transforms/simplifiers/gather_simplifier.cc), `ScatterSimplifier` (xla/service/scatter_simplifier.cc).

mod batch;
mod gather;
mod scatter;
mod single;

use hlo_ir::shape::Dims;

use super::cx::{Cx, Id};
use super::visit::each;

pub(crate) use batch::run as normalize_batches;
pub(crate) use gather::run as simplify_gathers;
pub(crate) use scatter::run as simplify_scatters;
pub(crate) use single::{one_output, run_gathers as expand_single_gathers, run_scatters as expand_single_scatters};

/// Inserts dimensions of size 1 so that they stand at these positions of the result.
fn insert_ones(cx: &mut Cx<'_>, at: Id, operand: Id, positions: &[i64]) -> Id {
    let sizes = cx.dims(operand);
    let mut old = sizes.iter().copied();
    let count = sizes.len() + positions.len();
    let new: Dims =
        (0..count as i64).map(|dim| if positions.contains(&dim) { 1 } else { old.next().unwrap_or(1) }).collect();
    cx.reshape_to(at, operand, new)
}

/// Merges the first `count` dimensions.
fn collapse_first(cx: &mut Cx<'_>, at: Id, operand: Id, count: usize) -> Id {
    let sizes = cx.dims(operand);
    let merged = sizes[..count].iter().product();
    cx.reshape_to(at, operand, std::iter::once(merged).chain(sizes[count..].iter().copied()))
}

/// The indices as a matrix: one row per index, one column per component.
///
/// Source: `TransformStartIndices` (xla/service/gather_scatter_utils.cc).
fn index_matrix(cx: &mut Cx<'_>, at: Id, indices: Id, vector_dim: i64) -> Id {
    let mut indices = indices;
    let mut rank = cx.rank(indices);
    if vector_dim == rank as i64 {
        indices = insert_ones(cx, at, indices, &[vector_dim]);
        rank += 1;
    } else if vector_dim < rank as i64 - 1 {
        let order: Dims = (0..rank as i64).filter(|&dim| dim != vector_dim).chain([vector_dim]).collect();
        indices = cx.maybe_transpose(at, indices, &order);
    }
    match rank {
        0 | 2 => indices,
        1 => insert_ones(cx, at, indices, &[0]),
        _ => collapse_first(cx, at, indices, rank - 1),
    }
}
