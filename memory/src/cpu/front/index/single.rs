//! Gathers and scatters of exactly one index are dynamic slices and updates.

use hlo_ir::attribute::SliceDim;
use hlo_ir::shape::Dims;
use hlo_ir::{AttrKey, Attribute, ComputationId, ElementType, Instruction, Opcode, Payload};

use super::super::build::{apply, row_major};
use super::super::cx::{Cx, Id};

use super::super::value::{Literal, Scalar};
use super::{each, insert_ones};

/// Expands gathers of one index; returns whether there was one.
pub(crate) fn run_gathers(cx: &mut Cx<'_>) -> bool {
    each(cx, Opcode::Gather, gather)
}

/// Expands scatters of one index; returns whether there was one.
pub(crate) fn run_scatters(cx: &mut Cx<'_>) -> bool {
    each(cx, Opcode::Scatter, scatter)
}

/// How many indices there are.
fn index_count(cx: &Cx<'_>, indices: Id, vector_dim: i64) -> i64 {
    (0_i64..).zip(cx.dims(indices)).filter(|(dim, _)| *dim != vector_dim).map(|(_, size)| size).product()
}

/// The one index as a vector of its components.
fn index_vector(cx: &mut Cx<'_>, at: Id, indices: Id, vector_dim: i64) -> Id {
    let width = cx.dims(indices).get(vector_dim as usize).copied().unwrap_or(1);
    let rank = cx.rank(indices) as i64;
    let mut indices = indices;
    if vector_dim < rank - 1 {
        let order: Dims = (0..rank).filter(|&dim| dim != vector_dim).chain([vector_dim]).collect();
        indices = cx.transpose(at, indices, &order);
    }
    if cx.dims(indices)[..] == [width] { indices } else { cx.reshape_to(at, indices, [width]) }
}

/// The start in every operand dimension, each as a vector of one element: a component of the index, or zero.
fn start_components(cx: &mut Cx<'_>, at: Id, vector: Id, map: &[i64], rank: usize) -> Vec<Id> {
    let element_type = cx.element_type(vector);
    let one = row_major(element_type, [1]);
    let zero =
        cx.array_constant(at, hlo_ir::ArrayShape::new(element_type, [1]), Literal::one(element_type, Scalar::Int(0)));
    (0..rank as i64)
        .map(|dim| match map.iter().position(|&other| other == dim) {
            Some(component) => take_element(cx, at, vector, component as i64, one.clone()),
            None => zero,
        })
        .collect()
}

fn take_element(cx: &mut Cx<'_>, at: Id, vector: Id, position: i64, one: hlo_ir::shape::ShapeRef) -> Id {
    if cx.dims(vector)[..] == [1] {
        return vector;
    }
    cx.slice(at, one, vector, vec![SliceDim { start: position, limit: position + 1, stride: 1 }])
}

/// The scalars of vectors of one element.
fn scalars(cx: &mut Cx<'_>, at: Id, vectors: &[Id]) -> Vec<Id> {
    vectors.iter().map(|&vector| cx.reshape_to(at, vector, [])).collect()
}

fn gather(cx: &mut Cx<'_>, id: Id) -> Option<Id> {
    let (operand, indices) = (cx.operand(id, 0), cx.operand(id, 1));
    let inst = cx.inst(id);
    let vector_dim = inst.int(&AttrKey::IndexVectorDim)?;
    let slice_sizes: Dims = inst.ints(&AttrKey::SliceSizes).into();
    let collapsed: Dims = inst.ints(&AttrKey::CollapsedSliceDims).into();
    let offset: Dims = inst.ints(&AttrKey::OffsetDims).into();
    let map: Dims = inst.ints(&AttrKey::StartIndexMap).into();
    let kept: Dims =
        (0_i64..).zip(&slice_sizes).filter(|(dim, _)| !collapsed.contains(dim)).map(|(_, &size)| size).collect();
    if cx.is_empty_array(id) {
        return None;
    }
    if slice_sizes == cx.dims(operand) {
        // Every slice is the whole operand.
        let whole = cx.reshape_to(id, operand, kept);
        let shape = cx.shape(id).clone();
        return Some(cx.broadcast(id, shape, whole, &offset));
    }
    if index_count(cx, indices, vector_dim) != 1 {
        return None;
    }
    let vector = index_vector(cx, id, indices, vector_dim);
    let starts = start_components(cx, id, vector, &map, slice_sizes.len());
    let starts = scalars(cx, id, &starts);
    let shape = row_major(cx.element_type(id), slice_sizes);
    let slice = cx.dynamic_slice(id, shape, operand, &starts);
    // Batch dimensions (all of size 1) lead, then the slice; the result may have them in another order.
    let batch = cx.rank(id) - offset.len();
    let sizes: Dims = std::iter::repeat_n(1, batch).chain(kept).collect();
    let shaped = cx.reshape_to(id, slice, sizes);
    let (mut next_offset, mut next_batch) = (batch as i64, 0);
    let order: Dims = (0..cx.rank(id) as i64)
        .map(|dim| {
            let next = if offset.contains(&dim) { &mut next_offset } else { &mut next_batch };
            *next += 1;
            *next - 1
        })
        .collect();
    Some(if order.is_sorted() { shaped } else { cx.transpose(id, shaped, &order) })
}

fn scatter(cx: &mut Cx<'_>, id: Id) -> Option<Id> {
    let count = hlo_ir::ScatterDims::input_count(cx.operands(id).len());
    let indices = cx.operand(id, count);
    let inst = cx.inst(id);
    let vector_dim = inst.int(&AttrKey::IndexVectorDim)?;
    let windows: Dims = inst.ints(&AttrKey::UpdateWindowDims).into();
    let inserted: Dims = inst.ints(&AttrKey::InsertedWindowDims).into();
    let map: Dims = inst.ints(&AttrKey::ScatterDimsToOperandDims).into();
    if index_count(cx, indices, vector_dim) != 1 || cx.is_empty_array(cx.operand(id, count + 1)) {
        return None;
    }
    let rank = cx.rank(cx.operand(id, 0));
    let vector = index_vector(cx, id, indices, vector_dim);
    let components = start_components(cx, id, vector, &map, rank);
    let starts = scalars(cx, id, &components);
    let mut parts = Vec::new();
    for index in count + 1..cx.operands(id).len() {
        let update = cx.operand(id, index);
        parts.push(window(cx, id, update, &windows, &inserted));
    }
    let sizes = cx.dims(parts[0]);
    let old: Vec<Id> = (0..count)
        .map(|index| {
            let operand = cx.operand(id, index);
            let shape = row_major(cx.element_type(operand), sizes.iter().copied());
            cx.dynamic_slice(id, shape, operand, &starts)
        })
        .collect();
    let valid = is_inside(cx, id, &components, &sizes)?;
    let results: Vec<Id> =
        (0..count).map(|index| updated(cx, id, index, &old, &parts, valid, &starts)).collect::<Option<_>>()?;
    Some(if let [only] = results[..] { only } else { cx.tuple(id, &results) })
}

/// The update as a window of the operand's rank: window dimensions in order, inserted ones of size 1.
fn window(cx: &mut Cx<'_>, at: Id, update: Id, windows: &[i64], inserted: &[i64]) -> Id {
    let rank = cx.rank(update) as i64;
    let order: Dims = (0..rank).filter(|dim| !windows.contains(dim)).chain(windows.iter().copied()).collect();
    let mut update = update;
    if !order.is_sorted() {
        update = cx.transpose(at, update, &order);
    }
    let scatter_dims = rank as usize - windows.len();
    let sizes = cx.dims(update);
    if scatter_dims > 0 {
        update = cx.reshape_to(at, update, sizes[scatter_dims..].iter().copied());
    }
    if inserted.is_empty() { update } else { insert_ones(cx, at, update, inserted) }
}

/// Whether the whole window lies inside the operand, broadcast to the window.
///
/// Source: `CheckIndexValidity`.
fn is_inside(cx: &mut Cx<'_>, id: Id, components: &[Id], window: &[i64]) -> Option<Id> {
    let rank = components.len() as i64;
    let element_type = cx.element_type(*components.first()?);
    let vector_shape = row_major(element_type, [rank]);
    let start = if rank == 1 { components[0] } else { cx.concatenate(id, vector_shape, components, 0) };
    let whole = cx.dims(cx.operand(id, 0));
    let zero = cx.scalar_like(start, 0.0);
    let not_negative = cx.compare(id, zero, start, "LE");
    let most = whole.iter().zip(window).map(|(&size, &window)| Scalar::Int(i128::from(size - window))).collect();
    let array = hlo_ir::ArrayShape::new(element_type, [rank]);
    let most = cx.array_constant(id, array, Literal::known(element_type, most));
    let not_beyond = cx.compare(id, most, start, "GE");
    let inside = cx.binary(id, Opcode::And, not_negative, not_beyond);
    let truth = cx.constant(id, ElementType::Pred, Scalar::Int(1));
    let reducer = scalar_computation(cx, Opcode::And, ElementType::Pred);
    let all = cx.reduce(id, inside, truth, &[0], reducer);
    Some(cx.broadcast(id, row_major(ElementType::Pred, window.iter().copied()), all, &[]))
}

/// A new computation that applies an operation to two scalars.
pub(crate) fn scalar_computation(cx: &mut Cx<'_>, opcode: Opcode, element_type: ElementType) -> ComputationId {
    let shape = row_major(element_type, []);
    let computation = cx.add_computation(opcode.name());
    let operands = [0, 1].map(|number| {
        let inst = Instruction::new("parameter", shape.clone(), Opcode::Parameter, []);
        cx.add(computation, inst.with_payload(Payload::Parameter(number)))
    });
    let root = cx.add(computation, Instruction::new(opcode.name(), shape, opcode, operands));
    cx.set_root(root);
    computation
}

/// One operand with its window combined with the update where that is inside.
fn updated(cx: &mut Cx<'_>, id: Id, index: usize, old: &[Id], parts: &[Id], valid: Id, starts: &[Id]) -> Option<Id> {
    let mut to_apply = cx.to_apply(id)?;
    if old.len() > 1 {
        to_apply = one_output(cx, to_apply, index);
    }
    let operands: Vec<Id> = old.iter().chain(parts).copied().collect();
    let shape = cx.shape(old[index]).clone();
    let dims = Attribute::ints(AttrKey::Dimensions, 0..cx.rank(old[index]) as i64);
    let combined = cx.make(id, shape.clone(), Opcode::Map, &operands, [dims, apply(to_apply)]);
    let chosen = cx.elementwise(id, shape, Opcode::Select, &[valid, combined, old[index]]);
    let operand = cx.operand(id, index);
    Some(cx.dynamic_update_slice(id, operand, chosen, starts))
}

/// A copy of a computation that returns only one element of its tuple.
pub(crate) fn one_output(cx: &mut Cx<'_>, computation: ComputationId, index: usize) -> ComputationId {
    let copy = cx.deep_clone(computation);
    let root = cx.root(copy);
    if cx.opcode(root) == Opcode::Tuple {
        let element = cx.operand(root, index);
        cx.set_root(element);
    }
    copy
}
