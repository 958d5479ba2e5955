//! A scatter that changes at most one element of each row becomes a selection over all elements on XLA:TPU, as the gradient of `take_along_axis` has one.
//!
//! Read off the compiler's modules; its sources are not public. What reads the result makes it on the fly then. The rows are batch dimensions, and the
//! updates have a dimension more, of one element; without that dimension the compiler scatters.

// Tests: `memory/tests/tpu.rs`.

use hlo_ir::shape::Dims;
use hlo_ir::{Opcode, ScatterDims};

use super::super::build::share;
use super::super::cx::{Cx, Id};
use super::super::visit::each_if_any;

/// Selects instead of scattering; returns whether there was such a scatter.
pub(crate) fn run(cx: &mut Cx<'_>) -> bool {
    each_if_any(cx, Opcode::Scatter, |cx, id| rows(cx, id).is_some(), select)
}

/// The dimensions of the rows into each of which a scatter puts one element, along the only other dimension.
fn rows(cx: &Cx<'_>, id: Id) -> Option<Dims> {
    let &[input, _, updates] = cx.operands(id) else { return None };
    let dims = ScatterDims::of(cx.inst(id))?;
    let &[dim] = dims.scatter_dims_to_operand_dims else { return None };
    let rows: Dims = (0..cx.rank(input) as i64).filter(|&other| other != dim).collect();
    let in_order = dims.input_batching_dims == &rows[..] && dims.scatter_indices_batching_dims.is_sorted();
    let single = dims.update_window_dims.is_empty()
        && dims.inserted_window_dims == [dim]
        && cx.rank(updates) == cx.rank(input)
        && cx.elements(updates) == cx.elements(input) / cx.dims(input)[dim as usize].max(1) as u64;
    (in_order && single && !rows.is_empty()).then_some(rows)
}

fn select(cx: &mut Cx<'_>, id: Id) -> Option<Id> {
    let rows = rows(cx, id)?;
    let &[input, indices, updates] = cx.operands(id) else { return None };
    let combined = cx.binary_of_parameters(cx.to_apply(id)?)?;
    let dim = (0..=rows.len() as i64).find(|dim| !rows.contains(dim))?;
    let [wanted, update] = [indices, updates].map(|value| for_each_row(cx, id, value, &rows));
    let numbered = cx.arr(input).with_element_type(cx.element_type(indices));
    let place = cx.iota(id, share(numbered), dim);
    let found = cx.compare(id, place, wanted, "EQ");
    let shape = share(cx.arr(input));
    let changed = cx.elementwise(id, shape.clone(), combined, &[input, update]);
    Some(cx.elementwise(id, shape, Opcode::Select, &[found, changed, input]))
}

/// A value of which every row of the scattered array has one element, repeated over the row.
fn for_each_row(cx: &mut Cx<'_>, scatter: Id, value: Id, rows: &[i64]) -> Id {
    let array = cx.arr(cx.operand(scatter, 0));
    let flat = cx.reshape_to(scatter, value, rows.iter().map(|&row| array.dims[row as usize]));
    let shape = array.with_element_type(cx.element_type(value));
    cx.broadcast(scatter, share(shape), flat, rows)
}
