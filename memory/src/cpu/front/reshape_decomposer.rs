//! Behind layout assignment: reshapes become bitcasts, broadcasts list their dimensions in order.
//!
//! Source: `ReshapeDecomposer` (xla/hlo/transforms/expanders/reshape_decomposer.cc), `BroadcastCanonicalizer`.

use hlo_ir::Opcode;
use hlo_ir::shape::Dims;

use super::build::{row_major, share};
use super::cx::{Cx, Id};
use super::dims::{align_layouts, reshape_is_bitcast};

/// Decomposes reshapes and broadcasts in every computation.
pub(crate) fn run(cx: &mut Cx<'_>) {
    for computation in cx.outside_fusions() {
        for id in cx.post_order(computation) {
            let new = match cx.opcode(id) {
                Opcode::Reshape => Some(reshape(cx, id)),
                Opcode::Broadcast if !cx.dimensions(id).is_sorted() => Some(broadcast(cx, id)),
                _ => None,
            };
            if let Some(new) = new {
                cx.replace(id, new);
            }
        }
    }
}

/// A reshape that moves no byte is a bitcast; another is a bitcast and a copy.
fn reshape(cx: &mut Cx<'_>, id: Id) -> Id {
    let operand = cx.operand(id, 0);
    let (from, to, shape) = (cx.arr(operand), cx.arr(id), cx.shape(id).clone());
    if reshape_is_bitcast(&from, &to) {
        return cx.elementwise(id, shape, Opcode::Bitcast, &[operand]);
    }
    if let Some(layout) = align_layouts(&from, &to.dims) {
        let mut aligned = to.clone();
        if let Some(new) = &mut aligned.layout {
            new.minor_to_major = layout;
        }
        let bitcast = cx.elementwise(id, share(aligned), Opcode::Bitcast, &[operand]);
        return cx.elementwise(id, shape, Opcode::Copy, &[bitcast]);
    }
    let plain = row_major(from.element_type, from.dims.iter().copied());
    let copy = cx.elementwise(id, plain, Opcode::Copy, &[operand]);
    cx.elementwise(id, shape, Opcode::Bitcast, &[copy])
}

/// A broadcast that also permutes is a broadcast in order and a transpose.
fn broadcast(cx: &mut Cx<'_>, id: Id) -> Id {
    let (operand, dims) = (cx.operand(id, 0), cx.dimensions(id));
    let (sizes, mut result) = (cx.dims(operand), cx.dims(id));
    let mut sorted = dims.clone();
    sorted.sort_unstable();
    for (&dim, &size) in sorted.iter().zip(&sizes) {
        result[dim as usize] = size;
    }
    let mut order: Dims = (0..result.len() as i64).collect();
    for &dim in &sorted {
        let at = dims.iter().position(|&other| other == dim).unwrap_or(0);
        order[dim as usize] = sorted[at];
    }
    let shape = row_major(cx.element_type(id), result);
    let wide = cx.broadcast(id, shape, operand, &sorted);
    let shape = cx.shape(id).clone();
    cx.transpose_as(id, shape, wide, &order)
}
