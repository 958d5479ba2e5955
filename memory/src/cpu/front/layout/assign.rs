//! Writing the layouts into the graph: shapes, and a copy wherever a value is wanted in another layout than it is made in.
//!
//! Source: `LayoutAssignment::AssignLayouts`, `CreateCopyWithNewLayout`, `CopyOperandIfLayoutsDiffer`, `AddCopyForOperand`
//! (xla/service/layout_assignment.cc).

use hlo_ir::arena::{Id as _, SideTable};
use hlo_ir::shape::{Shape, ShapeRef};
use hlo_ir::{ComputationId, Opcode};

use super::super::cx::{Cx, Id};
use super::order::Order;
use super::points::{Points, count};
use super::rules::{Layouts, Making, Program, Rules, Wants, layout_of, layouts};
use super::{aliases, branches, has_layouts, with_layouts};
use crate::cpu::graph::Rare;

/// What the rules came to.
pub(super) struct Plan {
    points: Points,
    making: Vec<Option<Making>>,
    wanting: Wants,
    programs: SideTable<ComputationId, Option<Program>>,
    /// Number of instructions that the rules know; what is added later has its layout.
    known: usize,
}

impl Plan {
    /// Takes the layouts from the solved rules.
    pub(super) fn of(rules: Rules<'_, '_>) -> Self {
        let Rules { cx, points, making, wanting, programs, .. } = rules;
        Self { points, making, wanting, programs, known: cx.instruction_count() }
    }

    /// The layouts in which the arrays of a value are made; `None` for an instruction that the rules do not know.
    fn made(&self, id: Id) -> Option<Layouts> {
        let layout = |&buffer| layout_of(&self.points, &self.making, buffer);
        (id.index() < self.known).then(|| self.points.leaves(id).iter().map(layout).collect())
    }
}

/// Writes the layouts of every computation.
pub(super) fn run(cx: &mut Cx<'_>, computations: &[ComputationId], plan: &Plan) {
    for &computation in computations {
        for id in cx.post_order(computation) {
            if let Some(layouts) = plan.made(id)
                && !has_layouts(cx.shape(id), &mut layouts.iter())
            {
                let shape = with_layouts(cx.shape(id), &mut layouts.iter());
                cx.set_shape(id, shape);
            }
            for (slot, wanted) in plan.wanting.of(id).iter().enumerate() {
                if let Some(wanted) = wanted {
                    copy_operand(cx, id, slot, &wanted.layouts);
                }
            }
        }
        let root = cx.root(computation);
        if let Some(program) = &plan.programs[computation] {
            let wanted = with_layouts(cx.shape(root), &mut program.result.iter());
            if layouts(cx.shape(root)) != program.result {
                let copy = copy_with_layout(cx, root, &wanted);
                cx.set_root(copy);
            }
        }
    }
}

/// Gives a use its own copy if the value has another layout.
fn copy_operand(cx: &mut Cx<'_>, id: Id, slot: usize, wanted: &[Order]) {
    let operand = cx.operand(id, slot);
    if has_layouts(cx.shape(operand), &mut wanted.iter()) && count(cx.shape(operand)) == wanted.len() {
        return;
    }
    if layouts(cx.shape(operand)).as_slice() == wanted {
        return;
    }
    let shape = with_layouts(cx.shape(operand), &mut wanted.iter());
    if cx.opcode(id) == Opcode::Conditional && slot > 0 && cx.user_count(operand) == 1 {
        copy_in_branch(cx, id, slot, operand, &shape);
        return;
    }
    let copy = copy_with_layout(cx, operand, &shape);
    cx.replace_operand(id, slot, copy);
}

/// Copies inside the branch, so that the other branches do not pay for it.
fn copy_in_branch(cx: &mut Cx<'_>, id: Id, slot: usize, operand: Id, wanted: &ShapeRef) {
    let Some(&branch) = branches(cx, id).get(slot - 1) else { return };
    let Some(&parameter) = cx.parameters(branch).first() else { return };
    let shape = cx.shape(operand).clone();
    cx.set_shape(parameter, shape);
    let (users, was_root) = (cx.users(parameter), cx.is_root(parameter));
    let copy = copy_with_layout(cx, parameter, wanted);
    for user in users {
        cx.replace_use(parameter, user, copy);
    }
    if was_root {
        cx.set_root(copy);
    }
}

/// A copy in the wanted layouts; a tuple is taken apart, and only elements whose layouts differ are copied.
fn copy_with_layout(cx: &mut Cx<'_>, operand: Id, wanted: &ShapeRef) -> Id {
    let Shape::Tuple(elements) = &**wanted else {
        return cx.elementwise(operand, wanted.clone(), Opcode::Copy, &[operand]);
    };
    let mut copies = Vec::new();
    for (index, element_shape) in elements.iter().enumerate() {
        let element = cx.element(operand, operand, index as i64);
        let same = layouts(cx.shape(element)) == layouts(element_shape);
        copies.push(if same { element } else { copy_with_layout(cx, element, element_shape) });
    }
    cx.tuple(operand, &copies)
}

/// An operand that a custom call overwrites and wants in a certain layout is copied first.
pub(super) fn copy_aliased_operands(cx: &mut Cx<'_>) {
    for computation in cx.computation_order() {
        if !cx.may_hold(computation, Rare::OperandLayouts) {
            continue;
        }
        for id in cx.list(computation).collect::<Vec<_>>() {
            if !cx.may_have(id, Rare::OperandLayouts) || cx.inst(id).operand_layouts().is_none() {
                continue;
            }
            let mut slots: Vec<usize> = Vec::new();
            for (_, slot, _) in aliases(cx, id) {
                if !slots.contains(&slot) {
                    slots.push(slot);
                }
            }
            for slot in slots {
                let operand = cx.operand(id, slot);
                if cx.opcode(operand) == Opcode::Copy && cx.user_count(operand) == 1 {
                    continue;
                }
                debug_assert!(count(cx.shape(operand)) <= 1, "custom calls overwrite arrays");
                let shape = cx.shape(operand).clone();
                let copy = cx.elementwise(operand, shape, Opcode::Copy, &[operand]);
                cx.replace_operand(id, slot, copy);
            }
        }
    }
}
