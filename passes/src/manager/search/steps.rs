//! The changes made so far, and how they are taken back.

use hlo_ir::InstructionId;
use hlo_ir::edit::Undo;

use super::{Candidate, Rewrite, Search};

/// A change and how to take it back.
pub(super) struct Step {
    pub(super) undo: Undo,
    /// The state of the module before.
    pub(super) before: u64,
    /// What a pass made; `None` of a last touch, of which no report speaks.
    pub(super) made: Option<Made>,
}

/// A change that a pass made.
pub(super) struct Made {
    pub(super) rewrite: Rewrite,
    pub(super) pass: usize,
    /// The instruction of the finding.
    pub(super) instruction: InstructionId,
    /// The change itself: it may have to be made again.
    pub(super) candidate: Candidate,
}

impl Search<'_> {
    /// What passes made, in order.
    pub(super) fn made(&self) -> impl DoubleEndedIterator<Item = &Made> {
        self.steps.iter().filter_map(|step| step.made.as_ref())
    }

    /// All steps so far are worth keeping.
    pub(super) fn pay(&mut self) {
        self.paid = self.steps.len();
        self.paid_state = self.said.state();
        self.paid_estimate = self.now.clone();
    }

    /// Takes back all steps but the first `count`.
    pub(super) fn roll_back(&mut self, count: usize) {
        let before = self.made().count();
        while self.steps.len() > count {
            if let Some(step) = self.steps.pop() {
                step.undo.revert(self.module);
                self.said.step_back(step.before);
                self.tried.retain(|tried| tried.state <= step.before);
                if let Some(made) = step.made {
                    self.statistics.passes[made.pass].put_back += 1;
                }
            }
        }
        self.origins.truncate(self.module.instruction_count());
        let kept = self.made().count();
        if kept < before {
            self.observer.undone(kept);
        }
    }
}
