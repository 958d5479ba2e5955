//! Calls: every computation gets one caller, then the bodies of calls move into their callers.
//!
//! What a call says of its name and its place in the source goes to what stands in its place.
//!
//! Source: `FlattenCallGraph` (xla/hlo/transforms/simplifiers/flatten_call_graph.cc), `CallInliner` (xla/service/call_inliner.cc).

use hlo_ir::{AttrKey, AttrValue, ComputationId, Opcode, metadata};

use super::cx::{Cx, Id};
use super::dce;

/// Clones a computation with more than one caller for every further caller, reducers and comparators included.
pub(crate) fn flatten(cx: &mut Cx<'_>) -> bool {
    let callers = cx.callers();
    let mut changed = false;
    for computation in cx.computation_order() {
        // An instruction that mentions the computation twice is listed twice; its first mention keeps the original.
        for &caller in callers[computation].iter().skip(1) {
            let skip = usize::from(caller == callers[computation][0]);
            changed |= redirect_one(cx, caller, computation, skip);
        }
    }
    changed
}

/// Replaces the mention number `skip` of `computation` in the attributes of `caller` by a copy.
fn redirect_one(cx: &mut Cx<'_>, caller: Id, computation: ComputationId, skip: usize) -> bool {
    let attributes = cx.inst(caller).attributes.clone();
    let mut seen = 0;
    for attribute in attributes {
        match attribute.value {
            AttrValue::Computation(callee) if callee == computation => {
                if seen == skip {
                    let copy = cx.deep_clone(computation);
                    cx.set_attribute(caller, attribute.key, AttrValue::Computation(copy));
                    return true;
                }
                seen += 1;
            }
            AttrValue::Computations(mut callees) => {
                for callee in &mut callees {
                    if *callee == computation {
                        if seen == skip {
                            *callee = cx.deep_clone(computation);
                            cx.set_attribute(caller, attribute.key, AttrValue::Computations(callees));
                            return true;
                        }
                        seen += 1;
                    }
                }
            }
            _ => {}
        }
    }
    false
}

/// Moves the body of every call into its caller, innermost first, unless the frontend forbids it.
pub(crate) fn inline(cx: &mut Cx<'_>) -> bool {
    inline_unless(cx, |_, _| false)
}

/// The same except for calls for which `stays` holds.
pub(crate) fn inline_unless(cx: &mut Cx<'_>, stays: fn(&Cx<'_>, Id) -> bool) -> bool {
    let mut changed = false;
    for computation in cx.computation_order() {
        if !cx.has_seen_in(computation, Opcode::Call) {
            continue;
        }
        for id in cx.post_order(computation) {
            if cx.opcode(id) == Opcode::Call && may_inline(cx, id) && !stays(cx, id) {
                inline_one(cx, id);
                changed = true;
            }
        }
    }
    if changed {
        dce::run(cx);
    }
    changed
}

fn may_inline(cx: &Cx<'_>, call: Id) -> bool {
    let inst = cx.inst(call);
    let forbidden = inst.raw(&AttrKey::FrontendAttributes).is_some_and(|text| text.contains("inlineable=\"false\""));
    inst.attribute(&AttrKey::BackendConfig).is_none() && !forbidden
}

/// Replaces one call by a copy of its callee; returns what stands for its result.
pub(crate) fn inline_one(cx: &mut Cx<'_>, call: Id) -> Option<Id> {
    inline_mapped(cx, call, &mut Vec::new())
}

/// The same; `map` receives where each instruction of the callee went, by slot.
pub(crate) fn inline_mapped(cx: &mut Cx<'_>, call: Id, map: &mut Vec<Option<Id>>) -> Option<Id> {
    let callee = cx.to_apply(call)?;
    let parent = cx.parent(call);
    let operands: Vec<Id> = cx.operands(call).to_vec();
    let said = cx.inst(call).attribute(&AttrKey::Metadata).cloned();
    map.resize(cx.slots(callee), None);
    for id in visit_order(cx, callee) {
        let new = if let Some(number) = cx.inst(id).parameter_number() {
            *operands.get(usize::try_from(number).ok()?)?
        } else {
            let inputs: Vec<Id> =
                cx.operands(id).iter().map(|&operand| map[cx.slot(operand)]).collect::<Option<_>>()?;
            let new = cx.copy_to(parent, id, &inputs);
            if let Some(AttrValue::Raw(said)) = &said {
                place(cx, new, said);
            }
            let before: Vec<Id> = cx.control_predecessors(id).to_vec();
            before
                .into_iter()
                .filter_map(|other| map[cx.slot(other)])
                .collect::<Vec<_>>()
                .into_iter()
                .for_each(|other| cx.add_control(other, new));
            new
        };
        map[cx.slot(id)] = Some(new);
    }
    let root = map[cx.slot(cx.root(callee))]?;
    cx.replace(call, root);
    Some(root)
}

/// Lets an instruction say that it stands in the place of a call that says `call`, and so what it runs.
fn place(cx: &mut Cx<'_>, id: Id, call: &str) {
    let said = metadata::in_place_of(Some(call), cx.inst(id).raw(&AttrKey::Metadata));
    if let Some(said) = said {
        cx.set_attribute(id, AttrKey::Metadata, said);
    }
    if matches!(cx.opcode(id), Opcode::While | Opcode::Conditional) {
        for callee in cx.callees(id) {
            for inner in cx.list(callee).collect::<Vec<_>>() {
                place(cx, inner, call);
            }
        }
    }
}

/// Instructions in the order in which a visitor meets them: what nothing uses first, the root and what it needs last.
///
/// Source: `HloComputation::Accept`.
pub(crate) fn visit_order(cx: &Cx<'_>, computation: ComputationId) -> Vec<Id> {
    let root = cx.root(computation);
    let mut order = Vec::with_capacity(cx.len(computation));
    let mut seen = vec![false; cx.slots(computation)];
    let sinks: Vec<Id> =
        cx.list(computation).filter(|&id| cx.is_dead(id) && cx.control_successors(id).is_empty()).collect();
    for sink in sinks.into_iter().chain([root]) {
        let mut stack = vec![(sink, false)];
        while let Some((id, done)) = stack.pop() {
            if done {
                order.push(id);
            } else if !std::mem::replace(&mut seen[cx.slot(id)], true) {
                stack.push((id, true));
                stack.extend(cx.control_predecessors(id).iter().rev().map(|&before| (before, false)));
                stack.extend(cx.operands(id).iter().rev().map(|&operand| (operand, false)));
            }
        }
    }
    order
}
