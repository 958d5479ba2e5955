//! What may become part of a kernel, whatever it saves.
//!
//! Source: `PriorityFusionQueue::CanFuse` (xla/service/gpu/transforms/priority_fusion.cc).

// Tests: `memory/tests/devices.rs`.

use hlo_ir::{AttrKey, InstructionId, Opcode, ScatterDims};

use super::super::super::graph::Graph;
use super::super::super::traits;
use super::super::{conflict, device};
use super::kernel::Kernel;
use super::reduction;
use crate::Target;

/// Instructions that a kernel emits at most (`kMaxIRSize`), and arrays that it reads and writes (`MaxOperandsAndOutputsPerFusion`).
const MOST_CODE: f64 = 10_000.0;
const MOST_ARRAYS: usize = 96;

/// Whether a value could be made where it is read.
pub(super) fn is_candidate(graph: &Graph, id: InstructionId) -> bool {
    let opcode = graph.opcode(id);
    takes_values(graph, id)
        && !matches!(opcode, Opcode::Constant | Opcode::Fusion | Opcode::Scatter)
        && graph.user_count(id) > 0
        && !graph.is_root(id)
        && graph.array(id).is_some()
        && traits::is_fusible(graph, id)
}

/// Whether something that is no such kernel reads a value in memory.
pub(super) fn is_needed(graph: &Graph, id: InstructionId) -> bool {
    graph.each_user(id).any(|user| !takes_values(graph, user))
}

/// Whether a kernel of this instruction makes values that it reads.
pub(in super::super) fn takes_values(graph: &Graph, id: InstructionId) -> bool {
    use Opcode as O;
    match graph.opcode(id) {
        O::Fusion => graph.inst(id).word(&AttrKey::Kind) != Some("kCustom"),
        O::Copy
        | O::Iota
        | O::Reduce
        | O::Bitcast
        | O::Broadcast
        | O::Concatenate
        | O::DynamicSlice
        | O::DynamicUpdateSlice
        | O::Gather
        | O::Pad
        | O::ReduceWindow
        | O::Reshape
        | O::Reverse
        | O::Scatter
        | O::Slice
        | O::Transpose => true,
        _ => traits::is_elementwise_alone(graph, id),
    }
}

/// Whether the kernel that writes `consumer` can make `value` itself.
pub(super) fn may_join(
    graph: &Graph,
    (value, own): (InstructionId, &Kernel),
    (consumer, kernel): (InstructionId, &Kernel),
) -> bool {
    let Some(read) = kernel.read(value) else { return false };
    if own.reads.len() + kernel.reads.len() > MOST_ARRAYS {
        return false;
    }
    if graph.opcode(consumer) == Opcode::DynamicUpdateSlice
        && concerns_updated(graph, (value, own), consumer)
        && !conflict::may_read_updated(graph, value, consumer)
    {
        return false;
    }
    if own.keeps_rows || kernel.keeps_rows {
        return own.not_by_row + kernel.not_by_row == 0;
    }
    if own.reduces && kernel.reduces || own.code * read.code + kernel.code > MOST_CODE {
        return false;
    }
    if reduction::is_by_threads(graph, value) && !goes_on(graph, value, consumer, read.beside.contains(&0)) {
        return false;
    }
    let numbers = (0..graph.operands(consumer).len()).filter(|&number| graph.operand(consumer, number) == value);
    numbers.filter_map(|number| device::decides(graph, Target::Gpu, consumer, number)).all(|yes| yes)
        && !reads_destination(graph, own, consumer)
}

/// Whether a value is or reads the array that is updated in place.
fn concerns_updated(graph: &Graph, (value, own): (InstructionId, &Kernel), update: InstructionId) -> bool {
    let mut array = graph.operand(update, 0);
    while graph.opcode(array) == Opcode::Bitcast && array != value {
        array = graph.operand(array, 0);
    }
    array == value || own.read(array).is_some()
}

/// Whether what a scatter goes into is read for a value, at places that are written at the same time.
fn reads_destination(graph: &Graph, own: &Kernel, consumer: InstructionId) -> bool {
    graph.opcode(consumer) == Opcode::Scatter && {
        let operands = graph.operands(consumer);
        operands[..ScatterDims::input_count(operands.len()).min(operands.len())]
            .iter()
            .any(|&of| own.read(of).is_some())
    }
}

/// Whether a kernel that ends in a reduction goes on with elementwise work on its result.
fn goes_on(graph: &Graph, reduction: InstructionId, consumer: InstructionId, is_beside: bool) -> bool {
    is_beside
        && graph.user_count(reduction) == 1
        && traits::elements(graph, reduction) == traits::elements(graph, consumer)
}
