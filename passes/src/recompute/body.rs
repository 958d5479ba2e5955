//! Writes what a computation computes again in another one.

use std::collections::BTreeMap;

use crate::hash::IndexSet;
use hlo_ir::edit::Patch;
use hlo_ir::{AttrKey, AttrValue, ComputationId, Instruction, InstructionId, Module, Opcode};

use super::emit::Emit;

/// What stands for an instruction of the computation in the other one.
pub(crate) type Known = BTreeMap<InstructionId, InstructionId>;

/// What stands for the elements of the tuple that a computation takes.
pub(crate) fn elements(
    module: &Module,
    computation: ComputationId,
    of: impl Fn(usize) -> Option<InstructionId>,
) -> Known {
    let parameters = module.parameters(computation);
    let taken = module
        .instructions_of(computation)
        .filter(|(_, inst)| inst.opcode == Opcode::GetTupleElement && parameters.first() == Some(&inst.operands[0]));
    taken.filter_map(|(id, inst)| Some((id, of(usize::try_from(inst.int(&AttrKey::Index)?).ok()?)?))).collect()
}

/// The instructions that `wanted` follow from, themselves included, but not what is known already nor what only that follows from.
fn cone(module: &Module, wanted: &[InstructionId], known: &Known) -> IndexSet<InstructionId> {
    let mut found: IndexSet<InstructionId> = wanted.iter().copied().filter(|id| !known.contains_key(id)).collect();
    let mut next = 0;
    while let Some(&id) = found.get_index(next) {
        next += 1;
        let operands = module.instruction(id).operands.iter().copied();
        found.extend(operands.filter(|operand| !known.contains_key(operand)));
    }
    found
}

/// Writes into `to` what `wanted` of `from` follow from, and makes it known. `None` if that takes a parameter that stands for nothing, or has to wait for other
/// instructions.
pub(crate) fn write(
    module: &Module,
    patch: &mut Patch,
    (from, to): (ComputationId, ComputationId),
    wanted: &[InstructionId],
    known: &mut Known,
) -> Option<()> {
    let cone = cone(module, wanted, known);
    let mut copies = Copies { module, patch, to, known };
    // In the order of the computation, which is that of the original's schedule where values are ready at the same time.
    module.instructions_of(from).filter(|(id, _)| cone.contains(id)).try_for_each(|(id, _)| copies.emit(id).map(|_| ()))
}

/// Instructions of a computation, written again in another one.
struct Copies<'a> {
    module: &'a Module,
    patch: &'a mut Patch,
    to: ComputationId,
    known: &'a mut Known,
}

impl Emit for Copies<'_> {
    type Key = InstructionId;

    fn emitted(&mut self) -> &mut Known {
        self.known
    }

    fn needs(&self, id: InstructionId) -> Option<Vec<InstructionId>> {
        let inst = self.module.instruction(id);
        let stays = inst.opcode == Opcode::Parameter || !inst.control_predecessors().is_empty();
        (!stays).then(|| inst.operands.to_vec())
    }

    fn emit_one(&mut self, id: InstructionId, operands: &[InstructionId]) -> Option<InstructionId> {
        let inst = with_own_callees(self.module, self.patch, self.module.instruction(id))?;
        let operands = operands.iter().copied().collect();
        let again = self.patch.add(self.to, Instruction { operands, span: None, ..inst });
        self.patch.set_origin(again, id);
        Some(again)
    }
}

/// An instruction that calls computations of its own where it runs them as steps of the program: passes look into what has one caller.
fn with_own_callees(module: &Module, patch: &mut Patch, inst: &Instruction) -> Option<Instruction> {
    let mut inst = inst.clone();
    if !matches!(inst.opcode, Opcode::While | Opcode::Call | Opcode::Conditional) {
        return Some(inst);
    }
    for attribute in &mut inst.attributes {
        match &mut attribute.value {
            AttrValue::Computation(callee) => *callee = clone(module, patch, *callee)?,
            AttrValue::Computations(callees) => {
                for callee in callees.iter_mut() {
                    *callee = clone(module, patch, *callee)?;
                }
            }
            _ => {}
        }
    }
    Some(inst)
}

/// A computation once more. Recursion is as deep as calls are nested.
fn clone(module: &Module, patch: &mut Patch, computation: ComputationId) -> Option<ComputationId> {
    let source = module.computation(computation);
    let mut known = Known::new();
    let mut written = Vec::new();
    for (id, inst) in module.instructions_of(computation) {
        if !inst.control_predecessors().is_empty() {
            return None;
        }
        written.push((id, with_own_callees(module, patch, inst)?));
    }
    let to = patch.add_computation(source.name.clone());
    for (id, inst) in written {
        let operands = inst.operands.iter().map(|operand| known.get(operand).copied()).collect::<Option<_>>()?;
        let again = patch.add(to, Instruction { operands, span: None, ..inst });
        patch.set_origin(again, id);
        known.insert(id, again);
    }
    patch.set_root(to, *known.get(&source.root)?);
    Some(to)
}
