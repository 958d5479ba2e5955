//! Normalizations that XLA:GPU makes in one kernel, before it asks what else a kernel makes: rows are reduced, and the number of each row is applied to all of it, as
//! in a softmax. The kernel keeps a row in registers, and reads it once.
//!
//! Source: `SoftmaxRewriterTriton` (xla/service/gpu/transforms/softmax_rewriter_triton.cc).

// Tests: `memory/tests/row_kernels.rs`.

use hlo_ir::{AttrKey, InstructionId, Opcode};
use smallvec::SmallVec;

use super::super::super::graph::Graph;
use super::super::super::traits;
use super::rows;

/// What is on the way.
type Way = SmallVec<[InstructionId; 8]>;

/// What the kernel that ends in `last` makes on the way, if that is a normalization of rows.
pub(super) fn inside(graph: &Graph, last: InstructionId) -> Option<Way> {
    let &[rows, applied] = graph.operands(last) else { return None };
    if !traits::is_elementwise_alone(graph, last) || !rows::is_computed_by_row(graph, last) {
        return None;
    }
    let mut way = Way::new();
    let repeated =
        follow(graph, applied, &mut way, |id| graph.opcode(id) == Opcode::Broadcast && !is_number(graph, id))?;
    let reduction = follow(graph, graph.operand(repeated, 0), &mut way, |id| graph.opcode(id) == Opcode::Reduce)?;
    if !reduces_rows(graph, reduction, repeated) || [repeated, reduction].iter().any(|&id| graph.user_count(id) != 1) {
        return None;
    }
    way.extend([repeated, reduction]);
    let mut of_rows = Way::new();
    let mut source = rows;
    while let Some(next) = behind(graph, source) {
        of_rows.push(source);
        source = next;
    }
    follow(graph, graph.operand(reduction, 0), &mut way, |id| id == source || of_rows.contains(&id))?;
    way.extend(of_rows);
    Some(way)
}

/// Follows what one value is computed from, up to what is looked for.
fn follow(
    graph: &Graph,
    mut id: InstructionId,
    way: &mut Way,
    is_end: impl Fn(InstructionId) -> bool,
) -> Option<InstructionId> {
    while !is_end(id) {
        way.push(id);
        id = behind(graph, id)?;
    }
    Some(id)
}

/// What a value is computed from that nothing else reads, numbers aside.
fn behind(graph: &Graph, id: InstructionId) -> Option<InstructionId> {
    let is_passed = graph.opcode(id) == Opcode::Bitcast || traits::is_elementwise_alone(graph, id);
    if !is_passed || !rows::is_computed_by_row(graph, id) || graph.user_count(id) != 1 || graph.is_root(id) {
        return None;
    }
    let mut others = graph.operands(id).iter().copied().filter(|&operand| !is_number(graph, operand));
    let first = others.next()?;
    others.all(|other| other == first).then_some(first)
}

/// Whether a value is one number, or the same everywhere.
fn is_number(graph: &Graph, id: InstructionId) -> bool {
    match graph.opcode(id) {
        Opcode::Broadcast => traits::is_effective_scalar(graph, graph.operand(id, 0)),
        _ => traits::is_effective_scalar(graph, id),
    }
}

/// Whether a reduction goes over the last dimension of rows that fit, and its result is repeated along it.
fn reduces_rows(graph: &Graph, reduction: InstructionId, repeated: InstructionId) -> bool {
    let (Some(array), Some(result)) = (graph.array(graph.operand(reduction, 0)), graph.array(repeated)) else {
        return false;
    };
    let last = array.rank() as i64 - 1;
    graph.array(reduction).is_some()
        && graph.inst(reduction).ints(&AttrKey::Dimensions) == [last]
        && !graph.inst(repeated).ints(&AttrKey::Dimensions).contains(&(result.rank() as i64 - 1))
        && array.dims.last() == result.dims.last()
        && rows::fits_registers(array)
}
