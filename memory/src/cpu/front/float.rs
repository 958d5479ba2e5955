//! Types the CPU does not compute with: values are converted up before and down behind every operation.
//!
//! Source: `FloatNormalization` (xla/hlo/transforms/simplifiers/float_normalization.cc), `FloatSupport` (xla/service/float_support.cc),
//! `CpuFloatSupport` (xla/service/cpu/cpu_float_support.h), `ChangeOpDataType`.

use std::sync::Arc;

use crate::hash::IndexSet;
use hlo_ir::shape::{Shape, ShapeRef};
use hlo_ir::{AttrKey, AttrValue, ComputationId, ElementType, Opcode};

use super::build::share;
use super::cx::{Cx, Id};
use super::visit::{each_if_any, walk};
use super::{dce, tuples};
use crate::cpu::ynn::support::{is_dot_supported, is_preferred, is_reduction_supported};

/// A type and the one that computes for it.
#[derive(Clone, Copy)]
struct Pair {
    low: ElementType,
    high: ElementType,
}

/// The pairs in XLA's order.
const PAIRS: &[(ElementType, ElementType)] = {
    use ElementType as T;
    &[
        (T::Bf16, T::F32),
        (T::F8e5m2, T::F16),
        (T::F8e4m3, T::F16),
        (T::F8e4m3fn, T::F16),
        (T::F8e4m3b11fnuz, T::F16),
        (T::F8e5m2fnuz, T::F16),
        (T::F8e4m3fnuz, T::F16),
        (T::F8e3m4, T::F16),
        (T::S4, T::S8),
        (T::U4, T::U8),
        (T::F4e2m1fn, T::F16),
        (T::F8e8m0fnu, T::F32),
    ]
};

/// Normalizes all pairs; returns whether anything changed.
pub(crate) fn run(cx: &mut Cx<'_>) -> bool {
    let present = element_types(cx);
    let mut changed = false;
    for &(low, high) in PAIRS.iter().filter(|pair| present.contains(&pair.0)) {
        changed |= normalize(cx, Pair { low, high });
    }
    changed
}

/// Types of the arrays in the module. Normalization adds none of those it removes.
fn element_types(cx: &Cx<'_>) -> Vec<ElementType> {
    fn collect(shape: &ShapeRef, found: &mut Vec<ElementType>) {
        match shape.as_ref() {
            Shape::Array(array) if !found.contains(&array.element_type) => found.push(array.element_type),
            Shape::Tuple(elements) => elements.iter().for_each(|element| collect(element, found)),
            Shape::Buffer(inner) => collect(inner, found),
            _ => {}
        }
    }
    let mut found = Vec::new();
    for computation in cx.computation_order() {
        cx.list(computation).for_each(|id| collect(cx.shape(id), &mut found));
    }
    found
}

/// f16 dots and convolutions compute in f32.
pub(crate) fn widen_half_dots(cx: &mut Cx<'_>) -> bool {
    let dots = each_if_any(cx, Opcode::Dot, is_half, widen_half);
    each_if_any(cx, Opcode::Convolution, is_half, widen_half) || dots
}

fn is_half(cx: &Cx<'_>, id: Id) -> bool {
    cx.operands(id).iter().all(|&operand| cx.element_type(operand) == ElementType::F16)
}

fn widen_half(cx: &mut Cx<'_>, id: Id) -> Option<Id> {
    if !is_half(cx, id) {
        return None;
    }
    let operands: Vec<Id> =
        cx.operands(id).to_vec().into_iter().map(|operand| cx.convert(id, operand, ElementType::F32)).collect();
    let shape = share(cx.arr(id).with_element_type(ElementType::F32));
    let wide = cx.like(id, shape, &operands);
    Some(cx.convert(id, wide, cx.element_type(id)))
}

fn normalize(cx: &mut Cx<'_>, pair: Pair) -> bool {
    let mut changed = false;
    let kept = kept_callees(cx, pair);
    for computation in cx.computation_order() {
        if !kept.contains(&computation) && cx.list(computation).any(|id| holds(cx.shape(id), pair.low)) {
            changed |= walk(cx, computation, |cx, id| handle(cx, id, pair));
        }
    }
    if changed {
        tuples::run(cx);
        dce::run(cx);
    }
    changed
}

/// Computations that stay as they are because those who call them do. One that others call too is copied for them.
fn kept_callees(cx: &mut Cx<'_>, pair: Pair) -> IndexSet<ComputationId> {
    let all: Vec<Id> = cx.computation_order().iter().flat_map(|&computation| cx.list(computation)).collect();
    let (keep, change): (Vec<Id>, Vec<Id>) =
        all.into_iter().filter(|&id| !cx.callees(id).is_empty()).partition(|&id| keeps_callees(cx, id, pair));
    let wanted: IndexSet<ComputationId> = keep.iter().flat_map(|&id| cx.callees(id)).collect();
    let changed: IndexSet<ComputationId> = change.iter().flat_map(|&id| cx.callees(id)).collect();
    let mut kept = IndexSet::default();
    for callee in wanted {
        if !changed.contains(&callee) {
            kept.insert(callee);
            continue;
        }
        let copy = cx.deep_clone(callee);
        for &id in &keep {
            exchange_callee(cx, id, callee, copy);
        }
        kept.insert(copy);
    }
    kept
}

fn keeps_callees(cx: &Cx<'_>, id: Id, pair: Pair) -> bool {
    matches!(cx.opcode(id), Opcode::AllReduce | Opcode::ReduceScatter)
        || (pair.low == ElementType::Bf16 && goes_to_library(cx, id))
}

/// Number of arrays of a type in a shape.
fn count(shape: &Shape, element_type: ElementType) -> usize {
    match shape {
        Shape::Array(array) => usize::from(array.element_type == element_type),
        Shape::Tuple(elements) => elements.iter().map(|element| count(element, element_type)).sum(),
        _ => 0,
    }
}

fn holds(shape: &Shape, element_type: ElementType) -> bool {
    count(shape, element_type) > 0
}

/// The shape with arrays of one type made arrays of another.
fn retyped(shape: &ShapeRef, from: ElementType, to: ElementType) -> ShapeRef {
    match &**shape {
        Shape::Array(array) if array.element_type == from => {
            let mut array = array.with_element_type(to);
            if let Some(layout) = &mut array.layout {
                layout.suffix = smol_str::SmolStr::default();
            }
            share(array)
        }
        Shape::Tuple(elements) => Arc::new(Shape::Tuple(elements.iter().map(|e| retyped(e, from, to)).collect())),
        _ => shape.clone(),
    }
}

/// Operations that only pass values on, or have their own meaning for the low type.
fn is_exempt(cx: &Cx<'_>, id: Id) -> bool {
    use Opcode as O;
    let opcode = cx.opcode(id);
    matches!(
        opcode,
        O::Tuple
            | O::GetTupleElement
            | O::Constant
            | O::Domain
            | O::Parameter
            | O::Fusion
            | O::Convert
            | O::Call
            | O::CustomCall
            | O::While
            | O::Conditional
            | O::BitcastConvert
            | O::Bitcast
            | O::AsyncStart
            | O::AsyncDone
            | O::OptBarrier
            | O::CountLeadingZeros
            | O::ShiftRightLogical
            | O::ShiftRightArithmetic
    ) || opcode.has_side_effect() && !opcode.is_collective()
}

fn handle(cx: &mut Cx<'_>, id: Id, pair: Pair) -> bool {
    if is_exempt(cx, id) || (pair.low == ElementType::Bf16 && goes_to_library(cx, id)) {
        return false;
    }
    if cx.opcode(id) == Opcode::Sort && cx.shape(id).as_tuple().is_some() {
        return sort(cx, id, pair);
    }
    let callees = low_callees(cx, id, pair);
    let mut changed = convert_operands(cx, id, pair);
    changed |= widen_result(cx, id, pair);
    let high =
        holds(cx.shape(id), pair.high) || cx.operands(id).iter().any(|&operand| holds(cx.shape(operand), pair.high));
    if high && !callees.is_empty() {
        changed = true;
        widen_callees(cx, id, &callees, pair);
    }
    changed
}

/// Whether the library that XLA:CPU calls takes an operation on `bf16` as it is.
fn goes_to_library(cx: &Cx<'_>, id: Id) -> bool {
    match cx.opcode(id) {
        Opcode::Dot => is_dot_supported(cx, id),
        Opcode::Reduce | Opcode::ReduceWindow => is_preferred(cx, id) && is_reduction_supported(cx, id),
        _ => false,
    }
}

/// Called computations with a parameter or result of the low type.
fn low_callees(cx: &Cx<'_>, id: Id, pair: Pair) -> Vec<ComputationId> {
    if matches!(cx.opcode(id), Opcode::AllReduce | Opcode::ReduceScatter) {
        return Vec::new();
    }
    let low = |callee: &ComputationId| {
        holds(cx.shape(cx.root(*callee)), pair.low)
            || cx.parameters(*callee).iter().any(|&parameter| holds(cx.shape(parameter), pair.low))
    };
    cx.callees(id).into_iter().filter(low).collect()
}

/// Converts every low operand up, each by an instruction of its own.
fn convert_operands(cx: &mut Cx<'_>, id: Id, pair: Pair) -> bool {
    let mut changed = false;
    for slot in 0..cx.operands(id).len() {
        let operand = cx.operand(id, slot);
        if holds(cx.shape(operand), pair.low) {
            let new = convert_leaves(cx, operand, &retyped(cx.shape(operand), pair.low, pair.high));
            cx.replace_operand(id, slot, new);
            changed = true;
        }
    }
    changed
}

/// The value with each array converted to the type it has in `shape`.
fn convert_leaves(cx: &mut Cx<'_>, id: Id, shape: &ShapeRef) -> Id {
    let Some(elements) = shape.as_tuple().map(<[_]>::to_vec) else {
        let same = shape.as_array().is_none_or(|array| array.element_type == cx.element_type(id));
        return if same { id } else { cx.make(id, shape.clone(), Opcode::Convert, &[id], []) };
    };
    let parts: Vec<Id> = elements
        .iter()
        .enumerate()
        .map(|(index, element)| {
            let part = cx.element(id, id, index as i64);
            convert_leaves(cx, part, element)
        })
        .collect();
    cx.tuple(id, &parts)
}

/// Lets the result have the high type and converts it back for its users, except for those that convert it up again.
fn widen_result(cx: &mut Cx<'_>, id: Id, pair: Pair) -> bool {
    let original = cx.shape(id).clone();
    if !holds(&original, pair.low) {
        return false;
    }
    let (users, was_root) = (cx.users(id), cx.is_root(id));
    cx.set_shape(id, retyped(&original, pair.low, pair.high));
    let back = convert_leaves(cx, id, &original);
    let is_up = |cx: &Cx<'_>, user: Id| cx.opcode(user) == Opcode::Convert && cx.element_type(user) == pair.high;
    for &user in users.iter().filter(|&&user| !is_up(cx, user)).collect::<Vec<_>>() {
        cx.replace_use(id, user, back);
    }
    for &user in &users {
        if is_up(cx, user) {
            cx.replace_all_uses(user, id);
        }
    }
    if was_root {
        cx.set_root(back);
    }
    true
}

/// Gives the instruction copies of its low computations whose parameters and results are of the high type.
fn widen_callees(cx: &mut Cx<'_>, id: Id, callees: &[ComputationId], pair: Pair) {
    for &callee in callees {
        let copy = cx.deep_clone(callee);
        exchange_callee(cx, id, callee, copy);
        let root = cx.root(copy);
        if holds(cx.shape(root), pair.low) {
            let users = cx.users(root);
            let up = convert_leaves(cx, root, &retyped(cx.shape(root), pair.low, pair.high));
            for user in users {
                cx.replace_use(root, user, up);
            }
            cx.set_root(up);
        }
        for parameter in cx.parameters(copy) {
            widen_result(cx, parameter, pair);
        }
    }
}

fn exchange_callee(cx: &mut Cx<'_>, id: Id, old: ComputationId, new: ComputationId) {
    let keys: Vec<AttrKey> = cx
        .inst(id)
        .attributes
        .iter()
        .filter(|attribute| attribute.value == AttrValue::Computation(old))
        .map(|attribute| attribute.key.clone())
        .collect();
    for key in keys {
        cx.set_attribute(id, key, AttrValue::Computation(new));
    }
}

/// A sort of several arrays: each low one is sorted in the high type and converted back behind the sort.
fn sort(cx: &mut Cx<'_>, id: Id, pair: Pair) -> bool {
    if !holds(cx.shape(id), pair.low) {
        return false;
    }
    let callees = low_callees(cx, id, pair);
    convert_operands(cx, id, pair);
    let original = cx.shape(id).clone();
    let (users, was_root) = (cx.users(id), cx.is_root(id));
    cx.set_shape(id, retyped(&original, pair.low, pair.high));
    let back = convert_leaves(cx, id, &original);
    for user in users {
        cx.replace_use(id, user, back);
    }
    if was_root {
        cx.set_root(back);
    }
    widen_callees(cx, id, &callees, pair);
    true
}
