//! What the CPU wants: every operand row-major, and the results of matrix products too; collectives along one dimension their own way. Of the model of XLA:TPU too.
//!
//! Source: `CpuLayoutAssignment::AddBackendConstraints` (xla/service/cpu/cpu_layout_assignment.cc).

use hlo_ir::{AttrKey, ComputationId, ElementType, Opcode};
use smallvec::smallvec;

use super::super::cx::{Cx, Id};
use super::order::Order;
use super::points::Points;
use super::rules::{Force, Rules, row_major_layouts};

impl Rules<'_, '_> {
    /// Adds the rules of a computation.
    pub(super) fn add_cpu(&mut self, computation: ComputationId) {
        let cx = self.cx;
        for id in cx.list(computation) {
            if let Some(layout) = outermost_first(cx, id) {
                self.make_all(id, &[Order::of(&layout)]);
                continue;
            }
            let library = is_library_call(cx, id);
            if library {
                self.make_all(id, &row_major_layouts(cx.shape(id)));
            }
            for slot in 0..cx.operands(id).len() {
                let operand = cx.operand(id, slot);
                let constrained = self.wanting.of(id).get(slot).is_some_and(Option::is_some);
                if !library && (constrained || Points::forwards(cx, id)) {
                    continue;
                }
                match cx.array(operand) {
                    Some(array) => self.want(id, slot, smallvec![Order::Rows(array.rank())], Force::MANDATORY),
                    None if library => self.want(id, slot, row_major_layouts(cx.shape(operand)), Force::MANDATORY),
                    None => {}
                }
            }
        }
    }
}

/// The layout of a collective that puts pieces together or takes one out: the dimension it does that along lies outermost.
pub(super) fn outermost_first(cx: &Cx<'_>, id: Id) -> Option<hlo_ir::shape::Dims> {
    if !matches!(cx.opcode(id), Opcode::AllGather | Opcode::ReduceScatter) {
        return None;
    }
    let along = *cx.inst(id).ints(&AttrKey::Dimensions).first()?;
    let layout = cx.array(id)?.minor_to_major();
    Some(layout.iter().copied().filter(|&dim| dim != along).chain([along]).collect())
}

/// Whether the code generator insists on row-major operands and results: matrix products that are more than matrix-vector products or
/// tiny ones, convolutions of the matrix library, top-k.
///
/// Source: `DotOperandsAndResultMustHaveRowMajorLayout` (xla/service/cpu/dot_op_emitter.cc).
fn is_library_call(cx: &Cx<'_>, id: Id) -> bool {
    match cx.opcode(id) {
        Opcode::Dot => is_matrix_product(cx, id),
        Opcode::Convolution => super::super::expand::is_canonical_convolution(cx, id),
        Opcode::CustomCall => cx.inst(id).raw(&AttrKey::CustomCallTarget) == Some("\"TopK\""),
        _ => false,
    }
}

fn is_matrix_product(cx: &Cx<'_>, id: Id) -> bool {
    use ElementType as T;
    let Some((lhs, rhs)) = cx.both(id, Opcode::Dot) else { return false };
    if !cx.inst(id).ints(&AttrKey::LhsBatchDims).is_empty() {
        return true;
    }
    let (result, element_type) = (cx.dims(id), cx.element_type(id));
    let vector = result.len() <= 1 || (result.len() == 2 && result.contains(&1));
    let small = |id: Id| cx.rank(id) <= 1 || (cx.rank(id) == 2 && cx.dims(id).iter().any(|&size| size <= 3));
    let number = element_type.is_float() || element_type.is_integer();
    if number && (vector || (small(lhs) && small(rhs))) {
        return false;
    }
    let known = matches!(element_type, T::F16 | T::F32 | T::F64 | T::C64 | T::C128 | T::S32);
    known && [lhs, rhs, id].iter().all(|&id| cx.rank(id) == 2) && !cx.is_empty_array(lhs) && !cx.is_empty_array(rhs)
}
