//! A cache of findings that all searches of a run share.
//!
//! Searches with other flags, restarts, and searches behind enabling changes reach the same states of a module again. A pass that is asked about the same state, with the
//! same options, gives the same findings.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};

use crate::hash::IndexMap;
use hlo_ir::Module;
use hlo_memory::{Bytes, Estimate};

use super::candidate::Candidate;
use crate::{Finding, Options, Origins, Outcome, bounds};

/// All that passes may look at.
#[derive(Clone, PartialEq, Debug)]
pub(super) struct Question {
    /// The module, with the ids that a patch names, and where its instructions come from.
    form: u64,
    before: Bytes,
    recompute_large: bool,
    options: Options,
    estimate: Estimate,
}

impl Question {
    pub(super) fn of(
        (module, form): (&Module, u64),
        origins: &Origins,
        (estimate, before): (&Estimate, Bytes),
        (options, recompute_large): (&Options, bool),
    ) -> Self {
        let mut hasher = DefaultHasher::new();
        (form, module.instruction_count(), module.computation_count()).hash(&mut hasher);
        for &id in module.computation_ids() {
            let computation = module.computation(id);
            (id, &computation.instructions, &computation.attributes).hash(&mut hasher);
        }
        origins.hash(&mut hasher);
        Self { form: hasher.finish(), before, recompute_large, options: options.clone(), estimate: estimate.clone() }
    }
}

/// What was found, by pass.
pub(super) struct Answers {
    question: Question,
    found: IndexMap<usize, Vec<Finding>>,
}

impl Answers {
    /// Whether a pass was asked.
    pub(super) fn has(&self, pass: usize) -> bool {
        self.found.contains_key(&pass)
    }

    /// Notes what a pass says.
    pub(super) fn note(&mut self, pass: usize, findings: Vec<Finding>) {
        self.found.insert(pass, findings);
    }

    /// What a pass said.
    pub(super) fn of(&self, pass: usize) -> impl ExactSizeIterator<Item = Candidate> {
        let findings = self.found.get(&pass).map_or(&[][..], Vec::as_slice);
        findings.iter().map(move |finding| Candidate { pass, finding: finding.clone() })
    }

    /// Instructions of all changes, which is what takes memory.
    fn size(&self) -> usize {
        self.found.values().flatten().map(size).sum()
    }
}

fn size(finding: &Finding) -> usize {
    match &finding.outcome {
        Outcome::Rewrite { patch, .. } | Outcome::Withheld { patch, .. } => patch.added().count(),
        Outcome::Missed(_) => 0,
    }
}

/// The answers, those that were asked for last at the end.
#[derive(Default)]
pub(super) struct KnownFindings(RefCell<VecDeque<Answers>>);

impl KnownFindings {
    /// What is known, for whoever [puts](Self::put) it back.
    pub(super) fn take(&self, question: Question) -> Answers {
        let mut all = self.0.borrow_mut();
        let place = all.iter().rposition(|answers| answers.question == question);
        let known = place.and_then(|place| all.remove(place));
        known.unwrap_or_else(|| Answers { question, found: IndexMap::default() })
    }

    /// Keeps answers. Those that nobody asked for in the longest time go where there are too many.
    pub(super) fn put(&self, answers: Answers) {
        let mut all = self.0.borrow_mut();
        all.push_back(answers);
        let mut size: usize = all.iter().map(Answers::size).sum();
        while size > bounds::ADDED
            && let Some(first) = all.pop_front()
        {
            size -= first.size();
        }
    }
}

#[cfg(test)]
mod tests {
    use hlo_ir::edit::Patch;
    use hlo_ir::{Instruction, Opcode, hash, text};
    use hlo_memory::Target;

    use super::*;
    use crate::Grade;

    fn question(module: &Module, options: &Options, recompute_large: bool) -> Question {
        let estimate = hlo_memory::estimate::estimate(module, Target::Cpu).expect("the module has an estimate");
        let named = (module, hash::named_hash(module));
        Question::of(named, &Origins::new(module), (&estimate, estimate.total), (options, recompute_large))
    }

    fn module() -> Module {
        text::parse("HloModule m\n\nENTRY e {\n  p = f32[8] parameter(0)\n  ROOT s = f32[8] sine(p)\n}\n")
            .expect("legal")
    }

    fn adding(module: &Module, count: usize) -> Patch {
        let root = module.computation(module.entry()).root;
        let mut patch = Patch::new(module);
        for _ in 0..count {
            let shape = module.instruction(root).shape.clone();
            patch.add(module.entry(), Instruction::new("n", shape, Opcode::Negate, [root]));
        }
        patch
    }

    fn finding(module: &Module, count: usize) -> Finding {
        let outcome = Outcome::Rewrite { patch: adding(module, count), note: String::new(), conditions: Vec::new() };
        let instruction = module.computation(module.entry()).root;
        Finding { instruction, grade: Grade::Bitwise, wasted: Bytes(1), outcome }
    }

    #[test]
    fn what_was_asked_before_is_known() {
        let (module, plain, known) = (module(), Options::default(), KnownFindings::default());
        let mut answers = known.take(question(&module, &plain, false));
        assert!(!answers.has(3));
        answers.note(3, vec![finding(&module, 1)]);
        known.put(answers);
        let again = known.take(question(&module, &plain, false));
        assert!(again.has(3) && !again.has(2) && again.of(3).len() == 1 && again.of(2).len() == 0);
        known.put(again);
        assert!(!known.take(question(&module, &plain, true)).has(3), "more is allowed");
        let other = Options { exactness: Grade::Reassociate, ..plain.clone() };
        assert!(!known.take(question(&module, &other, false)).has(3), "sums may be split");
        let mut changed = module.clone();
        let undo = adding(&module, 1).apply(&mut changed).expect("the patch fits");
        assert!(!known.take(question(&changed, &plain, false)).has(3), "another module");
        undo.revert(&mut changed);
        assert!(known.take(question(&changed, &plain, false)).has(3), "the same once more");
    }

    #[test]
    fn what_nobody_asks_for_goes_first() {
        let (module, known) = (module(), KnownFindings::default());
        let asked = |bytes: u64| question(&module, &Options { min_saving: Bytes(bytes), ..Options::default() }, false);
        let note = |bytes, count| {
            let mut answers = known.take(asked(bytes));
            answers.note(0, vec![finding(&module, count)]);
            known.put(answers);
        };
        let is_known = |bytes| {
            let answers = known.take(asked(bytes));
            let is_known = answers.has(0);
            known.put(answers);
            is_known
        };
        let half = bounds::ADDED / 2;
        note(1, half);
        note(2, half);
        assert!(is_known(1) && is_known(2) && is_known(1));
        note(3, 1);
        assert!(is_known(1) && !is_known(2) && is_known(3));
    }
}
