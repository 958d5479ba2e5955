//! The one form of a gather: an index matrix with one row per slice, and whole slices as result.

use hlo_ir::shape::Dims;
use hlo_ir::{AttrKey, AttrValue, GatherDims, Opcode};

use super::super::build::row_major;
use super::super::cx::{Cx, Id};
use super::{each, index_matrix};

/// Brings every gather into the form; returns whether any was in another.
pub(crate) fn run(cx: &mut Cx<'_>) -> bool {
    each(cx, Opcode::Gather, simplify)
}

/// Dimension numbers by value.
struct Numbers {
    offset: Dims,
    collapsed: Dims,
    vector_dim: i64,
    slice_sizes: Dims,
}

fn numbers(cx: &Cx<'_>, id: Id) -> Option<Numbers> {
    let dims = GatherDims::of(cx.inst(id))?;
    Some(Numbers {
        offset: dims.offset_dims.into(),
        collapsed: dims.collapsed_slice_dims.into(),
        vector_dim: dims.index_vector_dim,
        slice_sizes: dims.slice_sizes.into(),
    })
}

fn is_simple(cx: &Cx<'_>, id: Id, numbers: &Numbers) -> bool {
    cx.rank(cx.operand(id, 1)) == 2
        && numbers.vector_dim == 1
        && numbers.collapsed.is_empty()
        && numbers.offset.first() == Some(&1)
        && numbers.offset.last() == Some(&(numbers.offset.len() as i64))
}

fn simplify(cx: &mut Cx<'_>, id: Id) -> Option<Id> {
    let numbers = numbers(cx, id)?;
    if is_simple(cx, id, &numbers) {
        return None;
    }
    if numbers.slice_sizes.contains(&0) {
        return Some(cx.scalar_like(id, 0.0));
    }
    let indices = cx.operand(id, 1);
    let matrix = index_matrix(cx, id, indices, numbers.vector_dim);
    let slices = make_gather(cx, id, matrix, &numbers);
    let index_sizes = batch_sizes(cx, indices, numbers.vector_dim);
    let shaped = without_collapsed(cx, id, slices, &numbers.collapsed, &index_sizes);
    Some(offsets_into_place(cx, id, shaped, &numbers.offset, index_sizes.len()))
}

/// The gather of whole slices, one per row of the matrix.
fn make_gather(cx: &mut Cx<'_>, id: Id, matrix: Id, numbers: &Numbers) -> Id {
    let (operand, rows) = (cx.operand(id, 0), cx.dims(matrix)[0]);
    let sizes = std::iter::once(rows).chain(numbers.slice_sizes.iter().copied());
    let shape = row_major(cx.element_type(operand), sizes);
    let new = cx.like(id, shape, &[operand, matrix]);
    let offset = 1..=numbers.slice_sizes.len() as i64;
    cx.set_attribute(new, AttrKey::OffsetDims, AttrValue::ints(offset));
    cx.set_attribute(new, AttrKey::CollapsedSliceDims, AttrValue::ints([]));
    cx.set_attribute(new, AttrKey::IndexVectorDim, AttrValue::Int(1));
    new
}

fn batch_sizes(cx: &Cx<'_>, indices: Id, vector_dim: i64) -> Dims {
    (0_i64..).zip(cx.dims(indices)).filter(|(dim, _)| *dim != vector_dim).map(|(_, size)| size).collect()
}

/// Reshapes collapsed dimensions away, then spreads the rows over the dimensions of the indices.
fn without_collapsed(cx: &mut Cx<'_>, id: Id, slices: Id, collapsed: &[i64], index_sizes: &[i64]) -> Id {
    let mut result = slices;
    if !collapsed.is_empty() {
        let sizes = cx.dims(result);
        let kept = (0_i64..).zip(&sizes).filter(|(dim, _)| !collapsed.contains(&(dim - 1)));
        let kept: Dims = kept.map(|(_, &size)| size).collect();
        result = cx.reshape_to(id, result, kept);
    }
    if index_sizes.len() != 1 {
        let sizes = cx.dims(result);
        let spread: Dims = index_sizes.iter().chain(&sizes[1..]).copied().collect();
        result = cx.reshape_to(id, result, spread);
    }
    result
}

/// Moves the dimensions of the slices to where the result has them.
fn offsets_into_place(cx: &mut Cx<'_>, id: Id, operand: Id, offset: &[i64], batch: usize) -> Id {
    let (mut next_offset, mut next_batch) = (batch as i64, 0);
    let order: Dims = (0..(batch + offset.len()) as i64)
        .map(|dim| {
            let next = if offset.contains(&dim) { &mut next_offset } else { &mut next_batch };
            *next += 1;
            *next - 1
        })
        .collect();
    cx.maybe_transpose(id, operand, &order)
}
