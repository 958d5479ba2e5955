//! Recomputation behind an `opt-barrier`, as `jax.checkpoint` emits it: the values it starts from wait for the latest value in the barrier.

use hlo_ir::{ComputationId, InstructionId, Module, Opcode};
use hlo_memory::{Bytes, Target};

use crate::recompute::tie::{Ties, bytes, can_tie, can_wait_for, constants, finding, positions};
use crate::{Context, Finding};

/// One change that ties the large values of every barrier; `None` if no barrier joins an early and a late value.
pub(super) fn find(context: &Context<'_>, computation: ComputationId) -> Option<Finding> {
    if context.options.target != Target::Cpu {
        // There the barrier itself holds.
        return None;
    }
    let module = context.module;
    let mut ties = Ties::new(module, context.options.target);
    let (mut wasted, mut owner, mut barriers) = (Bytes::ZERO, None, 0);
    for (barrier, values, late) in barriers_of(module, computation) {
        let mut count = 0;
        for element in context.users.get(barrier) {
            let inst = module.instruction(*element);
            let index = inst.int(&hlo_ir::AttrKey::Index).unwrap_or(-1);
            let from = usize::try_from(index).ok().and_then(|index| values.get(index));
            let Some(&value) = from.filter(|_| inst.opcode == Opcode::GetTupleElement) else { continue };
            let waits = |user: &InstructionId| is_tied(module, *user);
            if context.users.get(*element).iter().all(waits) {
                continue;
            }
            if value == late || !is_large(module, value, &values, late) || !can_tie(module, *element) {
                continue;
            }
            let new = ties.tie(*element, late);
            ties.patch.replace(*element, new);
            // What is kept alive for the recomputation is at least as large again as what it starts from.
            wasted += bytes(module, value);
            count += 1;
        }
        if count > 0 {
            owner = Some(barrier);
            barriers += 1;
        }
    }
    let note = format!("the recomputation behind {barriers} barriers waits for what needs it");
    Some(finding(context, owner?, wasted, ties, note))
}

/// Barriers over tuples, with what they hold and the latest of it that is computed from a product or the like.
fn barriers_of(module: &Module, computation: ComputationId) -> Vec<(InstructionId, Vec<InstructionId>, InstructionId)> {
    if !module.instructions_of(computation).any(|(_, inst)| inst.opcode == Opcode::OptBarrier) {
        return Vec::new();
    }
    let position = positions(module, computation);
    let constant = constants(module, computation);
    let mut found = Vec::new();
    for (id, inst) in module.instructions_of(computation) {
        let &[operand] = inst.operands.as_slice() else { continue };
        let tuple = module.instruction(operand);
        if inst.opcode != Opcode::OptBarrier || tuple.opcode != Opcode::Tuple {
            continue;
        }
        let values = tuple.operands.to_vec();
        let computed = values.iter().copied().filter(|&value| {
            !constant[value] && module.instruction(value).parameter_number().is_none() && can_wait_for(module, value)
        });
        if let Some(late) = computed.max_by_key(|&value| position[value]) {
            found.push((id, values, late));
        }
    }
    found
}

/// Whether a value is one of the large ones in the barrier, besides the latest.
fn is_large(module: &Module, value: InstructionId, values: &[InstructionId], late: InstructionId) -> bool {
    let largest = values.iter().filter(|&&other| other != late).map(|&other| bytes(module, other)).max();
    let own = bytes(module, value);
    // As large as the late value too: weights beside activations are read, not recomputed.
    own + own >= largest.unwrap_or_default() && own + own >= bytes(module, late)
}

/// Whether a value waits for another already: what [`Ties::tie`] makes on XLA:CPU, by structure.
fn is_tied(module: &Module, id: InstructionId) -> bool {
    let inst = module.instruction(id);
    let through = |id: InstructionId| match module.instruction(id).opcode {
        Opcode::Broadcast => module.instruction(id).operands[0],
        _ => id,
    };
    if inst.opcode != Opcode::Select {
        return false;
    }
    let compare = module.instruction(through(inst.operands[0]));
    let Some(&clamp) = compare.operands.first().filter(|_| compare.opcode == Opcode::Compare) else { return false };
    let clamp = module.instruction(clamp);
    clamp.opcode == Opcode::Clamp && clamp.operands.first() == clamp.operands.last()
}
