//! Layout assignment: every array is row-major, except that a transpose takes the layout that makes it free; each use of such an array
//! gets a copy of its own. Loops and conditionals carry the layouts their bodies produce.
//!
//! Source: `CpuLayoutAssignment` (xla/service/cpu/cpu_layout_assignment.cc), `LayoutAssignment` (xla/service/layout_assignment.cc),
//! `SubByteNormalization`.

use std::sync::Arc;

use hlo_ir::shape::{ArrayShape, Layout, Shape, ShapeRef};
use hlo_ir::{AttrKey, AttrValue, ComputationId, Opcode};

use super::build::share;
use super::cx::{Cx, Id};
use super::dims::permute_shape;
use super::visit::outside_fusions;

/// Assigns layouts in every computation, callees first.
pub(crate) fn run(cx: &mut Cx<'_>) {
    for computation in outside_fusions(cx) {
        assign_computation(cx, computation, false);
    }
    let entry = cx.entry();
    let root = cx.root(entry);
    let wanted = row_major(cx.shape(root));
    copy_root(cx, root, &wanted);
}

/// The shape with every array in row-major order.
pub(crate) fn row_major(shape: &Shape) -> ShapeRef {
    match shape {
        Shape::Array(array) => share(row_major_array(array)),
        Shape::Tuple(elements) => Shape::tuple(elements.iter().map(|element| row_major(element))),
        other => Arc::new(other.clone()),
    }
}

fn row_major_array(array: &ArrayShape) -> ArrayShape {
    let mut layout = Layout::descending(array.rank());
    // Types of less than a byte are stored packed.
    let bits = array.element_type.bits();
    if bits == 4 || bits == 2 {
        layout.suffix = if bits == 4 { "E(4)" } else { "E(2)" }.into();
    }
    ArrayShape { layout: Some(layout), ..array.clone() }
}

/// Assigns the layouts of one computation. `settled` says that its parameters have theirs already.
fn assign_computation(cx: &mut Cx<'_>, computation: ComputationId, settled: bool) {
    for id in cx.post_order(computation) {
        settle_callees(cx, id);
        if settled && cx.opcode(id) == Opcode::Parameter {
            continue;
        }
        if let Some(shape) = own_shape(cx, computation, id) {
            cx.set_shape(id, shape);
        }
        for slot in 0..cx.operands(id).len() {
            let Some(wanted) = operand_shape(cx, id, slot) else { continue };
            let operand = cx.operand(id, slot);
            if *cx.shape(operand) != wanted {
                let copy = copy_with_layout(cx, operand, &wanted);
                cx.replace_operand(id, slot, copy);
            }
        }
    }
}

/// Element shapes that are already assigned, put together.
fn forwarded(cx: &Cx<'_>, id: Id) -> Option<ShapeRef> {
    match cx.opcode(id) {
        Opcode::Tuple => Some(Shape::tuple(cx.operands(id).iter().map(|&operand| cx.shape(operand).clone()))),
        Opcode::GetTupleElement => {
            let index = cx.inst(id).int(&AttrKey::Index)? as usize;
            cx.shape(cx.operand(id, 0)).as_tuple()?.get(index).cloned()
        }
        _ => None,
    }
}

/// The layout of what an instruction produces; `None` where it already has it.
fn own_shape(cx: &Cx<'_>, computation: ComputationId, id: Id) -> Option<ShapeRef> {
    match cx.opcode(id) {
        Opcode::Tuple | Opcode::GetTupleElement => forwarded(cx, id),
        Opcode::Parameter if computation == cx.entry() => with_packing(cx.shape(id)),
        Opcode::Transpose => {
            let operand = row_major_array(cx.array(cx.operand(id, 0))?);
            Some(share(permute_shape(&operand, &cx.dimensions(id))))
        }
        Opcode::While | Opcode::Conditional | Opcode::Call => {
            let callee = *first_callee(cx, id)?;
            Some(cx.shape(cx.root(callee)).clone())
        }
        Opcode::CustomCall if cx.inst(id).attribute(&AttrKey::OperandLayoutConstraints).is_some() => None,
        _ => Some(row_major(cx.shape(id))),
    }
}

/// Entry parameters keep their layout, but narrow types are packed.
fn with_packing(shape: &ShapeRef) -> Option<ShapeRef> {
    let array = shape.as_array()?;
    let mut packed = row_major_array(array);
    if let (Some(old), Some(new)) = (&array.layout, &mut packed.layout) {
        new.minor_to_major.clone_from(&old.minor_to_major);
    }
    Some(share(packed))
}

fn first_callee<'a>(cx: &'a Cx<'_>, id: Id) -> Option<&'a ComputationId> {
    let inst = cx.inst(id);
    let key = match inst.opcode {
        Opcode::While => AttrKey::Body,
        Opcode::Call => AttrKey::ToApply,
        _ => match inst.attribute(&AttrKey::BranchComputations) {
            Some(AttrValue::Computations(branches)) => return branches.first(),
            _ => AttrKey::TrueComputation,
        },
    };
    match inst.attribute(&key) {
        Some(AttrValue::Computation(callee)) => Some(callee),
        _ => None,
    }
}

/// The layout an operand must have; `None` where any will do.
fn operand_shape(cx: &Cx<'_>, id: Id, slot: usize) -> Option<ShapeRef> {
    let parameter = |callee: ComputationId, number: usize| {
        cx.parameters(callee).get(number).map(|&parameter| cx.shape(parameter).clone())
    };
    match cx.opcode(id) {
        Opcode::Tuple | Opcode::GetTupleElement | Opcode::OptBarrier => None,
        Opcode::While => parameter(*first_callee(cx, id)?, 0),
        Opcode::Call => parameter(*first_callee(cx, id)?, slot),
        Opcode::Conditional if slot > 0 => parameter(*branches(cx, id).get(slot - 1)?, 0),
        Opcode::CustomCall if cx.inst(id).attribute(&AttrKey::OperandLayoutConstraints).is_some() => None,
        _ => cx.array(cx.operand(id, slot)).map(|array| share(row_major_array(array))),
    }
}

/// The branches of a conditional, by number.
pub(crate) fn branches(cx: &Cx<'_>, id: Id) -> Vec<ComputationId> {
    let inst = cx.inst(id);
    match inst.attribute(&AttrKey::BranchComputations) {
        Some(AttrValue::Computations(branches)) => branches.clone(),
        _ => [AttrKey::TrueComputation, AttrKey::FalseComputation]
            .iter()
            .filter_map(|key| inst.computation(key))
            .collect(),
    }
}

/// Lets the parameter of a loop take the layouts its body produces, and the branches of a conditional those of the first one.
fn settle_callees(cx: &mut Cx<'_>, id: Id) {
    match cx.opcode(id) {
        Opcode::While => {
            let inst = cx.inst(id);
            let (Some(body), Some(condition)) =
                (inst.computation(&AttrKey::Body), inst.computation(&AttrKey::Condition))
            else {
                return;
            };
            let produced = cx.shape(cx.root(body)).clone();
            for callee in [body, condition] {
                settle_parameter(cx, callee, &produced);
            }
        }
        Opcode::Conditional => {
            let branches = branches(cx, id);
            let Some(&first) = branches.first() else { return };
            let wanted = cx.shape(cx.root(first)).clone();
            for &branch in &branches[1..] {
                let root = cx.root(branch);
                copy_root(cx, root, &wanted);
            }
        }
        _ => {}
    }
}

fn settle_parameter(cx: &mut Cx<'_>, callee: ComputationId, shape: &ShapeRef) {
    let Some(&parameter) = cx.parameters(callee).first() else { return };
    if cx.shape(parameter) != shape {
        cx.set_shape(parameter, shape.clone());
        assign_computation(cx, callee, true);
    }
}

/// Replaces a root by a copy in the wanted layouts if its own differ.
fn copy_root(cx: &mut Cx<'_>, root: Id, wanted: &ShapeRef) {
    if cx.shape(root) != wanted && cx.shape(root).compatible(wanted) {
        let copy = copy_with_layout(cx, root, wanted);
        cx.set_root(copy);
    }
}

/// A copy in the wanted layouts; a tuple is taken apart, and only elements whose layouts differ are copied.
///
/// Source: `LayoutAssignment::CreateCopyWithNewLayout`.
fn copy_with_layout(cx: &mut Cx<'_>, operand: Id, wanted: &ShapeRef) -> Id {
    let Shape::Tuple(elements) = &**wanted else {
        return cx.elementwise(operand, wanted.clone(), Opcode::Copy, &[operand]);
    };
    let mut copies = Vec::new();
    for (index, element_shape) in elements.iter().enumerate() {
        let element = cx.element(operand, operand, index as i64);
        let same = cx.shape(element) == element_shape;
        copies.push(if same { element } else { copy_with_layout(cx, element, element_shape) });
    }
    cx.tuple(operand, &copies)
}
