//! Last touches on loops that passes made: they save no memory but time. The input's own instructions stay as they are.
//!
//! Each is a function from a module, and a test for instructions that are new, to a patch; the manager makes them when its search has ended.

pub(crate) mod columns;
pub(crate) mod gathers;
mod kernel;
pub(crate) mod products;
pub(crate) mod reads;
pub(crate) mod sines;
pub(crate) mod sums;
pub(crate) mod units;
pub(crate) mod writes;

use hlo_ir::edit::Patch;
use hlo_ir::module::Payload;
use hlo_ir::{AttrKey, AttrValue, Attribute, ComputationId, Instruction, InstructionId, Module, Opcode};
use hlo_memory::{Bytes, size};

/// Whether an instruction is a block with a start of its own for each dimension (there may be a vector of them) that waits for nothing else.
fn is_plain_block(module: &Module, inst: &Instruction) -> bool {
    let scalar = |&id: &InstructionId| module.instruction(id).array().is_some_and(|array| array.rank() == 0);
    inst.opcode == Opcode::DynamicSlice
        && inst.array().is_some_and(|array| !array.is_dynamic())
        && inst.operands[1..].iter().all(scalar)
        && inst.control_predecessors().is_empty()
}

/// The attributes of a call of `body` that XLA does not inline, in the place of `inst`.
pub(crate) fn attributes_of_call(body: ComputationId, inst: &Instruction) -> Vec<Attribute> {
    let kept = AttrValue::Raw("{inlineable=\"false\"}".into());
    let own = [(AttrKey::ToApply, AttrValue::Computation(body)), (AttrKey::FrontendAttributes, kept)];
    let source = inst.attributes.iter().filter(|attribute| attribute.key == AttrKey::Metadata).cloned();
    own.map(|(key, value)| Attribute::new(key, value)).into_iter().chain(source).collect()
}

/// Bytes of the smallest block that is worth a kernel of its own: less is computed in the time that starting one takes.
const LEAST_KERNEL: Bytes = Bytes(64 << 10);

/// Whether a block is large enough for a kernel of its own.
fn is_worth_a_kernel(module: &Module, block: InstructionId) -> bool {
    size::shape_size(module.shape(block)).is_some_and(|bytes| bytes >= LEAST_KERNEL)
}

/// Lets an instruction take an operand from a call that hands it on, which keeps what computes it out of the kernel that reads it.
pub(crate) fn hand_on(module: &Module, reader: InstructionId, operand: usize, patch: &mut Patch) {
    let inst = module.instruction(reader);
    let handed = inst.operands[operand];
    let mut block = module.instruction(handed).clone();
    block.operands = [handed].into_iter().collect();
    let mut changed = inst.clone();
    changed.operands[operand] = call_that_hands_on(patch, inst.parent, &block);
    patch.rewrite(reader, changed);
}

/// A call that hands on the only operand of `block`, with its name, shape and metadata.
fn call_that_hands_on(patch: &mut Patch, parent: ComputationId, block: &Instruction) -> InstructionId {
    let body = patch.add_computation(format!("{}.hand_on", block.name));
    let own = Instruction::new("block", block.shape.clone(), Opcode::Parameter, []);
    patch.add(body, own.with_payload(Payload::Parameter(0)));
    let mut call = Instruction::new("kept", block.shape.clone(), Opcode::Call, [block.operands[0]]);
    call.attributes = attributes_of_call(body, block);
    let call = patch.add(parent, call);
    patch.stems_from(call, block.operands[0]);
    call
}
