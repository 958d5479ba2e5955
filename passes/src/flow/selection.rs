//! Maxima and minima spelled as selections, which XLA:CPU's library leaves alone.
//!
//! The library drops NaN: `maximum(NaN, 0)` is 0 where it computes that together with a reduction, and NaN in a loop of XLA's own. What stood in
//! memory, or had several readers, was no part of a library fusion. Where it is computed anew for a reduction alone, it would be.
//!
//! Source: `LibraryRewriter` (xla/backends/cpu/transforms/library_rewriter.cc), xla/backends/cpu/ynn_support.cc.

// Tests: `passes/tests/chunk_grades.rs`.

use std::sync::Arc;

use crate::hash::IndexSet;
use hlo_ir::edit::Patch;
use hlo_ir::{
    ArrayShape, AttrKey, Attribute, ComputationId, ElementType, Instruction, InstructionId, Module, Opcode, Shape,
};
use hlo_memory::excess::FEWEST_ELEMENTS;

/// Whether an instruction picks the larger or smaller of two floats in a type that the library computes with.
pub(crate) fn picks(inst: &Instruction) -> bool {
    use ElementType as T;
    matches!(inst.opcode, Opcode::Maximum | Opcode::Minimum)
        && inst.array().is_some_and(|array| matches!(array.element_type, T::F32 | T::F64 | T::Bf16))
}

/// Whether an array has as many elements as the library takes at least.
pub(crate) fn is_for_library(inst: &Instruction) -> bool {
    inst.array().and_then(ArrayShape::elements) >= Some(FEWEST_ELEMENTS)
}

/// Whether a computation or one that it calls reduces anything.
pub(crate) fn reduces(module: &Module, computation: ComputationId) -> bool {
    let mut seen = IndexSet::from_iter([computation]);
    let mut next = 0;
    while let Some(&id) = seen.get_index(next) {
        next += 1;
        for (_, inst) in module.instructions_of(id) {
            if matches!(inst.opcode, Opcode::Reduce | Opcode::ReduceWindow) {
                return true;
            }
            seen.extend(inst.called_computations());
        }
    }
    false
}

/// Adds what is computed anew in a loop: as it is, or as a selection where the library could take it to a reduction of the loop.
pub(crate) fn add_anew(module: &Module, patch: &mut Patch, body: ComputationId, inst: Instruction) -> InstructionId {
    if picks(&inst) && is_for_library(&inst) && reduces(module, body) {
        selection(module, patch, body, inst)
    } else {
        patch.add(body, inst)
    }
}

/// `a > b or a is NaN ? a : b`. An operand that repeats one number comes second: of two zeros of different sign the second one is taken.
pub(crate) fn selection(
    module: &Module,
    patch: &mut Patch,
    target: ComputationId,
    block: Instruction,
) -> InstructionId {
    let repeats = |patch: &Patch, id| patch.instruction(module, id).opcode == Opcode::Broadcast;
    let (mut a, mut b) = (block.operands[0], block.operands[1]);
    if repeats(patch, a) && !repeats(patch, b) {
        (a, b) = (b, a);
    }
    let direction = if block.opcode == Opcode::Maximum { "GT" } else { "LT" };
    let array = block.array().expect("a maximum is an array").with_element_type(ElementType::Pred);
    let flags = Arc::new(Shape::Array(array));
    let source = block.attributes.iter().find(|attribute| attribute.key == AttrKey::Metadata).cloned();
    let flag = |patch: &mut Patch, opcode, operands: [InstructionId; 2], direction: Option<&str>| {
        let mut flag = Instruction::new(block.name.clone(), flags.clone(), opcode, operands);
        flag.attributes.extend(direction.map(|word| Attribute::word(AttrKey::Direction, word)));
        flag.attributes.extend(source.clone());
        patch.add(target, flag)
    };
    let beyond = flag(patch, Opcode::Compare, [a, b], Some(direction));
    let nan = flag(patch, Opcode::Compare, [a, a], Some("NE"));
    let first = flag(patch, Opcode::Or, [beyond, nan], None);
    let select = Instruction { opcode: Opcode::Select, operands: [first, a, b].into_iter().collect(), ..block };
    patch.add(target, select)
}
