//! Scatters whose sums meet other sums: XLA:CPU may make one scatter of them, which adds in another order.
//!
//! `add(a, scatter(b, ..))` becomes `scatter(a + b, ..)`, and a sum of two adding scatters becomes one scatter over both indices if these fit
//! together (`HandleAdd` in XLA's `algebraic_simplifier.cc`). A rewrite that changes what fits keeps the operations and not the bits.

// Tests: `passes/tests/chunk_grades.rs`.

use crate::hash::IndexSet;
use hlo_ir::graph::{self, Users};
use hlo_ir::{AttrKey, ElementType, InstructionId, Module, Opcode};

use super::{is_transparent, parameters};

/// Whether an instruction is a scatter that adds its updates, which are not integers.
pub(crate) fn adds_floats(module: &Module, scatter: InstructionId) -> bool {
    let inst = module.instruction(scatter);
    let float = inst.array().is_some_and(|array| !array.element_type.is_integer());
    let combiner = inst.computation(&AttrKey::ToApply).map(|id| module.instruction(module.computation(id).root));
    let parameter = |id: &InstructionId| module.instruction(*id).opcode == Opcode::Parameter;
    let adds = combiner.is_some_and(|root| root.opcode == Opcode::Add && root.operands.iter().all(parameter));
    inst.opcode == Opcode::Scatter && float && adds
}

/// Whether an instruction is a reduction of one array that adds up, from nothing.
pub(crate) fn sums_from_zero(module: &Module, reduce: InstructionId) -> bool {
    let inst = module.instruction(reduce);
    let combiner = inst.computation(&AttrKey::ToApply).map(|id| module.instruction(module.computation(id).root));
    let parameter = |id: &InstructionId| module.instruction(*id).opcode == Opcode::Parameter;
    let adds = combiner.is_some_and(|root| {
        let numbers: Vec<_> = root.operands.iter().map(|&id| module.instruction(id).parameter_number()).collect();
        root.opcode == Opcode::Add && root.operands.iter().all(parameter) && numbers.iter().flatten().sum::<i64>() == 1
    });
    let zero = |&id: &InstructionId| {
        module.instruction(id).literal().is_some_and(|text| matches!(text.trim(), "0" | "-0" | "0.0" | "-0.0"))
    };
    adds && inst.operands.len() == 2 && inst.operands.get(1).is_some_and(zero)
}

/// Whether XLA:CPU takes a sum into such a scatter. Those of `bf16` and shorter floats are scatters of `f32` already when it looks, with a
/// combiner that rounds.
pub(crate) fn takes_sums_on_cpu(module: &Module, scatter: InstructionId) -> bool {
    use ElementType as E;
    let taken = |element| matches!(element, E::F16 | E::F32 | E::F64 | E::C64 | E::C128);
    module.instruction(scatter).array().is_some_and(|array| taken(array.element_type))
}

/// Whether an adding scatter of floats is an operand of an `add`, directly or otherwise.
pub(crate) fn is_summed(module: &Module, users: &Users, scatter: InstructionId) -> bool {
    let adds = |&user: &InstructionId| module.instruction(user).opcode == Opcode::Add;
    adds_floats(module, scatter) && (users.get(scatter).iter().any(adds) || is_summed_elsewhere(module, users, scatter))
}

/// Whether an adding scatter of floats reaches an `add` through a tuple, or into or out of a called computation. XLA inlines calls and
/// dissolves tuples before it takes in sums.
pub(crate) fn is_summed_elsewhere(module: &Module, users: &Users, scatter: InstructionId) -> bool {
    let adds = |id, user: InstructionId| id != scatter && module.instruction(user).opcode == Opcode::Add;
    adds_floats(module, scatter) && reaches(module, users, scatter, adds)
}

/// Whether a value is an operand of another sum, here or behind tuples and calls: XLA takes sum after sum into a scatter.
pub(crate) fn is_summed_again(module: &Module, users: &Users, value: InstructionId) -> bool {
    reaches(module, users, value, |_, user| module.instruction(user).opcode == Opcode::Add)
}

/// Whether a value reaches a user through tuples, and into and out of calls; `is` says so of what stands for the value there, and its user.
fn reaches(
    module: &Module,
    users: &Users,
    value: InstructionId,
    is: impl Fn(InstructionId, InstructionId) -> bool,
) -> bool {
    let callers = graph::callers(module);
    let mut work = vec![value];
    let mut seen = IndexSet::default();
    while let Some(id) = work.pop() {
        if !seen.insert(id) {
            continue;
        }
        let parent = module.instruction(id).parent;
        if module.computation(parent).root == id {
            work.extend(callers[parent].iter().filter(|&&call| module.instruction(call).opcode == Opcode::Call));
        }
        for &user in users.get(id) {
            match module.instruction(user).opcode {
                Opcode::Tuple | Opcode::GetTupleElement => work.push(user),
                Opcode::Call if is_transparent(module, user) => work.extend(parameters(module, user, id)),
                _ if is(id, user) => return true,
                _ => {}
            }
        }
    }
    false
}
