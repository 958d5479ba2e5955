//! What XLA:GPU's own generator of kernels for products takes.
//!
//! Source: `CanTritonHandleGEMM` (xla/backends/gpu/codegen/triton/support_legacy.cc).

// Tests: `memory/tests/product_kernels.rs`.

use hlo_ir::{ElementType, InstructionId, Opcode};

use super::graph::Graph;
use super::traits;

/// Whether it takes a product: of types that it knows, in any precision.
pub(crate) fn takes_product(graph: &Graph, id: InstructionId) -> bool {
    graph.opcode(id) == Opcode::Dot
        && [id, graph.operand(id, 0), graph.operand(id, 1)].iter().all(|&id| is_type_known(graph, id))
        && are_integers_narrow(graph, id)
}

/// Integers are added up in 32 bits from 8 bits only.
fn are_integers_narrow(graph: &Graph, product: InstructionId) -> bool {
    let is_narrow = |&id: &InstructionId| traits::element_type(graph, id) == Some(ElementType::S8);
    traits::element_type(graph, product) != Some(ElementType::S32) || graph.operands(product).iter().all(is_narrow)
}

/// Whether it knows the type.
pub(crate) fn is_type_known(graph: &Graph, id: InstructionId) -> bool {
    use ElementType as E;
    traits::element_type(graph, id).is_some_and(|element| {
        matches!(element, E::F32 | E::F16 | E::Bf16 | E::F8e5m2 | E::F8e4m3fn | E::S32 | E::S16 | E::S8 | E::Pred)
    })
}
