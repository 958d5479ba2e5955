//! The tiles of XLA:TPU: every array in the order of dimensions that pads least.
//!
//! Arrays are kept in tiles of 8 by 128 elements of two of their dimensions, so a dimension of three elements at the wrong place makes an array
//! forty times as large. For arguments and results the compiler takes the pair of dimensions that pads least (202 of 202 compiled shapes). [`mod@rows`]
//! has what it keeps in rows all the same.

// Tests: `memory/tests/devices.rs`.

mod rows;

use hlo_ir::shape::{ArrayShape, Layout, Shape, ShapeRef};
use hlo_ir::{ElementType, InstructionId};
use smol_str::format_smolstr;

use super::graph::Graph;
use crate::Target;
use crate::size::is_elsewhere;

/// Elements of the fastest dimension in a tile.
pub const LANES: i64 = 128;
/// Most elements of the second fastest dimension in a tile.
const SUBLANES: i64 = 8;
/// Most elements of a tile of an array of one dimension.
pub const LONGEST_TILE: i64 = 1024;

/// Gives every array its tiles.
pub(crate) fn run(graph: &mut Graph, target: Target) {
    if target != Target::Tpu {
        return;
    }
    for computation in graph.computation_order() {
        let ids: Vec<InstructionId> = graph.list(computation).collect();
        for id in ids {
            let shape = tiled(graph.shape(id));
            graph.set_shape(id, shape);
        }
    }
    rows::run(graph);
}

fn tiled(shape: &Shape) -> ShapeRef {
    match shape {
        // Host memory has no tiles.
        _ if is_elsewhere(shape) => shape.clone().into(),
        Shape::Array(array) => Shape::Array(ArrayShape { layout: Some(best(array)), ..array.clone() }).into(),
        Shape::Tuple(elements) => Shape::tuple(elements.iter().map(|element| tiled(element))),
        other => other.clone().into(),
    }
}

/// The order of dimensions that pads least; of equal ones the first in which the later dimensions are the faster ones.
fn best(array: &ArrayShape) -> Layout {
    let rank = array.rank();
    let packing = packing(array.element_type);
    if rank < 2 {
        let size = array.dims.first().copied().unwrap_or(1).max(1);
        let tile = (size as u64).next_power_of_two().min(LONGEST_TILE as u64) as i64;
        let suffix = format_smolstr!("T({})", tile.max(LANES * packing));
        return Layout { suffix, ..Layout::descending(rank) };
    }
    let pairs = (0..rank).rev().flat_map(|lane| (0..rank).rev().map(move |sublane| (lane, sublane)));
    let pairs = pairs.filter(|(lane, sublane)| lane != sublane);
    let cost = |pair: &(usize, usize)| {
        let (lane, sublane) = *pair;
        let others = (0..rank).filter(|&dim| dim != lane && dim != sublane).map(|dim| i128::from(array.dims[dim]));
        let others = others.fold(1, i128::saturating_mul);
        let round = |size: i64, tile: i64| i128::from(size.saturating_add(tile - 1) / tile * tile);
        let tile = round(array.dims[lane], LANES)
            .saturating_mul(round(array.dims[sublane], sublanes(array.dims[sublane], packing)));
        others.saturating_mul(tile)
    };
    let (lane, sublane) = pairs.min_by_key(cost).unwrap_or((rank - 1, rank - 2));
    let rest = (0..rank).rev().filter(|&dim| dim != lane && dim != sublane);
    let order = [lane, sublane].into_iter().chain(rest).map(|dim| dim as i64);
    let suffix = format_smolstr!("T({},{LANES})", sublanes(array.dims[sublane], packing));
    Layout { minor_to_major: order.collect(), suffix }
}

/// Elements of the second fastest dimension in a tile: fewer where there are fewer, but whole words.
fn sublanes(size: i64, packing: i64) -> i64 {
    let few = match size {
        ..=1 => 1,
        2 => 2,
        3..=4 => 4,
        _ => SUBLANES,
    };
    few.max(packing)
}

/// How many elements share a word of 32 bits.
fn packing(element_type: ElementType) -> i64 {
    (32 / i64::from(element_type.storage_bits().max(1))).max(1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::size::tiled_size;

    fn bytes(text: &str) -> u64 {
        let module =
            hlo_ir::text::parse(&format!("HloModule m\n\nENTRY e {{\n  ROOT p = {text} parameter(0)\n}}\n")).unwrap();
        let shape = tiled(module.shape(module.computation(module.entry()).root));
        tiled_size(&shape).unwrap().get()
    }

    #[test]
    fn arguments_are_as_large_as_the_compiler_makes_them() {
        // Bytes per row of long arrays with few columns, and short vectors, as XLA:TPU counts its arguments.
        let rows = 1 << 20;
        for (columns, four, two, one) in [(3, 16, 8, 4), (2, 8, 4, 4), (5, 32, 16, 8)] {
            assert_eq!(bytes(&format!("s32[{rows},{columns}]")), four * rows, "s32 {columns}");
            assert_eq!(bytes(&format!("s16[{rows},{columns}]")), two * rows, "s16 {columns}");
            assert_eq!(bytes(&format!("s8[{rows},{columns}]")), one * rows, "s8 {columns}");
        }
        assert_eq!(bytes("s32[1025]"), 8192);
        assert_eq!(bytes("s8[7]"), 512);
        assert_eq!(bytes("f32[]"), 512);
        assert_eq!(bytes(&format!("f32[{rows},64]")), 256 * rows, "stored transposed");
        assert_eq!(bytes(&format!("f32[{rows},129]")), 4 * 136 * rows);
    }
}
