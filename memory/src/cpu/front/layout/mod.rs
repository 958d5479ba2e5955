//! Layout assignment. On CPU every array is row-major, except that transposes and some reshapes take the layout that makes them free; on GPU convolutions, products and
//! reductions ask for layouts, which spread to what feeds and reads them. Uses that want another layout get a copy of their own. Loops and conditionals
//! carry the layouts their bodies produce.
//!
//! Source: `LayoutAssignment` (xla/service/layout_assignment.cc), with the rules of `CpuLayoutAssignment` and `GpuLayoutAssignment`; `SubByteNormalization`. Constant
//! operands of matrix-vector products that become column-major are not modelled. XLA:TPU's rules are unknown: it has those of the CPU.

mod assign;
mod cpu;
mod gpu;
mod normalize;
mod order;
mod points;
mod rules;
mod spread;
#[cfg(test)]
mod tests;

use std::collections::VecDeque;

use hlo_ir::arena::SideTable;
use hlo_ir::shape::{ArrayShape, Layout, Shape, ShapeRef};
use hlo_ir::{AttrKey, AttrValue, Opcode};

use super::build::share;
use super::cx::{Cx, Id};
use crate::Target;
use crate::cpu::graph::Rare;
pub(crate) use normalize::run as normalize;
use order::Order;
use points::{Points, first_at};
use rules::{Program, Rules, Wants, layouts, row_major_layouts};

/// Assigns layouts in every computation.
pub(crate) fn run(cx: &mut Cx<'_>, target: Target) {
    assign::copy_aliased_operands(cx);
    let computations = cx.outside_fusions();
    let points = Points::of(cx, &computations, target == Target::Gpu);
    let mut is_body = SideTable::new(false);
    for &computation in computations.iter() {
        for id in cx.calling(computation) {
            if let (Opcode::While, Some(body)) = (cx.opcode(id), cx.inst(id).computation(&AttrKey::Body)) {
                is_body.set(body, true);
            }
        }
    }
    let mut programs = SideTable::new(None);
    programs.set(cx.entry(), Some(entry_program(cx)));
    let making = vec![None; points.made.len()];
    let mut rules = Rules {
        cx,
        target,
        points,
        making,
        wanting: Wants::new(),
        programs,
        mismatched: SideTable::new(false),
        is_body,
        added: Vec::new(),
        waiting: VecDeque::new(),
    };
    rules.solve(&computations);
    let plan = assign::Plan::of(rules);
    assign::run(cx, &computations, &plan);
}

/// The layouts of the entry computation, from the header of the module or the shapes themselves; the result is row-major by default.
fn entry_program(cx: &Cx<'_>) -> Program {
    let entry = cx.entry();
    let given = hlo_ir::module::entry_layout(&cx.attributes);
    let shapes = |id: Id| cx.shape(id).clone();
    let parameters: Vec<ShapeRef> = cx.parameters(entry).into_iter().map(shapes).collect();
    let root = cx.shape(cx.root(entry));
    match given {
        Some((inputs, result)) if inputs.len() == parameters.len() && result.compatible(root) => {
            Program { parameters: inputs.iter().map(|shape| layouts(shape)).collect(), result: layouts(&result) }
        }
        _ => Program {
            parameters: parameters.iter().map(|shape| layouts(shape)).collect(),
            result: row_major_layouts(root),
        },
    }
}

/// Whether a shape has these layouts already, as [`with_layouts`] would write them.
fn has_layouts(shape: &Shape, layouts: &mut dyn Iterator<Item = &Order>) -> bool {
    match shape {
        Shape::Array(array) => match (&array.layout, layouts.next()) {
            (Some(own), Some(wanted)) => wanted.is_of(own) && own.suffix == suffix(array.element_type.bits()),
            _ => false,
        },
        Shape::Tuple(elements) => elements.iter().all(|element| has_layouts(element, layouts)),
        _ => true,
    }
}

/// What a layout says of elements of so many bits.
const fn suffix(bits: u32) -> &'static str {
    match bits {
        4 => "E(4)",
        2 => "E(2)",
        _ => "",
    }
}

/// The shape with these layouts, one per array. Types of less than a byte are stored packed.
fn with_layouts(shape: &Shape, layouts: &mut dyn Iterator<Item = &Order>) -> ShapeRef {
    match shape {
        Shape::Array(array) => {
            let suffix = suffix(array.element_type.bits());
            let minor_to_major = layouts.next().unwrap_or(&Order::Rows(array.rank())).dims();
            let layout = Layout { minor_to_major, suffix: suffix.into() };
            share(ArrayShape { layout: Some(layout), ..array.clone() })
        }
        Shape::Tuple(elements) => {
            Shape::tuple(elements.iter().map(|element| with_layouts(element, layouts)).collect::<Vec<_>>())
        }
        other => std::sync::Arc::new(other.clone()),
    }
}

/// Results that a custom call writes over operands: array of the result, operand number, array of the operand.
fn aliases(cx: &Cx<'_>, id: Id) -> Vec<(usize, usize, usize)> {
    if !cx.may_have(id, Rare::Aliasing) {
        return Vec::new();
    }
    let Some(AttrValue::Aliases(aliases)) = cx.inst(id).attribute(&AttrKey::OutputToOperandAliasing) else {
        return Vec::new();
    };
    let place = |alias: &hlo_ir::attribute::Alias| {
        let operand = usize::try_from(alias.operand).ok().filter(|&slot| slot < cx.operands(id).len())?;
        let inside = first_at(cx.shape(cx.operand(id, operand)), &alias.operand_index);
        Some((first_at(cx.shape(id), &alias.output), operand, inside))
    };
    aliases.iter().filter_map(place).collect()
}

/// The branches of a conditional, by number.
pub(crate) fn branches(cx: &Cx<'_>, id: Id) -> Vec<hlo_ir::ComputationId> {
    let inst = cx.inst(id);
    match inst.attribute(&AttrKey::BranchComputations) {
        Some(AttrValue::Computations(branches)) => branches.to_vec(),
        _ => [AttrKey::TrueComputation, AttrKey::FalseComputation]
            .iter()
            .filter_map(|key| inst.computation(key))
            .collect(),
    }
}
