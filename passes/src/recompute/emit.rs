//! The engine that writes values again: whatever is computed again, all of it, rows of a block or what belongs to a step, is written operands first and
//! each value once.

use std::collections::BTreeMap;

use hlo_ir::InstructionId;

/// What is computed again, and how one value of it is written.
pub(crate) trait Emit {
    /// A value and the part of it that is wanted.
    type Key: Copy + Ord;

    /// What stands for values that were written.
    fn emitted(&mut self) -> &mut BTreeMap<Self::Key, InstructionId>;

    /// What must be written before a value; `None` if it cannot be computed again.
    fn needs(&self, key: Self::Key) -> Option<Vec<Self::Key>>;

    /// Writes one value; `operands` stand for what it needs. `None` if it cannot be written there.
    fn emit_one(&mut self, key: Self::Key, operands: &[InstructionId]) -> Option<InstructionId>;

    /// What stands for a value, which is written with all that it needs unless it was before.
    fn emit(&mut self, wanted: Self::Key) -> Option<InstructionId> {
        let mut work = vec![(wanted, None)];
        while let Some((key, needs)) = work.pop() {
            if self.emitted().contains_key(&key) {
                continue;
            }
            let Some(needs) = needs else {
                let needs = self.needs(key)?;
                work.push((key, Some(needs.clone())));
                work.extend(needs.into_iter().rev().map(|needed| (needed, None)));
                continue;
            };
            let operands: Option<Vec<InstructionId>> =
                needs.iter().map(|needed| self.emitted().get(needed).copied()).collect();
            let made = self.emit_one(key, &operands?)?;
            self.emitted().insert(key, made);
        }
        self.emitted().get(&wanted).copied()
    }
}

#[cfg(test)]
mod tests {
    use hlo_ir::edit::Patch;
    use hlo_ir::{Module, text};

    use super::*;

    /// Instructions of the entry, written again in it.
    struct Copies<'a> {
        module: &'a Module,
        patch: Patch,
        emitted: BTreeMap<InstructionId, InstructionId>,
        order: Vec<InstructionId>,
    }

    impl Emit for Copies<'_> {
        type Key = InstructionId;

        fn emitted(&mut self) -> &mut BTreeMap<InstructionId, InstructionId> {
            &mut self.emitted
        }
        fn needs(&self, key: InstructionId) -> Option<Vec<InstructionId>> {
            let inst = self.module.instruction(key);
            (inst.opcode != hlo_ir::Opcode::Rng).then(|| inst.operands.to_vec())
        }
        fn emit_one(&mut self, key: InstructionId, operands: &[InstructionId]) -> Option<InstructionId> {
            self.order.push(key);
            let inst = self.module.instruction(key).clone();
            let copy = hlo_ir::Instruction { operands: operands.iter().copied().collect(), ..inst };
            Some(self.patch.add(self.module.entry(), copy))
        }
    }

    fn names(root: &str) -> Option<Vec<String>> {
        let text = format!(
            "HloModule m\n\nENTRY e {{\n  p = f32[8]{{0}} parameter(0)\n  r = f32[] constant(0)\n  n = f32[8]{{0}} rng(r, r), distribution=rng_uniform\n  s = f32[8]{{0}} sine(p)\n  c = f32[8]{{0}} cosine(s)\n  a = f32[8]{{0}} add(c, s)\n  b = f32[8]{{0}} add(a, n)\n  ROOT t = (f32[8]{{0}}, f32[8]{{0}}) tuple({root}, {root})\n}}\n"
        );
        let module = text::parse(&text).unwrap();
        let root = module.instruction(module.computation(module.entry()).root).operands[0];
        let mut copies =
            Copies { module: &module, patch: Patch::new(&module), emitted: BTreeMap::new(), order: vec![] };
        let made = copies.emit(root)?;
        assert_eq!(copies.emit(root), Some(made), "once");
        Some(copies.order.iter().map(|&id| module.instruction(id).name.to_string()).collect())
    }

    #[test]
    fn operands_come_first_and_each_value_once() {
        assert_eq!(names("a").unwrap(), ["p", "s", "c", "a"]);
    }

    #[test]
    fn what_cannot_be_computed_again_stops_everything() {
        assert_eq!(names("b"), None);
    }
}
