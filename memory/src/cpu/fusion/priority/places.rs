//! Whether what stands side by side in a result stands side by side in what it is made of: only then a line of memory is read for all of it.
//!
//! Source: `IsReadCoalescedHeuristic` (xla/service/gpu/model/coalescing_analysis.cc), `TransposesMinorDimension` (xla/service/gpu/gpu_fusible.cc).

// Tests: `memory/tests/devices.rs`.

use hlo_ir::{AttrKey, InstructionId, Opcode};

use super::super::super::graph::Graph;
use super::super::super::traits;

/// Whether neighbours in the result are no neighbours in what is read.
pub(in super::super) fn moves_rows(graph: &Graph, id: InstructionId) -> bool {
    // A dimension of size 1 moves nothing.
    let fastest = |id| {
        let array = graph.array(id)?;
        array.minor_to_major().iter().copied().find(|&dim| array.dims[dim as usize] > 1)
    };
    match graph.opcode(id) {
        Opcode::Transpose => {
            let dims = graph.inst(id).ints(&AttrKey::Dimensions);
            fastest(id).map(|dim| dims[dim as usize]) != fastest(graph.operand(id, 0))
        }
        Opcode::Copy => fastest(id) != fastest(graph.operand(id, 0)),
        _ => false,
    }
}

/// Whether an instruction writes elements in another order than it reads them; dimensions of size 1 have no order.
///
/// Source: `IsPhysicallyTransposing` (xla/service/gpu/gpu_fusible.cc), behind `LayoutNormalization`, which leaves no copies that move nothing.
pub(in super::super) fn transposes(graph: &Graph, id: InstructionId) -> bool {
    let order = |id| {
        let array = graph.array(id)?;
        let dims = array.minor_to_major().into_iter().filter(|&dim| array.dims[dim as usize] > 1);
        Some(dims.collect::<Vec<i64>>())
    };
    match graph.opcode(id) {
        Opcode::Copy => order(id) != order(graph.operand(id, 0)),
        Opcode::Transpose => {
            let dims = graph.inst(id).ints(&AttrKey::Dimensions);
            let read = |order: Vec<i64>| order.into_iter().map(|dim| dims[dim as usize]).collect::<Vec<i64>>();
            order(id).map(read) != order(graph.operand(id, 0))
        }
        _ => false,
    }
}

/// Whether what is moved is a repeated number, so that it does not matter where it stood.
pub(super) fn is_repeated(graph: &Graph, id: InstructionId) -> bool {
    let mut of = graph.operand(id, 0);
    while let (true, [operand]) = (traits::is_elementwise_alone(graph, of), graph.operands(of)) {
        of = *operand;
    }
    matches!(graph.opcode(of), Opcode::Broadcast | Opcode::Iota)
}
