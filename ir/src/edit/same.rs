//! Whether two patches of two states of a module are the same change.

use crate::arena::Id;
use crate::{AttrValue, Attribute, Computation, ComputationId, Instruction, InstructionId};

use super::Patch;

/// What an id of a patch speaks of: an entity of the module, or one that the patch adds, by its number there.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Place {
    Old(usize),
    New(usize),
}

impl Place {
    fn of(id: impl Id, base: usize) -> Self {
        id.index().checked_sub(base).map_or(Self::Old(id.index()), Self::New)
    }
}

impl Patch {
    /// Whether this patch does to its state of a module what `other` does to another state of it: the same new instructions, whose ids
    /// may differ because one state has more of them, in the same places.
    pub fn is_same_change(&self, other: &Self) -> bool {
        let pair = Pair { one: self, other };
        all(&self.instructions, &other.instructions, |a, b| pair.instruction(a, b))
            && all(&self.rewritten, &other.rewritten, |a, b| pair.id(a.0, b.0) && pair.instruction(&a.1, &b.1))
            && all(&self.replaced, &other.replaced, |a, b| pair.id(a.0, b.0) && pair.id(a.1, b.1))
            && all(&self.computations, &other.computations, |a, b| pair.new_computation(a, b))
            && all(&self.removed, &other.removed, |&a, &b| pair.id(a, b))
            && all(&self.removed_computations, &other.removed_computations, |&a, &b| pair.computation(a, b))
            && self.header == other.header
    }
}

struct Pair<'p> {
    one: &'p Patch,
    other: &'p Patch,
}

impl Pair<'_> {
    fn id(&self, a: InstructionId, b: InstructionId) -> bool {
        Place::of(a, self.one.base_instructions) == Place::of(b, self.other.base_instructions)
    }
    fn computation(&self, a: ComputationId, b: ComputationId) -> bool {
        Place::of(a, self.one.base_computations) == Place::of(b, self.other.base_computations)
    }
    fn new_computation(&self, a: &Computation, b: &Computation) -> bool {
        self.id(a.root, b.root)
            && all(&a.instructions, &b.instructions, |&a, &b| self.id(a, b))
            && a.attributes == b.attributes
    }
    fn instruction(&self, a: &Instruction, b: &Instruction) -> bool {
        a.opcode == b.opcode
            && a.shape == b.shape
            && a.payload == b.payload
            && self.computation(a.parent, b.parent)
            && all(&a.operands, &b.operands, |&a, &b| self.id(a, b))
            && all(&a.attributes, &b.attributes, |a, b| self.attribute(a, b))
    }
    fn attribute(&self, a: &Attribute, b: &Attribute) -> bool {
        a.key == b.key
            && match (&a.value, &b.value) {
                (AttrValue::Computation(a), AttrValue::Computation(b)) => self.computation(*a, *b),
                (AttrValue::Computations(a), AttrValue::Computations(b)) => all(a, b, |&a, &b| self.computation(a, b)),
                (AttrValue::Instructions(a), AttrValue::Instructions(b)) => all(a, b, |&a, &b| self.id(a, b)),
                (a, b) => a == b,
            }
    }
}

fn all<T>(one: &[T], other: &[T], same: impl Fn(&T, &T) -> bool) -> bool {
    one.len() == other.len() && one.iter().zip(other).all(|(a, b)| same(a, b))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Module, Opcode};

    fn module(fillers: usize) -> Module {
        let more: Vec<String> = (0..fillers).map(|k| format!("  f{k} = f32[4]{{0}} negate(p)\n")).collect();
        let more = more.concat();
        let text = format!(
            "HloModule m\n\nENTRY e {{\n  p = f32[4]{{0}} parameter(0)\n  a = f32[4]{{0}} sine(p)\n{more}  ROOT r = f32[4]{{0}} add(a, a)\n}}\n"
        );
        crate::text::parse(&text).unwrap()
    }

    /// `a` computed again, by another operation if wanted, and read in its place.
    fn patch(module: &Module, opcode: Opcode) -> Patch {
        let (old, inst) = module.live_instructions().find(|(_, inst)| inst.name == "a").unwrap();
        let mut patch = Patch::new(module);
        let mut inst = inst.clone();
        inst.opcode = opcode;
        let new = patch.add(module.entry(), inst);
        patch.replace(old, new);
        patch
    }

    #[test]
    fn ids_of_new_instructions_do_not_count() {
        let (small, large) = (module(0), module(3));
        let one = patch(&small, Opcode::Cosine);
        assert!(one.is_same_change(&patch(&large, Opcode::Cosine)));
        assert!(!one.is_same_change(&patch(&large, Opcode::Tan)));
        assert!(!one.is_same_change(&Patch::new(&small)));
        let mut more = patch(&large, Opcode::Cosine);
        more.remove(large.computation(large.entry()).root);
        assert!(!one.is_same_change(&more));
    }
}
