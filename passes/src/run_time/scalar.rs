//! Kernels of XLA:CPU that compute one number after the other.
//!
//! LLVM makes vectors of most loops. It does not where a kernel looks numbers up, sorts, slides windows or draws random bits, nor of functions that are
//! calls into a library. Measured on two cores with arrays of 4.2 million numbers (jax 0.10.2, 28 November 2026), nanoseconds for a number: a sine 5.4, `tan` 9.6,
//! `atan2` 5.8, `cbrt` 5.4, a remainder 11, a power 1.9, a comparison of a sort 10, a random word 8.7, a window of a running sum 2.7 to 6.7, of three
//! by three 3.3, `argmax` 2.4 to 4.2, a lookup 0.5 to 1.1, an addition in a scatter 1.0 to 7.5.

use hlo_ir::{InstructionId, Module, Opcode};
use hlo_memory::Target;

use crate::Machine;
use crate::cost::RANDOM;

/// Operations that a vector unit does in the time of one: eight numbers of 32 bits, a multiplication with its addition, and one and a quarter of these at a time. So two cores
/// that do 100 billion do 5 billion one after the other.
const VECTOR: f64 = 20.0;

/// Seconds of one operation outside of products in a kernel.
pub(super) fn simple(module: &Module, machine: &Machine, kernel: impl Iterator<Item = InstructionId>) -> f64 {
    let mut kernel = kernel;
    let alone = machine.target == Target::Cpu && kernel.any(|id| is_alone(module, id));
    (if alone { VECTOR } else { 1.0 }) / machine.arithmetic as f64
}

/// Whether nothing in the kernel of an instruction is computed as a vector.
fn is_alone(module: &Module, id: InstructionId) -> bool {
    use Opcode as O;
    let inst = module.instruction(id);
    match inst.opcode {
        O::Gather | O::Scatter | O::Sort | O::ReduceWindow | O::SelectAndScatter | O::RngBitGenerator => true,
        // Numbers of several arrays take turns.
        O::Concatenate => inst.array().is_some_and(|array| {
            let last = array.dims.len().checked_sub(1).and_then(|last| i64::try_from(last).ok());
            inst.ints(&hlo_ir::AttrKey::Dimensions).first() == last.as_ref()
        }),
        O::Reduce => inst.operands.len() > 2,
        _ => false,
    }
}

/// Seconds of one number of a function that is a call into a library, and of what is done number by number.
pub(super) fn number(machine: &Machine, opcode: Opcode) -> Option<f64> {
    use Opcode as O;
    let operations = match opcode {
        O::Sine | O::Cosine | O::Atan2 | O::Cbrt => 25.0,
        O::Tan | O::Remainder | O::Sort | O::RngBitGenerator => RANDOM,
        O::ReduceWindow | O::SelectAndScatter => 20.0,
        O::Power | O::Scatter => 10.0,
        O::Gather => 5.0,
        _ => return None,
    };
    (machine.target == Target::Cpu).then(|| operations * VECTOR / machine.arithmetic as f64)
}
