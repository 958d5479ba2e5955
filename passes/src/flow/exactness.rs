//! What re-emitting an instruction on a block does to the last bits of its result, and whether XLA would fuse it into its users.

use hlo_ir::{AttrKey, ElementType, Instruction, Module, Opcode};

use super::first_array;
use crate::Grade;

/// How equal the result stays when `inst` is computed block by block: integer work, data movement and elementwise operations keep
/// every bit; a float reduction, contraction or transform leaves its inner order to the backend, which can choose by shape.
pub fn exactness(module: &Module, inst: &Instruction) -> Grade {
    let inexact = |element: ElementType| element.is_float() || element.is_complex();
    let float = first_array(&inst.shape).is_none_or(|array| inexact(array.element_type));
    let depends_on_order = match inst.opcode {
        Opcode::Dot | Opcode::Convolution | Opcode::TopK => float,
        Opcode::Fft | Opcode::Cholesky | Opcode::TriangularSolve => true,
        Opcode::Reduce | Opcode::ReduceWindow | Opcode::Scatter => combines_inexactly(module, inst, &AttrKey::ToApply),
        Opcode::SelectAndScatter => combines_inexactly(module, inst, &AttrKey::ScatterComputation),
        // Equal keys of an unstable sort may come out in another order.
        Opcode::Sort => inst.operands.len() > 1 && !inst.flag(&AttrKey::IsStable),
        _ => false,
    };
    if depends_on_order { Grade::HloExact } else { Grade::Bitwise }
}

/// Whether the combiner does float arithmetic whose result depends on the order (anything but selecting among its arguments).
fn combines_inexactly(module: &Module, inst: &Instruction, key: &AttrKey) -> bool {
    let Some(combiner) = inst.computation(key) else { return true };
    module.instructions_of(combiner).any(|(_, inner)| {
        let selects = matches!(
            inner.opcode,
            Opcode::Parameter
                | Opcode::Constant
                | Opcode::Maximum
                | Opcode::Minimum
                | Opcode::Compare
                | Opcode::Select
                | Opcode::Tuple
                | Opcode::Copy
        );
        let integer = inner
            .array()
            .is_some_and(|array| array.element_type.is_integer() || array.element_type == ElementType::Pred);
        !selects && !integer
    })
}

/// Whether XLA computes the instruction inside the loops of its users instead of giving it memory of its own.
pub fn is_fusible(opcode: Opcode) -> bool {
    opcode.is_elementwise()
        || matches!(
            opcode,
            Opcode::Bitcast
                | Opcode::BitcastConvert
                | Opcode::Broadcast
                | Opcode::Concatenate
                | Opcode::DynamicSlice
                | Opcode::Gather
                | Opcode::Iota
                | Opcode::Map
                | Opcode::Pad
                | Opcode::Reduce
                | Opcode::Reshape
                | Opcode::Reverse
                | Opcode::Slice
                | Opcode::Transpose
        )
}
