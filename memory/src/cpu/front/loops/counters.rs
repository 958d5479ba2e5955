//! The state of a loop in another form: flat instead of nested, one counter instead of several.
//!
//! Source: `TryFlattenNestedTuples`, `TryMergeInductionVariables` (xla/service/while_loop_simplifier.cc).

use hlo_ir::shape::{Shape, ShapeRef};
use hlo_ir::{ElementType, Opcode};

use super::super::build::row_major;
use super::super::cx::{Cx, Id};
use super::super::value::Scalar;
use super::Loop;

/// Makes the state of a loop a flat tuple; returns whether it was nested.
pub(super) fn flatten(cx: &mut Cx<'_>, at: &Loop) -> bool {
    let both_tuples = cx.opcode(at.init) == Opcode::Tuple && cx.opcode(at.root(cx)) == Opcode::Tuple;
    let nested = cx.shape(at.init).as_tuple().is_some_and(|elements| elements.iter().any(|e| e.as_tuple().is_some()));
    if !both_tuples || !nested {
        return false;
    }
    let nested_shape = cx.shape(at.init).clone();
    let mut leaves = Vec::new();
    collect_leaves(&nested_shape, &mut leaves);
    let flat = Shape::tuple(leaves);
    for state in [at.condition_state, at.body_state] {
        read_through(cx, state, &flat, |cx, state| nest(cx, state, &nested_shape, &mut 0));
    }
    let root = at.root(cx);
    let elements = flat_elements(cx, root);
    let new_root = cx.tuple(root, &elements);
    cx.set_root(new_root);
    let elements = flat_elements(cx, at.init);
    let init = cx.tuple(at.init, &elements);
    let new = cx.like(at.id, flat, &[init]);
    let result = nest(cx, new, &nested_shape, &mut 0);
    cx.replace(at.id, result);
    true
}

fn collect_leaves(shape: &ShapeRef, leaves: &mut Vec<ShapeRef>) {
    match shape.as_tuple() {
        Some(elements) => elements.iter().for_each(|element| collect_leaves(element, leaves)),
        None => leaves.push(shape.clone()),
    }
}

/// Gives a state a new shape; its users read what `old_form` makes of it.
fn read_through(cx: &mut Cx<'_>, state: Id, shape: &ShapeRef, old_form: impl FnOnce(&mut Cx<'_>, Id) -> Id) {
    let users = cx.users(state);
    cx.set_shape(state, shape.clone());
    let old = old_form(cx, state);
    for user in users {
        cx.replace_use(state, user, old);
    }
}

/// The nested tuple made of the elements of a flat one, from element `next` on.
fn nest(cx: &mut Cx<'_>, flat: Id, shape: &ShapeRef, next: &mut i64) -> Id {
    let Some(elements) = shape.as_tuple() else {
        *next += 1;
        return cx.element(flat, flat, *next - 1);
    };
    let parts: Vec<Id> = elements.iter().map(|element| nest(cx, flat, element, next)).collect();
    cx.tuple(flat, &parts)
}

/// The leaves of a nested tuple.
fn flat_elements(cx: &mut Cx<'_>, tuple: Id) -> Vec<Id> {
    let Some(count) = cx.shape(tuple).as_tuple().map(<[_]>::len) else { return vec![tuple] };
    let mut leaves = Vec::new();
    for index in 0..count as i64 {
        let element = cx.element(tuple, tuple, index);
        leaves.extend(flat_elements(cx, element));
    }
    leaves
}

/// Replaces induction variables by multiples of one trip counter, for each integer type; returns whether there were any.
pub(super) fn merge(cx: &mut Cx<'_>, at: &Loop) -> bool {
    use ElementType as T;
    let mut current = *at;
    let mut changed = false;
    for element_type in [T::S8, T::U8, T::S32, T::U32, T::S64, T::U64] {
        if let Some(new) = merge_type(cx, &current, element_type) {
            changed = true;
            match Loop::of(cx, new) {
                Some(next) => current = next,
                None => break,
            }
        }
    }
    changed
}

/// The elements of one type that grow by a constant per trip.
struct Variables {
    /// The element that counts trips from 0, if there is one.
    counter: Option<usize>,
    /// The others, with their steps.
    steps: Vec<Option<Id>>,
}

fn variables(cx: &Cx<'_>, at: &Loop, element_type: ElementType) -> Option<Variables> {
    let root = at.root(cx);
    if cx.opcode(at.init) != Opcode::Tuple || cx.opcode(root) != Opcode::Tuple {
        return None;
    }
    let mut found = Variables { counter: None, steps: vec![None; cx.operands(root).len()] };
    for (index, &update) in cx.operands(root).iter().enumerate() {
        let Some((a, b)) = cx.both(update, Opcode::Add).filter(|_| cx.element_type(update) == element_type) else {
            continue;
        };
        let reads = |id: Id| at.element_read(cx, id) == Some(index);
        let is_step = |id: Id| cx.is_constant(id) && cx.is_scalar(id);
        let step = if reads(a) && is_step(b) {
            b
        } else if reads(b) && is_step(a) {
            a
        } else {
            continue;
        };
        let init = cx.operand(at.init, index);
        let counts = cx.is_all(step, 1) && cx.is_constant(init) && cx.is_all(init, 0);
        if found.counter.is_none() && counts {
            found.counter = Some(index);
        } else {
            found.steps[index] = Some(step);
        }
    }
    let merged = found.steps.iter().flatten().count() + usize::from(found.counter.is_some());
    (merged >= 2).then_some(found)
}

fn merge_type(cx: &mut Cx<'_>, at: &Loop, element_type: ElementType) -> Option<Id> {
    let found = variables(cx, at, element_type)?;
    let old: Vec<ShapeRef> = cx.shape(at.id).as_tuple()?.to_vec();
    let added = found.counter.is_none();
    let counter = found.counter.unwrap_or(old.len());
    let scalar = row_major(element_type, []);
    let shape = Shape::tuple(old.iter().cloned().chain(added.then_some(scalar)));
    for state in [at.condition_state, at.body_state] {
        read_through(cx, state, &shape, |cx, state| old_form(cx, state, &old, counter, &found.steps));
    }
    new_root(cx, at, counter, added, &found.steps);
    let mut init = at.init;
    if added {
        let mut elements: Vec<Id> = (0..old.len() as i64).map(|index| cx.element(init, init, index)).collect();
        elements.push(cx.constant(init, element_type, Scalar::Int(0)));
        init = cx.tuple(init, &elements);
    }
    let new = cx.like(at.id, shape, &[init]);
    let result = old_form(cx, new, &old, counter, &found.steps);
    cx.replace(at.id, result);
    Some(new)
}

/// The state as it was before: induction variables are their initial values plus the counter times the step.
fn old_form(cx: &mut Cx<'_>, state: Id, old: &[ShapeRef], counter: usize, steps: &[Option<Id>]) -> Id {
    let elements: Vec<Id> = (0..old.len())
        .map(|index| {
            let Some(step) = steps[index] else { return cx.element(state, state, index as i64) };
            let start = cx.element(state, state, index as i64);
            let trips = cx.element(state, state, counter as i64);
            let trips = fit(cx, trips, &old[index]);
            let step = super::simplify::copy_constant(cx, state, step);
            let step = fit(cx, step, &old[index]);
            let offset = cx.elementwise(state, old[index].clone(), Opcode::Multiply, &[trips, step]);
            cx.elementwise(state, old[index].clone(), Opcode::Add, &[start, offset])
        })
        .collect();
    cx.tuple(state, &elements)
}

/// A scalar in the shape of an array of one element.
fn fit(cx: &mut Cx<'_>, scalar: Id, shape: &ShapeRef) -> Id {
    if cx.shape(scalar).compatible(shape) { scalar } else { cx.reshape(scalar, shape.clone(), scalar) }
}

/// The body's result with induction variables passed on, and a counter added if there was none.
fn new_root(cx: &mut Cx<'_>, at: &Loop, counter: usize, added: bool, steps: &[Option<Id>]) {
    let root = at.root(cx);
    let mut elements: Vec<Id> = (0..steps.len())
        .map(|index| {
            let source = if steps[index].is_some() { at.body_state } else { root };
            cx.element(root, source, index as i64)
        })
        .collect();
    if added {
        let trips = cx.element(root, at.body_state, counter as i64);
        let one = cx.scalar_like(trips, 1.0);
        elements.push(cx.binary(root, Opcode::Add, trips, one));
    }
    let new = cx.tuple(root, &elements);
    cx.set_root(new);
}
