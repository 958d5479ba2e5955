//! Delays the arrays that a loop fills until the loop begins.
//!
//! Waste: an array of zeros that a loop fills depends on a constant only, so the compiler may make it at the beginning of the program. Equal zeros of several loops are
//! one value to XLA: XLA:GPU makes all copies of it at once (`CopyFusion`), and XLA:CPU copies it for each loop as early as it can. A sequence of recurrent layers then
//! holds the stacks of all layers at the same time, although one at a time is needed.
//!
//! ```text
//! %zeros = f32[T,N] broadcast(%zero)              %late = f32[] get-tuple-element(opt-barrier(tuple(%zero, %x))), index=0
//! while(tuple(%i, %zeros, %x))              =>    %zeros = f32[T,N] broadcast(%late)
//!                                                 while(tuple(%i, %zeros, %x))
//! ```
//!
//! The constant waits for the latest value that the loop starts from, so nothing else runs in another order. On XLA:CPU, where barriers are gone before the
//! schedule, a `select` by a predicate that is never true stands in the place of the barrier (see `tie`).
//!
//! Sound because the constant is forwarded untouched, and the loop waits for that value anyhow. Grade: bitwise, or hlo-exact where a product or the like is waited
//! for that a sum takes in (see `tie`).
//!
//! It is asked behind all other passes: to those, loops that start from zeros are stacks and sums.
//!
//! Stays away from
//!
//! - scheduled modules, and XLA:TPU, which makes such arrays anew for each loop;
//! - programs that are yet to be divided among devices: what is waited for may lie across them, and reading an element of it would take a collective;
//! - loops that start from inputs and constants alone;
//! - loops behind nothing that needs a twentieth of the bytes that they fill.

// Tests: `passes/tests/loop_starts.rs`.

use crate::hash::{IndexMap, IndexSet};
use hlo_ir::{ComputationId, Instruction, InstructionId, Module, Opcode};
use hlo_memory::{Bytes, Target};

use crate::objective::MATTERS;
use crate::recompute::tie::{Ties, bytes, can_tie, can_wait_for, constants, finding, positions};
use crate::{Context, Finding, Pass, PassKind};

/// The pass.
#[derive(Clone, Copy, Debug, Default)]
pub struct LoopStarts;

impl Pass for LoopStarts {
    fn name(&self) -> &'static str {
        "loop-starts"
    }
    fn summary(&self) -> &'static str {
        "delay the arrays that a loop fills until the loop begins"
    }
    crate::explanation!("loop_starts.rs");
    fn kind(&self) -> PassKind {
        PassKind::Rewrite
    }
    fn comes_last(&self) -> bool {
        true
    }
    fn find(&self, context: &Context<'_>) -> Vec<Finding> {
        if context.module.is_scheduled() || context.options.target == Target::Tpu || context.is_partitioned() {
            return Vec::new();
        }
        let computations = crate::roll::running(context.module);
        let all = computations.into_iter().filter_map(|computation| of_computation(context, computation));
        all.filter(|finding| finding.wasted >= context.options.min_saving && finding.wasted > Bytes::ZERO).collect()
    }
}

/// One change that delays the constant arrays of all loops; `None` if no loop starts from a computed value.
fn of_computation(context: &Context<'_>, computation: ComputationId) -> Option<Finding> {
    let module = context.module;
    let mut ties = Ties::new(module, context.options.target);
    let (mut wasted, mut largest, mut loops) = (Bytes::ZERO, None, 0);
    for (start, late, filled) in starts(module, computation) {
        let mut tuple = module.instruction(start).clone();
        let mut made: IndexMap<InstructionId, InstructionId> = IndexMap::default();
        for &array in &filled {
            let new = *made.entry(array).or_insert_with(|| late_copy(module, &mut ties, array, late));
            tuple.operands.iter_mut().filter(|operand| **operand == array).for_each(|operand| *operand = new);
        }
        ties.patch.rewrite(start, tuple);
        let held: Bytes = filled.iter().map(|&array| bytes(module, array)).sum();
        largest = largest.max(Some((held, filled[0])));
        (wasted, loops) = (wasted + held, loops + 1);
    }
    let note = match loops {
        1 => "the array that a loop fills is made when the loop begins".to_owned(),
        _ => format!("the arrays that {loops} loops fill are made when the loops begin"),
    };
    Some(finding(context, largest?.1, wasted, ties, note))
}

/// What loops start from behind something that needs much: the tuple, the latest value in it, and its arrays of one constant each.
fn starts(module: &Module, computation: ComputationId) -> Vec<(InstructionId, InstructionId, Vec<InstructionId>)> {
    let loops = module.instructions_of(computation).filter(|(_, inst)| inst.opcode == Opcode::While);
    let mut tuples: IndexSet<InstructionId> = loops.map(|(_, inst)| inst.operands[0]).collect();
    tuples.retain(|&start| module.instruction(start).opcode == Opcode::Tuple);
    if tuples.is_empty() {
        return Vec::new();
    }
    let (position, constant) = (positions(module, computation), constants(module, computation));
    let of_start = |start: InstructionId| {
        let values = module.instruction(start).operands.iter().copied();
        let waits_for = |&value: &InstructionId| {
            !constant[value] && module.instruction(value).parameter_number().is_none() && can_wait_for(module, value)
        };
        let late = values.clone().filter(waits_for).max_by_key(|&value| position[value])?;
        let filled: Vec<InstructionId> = values.filter(|&value| is_filled(module, value)).collect();
        let held: Bytes = filled.iter().map(|&array| bytes(module, array)).sum();
        let makes_much = |&(id, inst): &(InstructionId, &Instruction)| {
            let is_large = bytes(module, id).get().saturating_mul(MATTERS) >= held.get();
            !constant[id] && (inst.opcode == Opcode::While || is_large && inst.parameter_number().is_none())
        };
        let mut before = module.instructions_of(computation).take_while(|&(id, _)| id != start);
        (!filled.is_empty() && before.any(|made| makes_much(&made))).then_some((start, late, filled))
    };
    tuples.into_iter().filter_map(of_start).collect()
}

/// Whether a value is an array of one constant.
fn is_filled(module: &Module, value: InstructionId) -> bool {
    let inst = module.instruction(value);
    let number = inst.operands.first().filter(|_| inst.opcode == Opcode::Broadcast);
    number.is_some_and(|&number| {
        let of = module.instruction(number);
        of.opcode == Opcode::Constant
            && of.array().is_some_and(hlo_ir::ArrayShape::is_scalar)
            && can_tie(module, number)
    })
}

/// The array of a constant that waits.
fn late_copy(module: &Module, ties: &mut Ties<'_>, array: InstructionId, late: InstructionId) -> InstructionId {
    let mut copy = module.instruction(array).clone();
    copy.operands = [ties.tie(copy.operands[0], late)].into_iter().collect();
    copy.span = None;
    let copy = ties.patch.add(module.instruction(array).parent, copy);
    ties.patch.set_origin(copy, array);
    copy
}
