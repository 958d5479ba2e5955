//! What a loop body computes from invariants alone is computed once, before the loop, and carried through it.
//!
//! Source: `WhileLoopInvariantCodeMotion` (xla/service/while_loop_invariant_code_motion.cc), `WhileUtil::MakeInstructionsLiveIn`
//! (xla/service/while_util.cc).

use hlo_ir::arena::SideTable;
use hlo_ir::shape::{Shape, ShapeRef};
use hlo_ir::{AttrKey, AttrValue, Attribute, ComputationId, Instruction, Opcode, Payload};

use super::super::calls::inline_mapped;
use super::super::cx::{Cx, Id};
use super::super::{dce, tuples};
use super::{Loop, all_loops, trips};

/// Hoists from every loop; returns whether anything was hoisted.
pub(crate) fn run(cx: &mut Cx<'_>) -> bool {
    let mut changed = false;
    for id in all_loops(cx) {
        if let Some(at) = Loop::of(cx, id).filter(|_| cx.is_alive(id)) {
            changed |= hoist(cx, &at);
        }
    }
    if changed {
        dce::run(cx);
        tuples::run(cx);
    }
    changed
}

/// Whether hoisting pays only as part of something else.
fn is_light(cx: &Cx<'_>, id: Id) -> bool {
    use Opcode as O;
    matches!(
        cx.opcode(id),
        O::Constant
            | O::Reshape
            | O::Bitcast
            | O::Broadcast
            | O::Iota
            | O::Reverse
            | O::Slice
            | O::Transpose
            | O::Tuple
    )
}

/// Where an instruction of the body stands.
#[derive(Clone, Copy, PartialEq)]
enum Motion {
    Inside,
    /// Invariant, but not worth hoisting by itself.
    Could,
    /// Computed before the loop, by this instruction.
    Hoisted(Id),
}

fn hoist(cx: &mut Cx<'_>, at: &Loop) -> bool {
    let plain = cx.shape(at.id).as_tuple().is_some() && cx.opcode(at.root(cx)) == Opcode::Tuple;
    if !plain || trips::trip_count(cx, at).is_some_and(|trips| trips <= 1) {
        return false;
    }
    let mut place = SideTable::new(Motion::Inside);
    let mut any = false;
    for (index, &operand) in cx.operands(at.root(cx)).iter().enumerate() {
        if at.passes(cx, index) && cx.array(operand).is_some() {
            place.set(operand, Motion::Could);
            any = true;
        }
    }
    let order = cx.post_order(at.body);
    if !any || order.iter().any(|&id| cx.opcode(id) == Opcode::Domain) {
        return false;
    }
    let mut inside = Vec::new();
    for id in order {
        if cx.has_side_effect(id)
            || cx.has_control(id)
            || matches!(cx.opcode(id), Opcode::AfterAll | Opcode::Parameter)
            || !cx.operands(id).iter().all(|&operand| place[operand] != Motion::Inside || cx.is_constant(operand))
        {
            continue;
        }
        if is_light(cx, id) {
            if !cx.is_constant(id) {
                place.set(id, Motion::Could);
            }
            continue;
        }
        copy_out(cx, at, id, &mut place);
        inside.push(id);
    }
    if inside.is_empty() {
        return false;
    }
    let outside: Vec<Id> = inside
        .iter()
        .filter_map(|&id| match place[id] {
            Motion::Hoisted(copy) => Some(copy),
            _ => None,
        })
        .collect();
    carry(cx, at, &inside, &outside);
    true
}

/// Copies an instruction and what it needs in front of the loop.
///
/// Source: `WhileUtil::CreateLoopInvariantCopy`.
fn copy_out(cx: &mut Cx<'_>, at: &Loop, id: Id, place: &mut SideTable<Id, Motion>) -> Id {
    if let Motion::Hoisted(copy) = place[id] {
        return copy;
    }
    let operands: Vec<Id> = cx
        .operands(id)
        .to_vec()
        .into_iter()
        .map(|operand| if operand == at.body_state { at.init } else { copy_out(cx, at, operand, place) })
        .collect();
    let copy = cx.copy_to(cx.parent(at.id), id, &operands);
    place.set(id, Motion::Hoisted(copy));
    copy
}

/// Replaces the loop by one that carries `outside` as further elements, whose reads replace `inside` in its body.
fn carry(cx: &mut Cx<'_>, at: &Loop, inside: &[Id], outside: &[Id]) {
    let old: Vec<ShapeRef> = cx.shape(at.id).as_tuple().unwrap_or_default().to_vec();
    let wide = Shape::tuple(old.iter().cloned().chain(outside.iter().map(|&id| cx.shape(id).clone())));
    let (condition, _, _) = widen(cx, at.condition, &wide, old.len(), false);
    let (body, state, map) = widen(cx, at.body, &wide, old.len(), true);
    let init = append(cx, at.init, outside);
    let mut inst = cx.inst(at.id).clone();
    inst.shape = wide;
    inst.operands = std::iter::once(init).collect();
    inst.set_attribute(AttrKey::Condition, AttrValue::Computation(condition));
    inst.set_attribute(AttrKey::Body, AttrValue::Computation(body));
    let parent = cx.parent(at.id);
    let new = cx.add(parent, inst);
    let results = prefix(cx, new, old.len());
    cx.replace_all_uses(at.id, results);
    cx.remove(at.id);
    for (number, &id) in inside.iter().enumerate() {
        let read = cx.element(state, state, (old.len() + number) as i64);
        if let Some(copy) = map[cx.slot(id)] {
            cx.replace(copy, read);
        }
    }
}

/// A tuple of the first `count` elements of a tuple.
fn prefix(cx: &mut Cx<'_>, tuple: Id, count: usize) -> Id {
    let elements: Vec<Id> = (0..count as i64).map(|index| cx.element(tuple, tuple, index)).collect();
    cx.tuple(tuple, &elements)
}

/// A tuple of all elements of a tuple and some more.
fn append(cx: &mut Cx<'_>, tuple: Id, more: &[Id]) -> Id {
    let count = cx.shape(tuple).as_tuple().map_or(0, <[_]>::len) as i64;
    let mut elements: Vec<Id> = (0..count).map(|index| cx.element(tuple, tuple, index)).collect();
    elements.extend_from_slice(more);
    cx.tuple(tuple, &elements)
}

/// A computation over the wide state that does what `narrow` does with its first elements and, if `through`, returns the others unchanged.
/// Returns it, its parameter, and where each instruction of `narrow` went, by slot.
fn widen(
    cx: &mut Cx<'_>,
    narrow: ComputationId,
    wide: &ShapeRef,
    count: usize,
    through: bool,
) -> (ComputationId, Id, Vec<Option<Id>>) {
    let name = cx.computation_name(narrow).clone();
    let computation = cx.add_computation(name);
    let parameter = Instruction::new("wide", wide.clone(), Opcode::Parameter, []).with_payload(Payload::Parameter(0));
    let state = cx.add(computation, parameter);
    let first = prefix(cx, state, count);
    let shape = cx.shape(cx.root(narrow)).clone();
    let call = cx.make(
        state,
        shape,
        Opcode::Call,
        &[first],
        [Attribute::new(AttrKey::ToApply, AttrValue::Computation(narrow))],
    );
    let root = if through {
        let all = wide.as_tuple().map_or(0, <[_]>::len);
        let rest: Vec<Id> = (count..all).map(|index| cx.element(state, state, index as i64)).collect();
        append(cx, call, &rest)
    } else {
        call
    };
    cx.set_root(root);
    let mut map = Vec::new();
    inline_mapped(cx, call, &mut map);
    (computation, state, map)
}
