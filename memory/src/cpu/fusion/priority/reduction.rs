//! How threads share the work of a reduction, and of other kernels.
//!
//! Source: `IsUnnestedReductionFasterThanElemental` (xla/service/gpu/reduction_utils.cc), `TreeReductionRewriter`
//! (xla/service/gpu/transforms/tree_reduction_rewriter.cc) and the launch dimensions of xla/backends/gpu/codegen/emitters/reduction.cc and loop.cc.

// Tests: `memory/tests/devices.rs`.

use hlo_ir::{AttrKey, InstructionId, Opcode};
use smallvec::SmallVec;

use super::super::super::graph::Graph;
use super::super::super::traits;

/// A reduction of fewer elements is written by a loop inside of other work.
const LONG: u64 = 16;
/// Lanes of a warp.
const WARP: i64 = 32;
/// Elements of a block of threads that do not reduce: 128 threads of four elements each.
const BLOCK: u64 = 512;
/// Threads that share rows, and elements of a row that each takes.
const ROW_THREADS: i64 = 256;
const OF_A_ROW: i64 = 16;
/// Elements of a column that are reduced at once, and of a row; more are reduced in two steps.
const MOST_OF_A_COLUMN: i64 = WARP * 128;
const MOST_OF_A_ROW: i64 = 1024 * OF_A_ROW;

/// What is reduced, from the slowest dimension to the fastest.
enum Shape {
    /// So many rows of so many elements each.
    Rows(i64, i64),
    /// So many times columns of so many elements, beside so many others.
    Columns(i64, i64, i64),
}

/// Whether a reduction takes more than a few elements each time.
pub(super) fn is_long(graph: &Graph, id: InstructionId) -> bool {
    let elements = |id| traits::elements(graph, id).max(1);
    graph.opcode(id) == Opcode::Reduce
        && graph.array(id).is_some()
        && elements(graph.operand(id, 0)) / elements(id) >= LONG
}

/// Whether threads share the work of a reduction; else each result is a loop of one thread, which other kernels can have inside.
pub(in super::super) fn is_by_threads(graph: &Graph, id: InstructionId) -> bool {
    match shape(graph, id) {
        Some(Shape::Rows(_, row)) => row >= WARP || WARP % row == 0,
        Some(Shape::Columns(_, column, minor)) => {
            column >= 8 * WARP
                || column >= 4 * WARP && minor >= 3
                || column >= 2 * WARP && minor >= 8
                || column >= WARP && minor >= WARP
        }
        None => false,
    }
}

/// Bytes that the threads of a block share for a reduction: a number for each warp of a row, or four tiles of columns.
///
/// Source: `SharedMemoryUsage` (xla/service/gpu/gpu_fusible.cc).
pub(in super::super) fn shared_bytes(graph: &Graph, id: InstructionId) -> u64 {
    let of_element = traits::element_type(graph, id).map_or(4, |kind| u64::from(kind.storage_bits().div_ceil(8)));
    match shape(graph, id).filter(|_| is_by_threads(graph, id)) {
        Some(Shape::Rows(..)) => WARP as u64 * of_element,
        Some(Shape::Columns(..)) => 4 * WARP as u64 * (WARP as u64 + 1) * of_element,
        None => 0,
    }
}

/// Blocks of threads of the kernel that writes `root`.
pub(super) fn blocks(graph: &Graph, root: InstructionId) -> f64 {
    let elements = match graph.opcode(root) {
        Opcode::DynamicUpdateSlice => traits::elements(graph, graph.operand(root, 1)),
        _ => traits::elements(graph, root),
    };
    let of_loop = elements.div_ceil(BLOCK).max(1) as f64;
    match shape(graph, root).filter(|_| is_by_threads(graph, root)) {
        Some(Shape::Rows(rows, row)) => {
            let (rows, row) = if row > MOST_OF_A_ROW { in_two_steps(rows, row) } else { (rows, row) };
            let beside = (ROW_THREADS / (row / OF_A_ROW).max(1)).max(1);
            (rows / beside).max(1) as f64
        }
        Some(Shape::Columns(times, column, minor)) => {
            let (times, _) = if column > MOST_OF_A_COLUMN { in_two_steps(times, column) } else { (times, column) };
            let at_once = if minor >= 2 * WARP { 2 * WARP } else { WARP };
            times.saturating_mul((minor + at_once - 1) / at_once) as f64
        }
        None => of_loop,
    }
}

/// Splits what is reduced: the first step reduces about its root, as often as the largest power of two below that.
fn in_two_steps(times: i64, reduced: i64) -> (i64, i64) {
    let first = 1_i64 << (reduced.max(1).ilog2() / 2);
    (times.saturating_mul(first), reduced / first)
}

fn shape(graph: &Graph, id: InstructionId) -> Option<Shape> {
    let operand = graph.operands(id).first().filter(|_| graph.opcode(id) == Opcode::Reduce)?;
    let array = graph.array(*operand)?;
    let reduced = graph.inst(id).ints(&AttrKey::Dimensions);
    let mut runs: SmallVec<[(bool, i64); 6]> = SmallVec::new();
    for &dim in array.minor_to_major().iter().rev() {
        let (size, is_reduced) = (array.dims[dim as usize], reduced.contains(&dim));
        match runs.last_mut() {
            Some((kind, product)) if *kind == is_reduced => *product = product.saturating_mul(size),
            _ if size == 1 => {}
            _ => runs.push((is_reduced, size.max(1))),
        }
    }
    match runs[..] {
        [(true, row)] => Some(Shape::Rows(1, row)),
        [(false, rows), (true, row)] | [(true, _), (false, rows), (true, row)] => Some(Shape::Rows(rows, row)),
        [(true, column), (false, minor)] => Some(Shape::Columns(1, column, minor)),
        [(false, times), (true, column), (false, minor)] => Some(Shape::Columns(times, column, minor)),
        _ => None,
    }
}
