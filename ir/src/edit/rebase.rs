//! A patch made for one state of a module, applied to a later one.

use crate::arena::{Id, SideTable};
use crate::{AttrValue, ComputationId, Instruction, InstructionId, Module};

use super::{Patch, Undo};

impl Undo {
    /// Instructions of the state before that the patch changed; those it only removed are not among them.
    pub fn changed(&self) -> impl Iterator<Item = InstructionId> {
        self.instructions.iter().map(|&(id, _)| id)
    }
}

impl Patch {
    /// The same change for a later state of the module it was made for, reached by changes that overwrote the instructions `changed`. `None` where it
    /// speaks of something that is no longer there, or would overwrite what another change wrote.
    pub fn rebased(&self, module: &Module, changed: &SideTable<InstructionId, bool>) -> Option<Self> {
        let live = Live::of(module);
        let speaks_of_live = self.touched().chain(self.inputs()).all(|id| live.instructions[id])
            && self.called().all(|id| live.computations[id])
            && self.parents().all(|id| live.computations[id]);
        let overwrites = self.rewritten.iter().any(|&(id, _)| changed[id]);
        if !speaks_of_live || overwrites || self.header.is_some() {
            return None;
        }
        let shift = Shift { patch: self, module };
        Some(shift.patch())
    }

    /// Computations of the module that its new instructions call.
    fn called(&self) -> impl Iterator<Item = ComputationId> {
        let new = self.instructions.iter().chain(self.rewritten.iter().map(|(_, inst)| inst));
        new.flat_map(Instruction::called_computations).filter(|id| id.index() < self.base_computations)
    }
    /// Computations of the module that it adds to.
    fn parents(&self) -> impl Iterator<Item = ComputationId> {
        self.instructions.iter().map(|inst| inst.parent).filter(|id| id.index() < self.base_computations)
    }
}

/// What is still part of a module.
struct Live {
    instructions: SideTable<InstructionId, bool>,
    computations: SideTable<ComputationId, bool>,
}

impl Live {
    fn of(module: &Module) -> Self {
        let mut live = Self { instructions: SideTable::new(false), computations: SideTable::new(false) };
        module.live_instructions().for_each(|(id, _)| live.instructions.set(id, true));
        module.computation_ids().iter().for_each(|&id| live.computations.set(id, true));
        live
    }
}

/// Moves what a patch adds behind all that the module has.
struct Shift<'p> {
    patch: &'p Patch,
    module: &'p Module,
}

impl Shift<'_> {
    fn id(&self, id: InstructionId) -> InstructionId {
        let new = id.index().checked_sub(self.patch.base_instructions);
        new.map_or(id, |new| InstructionId::new(self.module.instruction_count() + new))
    }
    fn computation(&self, id: ComputationId) -> ComputationId {
        let new = id.index().checked_sub(self.patch.base_computations);
        new.map_or(id, |new| ComputationId::new(self.module.computation_count() + new))
    }
    fn instruction(&self, inst: &Instruction) -> Instruction {
        let mut moved = inst.clone();
        moved.parent = self.computation(inst.parent);
        moved.operands.iter_mut().for_each(|id| *id = self.id(*id));
        for attribute in &mut moved.attributes {
            attribute.value = match &attribute.value {
                AttrValue::Computation(id) => AttrValue::Computation(self.computation(*id)),
                AttrValue::Computations(ids) => {
                    AttrValue::Computations(ids.iter().map(|&id| self.computation(id)).collect())
                }
                AttrValue::Instructions(ids) => AttrValue::Instructions(ids.iter().map(|&id| self.id(id)).collect()),
                _ => continue,
            };
        }
        moved
    }
    fn patch(&self) -> Patch {
        let old = self.patch;
        let mut new = old.clone();
        (new.base_instructions, new.base_computations) =
            (self.module.instruction_count(), self.module.computation_count());
        new.instructions = old.instructions.iter().map(|inst| self.instruction(inst)).collect();
        new.rewritten = old.rewritten.iter().map(|(id, inst)| (*id, self.instruction(inst))).collect();
        for computation in &mut new.computations {
            computation.root = self.id(computation.root);
            computation.instructions.iter_mut().for_each(|id| *id = self.id(*id));
        }
        new.replaced = old.replaced.iter().map(|&(from, to)| (from, self.id(to))).collect();
        new.removed.iter_mut().chain(&mut new.moved).for_each(|id| *id = self.id(*id));
        new.removed_computations.iter_mut().for_each(|id| *id = self.computation(*id));
        new.origins = old.origins.iter().map(|(&new, &from)| (self.id(new), self.id(from))).collect();
        new
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Opcode;

    fn module() -> Module {
        let text = "HloModule m\n\nENTRY e {\n  p = f32[4]{0} parameter(0)\n  a = f32[4]{0} sine(p)\n  b = f32[4]{0} sine(a)\n  c = f32[4]{0} sine(b)\n  ROOT r = f32[4]{0} add(a, c)\n}\n";
        crate::text::parse(text).unwrap()
    }
    fn named(module: &Module, name: &str) -> InstructionId {
        module.live_instructions().find(|(_, inst)| inst.name == name).unwrap().0
    }
    /// `name` is computed by another operation instead, as a new instruction.
    fn exchanged(module: &Module, name: &str, opcode: Opcode) -> Patch {
        let old = named(module, name);
        let mut patch = Patch::new(module);
        let mut inst = module.instruction(old).clone();
        inst.opcode = opcode;
        let new = patch.add(module.entry(), inst);
        patch.replace(old, new);
        patch
    }
    /// The module's text after both changes, the second one moved behind the first; `None` where it cannot be.
    fn both(first: impl Fn(&Module) -> Patch, second: impl Fn(&Module) -> Patch) -> Option<String> {
        let mut module = module();
        let later = second(&module);
        let undo = first(&module).apply(&mut module).unwrap();
        let mut changed = SideTable::new(false);
        undo.changed().for_each(|id| changed.set(id, true));
        later.rebased(&module, &changed)?.apply(&mut module).unwrap();
        assert!(crate::verify::verify(&module).is_empty());
        Some(crate::text::print(&module))
    }

    #[test]
    fn changes_of_different_places_are_made_one_behind_the_other() {
        let text = both(|module| exchanged(module, "a", Opcode::Cosine), |module| exchanged(module, "c", Opcode::Tan));
        let text = text.unwrap();
        assert!(text.contains("cosine(") && text.contains("tan(") && text.matches("sine(").count() == 2, "{text}");
    }

    #[test]
    fn what_is_gone_is_not_changed() {
        let first = |module: &Module| exchanged(module, "b", Opcode::Cosine);
        assert_eq!(both(first, |module| exchanged(module, "b", Opcode::Tan)), None, "replaced twice");
        let reads_b = |module: &Module| {
            let mut patch = exchanged(module, "c", Opcode::Tan);
            patch.rewrite(named(module, "r"), module.instruction(named(module, "r")).clone());
            patch
        };
        assert_eq!(both(first, reads_b), None, "reads what is gone");
    }

    #[test]
    fn what_another_change_wrote_is_not_overwritten() {
        let rewritten = |module: &Module| {
            let root = named(module, "r");
            let mut inst = module.instruction(root).clone();
            inst.opcode = Opcode::Multiply;
            let mut patch = Patch::new(module);
            patch.rewrite(root, inst);
            patch
        };
        assert!(both(|module| exchanged(module, "b", Opcode::Cosine), rewritten).is_some());
        assert_eq!(
            both(|module| exchanged(module, "c", Opcode::Cosine), rewritten),
            None,
            "the root reads another value"
        );
    }
}
