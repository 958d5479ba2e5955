//! Long reductions that no library takes become two: first over windows, then over what is left.
//!
//! Source: `TreeReductionRewriter` (xla/hlo/transforms/simplifiers/tree_reduction_rewriter.cc).

use hlo_ir::Opcode;
use hlo_ir::attribute::WindowDim;

use super::build::row_major;
use super::cx::{Cx, Id};
use super::visit::walk;
use crate::cpu::ynn::support::is_supported;

/// Elements a window covers in each reduced dimension.
pub const REDUCED_WINDOW: i64 = 32;

/// Splits every long reduction once; returns whether there was one.
pub(crate) fn run(cx: &mut Cx<'_>) -> bool {
    let mut changed = false;
    for computation in cx.outside_fusions() {
        let may = cx.has_seen_in(computation, Opcode::Reduce);
        if !may || !cx.list(computation).any(|id| is_long(cx, id)) {
            continue;
        }
        changed |= walk(cx, computation, |cx, id| {
            let Some(new) = split(cx, id) else { return false };
            cx.replace(id, new);
            true
        });
    }
    changed
}

/// Whether this is a reduction that is to be split.
fn is_long(cx: &Cx<'_>, id: Id) -> bool {
    if cx.opcode(id) != Opcode::Reduce || cx.array(id).is_none() || is_supported(cx, id) {
        return false;
    }
    let sizes = cx.dims(cx.operand(id, 0));
    cx.dimensions(id).iter().any(|&dim| sizes[dim as usize] > REDUCED_WINDOW)
}

fn split(cx: &mut Cx<'_>, id: Id) -> Option<Id> {
    if !is_long(cx, id) {
        return None;
    }
    let (operand, init, dims) = (cx.operand(id, 0), cx.operand(id, 1), cx.dimensions(id));
    let sizes = cx.dims(operand);
    let mut partial = sizes.clone();
    let mut window = vec![WindowDim::default(); sizes.len()];
    for &dim in &dims {
        let (size, window) = (sizes[dim as usize], &mut window[dim as usize]);
        let width = size.min(REDUCED_WINDOW);
        let count = (size + width - 1) / width;
        let padding = (count - 1) * width + width - size;
        *window = WindowDim {
            size: width,
            stride: width,
            pad_low: padding / 2,
            pad_high: padding - padding / 2,
            ..WindowDim::default()
        };
        partial[dim as usize] = count;
    }
    let to_apply = cx.to_apply(id)?;
    let shape = row_major(cx.element_type(operand), partial);
    let first = cx.reduce_window(id, shape, &[operand, init], window, to_apply);
    let shape = cx.shape(id).clone();
    Some(cx.reduce_as(id, shape, first, init, &dims, to_apply))
}
