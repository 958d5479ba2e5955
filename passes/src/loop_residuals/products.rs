//! Products that are computed again: how many multiplications they take, and whether those are few beside what the loops multiply anyway.

use hlo_ir::{AttrKey, ComputationId, InstructionId, Module, Opcode};
use indexmap::IndexSet;

use super::cone::{self, Node};
use super::readers::{Reader, Readers};
use super::stacks::Stacks;
use crate::Options;

/// Products may be computed again if they are at most this part of all products of a step and of those who read its rows: then both loops
/// together take at most a fifth longer, what they save in memory traffic not counted.
const PART: u64 = 5;

/// Multiplications of one product, 0 of anything else.
pub(super) fn multiplications(module: &Module, id: InstructionId) -> u64 {
    let inst = module.instruction(id);
    if inst.opcode != Opcode::Dot {
        return 0;
    }
    let results = inst.array().and_then(hlo_ir::ArrayShape::elements);
    let contracted = module.instruction(inst.operands[0]).array().map(|left| {
        let dims = inst.ints(&AttrKey::LhsContractingDims).iter();
        dims.map(|&dim| u64::try_from(left.dims[dim as usize]).unwrap_or(u64::MAX)).fold(1, u64::saturating_mul)
    });
    results.zip(contracted).map_or(u64::MAX, |(results, contracted)| results.saturating_mul(contracted))
}

/// Whether the products behind the rows of `dropped` are few. Where memory is asked for, any number is.
pub(super) fn are_few(
    module: &Module,
    stacks: &mut Stacks,
    readers: &Readers,
    dropped: &[usize],
    options: &Options,
) -> bool {
    let again = readers.list.iter().map(|reader| again(module, stacks, reader, dropped)).fold(0, u64::saturating_add);
    let bodies = readers.list.iter().map(|reader| reader.body);
    let first = module.instruction(stacks.body.parameter).parent;
    let all = bodies.chain([first]).map(|body| of(module, body)).fold(0, u64::saturating_add);
    options.budget.is_some() || again.saturating_mul(PART) <= all
}

/// Multiplications that a reader does again in one step.
fn again(module: &Module, stacks: &mut Stacks, reader: &Reader, dropped: &[usize]) -> u64 {
    let mut values = IndexSet::new();
    for read in reader.reads.iter().filter(|read| dropped.contains(&read.stack)) {
        let cone = cone::cone(module, stacks, read.stack, dropped).unwrap_or_default();
        let computed = cone.into_iter().filter(|(_, node)| matches!(node, Node::Operation(_)));
        values.extend(computed.map(|(at, _)| (at, read.row)));
    }
    values.iter().map(|(at, _)| multiplications(module, at.value.inst)).fold(0, u64::saturating_add)
}

/// Multiplications of one run of a computation, what it calls included; loops in it count once.
fn of(module: &Module, computation: ComputationId) -> u64 {
    let one = |(id, inst): (InstructionId, &hlo_ir::Instruction)| {
        let called = inst.called_computations().map(|callee| of(module, callee));
        called.fold(multiplications(module, id), u64::saturating_add)
    };
    module.instructions_of(computation).map(one).fold(0, u64::saturating_add)
}
