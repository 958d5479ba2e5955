//! Passes of kind `speed`, which run once the search has found nothing more to save.

use hlo_memory::{Bytes, Estimate};

use super::steps::Made;
use super::{Candidate, Search, Step, allowed};
use crate::manager::trial;
use crate::manager::{Remark, RunError};
use crate::{Grade, Outcome, PassKind};

/// What changes for speed may take of what was saved, as a divisor: a small part of what loops save makes up for most of the time that they cost
/// (docs/measured/log.md, "Figures behind constants").
const SHARE_OF_SAVING: u64 = 3;

/// How far the changes for speed are.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Stage {
    /// The search may go on behind each of them.
    Open,
    /// The search continued after a change without finding more, and the change was undone for the search.
    GaveUp,
    /// The search is over.
    Settled,
}

impl Search<'_> {
    /// Lets what was made run faster, if that takes no memory worth the name; the input's own instructions stay as they are.
    ///
    /// Whether the search went on behind a change, and has to end anew; the changes that were not made yet are then still to be made.
    pub(super) fn speed_up(&mut self) -> Result<bool, RunError> {
        if self.stage != Stage::Settled {
            self.stage = Stage::Open;
        }
        if self.steps.is_empty() {
            return Ok(false);
        }
        for pass in 0..self.passes.len() {
            if self.passes[pass].kind() == PassKind::Speed && self.speed_up_by(pass)? {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Where a limit took rewrites away, and with them the changes behind all of them: makes those again that only a compiler sees, which is to judge what is left.
    pub(super) fn make_unseen_changes(&mut self) -> Result<(), RunError> {
        if self.left_out.is_empty() || self.steps.is_empty() {
            return Ok(());
        }
        self.stage = Stage::Settled;
        for pass in 0..self.passes.len() {
            if self.passes[pass].is_unseen() {
                self.speed_up_by(pass)?;
            }
        }
        Ok(())
    }

    /// The changes of one pass, at most one of each grade; what keeps every bit comes first. Whether the search went on behind one.
    fn speed_up_by(&mut self, pass: usize) -> Result<bool, RunError> {
        let mut found = self.ask(|index, _| index == pass);
        let mut tried: Vec<Grade> = Vec::new();
        while let Some(candidate) = self.next_for_speed(&found, &tried) {
            tried.push(candidate.finding.grade);
            let steps = self.steps.len();
            if self.spend(candidate)? {
                return Ok(true);
            }
            if self.steps.len() > steps {
                found = self.ask(|index, _| index == pass);
            }
        }
        Ok(false)
    }

    /// The first of these changes that is allowed and of a grade that was not tried yet.
    fn next_for_speed(&self, found: &[Candidate], tried: &[Grade]) -> Option<Candidate> {
        let is_next = |candidate: &&Candidate| {
            let grade = candidate.finding.grade;
            candidate.patch().is_some() && allowed(grade, &self.pass_options) && !tried.contains(&grade)
        };
        found.iter().find(is_next).cloned()
    }

    /// Makes one change if the result needs little more, and searches on behind it: a second run must find nothing. The change is put back
    /// where the search goes on and does not lead below what was needed without it. Whether the search went on.
    fn spend(&mut self, candidate: Candidate) -> Result<bool, RunError> {
        let start = self.checkpoint();
        let most = most(
            self.before.total_with_scratch(),
            self.now.total_with_scratch(),
            self.passes[candidate.pass].share_of_peak(),
        );
        let is_cheap =
            |search: &Self, estimate: &Estimate| estimate.total_with_scratch() <= most && !search.rises(estimate);
        if !self.take_if(candidate, is_cheap)? {
            return Ok(false);
        }
        let faster = self.steps.len();
        if !self.fits() && self.stage != Stage::Settled && self.is_small() {
            self.descend_repeatedly()?;
        }
        let went_on = self.steps.len() > faster;
        let without_gain = went_on
            && self.now.total_with_scratch() + self.min_step_saving().max(Bytes(1)) > start.total_with_scratch();
        // What a change takes may miss a budget; what the search finds behind it may meet it all the same.
        if without_gain
            || overruns(self.options.peak(&self.now), self.options.peak(start.estimate()), self.options.goal())
        {
            if without_gain {
                self.stage = Stage::GaveUp;
            }
            self.restore(&start);
            return Ok(false);
        }
        Ok(went_on)
    }

    /// Makes a change for speed that was undone because the search continued after it without finding more: the search is over now.
    pub(super) fn settle_speed(&mut self) -> Result<(), RunError> {
        if std::mem::replace(&mut self.stage, Stage::Settled) == Stage::GaveUp {
            let kept = self.steps_before_speed();
            self.roll_back(kept);
            self.now = self.measure()?;
            self.commit();
            self.speed_up()?;
        }
        Ok(())
    }

    /// What is to be said of the end. What passes would say of loops in their faster form is about that form, not about the program: the changes for
    /// speed that were made last are not there while they are asked.
    pub(super) fn said_without_speed(
        &mut self,
        say: impl FnOnce(&mut Self) -> Result<Vec<Remark>, RunError>,
    ) -> Result<Vec<Remark>, RunError> {
        let kept = self.steps_before_speed();
        if kept == self.steps.len() {
            return say(self);
        }
        let faster = self.now.clone();
        let aside = self.set_aside(kept);
        self.now = self.measure()?;
        self.commit();
        let said = say(self)?;
        self.put_back(aside.into_iter().map(|step| step.made))?;
        self.now = faster;
        self.commit();
        Ok(said)
    }

    /// How many steps there are without the changes for speed behind the last other one.
    fn steps_before_speed(&self) -> usize {
        let is_other = |step: &Step| self.passes[step.made.pass].kind() != PassKind::Speed;
        self.steps.iter().rposition(is_other).map_or(0, |last| last + 1)
    }

    /// Undoes all steps but the first `kept`, without telling the observer: they will be made again.
    fn set_aside(&mut self, kept: usize) -> Vec<Step> {
        let aside = self.steps.split_off(kept);
        for step in aside.iter().rev() {
            step.undo.clone().revert(self.module);
            self.findings.step_back(step.before);
        }
        let state = self.findings.state();
        self.tried.retain(|tried| tried.state <= state);
        self.origins.truncate(self.module.instruction_count());
        aside
    }

    /// Makes changes again that were made once behind the same steps.
    pub(super) fn put_back(&mut self, changes: impl IntoIterator<Item = Made>) -> Result<(), RunError> {
        for made in changes {
            let claim = self.claim(&made.candidate);
            if let Outcome::Rewrite { patch, .. } = &made.candidate.finding.outcome {
                let undo = trial::apply(self.module, claim, patch.clone(), self.options, self.estimator)?;
                self.origins.extend(patch, claim.instruction, made.rewrite.grade.is_inexact());
                let before = self.findings.step();
                self.steps.push(Step { undo, before, made });
            }
        }
        Ok(())
    }
}

/// What the result may need when changes for speed may take a part of the peak.
fn most(before: Bytes, now: Bytes, share: Option<u64>) -> Bytes {
    let Some(share) = share else { return now };
    let saved = before.get().saturating_sub(now.get());
    now + Bytes((now.get() / share).min(saved / SHARE_OF_SAVING))
}

/// Whether XLA's figure misses a budget that it met, or one that it missed by more than before.
fn overruns(total: Bytes, now: Bytes, budget: Option<Bytes>) -> bool {
    budget.is_some_and(|budget| total > budget.max(now))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_may_take_little_of_the_peak_and_of_the_saving() {
        let most = |before, now| most(Bytes(before), Bytes(now), Some(100)).get();
        assert_eq!(most(9_000, 1_000), 1_010, "a hundredth of the peak");
        assert_eq!(most(1_015, 1_000), 1_005, "a third of the saving");
        assert_eq!(super::most(Bytes(9_000), Bytes(1_000), None), Bytes(1_000), "nothing");
    }

    #[test]
    fn budgets_are_kept() {
        let overruns = |total, now, budget: Option<u64>| overruns(Bytes(total), Bytes(now), budget.map(Bytes));
        assert!(!overruns(9_000, 1_000, None));
        assert!(!overruns(1_004, 1_000, Some(1_004)), "what the budget leaves");
        assert!(overruns(1_005, 1_000, Some(1_004)));
        assert!(overruns(1_001, 1_000, Some(500)), "nothing where the budget is missed anyway");
        assert!(!overruns(1_000, 1_000, Some(500)));
    }
}
