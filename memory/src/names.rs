//! Names of instructions and computations of a compiled module: each stands for one of them only.
//!
//! A name that is taken gets a number behind it. Which number depends on all names before it that differ from it in such numbers only, and on no
//! others; so where few names are asked for, as in an estimate, only the relatives of those are gone through.

use std::cell::RefCell;

use hlo_ir::{ComputationId, InstructionId, Module};
use indexmap::map::Entry;
use smol_str::{SmolStr, format_smolstr};

use crate::hash::{IndexMap, IndexSet};

/// Names handed out so far, each with the number its next duplicate will carry.
pub(crate) struct Names {
    next: IndexMap<SmolStr, u32>,
}

impl Names {
    pub(crate) fn unique() -> Self {
        Self { next: IndexMap::default() }
    }
    /// Makes room for that many names.
    pub(crate) fn expect(&mut self, count: usize) {
        self.next.reserve(count);
    }
    /// `wanted`, or `wanted.1`, `wanted.2`, ... whichever is free.
    pub(crate) fn take(&mut self, wanted: SmolStr) -> SmolStr {
        let next = &mut self.next;
        let place = match next.entry(wanted.clone()) {
            Entry::Vacant(entry) => {
                entry.insert(1);
                return wanted;
            }
            Entry::Occupied(entry) => entry.index(),
        };
        loop {
            let name = format_smolstr!("{wanted}.{}", next[place]);
            next[place] += 1;
            if let Entry::Vacant(entry) = next.entry(name.clone()) {
                entry.insert(1);
                return name;
            }
        }
    }
}

/// How the instructions and computations of a module are called.
pub(crate) trait Called {
    /// The name of an instruction.
    fn instruction(&self, id: InstructionId) -> SmolStr;
    /// The name of a computation.
    fn computation(&self, id: ComputationId) -> SmolStr;
}

impl Called for Module {
    fn instruction(&self, id: InstructionId) -> SmolStr {
        self.instruction(id).name.clone()
    }
    fn computation(&self, id: ComputationId) -> SmolStr {
        self.computation(id).name.clone()
    }
}

/// What is asked for the names of; they are not known yet.
#[derive(Default)]
pub(crate) struct Asked {
    instructions: RefCell<IndexSet<InstructionId>>,
    computations: RefCell<IndexSet<ComputationId>>,
}

impl Called for Asked {
    fn instruction(&self, id: InstructionId) -> SmolStr {
        self.instructions.borrow_mut().insert(id);
        SmolStr::default()
    }
    fn computation(&self, id: ComputationId) -> SmolStr {
        self.computations.borrow_mut().insert(id);
        SmolStr::default()
    }
}

/// What `words` says of a module. `unnamed` says that its instructions carry the names they wanted, of which one may stand for several; then
/// `words` is asked twice, first for what it names.
pub(crate) fn named<T>(module: &Module, unnamed: bool, words: impl Fn(&dyn Called) -> T) -> T {
    if !unnamed {
        return words(module);
    }
    let asked = Asked::default();
    words(&asked);
    words(&asked.answers(module))
}

/// The names of what was asked for.
pub(crate) struct Answers {
    instructions: IndexMap<InstructionId, SmolStr>,
    computations: IndexMap<ComputationId, SmolStr>,
}

impl Called for Answers {
    fn instruction(&self, id: InstructionId) -> SmolStr {
        self.instructions.get(&id).cloned().unwrap_or_default()
    }
    fn computation(&self, id: ComputationId) -> SmolStr {
        self.computations.get(&id).cloned().unwrap_or_default()
    }
}

impl Asked {
    /// The names in a module whose instructions still carry the names that they wanted, in the order of its text.
    pub(crate) fn answers(self, module: &Module) -> Answers {
        let (instructions, computations) = (self.instructions.into_inner(), self.computations.into_inner());
        let wanted = instructions.iter().map(|&id| stem(&module.instruction(id).name));
        let stems: IndexSet<&str> =
            wanted.chain(computations.iter().map(|&id| stem(&module.computation(id).name))).collect();
        let mut answers = Answers { instructions: IndexMap::default(), computations: IndexMap::default() };
        if stems.is_empty() {
            return answers;
        }
        let mut names = Names::unique();
        for &computation in module.computation_ids() {
            for (id, inst) in module.instructions_of(computation) {
                if stems.contains(stem(&inst.name)) {
                    let name = names.take(inst.name.clone());
                    if instructions.contains(&id) {
                        answers.instructions.insert(id, name);
                    }
                }
            }
            let name = &module.computation(computation).name;
            if stems.contains(stem(name)) {
                let name = names.take(name.clone());
                if computations.contains(&computation) {
                    answers.computations.insert(computation, name);
                }
            }
        }
        answers
    }
}

/// A name without all numbers behind it.
fn stem(name: &str) -> &str {
    if !name.ends_with(|last: char| last.is_ascii_digit()) {
        // Nearly all names that were only wanted.
        return name;
    }
    let mut name = name;
    while let Some((front, number)) = name.rsplit_once('.') {
        if number.is_empty() || !number.bytes().all(|byte| byte.is_ascii_digit()) {
            break;
        }
        name = front;
    }
    name
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stem_has_no_numbers_behind_it() {
        let stems = ["add.1.22", "add", "a.b.3", "a.3.b", ".5", "x.", "7"].map(stem);
        assert_eq!(stems, ["add", "add", "a.b", "a.3.b", "", "x.", "7"]);
    }

    #[test]
    fn names_are_made_different() {
        let mut names = Names::unique();
        let taken = ["a", "a.1", "a", "a", "a.1", "b"].map(|name| names.take(name.into()));
        assert_eq!(taken, ["a", "a.1", "a.2", "a.3", "a.1.1", "b"]);
    }

    #[test]
    fn names_of_a_few_are_those_they_have_among_all() {
        let text = "HloModule m\n\nENTRY e {\n  a = f32[] parameter(0)\n  b.1 = f32[] negate(a)\n  b.2 = f32[] abs(b.1)\n  \
                    b = f32[] abs(b.2)\n  ROOT c = f32[] add(b, b)\n}\n";
        let module = hlo_ir::text::parse(text).unwrap_or_else(|errors| panic!("{errors:?}"));
        let ids = &module.computation(module.entry()).instructions;
        let mut all = Names::unique();
        let expected: Vec<SmolStr> = ids.iter().map(|&id| all.take(module.instruction(id).name.clone())).collect();
        for (&id, expected) in ids.iter().zip(expected) {
            let asked = Asked::default();
            asked.instruction(id);
            assert_eq!(asked.answers(&module).instruction(id), expected);
        }
    }
}
