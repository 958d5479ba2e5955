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
        // XLA:CPU gives large minima and maxima of floats to a library that does not treat NaN as its own code does.
        Opcode::Reduce | Opcode::ReduceWindow => combines(module, inst, &AttrKey::ToApply, &EXACT),
        Opcode::Scatter => combines(module, inst, &AttrKey::ToApply, &SELECTING),
        Opcode::SelectAndScatter => combines(module, inst, &AttrKey::ScatterComputation, &SELECTING),
        // Equal keys of an unstable sort may come out in another order.
        Opcode::Sort => inst.operands.len() > 1 && !inst.flag(&AttrKey::IsStable),
        Opcode::While | Opcode::Call => inst
            .called_computations()
            .any(|called| module.instructions_of(called).any(|(_, inner)| exactness(module, inner) > Grade::Bitwise)),
        _ => false,
    };
    if depends_on_order { Grade::HloExact } else { Grade::Bitwise }
}

/// Opcodes that hand on one of their arguments.
const EXACT: [Opcode; 6] =
    [Opcode::Parameter, Opcode::Constant, Opcode::Compare, Opcode::Select, Opcode::Tuple, Opcode::Copy];
/// The same with minimum and maximum, which pick an argument whatever the order, as long as one piece of code applies them all.
const SELECTING: [Opcode; 8] = [
    Opcode::Parameter,
    Opcode::Constant,
    Opcode::Compare,
    Opcode::Select,
    Opcode::Tuple,
    Opcode::Copy,
    Opcode::Maximum,
    Opcode::Minimum,
];

/// Whether the combiner does anything to floats but what the `exact` opcodes do.
fn combines(module: &Module, inst: &Instruction, key: &AttrKey, exact: &[Opcode]) -> bool {
    let Some(combiner) = inst.computation(key) else { return true };
    module.instructions_of(combiner).any(|(_, inner)| {
        let integer = inner
            .array()
            .is_some_and(|array| array.element_type.is_integer() || array.element_type == ElementType::Pred);
        !exact.contains(&inner.opcode) && !integer
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
