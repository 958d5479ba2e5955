//! A scatter that changes at most one element of each row becomes a selection over all elements on XLA:TPU, as the gradient of a loss by labels has one.
//!
//! Read off the compiler's modules; its sources are not public. What reads the result makes it on the fly then.

use hlo_ir::shape::ArrayShape;
use hlo_ir::{ElementType, Opcode, ScatterDims};

use super::super::build::share;
use super::super::cx::{Cx, Id};
use super::super::visit::each_if_any;

/// Selects instead of scattering; returns whether there was such a scatter.
pub(crate) fn run(cx: &mut Cx<'_>) -> bool {
    each_if_any(cx, Opcode::Scatter, |cx, id| scattered_dim(cx, id).is_some(), select)
}

/// The dimension along which a scatter puts one element into each row of all others.
fn scattered_dim(cx: &Cx<'_>, id: Id) -> Option<i64> {
    let &[input, _, updates] = cx.operands(id) else { return None };
    let dims = ScatterDims::of(cx.inst(id))?;
    let &[dim] = dims.scatter_dims_to_operand_dims else { return None };
    let rows: Vec<i64> = (0..cx.rank(input) as i64).filter(|&other| other != dim).collect();
    let in_order = dims.input_batching_dims == rows && dims.scatter_indices_batching_dims.is_sorted();
    let single = dims.update_window_dims.is_empty() && dims.inserted_window_dims == [dim];
    let count = rows.iter().map(|&row| cx.dims(input)[row as usize] as u64).product::<u64>();
    let applied = cx.binary_of_parameters(cx.to_apply(id)?).is_some();
    (!rows.is_empty() && in_order && single && applied && cx.elements(updates) == count).then_some(dim)
}

fn select(cx: &mut Cx<'_>, id: Id) -> Option<Id> {
    let dim = scattered_dim(cx, id)?;
    let &[input, indices, updates] = cx.operands(id) else { return None };
    let combined = cx.binary_of_parameters(cx.to_apply(id)?)?;
    let array = cx.arr(input);
    let rows: Vec<i64> = (0..array.rank() as i64).filter(|&other| other != dim).collect();
    let of_rows = |cx: &mut Cx<'_>, value: Id| -> Id {
        let flat = cx.reshape_to(id, value, rows.iter().map(|&row| array.dims[row as usize]));
        let shape = array.with_element_type(cx.element_type(value));
        cx.broadcast(id, share(shape), flat, &rows)
    };
    let wanted = of_rows(cx, indices);
    let update = of_rows(cx, updates);
    let numbered: ArrayShape = array.with_element_type(cx.element_type(indices));
    let place = cx.iota(id, share(numbered), dim);
    let found = cx.compare(id, place, wanted, "EQ");
    let changed = cx.elementwise(id, share(array.clone()), combined, &[input, update]);
    debug_assert_eq!(cx.element_type(found), ElementType::Pred);
    Some(cx.elementwise(id, share(array), Opcode::Select, &[found, changed, input]))
}
