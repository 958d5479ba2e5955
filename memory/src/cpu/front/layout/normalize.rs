//! Behind layout assignment for XLA:GPU: every array is written row-major, in the order of its dimensions in memory, and a bitcast says what it was called.
//! A copy from one layout to another becomes a transpose. Products, gathers, loops and their states keep their layouts.
//!
//! Source: `LayoutNormalization` (xla/service/layout_normalization.cc), `ReductionLayoutNormalizer` (xla/service/gpu/transforms/reduction_layout_normalizer.cc),
//! `NormalizeLayoutForGpuCustomCalls` (xla/service/gpu/gpu_layout_normalization.cc).

// Tests: `memory/tests/layouts.rs`.

use hlo_ir::shape::{ArrayShape, Dims, Layout, Shape, ShapeRef};
use hlo_ir::{AttrKey, AttrValue, Opcode};

use super::super::build::share;
use super::super::cx::{Cx, Id};
use super::super::dims::{compose, inverse, permute};
use super::super::visit::walk;

/// Normalizes every computation; returns whether anything was in another order.
pub(crate) fn run(cx: &mut Cx<'_>) -> bool {
    let mut changed = false;
    for computation in cx.outside_fusions() {
        if cx.list(computation).any(|id| !is_row_major(cx, id)) {
            changed |= walk(cx, computation, normalize);
        }
    }
    changed
}

fn is_row_major(cx: &Cx<'_>, id: Id) -> bool {
    cx.array(id).is_none_or(|array| array.layout.as_ref().is_none_or(|layout| is_descending(&layout.minor_to_major)))
}

fn is_descending(minor_to_major: &[i64]) -> bool {
    minor_to_major.iter().copied().eq((0..minor_to_major.len() as i64).rev())
}

/// Dimensions of an array in the order in which they lie in memory, the major one first.
fn order(cx: &Cx<'_>, id: Id) -> Dims {
    cx.array(id).map(|array| array.minor_to_major().iter().rev().copied().collect()).unwrap_or_default()
}

/// The row-major shape of the same bytes.
fn normal(cx: &Cx<'_>, id: Id) -> ShapeRef {
    rows(&cx.arr(id), &order(cx, id))
}

/// A row-major array with these dimensions of another, and whatever else its layout says.
fn rows(array: &ArrayShape, order: &[i64]) -> ShapeRef {
    let suffix = array.layout.as_ref().map(|layout| layout.suffix.clone()).unwrap_or_default();
    let layout = Layout { minor_to_major: (0..order.len() as i64).rev().collect(), suffix };
    share(ArrayShape { layout: Some(layout), ..ArrayShape::new(array.element_type, permute(&array.dims, order)) })
}

/// A value in its row-major shape: what it is a bitcast of, if that is it.
fn normalized(cx: &mut Cx<'_>, id: Id) -> Id {
    if is_row_major(cx, id) {
        return id;
    }
    let shape = normal(cx, id);
    match cx.of(id, Opcode::Bitcast) {
        Some(inner) if *cx.shape(inner) == shape => inner,
        _ => cx.elementwise(id, shape, Opcode::Bitcast, &[id]),
    }
}

/// Replaces an instruction by what is computed in row-major order, under its own shape and layout.
fn normalize(cx: &mut Cx<'_>, id: Id) -> bool {
    if cx.opcode(id) == Opcode::ReduceWindow && cx.array(id).is_none() {
        return windows_of_several(cx, id);
    }
    let all_rows = |cx: &Cx<'_>| cx.operands(id).iter().all(|&operand| is_row_major(cx, operand));
    if cx.array(id).is_none() || (is_row_major(cx, id) && all_rows(cx)) {
        return false;
    }
    let Some(new) = rewritten(cx, id) else { return false };
    let shape = cx.shape(id).clone();
    let back = if *cx.shape(new) == shape { new } else { cx.elementwise(id, shape, Opcode::Bitcast, &[new]) };
    cx.replace(id, back);
    true
}

fn rewritten(cx: &mut Cx<'_>, id: Id) -> Option<Id> {
    use Opcode as O;
    match cx.opcode(id) {
        O::Copy => Some(copy(cx, id)),
        O::Transpose => Some(transpose(cx, id)),
        O::Bitcast => Some(bitcast(cx, id)),
        O::Broadcast => Some(broadcast(cx, id)),
        O::Iota => {
            let dim = cx.inst(id).int(&AttrKey::IotaDimension)?;
            let place = inverse(&order(cx, id))[dim as usize];
            let shape = normal(cx, id);
            Some(cx.iota(id, shape, place))
        }
        O::Concatenate | O::Reverse => Some(along_dimensions(cx, id)),
        O::Slice | O::Pad | O::ReduceWindow => with_attribute(cx, id),
        O::DynamicSlice | O::DynamicUpdateSlice => Some(at_starts(cx, id)),
        O::Reduce => Some(reduce(cx, id)),
        O::Convolution => convolution(cx, id),
        O::Scatter => scatter(cx, id),
        opcode if opcode.is_elementwise() && !cx.operands(id).is_empty() => {
            let operands = all_normalized(cx, id);
            let shape = normal(cx, id);
            Some(cx.like(id, shape, &operands))
        }
        _ => None,
    }
}

fn all_normalized(cx: &mut Cx<'_>, id: Id) -> Vec<Id> {
    cx.operands(id).to_vec().into_iter().map(|operand| normalized(cx, operand)).collect()
}

/// A copy moves the dimensions of its operand in memory.
fn copy(cx: &mut Cx<'_>, id: Id) -> Id {
    let operand = cx.operand(id, 0);
    let moved = compose(&inverse(&order(cx, operand)), &order(cx, id));
    moved_to(cx, id, operand, &moved)
}

fn transpose(cx: &mut Cx<'_>, id: Id) -> Id {
    let operand = cx.operand(id, 0);
    let moved = compose(&compose(&inverse(&order(cx, operand)), &cx.dimensions(id)), &order(cx, id));
    moved_to(cx, id, operand, &moved)
}

/// The operand of a copy or transpose with its dimensions in memory in another order.
fn moved_to(cx: &mut Cx<'_>, id: Id, operand: Id, moved: &[i64]) -> Id {
    let operand = normalized(cx, operand);
    let shape = normal(cx, id);
    match cx.opcode(id) {
        Opcode::Copy if moved.is_sorted() => cx.elementwise(id, shape, Opcode::Copy, &[operand]),
        _ if moved.is_sorted() => operand,
        _ => cx.transpose_as(id, shape, operand, moved),
    }
}

fn bitcast(cx: &mut Cx<'_>, id: Id) -> Id {
    let operand = cx.operand(id, 0);
    let operand = normalized(cx, operand);
    let shape = normal(cx, id);
    if *cx.shape(operand) == shape { operand } else { cx.elementwise(id, shape, Opcode::Bitcast, &[operand]) }
}

fn broadcast(cx: &mut Cx<'_>, id: Id) -> Id {
    let operand = cx.operand(id, 0);
    let places = inverse(&order(cx, id));
    let dims: Dims = compose(&cx.dimensions(id), &order(cx, operand)).iter().map(|&dim| places[dim as usize]).collect();
    let operand = normalized(cx, operand);
    let shape = normal(cx, id);
    if dims.is_sorted() {
        return cx.broadcast(id, shape, operand, &dims);
    }
    // A broadcast lists its dimensions in order, so the operand is transposed first.
    let mut sorted: Vec<usize> = (0..dims.len()).collect();
    sorted.sort_by_key(|&place| dims[place]);
    let moved: Dims = sorted.iter().map(|&place| place as i64).collect();
    let operand = cx.maybe_transpose(id, operand, &moved);
    let dims: Dims = compose(&dims, &moved);
    cx.broadcast(id, shape, operand, &dims)
}

/// What joins or reverses along dimensions that it lists.
fn along_dimensions(cx: &mut Cx<'_>, id: Id) -> Id {
    let places = inverse(&order(cx, id));
    let mut dims: Dims = cx.dimensions(id).iter().map(|&dim| places[dim as usize]).collect();
    dims.sort_unstable();
    let operands = all_normalized(cx, id);
    let shape = normal(cx, id);
    let new = cx.like(id, shape, &operands);
    cx.set_attribute(new, AttrKey::Dimensions, AttrValue::Ints(dims.into_iter().collect()));
    new
}

/// What has one attribute for each dimension.
fn with_attribute(cx: &mut Cx<'_>, id: Id) -> Option<Id> {
    let order = order(cx, id);
    let (key, value) = match cx.opcode(id) {
        Opcode::Slice => (AttrKey::Slice, cx.inst(id).attribute(&AttrKey::Slice)?),
        Opcode::Pad => (AttrKey::Padding, cx.inst(id).attribute(&AttrKey::Padding)?),
        _ => (AttrKey::Window, cx.inst(id).attribute(&AttrKey::Window)?),
    };
    let value = match value {
        AttrValue::Slice(bounds) => AttrValue::Slice(permute(bounds, &order).into()),
        AttrValue::Padding(padding) => AttrValue::Padding(permute(padding, &order).into()),
        AttrValue::Window(window) => AttrValue::Window(permute(window, &order).into()),
        _ => return None,
    };
    let operands = all_normalized(cx, id);
    let shape = normal(cx, id);
    let new = cx.like(id, shape, &operands);
    cx.set_attribute(new, key, value);
    Some(new)
}

/// A reduction of several arrays by windows: its elements are renamed one by one.
fn windows_of_several(cx: &mut Cx<'_>, id: Id) -> bool {
    let first = cx.operand(id, 0);
    let (order, layout) = (order(cx, first), cx.array(first).and_then(|array| array.layout.clone()));
    let Some(AttrValue::Window(window)) = cx.inst(id).attribute(&AttrKey::Window) else { return false };
    let window = AttrValue::Window(permute(window, &order).into());
    let users = cx.users(id);
    let elements = cx.shape(id).as_tuple().map(<[_]>::to_vec).unwrap_or_default();
    let alike = |shape: &ShapeRef| shape.as_array().is_some_and(|array| array.layout == layout);
    let are_elements = users.iter().all(|&user| cx.opcode(user) == Opcode::GetTupleElement);
    if is_row_major(cx, first) || !are_elements || cx.is_root(id) || !elements.iter().all(alike) {
        return false;
    }
    let shape = Shape::tuple(elements.iter().filter_map(|shape| shape.as_array()).map(|array| rows(array, &order)));
    let operands = all_normalized(cx, id);
    let new = cx.like(id, shape, &operands);
    cx.set_attribute(new, AttrKey::Window, window);
    for user in users {
        let index = cx.inst(user).int(&AttrKey::Index).unwrap_or(0);
        let element = cx.element(user, new, index);
        let shape = cx.shape(user).clone();
        let back = cx.elementwise(user, shape, Opcode::Bitcast, &[element]);
        cx.replace(user, back);
    }
    true
}

/// Slices and updates at starts that are computed.
fn at_starts(cx: &mut Cx<'_>, id: Id) -> Id {
    let order = order(cx, id);
    let arrays = if cx.opcode(id) == Opcode::DynamicSlice { 1 } else { 2 };
    let all = cx.operands(id).to_vec();
    let mut operands: Vec<Id> = all[..arrays].iter().map(|&operand| normalized(cx, operand)).collect();
    // Starts in one array stay as they are.
    operands.extend(if all.len() == arrays + order.len() {
        permute(&all[arrays..], &order)
    } else {
        all[arrays..].to_vec()
    });
    let shape = normal(cx, id);
    let sizes = cx.inst(id).ints(&AttrKey::DynamicSliceSizes).to_vec();
    let new = cx.like(id, shape, &operands);
    if arrays == 1 {
        cx.set_attribute(
            new,
            AttrKey::DynamicSliceSizes,
            AttrValue::Ints(permute(&sizes, &order).into_iter().collect()),
        );
    }
    new
}

/// A reduction may write its result in any order.
fn reduce(cx: &mut Cx<'_>, id: Id) -> Id {
    let operand = cx.operand(id, 0);
    let (from, reduced) = (order(cx, operand), cx.dimensions(id));
    let places = inverse(&from);
    let mut dims: Dims = reduced.iter().map(|&dim| places[dim as usize]).collect();
    dims.sort_unstable();
    // Dimensions of the result, in the order in which those of the operand lie in memory.
    let kept: Dims = (0..from.len() as i64).filter(|dim| !reduced.contains(dim)).collect();
    let number = |dim: i64| kept.iter().position(|&other| other == dim).map(|place| place as i64);
    let written: Dims = from.iter().filter_map(|&dim| number(dim)).collect();
    let array = cx.arr(id);
    let back = inverse(&written);
    let layout = array.minor_to_major().iter().map(|&dim| back[dim as usize]).collect();
    let mut shape = ArrayShape::new(array.element_type, permute(&array.dims, &written));
    shape.layout = Some(Layout { minor_to_major: layout, suffix: "".into() });
    let operands = all_normalized(cx, id);
    let new = cx.like(id, share(shape), &operands);
    cx.set_attribute(new, AttrKey::Dimensions, AttrValue::Ints(dims.into_iter().collect()));
    new
}

/// A convolution names the dimensions of its operands, in whatever order.
fn convolution(cx: &mut Cx<'_>, id: Id) -> Option<Id> {
    let labels = cx.inst(id).raw(&AttrKey::DimLabels)?.to_owned();
    let (sides, result) = labels.split_once("->")?;
    let (input, kernel) = sides.split_once('_')?;
    let moved = |labels: &str, order: &Dims| -> Option<String> {
        let labels: Vec<char> = labels.chars().collect();
        order.iter().map(|&dim| labels.get(dim as usize)).collect()
    };
    let input = moved(input, &order(cx, cx.operand(id, 0)))?;
    let kernel = moved(kernel, &order(cx, cx.operand(id, 1)))?;
    let result = moved(result, &order(cx, id))?;
    let operands = all_normalized(cx, id);
    let shape = normal(cx, id);
    let new = cx.like(id, shape, &operands);
    cx.set_attribute(new, AttrKey::DimLabels, AttrValue::Raw(format!("{input}_{kernel}->{result}").into()));
    Some(new)
}

/// A scatter into one array. Its updates are transposed if their windows would have another order than the array.
fn scatter(cx: &mut Cx<'_>, id: Id) -> Option<Id> {
    let &[operand, indices, updates] = cx.operands(id) else { return None };
    let (from, update_order) = (order(cx, operand), order(cx, updates));
    let has_batches = !cx.inst(id).ints(&AttrKey::InputBatchingDims).is_empty();
    let has_one_list = cx.rank(updates) == cx.inst(id).ints(&AttrKey::UpdateWindowDims).len() + 1;
    if !is_row_major(cx, indices) || has_batches || !has_one_list {
        return None;
    }
    let (places, update_places) = (inverse(&from), inverse(&update_order));
    let inserted = cx.inst(id).ints(&AttrKey::InsertedWindowDims).to_vec();
    let mut windows = cx.inst(id).ints(&AttrKey::UpdateWindowDims).iter().map(|&dim| update_places[dim as usize]);
    // The dimension of the updates that each dimension of the operand has, if it has one.
    let window: Vec<Option<i64>> =
        (0..from.len() as i64).map(|dim| if inserted.contains(&dim) { None } else { windows.next() }).collect();
    let windows: Dims = from.iter().filter_map(|&dim| window[dim as usize]).collect();
    let mut sorted = windows.clone();
    sorted.sort_unstable();
    let mut moved: Dims = (0..update_order.len() as i64).collect();
    sorted.iter().zip(&windows).for_each(|(&place, &dim)| moved[place as usize] = dim);
    let mut inserted: Dims = inserted.iter().map(|&dim| places[dim as usize]).collect();
    inserted.sort_unstable();
    let scattered = cx.inst(id).ints(&AttrKey::ScatterDimsToOperandDims).iter();
    let scattered: Dims = scattered.map(|&dim| places[dim as usize]).collect();
    let mut operands = all_normalized(cx, id);
    operands[2] = cx.maybe_transpose(id, operands[2], &moved);
    let shape = normal(cx, id);
    let new = cx.like(id, shape, &operands);
    for (key, dims) in [
        (AttrKey::UpdateWindowDims, sorted),
        (AttrKey::InsertedWindowDims, inserted),
        (AttrKey::ScatterDimsToOperandDims, scattered),
    ] {
        cx.set_attribute(new, key, AttrValue::Ints(dims.into_iter().collect()));
    }
    Some(new)
}
