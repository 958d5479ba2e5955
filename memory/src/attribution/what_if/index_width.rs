//! Which integer arguments could be passed in a narrower type: those that reach nothing but the indices of gathers, scatters and slices.
//! What they index is known from the static dimensions, and so is the type that every index in bounds fits.

use crate::hash::IndexSet;
use hlo_ir::graph::Users;
use hlo_ir::{AttrKey, ElementType, InstructionId, Module, Opcode};

use super::Change;

/// Unsigned types and signed ones that JAX indexes with, narrowest first.
const TYPES: [ElementType; 4] = [ElementType::U8, ElementType::S16, ElementType::U16, ElementType::S32];

/// One answer per argument that could be narrower.
pub(super) fn answers(module: &Module) -> Vec<Change> {
    let users = Users::of(module);
    let parameters = module.parameters(module.entry());
    parameters.into_iter().zip(0_i64..).filter_map(|(id, number)| answer(module, &users, id, number)).collect()
}

fn answer(module: &Module, users: &Users, id: InstructionId, parameter: i64) -> Option<Change> {
    let inst = module.instruction(id);
    let array = inst.array().filter(|array| array.element_type.is_integer())?;
    let bound = indexed(module, users, id)?;
    let fits = |to: &&ElementType| to.integer_range().is_some_and(|(_, most)| i128::from(bound) - 1 <= most);
    let to = *TYPES.iter().find(fits)?;
    let narrows = to.storage_bits() < array.element_type.storage_bits();
    narrows.then(|| Change::NarrowIndex { parameter, name: inst.name.clone(), from: array.element_type, to, bound })
}

/// The size of the largest dimension that a value indexes; `None` if it reaches anything else or indexes nothing.
fn indexed(module: &Module, users: &Users, start: InstructionId) -> Option<i64> {
    let mut seen = IndexSet::from_iter([start]);
    let mut bound = None;
    let mut next = 0;
    while let Some(&id) = seen.get_index(next) {
        next += 1;
        let parent = module.instruction(id).parent;
        if module.computation(parent).root == id {
            // What a fusion or call returns goes on behind it; what the entry returns is no index.
            seen.insert(only_caller(module, parent)?);
        }
        for &user in users.get(id) {
            match read(module, id, user)? {
                Read::Passes(on) => _ = seen.insert(on),
                Read::Indexes(size) => bound = bound.max(Some(size)),
                Read::Compares => {}
            }
        }
    }
    bound
}

/// What a user does with an index.
enum Read {
    /// It hands the same numbers on: itself, or the parameter of the computation it calls.
    Passes(InstructionId),
    /// It looks up a place among that many.
    Indexes(i64),
    /// It compares the index with something, as the wrap of negative indices does.
    Compares,
}

/// What `user` does with `id`; `None` if that is more than indexing.
fn read(module: &Module, id: InstructionId, user: InstructionId) -> Option<Read> {
    use Opcode as O;
    let inst = module.instruction(user);
    let at = inst.operands.iter().position(|&operand| operand == id)?;
    let dims = |operand: usize| Some(&module.instruction(*inst.operands.get(operand)?).array()?.dims);
    match inst.opcode {
        O::Convert if inst.array()?.element_type.is_integer() => Some(Read::Passes(user)),
        O::Reshape | O::Bitcast | O::Transpose | O::Broadcast | O::Slice | O::Copy | O::Concatenate => {
            Some(Read::Passes(user))
        }
        O::Compare => Some(Read::Compares),
        O::Select if at > 0 => Some(Read::Passes(user)),
        O::Add => is_constant(module, inst.operands[1 - at]).then_some(Read::Passes(user)),
        O::Clamp if at == 1 => Some(Read::Passes(user)),
        O::Gather if at == 1 => largest(dims(0)?, inst.ints(&AttrKey::StartIndexMap)).map(Read::Indexes),
        O::Scatter if at == inst.operands.len() / 2 => {
            largest(dims(0)?, inst.ints(&AttrKey::ScatterDimsToOperandDims)).map(Read::Indexes)
        }
        O::DynamicSlice if at > 0 => dims(0)?.get(at - 1).copied().map(Read::Indexes),
        O::DynamicUpdateSlice if at > 1 => dims(0)?.get(at - 2).copied().map(Read::Indexes),
        O::Fusion | O::Call => {
            let callee = inst.called_computations().next()?;
            module.parameters(callee).get(at).copied().map(Read::Passes)
        }
        _ => None,
    }
}

fn largest(dims: &[i64], indexed: &[i64]) -> Option<i64> {
    indexed
        .iter()
        .map(|&dim| dims.get(usize::try_from(dim).ok()?).copied())
        .collect::<Option<Vec<_>>>()?
        .into_iter()
        .max()
}

/// Whether a value is a constant, broadcast or not: adding one is the wrap of negative indices.
fn is_constant(module: &Module, id: InstructionId) -> bool {
    let inst = module.instruction(id);
    match inst.opcode {
        Opcode::Constant => true,
        Opcode::Broadcast | Opcode::Reshape | Opcode::Convert | Opcode::Bitcast => {
            inst.operands.first().is_some_and(|&operand| is_constant(module, operand))
        }
        _ => false,
    }
}

/// The one fusion or call that runs a computation.
fn only_caller(module: &Module, computation: hlo_ir::ComputationId) -> Option<InstructionId> {
    let mut callers =
        module.live_instructions().filter(|(_, inst)| inst.called_computations().any(|id| id == computation));
    let (id, inst) = callers.next()?;
    (matches!(inst.opcode, Opcode::Fusion | Opcode::Call) && callers.next().is_none()).then_some(id)
}
