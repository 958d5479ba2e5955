//! Calls that XLA does not inline: what stands before one is computed by kernels of its own.
//!
//! XLA may fuse a value with what reads it. A call of a computation that only forwards its parameter, marked `inlineable="false"`, ends a
//! kernel: the value stands in memory behind it (`xla/service/call_inliner.cc`).

// Tests: `passes/tests/speed.rs`.

use hlo_ir::edit::Patch;
use hlo_ir::module::Payload;
use hlo_ir::{AttrKey, AttrValue, Attribute, ComputationId, Instruction, InstructionId, Module, Opcode};
use hlo_memory::{Target, size};

use crate::Machine;

/// The attributes of a call of `body` that XLA does not inline, in the place of `inst`.
pub(crate) fn attributes_of_call(body: ComputationId, inst: &Instruction) -> Vec<Attribute> {
    let kept = AttrValue::Raw("{inlineable=\"false\"}".into());
    let own = [(AttrKey::ToApply, AttrValue::Computation(body)), (AttrKey::FrontendAttributes, kept)];
    let source = inst.attributes.iter().filter(|attribute| attribute.key == AttrKey::Metadata).cloned();
    own.map(|(key, value)| Attribute::new(key, value)).into_iter().chain(source).collect()
}

/// Whether a block is large enough for a kernel of its own.
pub(crate) fn is_worth_a_kernel(module: &Module, block: InstructionId) -> bool {
    size::shape_size(module.shape(block)).is_some_and(|bytes| bytes >= Machine::of(Target::Cpu).least_kernel())
}

/// Lets an instruction take an operand from a call that forwards it, which keeps what computes it out of the kernel that reads it.
pub(crate) fn read_through_identity(module: &Module, reader: InstructionId, operand: usize, patch: &mut Patch) {
    let inst = module.instruction(reader);
    let handed = inst.operands[operand];
    let mut block = module.instruction(handed).clone();
    block.operands = [handed].into_iter().collect();
    let mut changed = inst.clone();
    changed.operands[operand] = identity_call(patch, inst.parent, &block);
    patch.rewrite(reader, changed);
}

/// A call that forwards the only operand of `block`, with its name, shape and metadata.
pub(crate) fn identity_call(patch: &mut Patch, parent: ComputationId, block: &Instruction) -> InstructionId {
    let body = patch.add_computation(format!("{}.identity", block.name));
    let own = Instruction::new("block", block.shape.clone(), Opcode::Parameter, []);
    patch.add(body, own.with_payload(Payload::Parameter(0)));
    let mut call = Instruction::new("kept", block.shape.clone(), Opcode::Call, [block.operands[0]]);
    call.attributes = attributes_of_call(body, block);
    let call = patch.add(parent, call);
    patch.set_origin(call, block.operands[0]);
    call
}
