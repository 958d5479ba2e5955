//! The one form of a scatter: an index matrix with one row per update, and updates with the scatter dimension first and full
//! windows.

use hlo_ir::shape::{Dims, Shape};
use hlo_ir::{AttrKey, AttrValue, Opcode, ScatterDims};

use super::super::build::apply;
use super::super::calls::inline_one;
use super::super::cx::{Cx, Id};
use super::{collapse_first, each, index_matrix, insert_ones};

/// Brings every scatter into the form; returns whether any was in another.
pub(crate) fn run(cx: &mut Cx<'_>) -> bool {
    each(cx, Opcode::Scatter, simplify)
}

/// Dimension numbers by value.
struct Numbers {
    windows: Dims,
    inserted: Dims,
    vector_dim: i64,
}

fn numbers(cx: &Cx<'_>, id: Id) -> Option<Numbers> {
    let dims = ScatterDims::of(cx.inst(id))?;
    Some(Numbers {
        windows: dims.update_window_dims.into(),
        inserted: dims.inserted_window_dims.into(),
        vector_dim: dims.index_vector_dim,
    })
}

fn is_simple(cx: &Cx<'_>, id: Id, count: usize, numbers: &Numbers) -> bool {
    let scatter_dims = cx.rank(cx.operand(id, count + 1)) - numbers.windows.len();
    cx.rank(cx.operand(id, 0)) > 0
        && numbers.vector_dim + 1 == cx.rank(cx.operand(id, count)) as i64
        && scatter_dims <= 1
        && !numbers.windows.contains(&0)
        && numbers.windows.is_sorted()
        && numbers.inserted.is_empty()
}

fn simplify(cx: &mut Cx<'_>, id: Id) -> Option<Id> {
    let count = ScatterDims::input_count(cx.operands(id).len());
    let numbers = numbers(cx, id)?;
    if is_simple(cx, id, count, &numbers) {
        return None;
    }
    let rank = numbers.windows.len() + numbers.inserted.len();
    if rank == 0 {
        return into_scalar(cx, id, count);
    }
    let indices = cx.operand(id, count);
    let mut operands = cx.operands(id)[..count].to_vec();
    operands.push(index_matrix(cx, id, indices, numbers.vector_dim));
    for index in count + 1..cx.operands(id).len() {
        let update = cx.operand(id, index);
        operands.push(flat_updates(cx, id, update, &numbers));
    }
    let shapes: Vec<_> = operands[..count].iter().map(|&operand| cx.shape(operand).clone()).collect();
    let shape = if count == 1 { shapes[0].clone() } else { Shape::tuple(shapes) };
    let new = cx.like(id, shape, &operands);
    cx.set_attribute(new, AttrKey::UpdateWindowDims, AttrValue::ints(1..=rank as i64));
    cx.set_attribute(new, AttrKey::InsertedWindowDims, AttrValue::ints([]));
    cx.set_attribute(new, AttrKey::IndexVectorDim, AttrValue::Int(1));
    Some(new)
}

/// A scatter into a scalar applies its computation once.
fn into_scalar(cx: &mut Cx<'_>, id: Id, count: usize) -> Option<Id> {
    let to_apply = cx.to_apply(id)?;
    let mut operands = cx.operands(id)[..count].to_vec();
    operands.extend_from_slice(&cx.operands(id)[count + 1..]);
    let shape = cx.shape(id).clone();
    let call = cx.make(id, shape, Opcode::Call, &operands, [apply(to_apply)]);
    cx.replace_all_uses(id, call);
    inline_one(cx, call)
}

/// Updates with the scatter dimensions first and merged into one, and a dimension of size 1 for every inserted window dimension.
///
/// Source: `FlattenAndTransposeUpdates`.
fn flat_updates(cx: &mut Cx<'_>, at: Id, updates: Id, numbers: &Numbers) -> Id {
    let rank = cx.rank(updates) as i64;
    let order: Dims =
        (0..rank).filter(|dim| !numbers.windows.contains(dim)).chain(numbers.windows.iter().copied()).collect();
    let mut updates = cx.maybe_transpose(at, updates, &order);
    match rank as usize - numbers.windows.len() {
        0 => updates = insert_ones(cx, at, updates, &[0]),
        1 => {}
        scatter_dims => updates = collapse_first(cx, at, updates, scatter_dims),
    }
    if numbers.inserted.is_empty() {
        return updates;
    }
    let positions: Dims = numbers.inserted.iter().map(|dim| dim + 1).collect();
    insert_ones(cx, at, updates, &positions)
}
