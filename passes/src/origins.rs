//! Which instruction of the input a later instruction derives from: what reports name in its place.

use hlo_ir::arena::Id as _;
use hlo_ir::edit::Patch;
use hlo_ir::{InstructionId, Module};

/// The instruction of the input from which each added instruction derives. Instructions of the input are their own origins.
#[derive(Debug, Hash)]
pub struct Origins {
    input_count: usize,
    /// What is known of instruction `input_count + k`, at index `k`.
    added: Vec<Added>,
}

#[derive(Debug, Hash)]
struct Added {
    origin: InstructionId,
    /// Whether the change that added it, or one that added what it derives from, keeps less than every bit.
    is_inexact: bool,
}

impl Origins {
    /// The state before any patch.
    pub(crate) fn new(input: &Module) -> Self {
        Self { input_count: input.instruction_count(), added: Vec::new() }
    }
    /// Whether a patch added the instruction.
    pub(crate) fn is_new(&self, id: InstructionId) -> bool {
        id.index() >= self.input_count
    }
    /// The instruction of the input that `id` derives from.
    pub(crate) fn of(&self, id: InstructionId) -> InstructionId {
        match id.index().checked_sub(self.input_count) {
            Some(index) => self.added[index].origin,
            None => id,
        }
    }
    /// Whether a change added it that keeps less than every bit.
    pub(crate) fn is_inexact(&self, id: InstructionId) -> bool {
        id.index().checked_sub(self.input_count).is_some_and(|index| self.added[index].is_inexact)
    }
    /// Notes what `patch` adds, and whether that keeps less than every bit. Where the patch names no origin, it is that of the instruction of the finding.
    pub(crate) fn extend(&mut self, patch: &Patch, finding: InstructionId, is_inexact: bool) {
        let fallback = self.of(finding);
        for id in patch.added() {
            let old = patch.origin(id);
            let origin = old.map_or(fallback, |old| self.of(old));
            let is_inexact = is_inexact || old.is_some_and(|old| self.is_inexact(old));
            self.added.push(Added { origin, is_inexact });
        }
    }
    /// A text of a pass in which names in backquotes are those of the input.
    pub(crate) fn in_input_names(&self, module: &Module, text: &str) -> String {
        let added = || (self.input_count..self.input_count + self.added.len()).map(InstructionId::new);
        let renamed = |part: &str| {
            let id = added().find(|&id| module.instruction(id).name == part)?;
            Some(module.instruction(self.of(id)).name.to_string())
        };
        let parts = text.split('`').enumerate().map(|(position, part)| {
            let quoted = position % 2 == 1;
            quoted.then(|| renamed(part)).flatten().unwrap_or_else(|| part.to_owned())
        });
        parts.collect::<Vec<_>>().join("`")
    }
    /// Forgets instructions that an undo took away.
    pub(crate) fn truncate(&mut self, instruction_count: usize) {
        self.added.truncate(instruction_count.saturating_sub(self.input_count));
    }
}

#[cfg(test)]
mod tests {
    use hlo_ir::{Instruction, Opcode, text};

    use super::*;
    use crate::Grade;

    #[test]
    fn what_rounds_otherwise_is_inexact_and_so_is_what_derives_from_it() {
        let mut module =
            text::parse("HloModule m\nENTRY %main {\n  ROOT %p = f32[4] parameter(0)\n}\n").expect("it is legal");
        let mut origins = Origins::new(&module);
        let root = module.computation(module.entry()).root;
        let mut add = |from: InstructionId, grade: Grade| {
            let mut patch = Patch::new(&module);
            let copy = Instruction::new("copy", module.instruction(root).shape.clone(), Opcode::Copy, [root]);
            let copy = patch.add(module.entry(), copy);
            patch.set_origin(copy, from);
            origins.extend(&patch, root, grade.is_inexact());
            patch.apply(&mut module).expect("the patch fits");
            (copy, origins.is_inexact(copy), origins.of(copy) == root)
        };
        assert!(!add(root, Grade::Bitwise).1);
        assert!(!add(root, Grade::Assume).1, "a promise about the data rounds nothing");
        let (exact, is_inexact, is_of_root) = add(root, Grade::HloExact);
        assert!(is_inexact && is_of_root);
        assert!(add(exact, Grade::Bitwise).1);
    }
}
