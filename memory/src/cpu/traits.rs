//! Small questions about instructions of the graph that several stages ask.

use hlo_ir::shape::ArrayShape;
use hlo_ir::{ElementType, InstructionId, Opcode};

use super::graph::Graph;

/// Whether every result element is computed from the operand elements at the same position. A fusion is elementwise when all it contains is.
///
/// Source: `HloInstruction::IsElementwise` (xla/hlo/ir/hlo_instruction.cc).
pub(crate) fn is_elementwise(graph: &Graph, id: InstructionId) -> bool {
    match graph.opcode(id) {
        Opcode::Constant | Opcode::Rng | Opcode::Map => true,
        Opcode::BitcastConvert => {
            let bits = |id| graph.array(id).map(|array| array.element_type.storage_bits());
            bits(id) == bits(graph.operand(id, 0))
        }
        Opcode::Fusion => graph.fused(id).is_some_and(|body| {
            graph.list(body).all(|inner| graph.opcode(inner) == Opcode::Parameter || is_elementwise(graph, inner))
        }),
        opcode => opcode.is_elementwise(),
    }
}

/// The same of an instruction that is no fusion.
pub(crate) fn is_elementwise_alone(graph: &Graph, id: InstructionId) -> bool {
    graph.opcode(id) != Opcode::Fusion && is_elementwise(graph, id)
}

/// Number of dimensions that are not of size 1.
pub(crate) fn true_rank(array: &ArrayShape) -> usize {
    array.dims.iter().filter(|&&dim| dim != 1).count()
}

/// Whether the instruction produces an array of a single element.
pub(crate) fn is_effective_scalar(graph: &Graph, id: InstructionId) -> bool {
    graph.array(id).is_some_and(|array| true_rank(array) == 0)
}

/// Number of elements, saturating; 0 for tuples and tokens.
pub(crate) fn elements(graph: &Graph, id: InstructionId) -> u64 {
    graph.array(id).map_or(0, |array| array.elements().unwrap_or(u64::MAX))
}

/// Element type, if the instruction produces an array.
pub(crate) fn element_type(graph: &Graph, id: InstructionId) -> Option<ElementType> {
    graph.array(id).map(|array| array.element_type)
}

/// Whether the elements are complex numbers.
pub(crate) fn is_complex(graph: &Graph, id: InstructionId) -> bool {
    element_type(graph, id).is_some_and(ElementType::is_complex)
}

/// Whether a pass may move the instruction into a fusion at all.
///
/// Source: `HloInstruction::IsFusible`.
pub(crate) fn is_fusible(graph: &Graph, id: InstructionId) -> bool {
    use Opcode as O;
    match graph.opcode(id) {
        O::Domain | O::Parameter | O::While | O::Conditional | O::Call => false,
        O::Fusion | O::Map | O::Reduce | O::ReduceWindow => true,
        O::Rng => graph.user_count(id) <= 1,
        _ => !graph.has_side_effect(id),
    }
}

/// Whether an instruction multiplies matrices or convolves.
pub(crate) fn is_product(graph: &Graph, id: InstructionId) -> bool {
    matches!(graph.opcode(id), Opcode::Dot | Opcode::Convolution)
}

/// The integer of a scalar `constant`.
pub(crate) fn integer_constant(graph: &Graph, id: InstructionId) -> Option<i64> {
    if graph.opcode(id) == Opcode::Constant { graph.inst(id).literal()?.parse().ok() } else { None }
}

/// Whether dimensions and layouts agree; element types may differ. An absent layout is row-major.
pub(crate) fn same_dims_and_layout(a: &ArrayShape, b: &ArrayShape) -> bool {
    let suffix = |array: &ArrayShape| array.layout.as_ref().map(|layout| layout.suffix.clone()).unwrap_or_default();
    a.dims == b.dims && a.dynamic == b.dynamic && a.minor_to_major() == b.minor_to_major() && suffix(a) == suffix(b)
}
