//! Equal rewrites of one pass at several places, such as the layers of a model, are made in one step. A new search after each of them would take time that grows with
//! the square of the number of layers.

use hlo_ir::InstructionId;
use hlo_ir::arena::SideTable;
use hlo_ir::edit::Patch;
use hlo_memory::{Bytes, Estimate};

use super::super::RunError;
use super::super::trial;
use super::steps::{Made, Step};
use super::trial_cache::label;
use super::{Candidate, Search};
use crate::bounds;
use crate::{Grade, Outcome, PassKind};

impl Search<'_> {
    /// Makes `first` and, if the total falls, those like it as well: those that its pass found beside it, of the same bytes, for which the same is to be done, at
    /// places that none of the others changes. They stay if they lower the peak further. `false`, and nothing changed, if there is no estimate of the first.
    pub(super) fn take_with_equal_rewrites(&mut self, first: Candidate) -> Result<bool, RunError> {
        let beside = self.findings.recall(PassKind::Rewrite).unwrap_or_default();
        let maker = first.pass;
        let equal: Vec<Candidate> = beside.into_iter().filter(|other| are_alike(&first, other)).collect();
        if !self.take(first)? {
            return Ok(false);
        }
        let commits = self.committed == self.steps.len();
        // A budget may be met by some of them.
        if commits && !equal.is_empty() && self.options.budget.is_none() {
            self.take_equal_rewrites(equal, maker);
        }
        Ok(true)
    }

    /// Makes all of these that can still be made, all of one pass, and estimates the result once.
    fn take_equal_rewrites(&mut self, equal: Vec<Candidate>, maker: usize) {
        let (start, now) = (self.steps.len(), self.now.clone());
        self.make_unmeasured(equal, start - 1);
        if self.steps.len() == start {
            return;
        }
        let lowers = |search: &Self, estimate: &Estimate| {
            estimate.total_with_scratch() + search.min_step_saving() < now.total_with_scratch()
                && !search.rises(estimate)
        };
        match self.measure() {
            Ok(estimate) if lowers(self, &estimate) && self.slowdown_by(maker).is_none() => {
                self.share(now.total_with_scratch() - estimate.total_with_scratch(), start);
                self.now = estimate;
                self.commit();
            }
            _ => {
                self.roll_back(start);
                self.now = now;
            }
        }
    }

    /// Makes those of these changes, all found when there were `found` steps, that leave alone what later steps changed.
    pub(super) fn make_unmeasured(&mut self, candidates: Vec<Candidate>, found: usize) {
        let mut changed = SideTable::new(false);
        let mut seen = found;
        for candidate in candidates {
            for step in &self.steps[seen..] {
                step.undo.changed().for_each(|id| changed.set(id, true));
            }
            seen = self.steps.len();
            if seen < bounds::STEPS {
                self.make_one_unmeasured(candidate, &changed);
            }
        }
    }

    /// Makes one change that was found before others, which overwrote the instructions `changed`, if they left its place alone.
    fn make_one_unmeasured(&mut self, candidate: Candidate, changed: &SideTable<InstructionId, bool>) {
        let Some(patch) = candidate.patch().and_then(|patch| patch.rebased(self.module, changed)) else {
            return;
        };
        let claim = self.claim(&candidate);
        let (rewrite, grade) = (self.rewrite_of(&candidate, claim), candidate.finding.grade);
        let origins = patch.clone();
        let again = with_patch(candidate, patch.clone());
        // Each of two changes may be fine and both together not: two loops that read each other's results. The module is as it was then.
        let Ok(undo) = trial::apply(self.module, claim, patch, self.options, self.estimator) else { return };
        self.origins.extend(&origins, claim.instruction, grade.is_inexact());
        self.statistics.passes[again.pass].made += 1;
        self.observer.applied(self.steps.len() + 1, &rewrite, self.module);
        let before = self.findings.step();
        let made = Made { rewrite, pass: again.pass, instruction: claim.instruction, candidate: again };
        self.steps.push(Step { undo, before, made });
    }

    /// Each of the steps from `start` on saves the same part of what all of them do.
    fn share(&mut self, saved: Bytes, start: usize) {
        let count = (self.steps.len() - start) as u64;
        for (index, step) in self.steps[start..].iter_mut().enumerate() {
            step.made.rewrite.saved = Bytes(saved.get() / count + u64::from((index as u64) < saved.get() % count));
        }
    }
}

fn with_patch(mut candidate: Candidate, moved: Patch) -> Candidate {
    if let Outcome::Rewrite { patch, .. } = &mut candidate.finding.outcome {
        *patch = moved;
    }
    candidate
}

/// What tells changes apart, wherever they are made: the pass, the grade, the bytes and what is done.
pub(super) fn kind(candidate: &Candidate) -> (usize, Grade, Bytes, &str) {
    let finding = &candidate.finding;
    (candidate.pass, finding.grade, finding.wasted, label(&finding.outcome))
}

/// Whether the same is done at another place.
pub(super) fn are_alike(one: &Candidate, other: &Candidate) -> bool {
    let is_elsewhere = one.finding.instruction != other.finding.instruction;
    is_elsewhere && other.patch().is_some() && kind(one) == kind(other)
}
