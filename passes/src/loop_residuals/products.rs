//! Products that are computed again: how many multiplications they take, and whether those are few beside what the loops multiply anyway.

use hlo_ir::{ComputationId, InstructionId, Module, Opcode};
use indexmap::IndexSet;

use super::cone::{self, Node};
use super::readers::{Reader, Readers};
use super::stacks::Stacks;
use crate::{Options, cost};

/// Products may be computed again if they are at most this part of all products of a step and of those who read its rows: then both loops
/// together take at most a fifth longer, what they save in memory traffic not counted.
const PART: u64 = 5;

/// Multiplications of one product, 0 of anything else.
pub(super) fn multiplications(module: &Module, id: InstructionId) -> u64 {
    if module.instruction(id).opcode == Opcode::Dot { cost::multiplications(module, id).unwrap_or(u64::MAX) } else { 0 }
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
