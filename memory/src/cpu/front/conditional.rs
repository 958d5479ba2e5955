//! Conditionals: operands and results become tuples, results nobody reads disappear, known or cheap branches are inlined.
//!
//! Source: `ConditionalCanonicalizer` (xla/hlo/transforms/simplifiers/conditional_canonicalizer.cc), `ConditionalSimplifier`
//! (xla/service/conditional_simplifier.cc).

use std::sync::Arc;

use crate::cpu::traits::is_elementwise;
use crate::hash::IndexMap;
use hlo_ir::shape::{Shape, ShapeRef};
use hlo_ir::{AttrKey, AttrValue, ComputationId, ElementType, Instruction, Opcode, Payload};

use super::build::{apply, share};
use super::calls::inline_one;
use super::cx::{Cx, Id};
use super::layout::branches;

/// Every conditional, computation by computation.
fn all_conditionals(cx: &Cx<'_>) -> Vec<Id> {
    let order = cx.computation_order();
    let holders = order.into_iter().filter(|&computation| cx.has_seen_in(computation, Opcode::Conditional));
    let in_order = |computation: ComputationId| cx.post_order(computation);
    holders.flat_map(in_order).filter(|&id| cx.opcode(id) == Opcode::Conditional).collect()
}

/// Lets every conditional take and return tuples.
pub(crate) fn canonicalize(cx: &mut Cx<'_>) {
    for id in all_conditionals(cx) {
        for branch in branches(cx, id) {
            wrap_parameter(cx, branch);
            let root = cx.root(branch);
            if cx.shape(root).as_tuple().is_none() {
                let tuple = cx.tuple(root, &[root]);
                cx.set_root(tuple);
            }
        }
        for slot in 1..cx.operands(id).len() {
            let operand = cx.operand(id, slot);
            if cx.shape(operand).as_tuple().is_none() {
                let tuple = cx.tuple(operand, &[operand]);
                cx.replace_operand(id, slot, tuple);
            }
        }
        if cx.shape(id).as_tuple().is_none() {
            let (shape, operands) = (Shape::tuple([cx.shape(id).clone()]), cx.operands(id).to_vec());
            let new = cx.like(id, shape, &operands);
            let element = cx.element(id, new, 0);
            cx.replace(id, element);
        }
    }
}

/// Replaces a parameter that is no tuple by a tuple of it; the new one stands at the end of the list.
fn wrap_parameter(cx: &mut Cx<'_>, branch: ComputationId) {
    let Some(&old) = cx.parameters(branch).first() else { return };
    if cx.shape(old).as_tuple().is_some() {
        return;
    }
    let shape = Shape::tuple([cx.shape(old).clone()]);
    let name = cx.inst(old).name.clone();
    let inst = Instruction::new(name, shape, Opcode::Parameter, []).with_payload(Payload::Parameter(0));
    let new = cx.add(branch, inst);
    let element = cx.element(old, new, 0);
    cx.replace_all_uses(old, element);
    cx.remove(old);
}

/// Simplifies every conditional once; returns whether anything changed.
pub(crate) fn simplify(cx: &mut Cx<'_>) -> bool {
    let mut changed = false;
    for id in all_conditionals(cx) {
        if !cx.is_alive(id) {
            continue;
        }
        changed |= merge_results(cx, id);
        changed |= drop_results(cx, id);
        changed |= drop_all_results(cx, id);
        changed |= remove(cx, id);
        if cx.is_alive(id) {
            changed |= drop_operands(cx, id);
        }
    }
    changed
}

/// The elements read, if the result is a tuple that is read element by element.
fn elements_read(cx: &Cx<'_>, id: Id) -> Option<Vec<bool>> {
    let mut read = vec![false; cx.shape(id).as_tuple()?.len()];
    let users = cx.users(id);
    if users.is_empty() || cx.is_root(id) {
        return None;
    }
    for user in users {
        if cx.opcode(user) != Opcode::GetTupleElement {
            return None;
        }
        *read.get_mut(cx.inst(user).int(&AttrKey::Index)? as usize)? = true;
    }
    Some(read)
}

/// Results that are the same in every branch are read at one index.
fn merge_results(cx: &mut Cx<'_>, id: Id) -> bool {
    let Some(read) = elements_read(cx, id) else { return false };
    let roots: Vec<Id> = branches(cx, id).into_iter().map(|branch| cx.root(branch)).collect();
    if roots.iter().any(|&root| cx.opcode(root) != Opcode::Tuple) {
        return false;
    }
    let mut first: IndexMap<Vec<Id>, usize> = IndexMap::default();
    let mut changed = false;
    for index in 0..read.len() {
        let key: Vec<Id> = roots.iter().map(|&root| cx.operand(root, index)).collect();
        let kept = *first.entry(key).or_insert(index);
        if kept != index {
            changed |= renumber(cx, id, |old| if old == index { kept } else { old });
        }
    }
    changed
}

/// Changes which elements the readers of `tuple` read.
fn renumber(cx: &mut Cx<'_>, tuple: Id, new_index: impl Fn(usize) -> usize) -> bool {
    let mut changed = false;
    for user in cx.users(tuple) {
        let old = cx.inst(user).int(&AttrKey::Index).unwrap_or(0) as usize;
        let new = new_index(old);
        if new != old {
            cx.set_attribute(user, AttrKey::Index, AttrValue::Int(new as i64));
            changed = true;
        }
    }
    changed
}

/// Results nobody reads leave the result tuple.
fn drop_results(cx: &mut Cx<'_>, id: Id) -> bool {
    let Some(read) = elements_read(cx, id).filter(|read| read.contains(&false)) else { return false };
    let shapes: Vec<ShapeRef> = cx.shape(id).as_tuple().unwrap_or_default().to_vec();
    let kept: Vec<usize> = (0..read.len()).filter(|&index| read[index]).collect();
    for branch in branches(cx, id) {
        let root = cx.root(branch);
        let elements: Vec<Id> = kept.iter().map(|&index| cx.element(root, root, index as i64)).collect();
        let tuple = cx.tuple(root, &elements);
        cx.set_root(tuple);
    }
    cx.set_shape(id, Shape::tuple(kept.iter().map(|&index| shapes[index].clone())));
    renumber(cx, id, |old| kept.iter().position(|&index| index == old).unwrap_or(0));
    true
}

/// A conditional nobody reads returns nothing.
fn drop_all_results(cx: &mut Cx<'_>, id: Id) -> bool {
    let empty: ShapeRef = Arc::new(Shape::Tuple(Vec::new()));
    if !cx.is_dead(id) || *cx.shape(id) == empty {
        return false;
    }
    for branch in branches(cx, id) {
        let root = cx.root(branch);
        let tuple = cx.tuple(root, &[]);
        cx.set_root(tuple);
    }
    cx.set_shape(id, empty);
    true
}

/// Replaces a conditional by its branch where that is known, or by both branches and selects where both are cheap.
fn remove(cx: &mut Cx<'_>, id: Id) -> bool {
    if cx.has_control(id) || cx.has_side_effect(id) || cx.is_dead(id) {
        return false;
    }
    let branches = branches(cx, id);
    let predicate = cx.operand(id, 0);
    let truth = cx.element_type(predicate) == ElementType::Pred;
    let known = if branches.len() == 1 {
        Some(0)
    } else {
        cx.int(predicate).map(|value| match usize::try_from(if truth { 1 - value } else { value }) {
            Ok(index) if index < branches.len() => index,
            _ => branches.len() - 1,
        })
    };
    if let Some(index) = known {
        let call = call_branch(cx, id, index, branches[index]);
        cx.replace(id, call);
        inline_one(cx, call);
        return true;
    }
    truth && branches.len() == 2 && select_both(cx, id, predicate, &branches)
}

fn call_branch(cx: &mut Cx<'_>, id: Id, index: usize, branch: ComputationId) -> Id {
    let (shape, operand) = (cx.shape(id).clone(), cx.operand(id, index + 1));
    cx.make(id, shape, Opcode::Call, &[operand], [apply(branch)])
}

fn is_expensive(cx: &Cx<'_>, id: Id) -> bool {
    use Opcode as O;
    let cheap = matches!(
        cx.opcode(id),
        O::Broadcast
            | O::Concatenate
            | O::DynamicSlice
            | O::GetTupleElement
            | O::Reduce
            | O::Reshape
            | O::Pad
            | O::Parameter
            | O::Slice
            | O::Tuple
            | O::Constant
            | O::Map
    );
    !cheap && !is_elementwise(cx, id)
}

/// Whether a branch only passes arrays on.
fn is_empty_branch(cx: &Cx<'_>, branch: ComputationId) -> bool {
    fn has_array(shape: &Shape) -> bool {
        match shape {
            Shape::Array(_) => true,
            Shape::Tuple(elements) => elements.iter().any(|element| has_array(element)),
            _ => false,
        }
    }
    let moves_only = |id: &Id| matches!(cx.opcode(*id), Opcode::Tuple | Opcode::GetTupleElement | Opcode::Parameter);
    cx.post_order(branch).iter().all(moves_only) && has_array(cx.shape(cx.root(branch)))
}

/// Two cheap branches are both computed, and their results selected.
fn select_both(cx: &mut Cx<'_>, id: Id, predicate: Id, branches: &[ComputationId]) -> bool {
    let expensive = |branch: ComputationId| cx.list(branch).any(|inner| is_expensive(cx, inner));
    if branches.iter().any(|&branch| expensive(branch) || is_empty_branch(cx, branch)) {
        return false;
    }
    let on_true = call_branch(cx, id, 0, branches[0]);
    let on_false = call_branch(cx, id, 1, branches[1]);
    let chosen = choose(cx, predicate, on_true, on_false);
    cx.replace(id, chosen);
    inline_one(cx, on_false);
    inline_one(cx, on_true);
    true
}

fn choose(cx: &mut Cx<'_>, predicate: Id, on_true: Id, on_false: Id) -> Id {
    let Some(count) = cx.shape(on_false).as_tuple().map(<[_]>::len) else {
        let mut mask = predicate;
        if !cx.is_scalar(on_false) {
            let shape = share(cx.arr(on_false).with_element_type(ElementType::Pred));
            mask = cx.broadcast(on_false, shape, predicate, &[]);
        }
        let shape = cx.shape(on_false).clone();
        return cx.elementwise(on_false, shape, Opcode::Select, &[mask, on_true, on_false]);
    };
    let elements: Vec<Id> = (0..count as i64)
        .map(|index| {
            let pair = (cx.element(on_true, on_true, index), cx.element(on_false, on_false, index));
            choose(cx, predicate, pair.0, pair.1)
        })
        .collect();
    cx.tuple(on_false, &elements)
}

/// Elements a branch does not read leave its operand.
fn drop_operands(cx: &mut Cx<'_>, id: Id) -> bool {
    let mut changed = false;
    for (number, branch) in branches(cx, id).into_iter().enumerate() {
        let Some(&parameter) = cx.parameters(branch).first() else { continue };
        let Some(shapes) = cx.shape(parameter).as_tuple().map(<[_]>::to_vec) else { continue };
        let users = cx.users(parameter);
        if cx.is_root(parameter) || users.iter().any(|&user| cx.opcode(user) != Opcode::GetTupleElement) {
            continue;
        }
        let read = |index: usize| users.iter().any(|&user| cx.inst(user).int(&AttrKey::Index) == Some(index as i64));
        let kept: Vec<usize> = (0..shapes.len()).filter(|&index| read(index)).collect();
        if kept.len() == shapes.len() {
            continue;
        }
        cx.set_shape(parameter, Shape::tuple(kept.iter().map(|&index| shapes[index].clone())));
        renumber(cx, parameter, |old| kept.iter().position(|&index| index == old).unwrap_or(0));
        let operand = cx.operand(id, number + 1);
        let elements: Vec<Id> = kept.iter().map(|&index| cx.element(operand, operand, index as i64)).collect();
        let tuple = cx.tuple(operand, &elements);
        cx.replace_operand(id, number + 1, tuple);
        changed = true;
    }
    changed
}
