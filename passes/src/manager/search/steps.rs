//! The changes that the search has made, in order: committing and undoing them.

use hlo_ir::InstructionId;
use hlo_ir::edit::Undo;
use hlo_memory::Bytes;

use super::super::remark_site;
use super::super::trial::Claim;
use super::{Candidate, Rewrite, Search};
use crate::{Condition, Outcome, Pass};

/// A change and how to take it back.
pub(super) struct Step {
    pub(super) undo: Undo,
    /// The state of the module before.
    pub(super) before: u64,
    /// What a pass made.
    pub(super) made: Made,
}

/// A change that a pass made.
#[derive(Clone, Debug)]
pub(in crate::manager) struct Made {
    pub(super) rewrite: Rewrite,
    pub(super) pass: usize,
    /// The instruction of the finding.
    pub(super) instruction: InstructionId,
    /// The change itself: it may have to be made again.
    pub(super) candidate: Candidate,
}

impl Search<'_> {
    /// The report's entry for a rewrite, named as in the input; what it saves is not known yet.
    pub(super) fn rewrite_of(&self, candidate: &Candidate, claim: Claim) -> Rewrite {
        let origin = self.origins.of(claim.instruction);
        let inst = self.module.instruction(origin);
        let in_input_names = |text: &str| self.origins.in_input_names(self.module, text);
        let (note, conditions) = match &candidate.finding.outcome {
            Outcome::Rewrite { note, conditions, .. } => (in_input_names(note), conditions.clone()),
            Outcome::Withheld { .. } | Outcome::Missed(_) => (String::new(), Vec::new()),
        };
        let named = |condition: Condition| Condition { text: in_input_names(&condition.text), ..condition };
        Rewrite {
            pass: claim.pass,
            computation: self.module.computation(inst.parent).name.clone(),
            instruction: inst.name.clone(),
            grade: candidate.finding.grade,
            kind: claim.kind,
            saved: Bytes::ZERO,
            taken: Bytes::ZERO,
            source: remark_site::source(self.module, claim.instruction, origin),
            note,
            conditions: conditions.into_iter().map(named).collect(),
        }
    }

    /// What passes made, in order.
    pub(super) fn made(&self) -> impl DoubleEndedIterator<Item = &Made> {
        self.steps.iter().map(|step| &step.made)
    }

    /// The pass that added an instruction; `None` of the input's own.
    pub(in crate::manager) fn maker(&self, id: InstructionId) -> Option<&dyn Pass> {
        let adds = |made: &&Made| made.candidate.patch().is_some_and(|patch| patch.added().any(|added| added == id));
        self.made().find(adds).map(|made| &*self.passes[made.pass])
    }

    /// All steps so far are worth keeping.
    pub(super) fn commit(&mut self) {
        self.committed = self.steps.len();
        self.committed_state = self.findings.state();
        self.committed_estimate = self.now.clone();
    }

    /// Takes back all steps but the first `count`.
    pub(super) fn roll_back(&mut self, count: usize) {
        let before = self.steps.len();
        while self.steps.len() > count {
            if let Some(step) = self.steps.pop() {
                step.undo.revert(self.module);
                self.findings.step_back(step.before);
                self.tried.retain(|tried| tried.state <= step.before);
                self.statistics.passes[step.made.pass].put_back += 1;
            }
        }
        self.origins.truncate(self.module.instruction_count());
        if self.steps.len() < before {
            self.observer.undone(self.steps.len());
        }
    }
}
