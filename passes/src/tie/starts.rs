//! What loops start from: constants that fill an array, which a loop writes over, wait for the latest value that the loop starts from.
//!
//! Nothing else has to be there before XLA can make them, so they may stand from the beginning of the program on. Equal ones of several loops are one value to
//! XLA, of which XLA:GPU makes all copies at once (`CopyFusion`, xla/service/gpu/transforms/copy_fusion.cc) and XLA:CPU copies each as early as it can.

use crate::hash::IndexMap;
use hlo_ir::{ComputationId, InstructionId, Module, Opcode};
use hlo_memory::{Bytes, Target};

use super::{bytes, constants, finding, positions};
use crate::recompute::tie::{Ties, can_tie, can_wait_for};
use crate::{Context, Finding};

/// One change that lets what all loops start from wait; `None` if no loop starts from anything that is computed.
pub(super) fn find(context: &Context<'_>, computation: ComputationId) -> Option<Finding> {
    if context.options.target == Target::Tpu {
        // XLA:TPU makes them anew for each loop.
        return None;
    }
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
    let note = format!("what {loops} loops write over waits for what they start from");
    Some(finding(context, largest?.1, wasted, ties, note))
}

/// What loops start from: the tuple, the latest value in it, and its arrays of one constant each.
fn starts(module: &Module, computation: ComputationId) -> Vec<(InstructionId, InstructionId, Vec<InstructionId>)> {
    let loops = module.instructions_of(computation).filter(|(_, inst)| inst.opcode == Opcode::While);
    let mut tuples: Vec<InstructionId> = loops.map(|(_, inst)| inst.operands[0]).collect();
    tuples.retain(|&start| module.instruction(start).opcode == Opcode::Tuple);
    tuples.dedup();
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
        (!filled.is_empty()).then_some((start, late, filled))
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
