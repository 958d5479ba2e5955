//! What an instruction takes on a machine, as bytes of memory traffic that take as long.

use hlo_ir::{ArrayShape, AttrKey, ComputationId, ConvDims, DotDims, InstructionId, Module, Opcode};
use hlo_memory::size;

use crate::Machine;
use crate::flow::is_transcendental;

/// Elementwise operations that a kernel makes in the time that one byte of memory traffic takes: arithmetic of vectors is ten to forty times as fast as memory on every
/// machine of the table, so this errs on the side of more time.
const OPERATIONS_PER_BYTE: f64 = 4.0;

/// Traffic that takes as long as computing a value once more where its operands stand in memory and its result does not have to: a kernel that needs it computes it.
/// `None` for what is never computed twice: loops that run nobody knows how often, calls of libraries, exchanges between devices.
pub(crate) fn of(module: &Module, machine: &Machine, id: InstructionId) -> Option<f64> {
    use Opcode as O;
    let inst = module.instruction(id);
    let elements = inst.array().and_then(ArrayShape::elements).unwrap_or(0) as f64;
    let bytes =
        |id: InstructionId| size::shape_size(module.shape(id)).map_or(f64::INFINITY, |bytes| bytes.get() as f64);
    Some(match inst.opcode {
        O::Constant | O::Iota | O::Broadcast | O::Reshape | O::Bitcast | O::GetTupleElement | O::Tuple => 0.0,
        O::Dot | O::Convolution => multiplications(module, id)? * machine.product_traffic(inst.array()?.element_type),
        O::Reduce | O::ReduceWindow => inst.operands.iter().map(|&operand| bytes(operand)).sum(),
        O::Transpose | O::Concatenate | O::Slice | O::Pad | O::Reverse | O::DynamicSlice | O::Gather => 2.0 * bytes(id),
        // Some hundred integer operations for each number.
        O::RngBitGenerator => 4.0 * bytes(id),
        O::Call => of_computation(module, machine, inst.called_computations().next()?)?,
        O::While => of_loop(module, machine, id)?,
        opcode if is_transcendental(opcode) => elements * machine.transcendental_traffic(),
        opcode if opcode.is_elementwise() => elements / OPERATIONS_PER_BYTE,
        _ => return None,
    })
}

/// The same of a loop that counts to a number.
fn of_loop(module: &Module, machine: &Machine, id: InstructionId) -> Option<f64> {
    let inst = module.instruction(id);
    let called = |key| inst.computation(&key);
    let (body, condition) = (called(AttrKey::Body)?, called(AttrKey::Condition)?);
    let (_, trips) = crate::loop_residuals::bound(module, condition)?;
    Some(of_computation(module, machine, body)? * trips as f64)
}

/// The same of all that a computation does.
fn of_computation(module: &Module, machine: &Machine, computation: ComputationId) -> Option<f64> {
    let inside = module.instructions_of(computation).filter(|(_, inst)| inst.parameter_number().is_none());
    inside.map(|(id, _)| of(module, machine, id)).sum()
}

/// Multiplications of a product or a convolution.
pub(crate) fn multiplications(module: &Module, id: InstructionId) -> Option<f64> {
    let inst = module.instruction(id);
    let results = inst.array()?.elements()? as f64;
    let side = |index: usize| module.instruction(inst.operands[index]).array();
    let extent = |array: &ArrayShape, dim: usize| array.dims.get(dim).copied().unwrap_or(1) as f64;
    match inst.opcode {
        Opcode::Dot => {
            let (dims, left) = (DotDims::of(inst)?, side(0)?);
            Some(dims.lhs_contracting.iter().fold(results, |product, &dim| product * extent(left, dim as usize)))
        }
        Opcode::Convolution => {
            let (dims, kernel) = (ConvDims::of(inst)?, side(1)?);
            Some(results * kernel.elements()? as f64 / extent(kernel, dims.kernel_output).max(1.0))
        }
        _ => None,
    }
}
