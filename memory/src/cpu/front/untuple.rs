//! Results that stand alone in a tuple. On its way into the compiler a program goes through StableHLO, whose operations and functions have lists
//! of results: one result is no tuple there, and none behind it. A reduction, loop, conditional or program may still be written so, as
//! `(f32[8])`, and a computation that a reduction applies may return one.
//!
//! Source: `ConvertReduceOp` and its like (xla/hlo/translate/mhlo_to_hlo), which make tuples of two and more.

// Tests: `memory/tests/legal.rs`.

use std::fmt::Write as _;

use hlo_ir::attribute::find;
use hlo_ir::shape::ShapeRef;
use hlo_ir::{AttrKey, AttrValue, Attribute, ComputationId, Opcode};

use super::cx::{Cx, Id};
use super::layout::branches;

/// Opcodes that may give a tuple of one.
const OPCODES: [Opcode; 4] = [Opcode::Reduce, Opcode::ReduceWindow, Opcode::While, Opcode::Conditional];

/// Takes the tuple away from every result that stands alone in one.
pub(super) fn run(cx: &mut Cx<'_>) {
    for computation in cx.outside_fusions() {
        if !OPCODES.iter().any(|&opcode| cx.has_seen_in(computation, opcode)) {
            continue;
        }
        for id in cx.post_order(computation) {
            let alone = matches!(cx.shape(id).as_tuple(), Some([_]));
            match cx.opcode(id) {
                Opcode::Reduce | Opcode::ReduceWindow => {
                    cx.to_apply(id).into_iter().for_each(|applied| return_alone(cx, applied));
                }
                Opcode::Conditional if alone => return_from_branches(cx, id),
                Opcode::While if alone => carry_alone(cx, id),
                _ => continue,
            }
            give_alone(cx, id);
        }
    }
    result_alone(cx);
}

/// What stands alone in a tuple.
fn only(cx: &Cx<'_>, id: Id) -> Option<ShapeRef> {
    match cx.shape(id).as_tuple() {
        Some([only]) => Some(only.clone()),
        _ => None,
    }
}

/// Lets an instruction give what its shape has in a tuple; for its users the tuple is put around it.
fn give_alone(cx: &mut Cx<'_>, id: Id) {
    let Some(only) = only(cx, id) else { return };
    let (users, is_root) = (cx.users(id), cx.is_root(id));
    cx.set_shape(id, only);
    let whole = cx.tuple(id, &[id]);
    for user in users {
        cx.replace_use(id, user, whole);
    }
    if is_root {
        cx.set_root(whole);
    }
}

/// The element of a tuple of one.
fn element(cx: &mut Cx<'_>, tuple: Id) -> Id {
    if cx.opcode(tuple) == Opcode::Tuple { cx.operand(tuple, 0) } else { cx.element(tuple, tuple, 0) }
}

/// Lets a computation return what stands alone in the tuple that it returns.
fn return_alone(cx: &mut Cx<'_>, computation: ComputationId) {
    let root = cx.root(computation);
    if only(cx, root).is_some() {
        let element = element(cx, root);
        cx.set_root(element);
        cx.remove_with_operands(root);
    }
}

/// The same for every branch of a conditional.
fn return_from_branches(cx: &mut Cx<'_>, id: Id) {
    for branch in branches(cx, id) {
        return_alone(cx, branch);
    }
}

/// The same for the state of a loop.
fn carry_alone(cx: &mut Cx<'_>, id: Id) {
    let init = cx.operand(id, 0);
    let element = element(cx, init);
    cx.replace_operand(id, 0, element);
    for callee in cx.callees(id) {
        return_alone(cx, callee);
        let state = cx.parameter(callee, 0);
        give_alone(cx, state);
    }
}

/// The same for the result of the program, and for what the header says of it.
fn result_alone(cx: &mut Cx<'_>) {
    let entry = cx.entry();
    if only(cx, cx.root(entry)).is_none() {
        return;
    }
    return_alone(cx, entry);
    if let Some(AttrValue::Aliases(aliases)) = find(&cx.attributes, &AttrKey::InputOutputAlias) {
        let mut aliases = aliases.as_ref().clone();
        for alias in &mut aliases {
            alias.output = alias.output.iter().skip(1).copied().collect();
        }
        set_header(cx, AttrKey::InputOutputAlias, AttrValue::Aliases(aliases.into()));
    }
    if let Some((parameters, result)) = hlo_ir::module::entry_layout(&cx.attributes)
        && let Some([result]) = result.as_tuple()
    {
        let mut text = "{(".to_owned();
        for (number, shape) in parameters.iter().enumerate() {
            let comma = if number > 0 { ", " } else { "" };
            write!(text, "{comma}{shape}").expect("a string takes everything");
        }
        write!(text, ")->{result}}}").expect("a string takes everything");
        set_header(cx, AttrKey::EntryComputationLayout, AttrValue::Raw(text.into()));
    }
}

fn set_header(cx: &mut Cx<'_>, key: AttrKey, value: AttrValue) {
    cx.attributes.retain(|attribute| attribute.key != key);
    cx.attributes.push(Attribute::new(key, value));
}
