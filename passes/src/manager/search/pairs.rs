//! Pairs of rewrites that save memory only together: each frees buffers at one of two moments of equal need, and the peak stays at the other moment.
//!
//! The same holds for many: where each layer of a model holds as much as the peak, the peak falls once all of them are rewritten.
//!
//! (The standard deviation of segments needs two loops: the mean reads copied indices, and so does the sum of squares.)

use std::cmp::Reverse;

use hlo_memory::Bytes;

use super::super::RunError;
use super::super::trial_record::Trial;
use super::equal_rewrites::are_alike;
use super::{Candidate, Search};
use crate::bounds;
use crate::objective::{MATTERS, NEGLIGIBLE};
use crate::{Outcome, PassKind};

impl Search<'_> {
    /// If no rewrite lowers the peak by itself: makes one of those that are expected to save most, and returns one that lowers the peak after it. The module is left as it is
    /// if there are none.
    pub(super) fn best_of_two(&mut self) -> Result<Option<Candidate>, RunError> {
        if !self.is_small() || !super::restarts::is_far_above_floor(&self.now) {
            return Ok(None);
        }
        let (taken, estimate) = (self.steps.len(), self.now.clone());
        for first in self.first_of_two() {
            if self.take(first)?
                && let Some((score, second)) = self.best(&[])?
                && score.total + self.min_step_saving().max(Bytes(1)) <= self.committed_estimate.total_with_scratch()
            {
                return Ok(Some(second));
            }
            self.roll_back(taken);
            self.now = estimate.clone();
        }
        Ok(None)
    }

    /// Where no rewrite helps by itself: makes one of those that are expected to save most together with [those like it](super::equal_rewrites), all but the last, which it
    /// returns. The module is left as it is if they do not help together.
    pub(super) fn best_of_equal_rewrites(&mut self) -> Option<Candidate> {
        if !super::restarts::is_far_above_floor(&self.now) {
            return None;
        }
        let (taken, estimate) = (self.steps.len(), self.now.clone());
        for all in self.groups_of_equal_rewrites() {
            self.make_unmeasured(all, taken);
            if self.steps.len() > taken + 1 && self.lowers_the_peak() {
                let last = self.steps.last().map(|step| step.made.candidate.clone());
                self.roll_back(self.steps.len() - 1);
                return last;
            }
            self.roll_back(taken);
            self.now = estimate.clone();
        }
        None
    }

    /// Whether the module as it is now needs less than after the last committed step.
    fn lowers_the_peak(&mut self) -> bool {
        if self.trials_left == 0 {
            self.limited = true;
            return false;
        }
        self.trials_left -= 1;
        let estimate = self.measure();
        let least = self.min_step_saving().max(Bytes(1));
        estimate.is_ok_and(|now| {
            now.total_with_scratch() + least <= self.committed_estimate.total_with_scratch() && !self.rises(&now)
        })
    }

    /// Groups of equal rewrites, sorted by the bytes that each group is expected to save, without groups that would save too little.
    fn groups_of_equal_rewrites(&mut self) -> Vec<Vec<Candidate>> {
        let mut groups: Vec<Vec<Candidate>> = Vec::new();
        for candidate in self.gather(PassKind::Rewrite) {
            match groups.iter_mut().find(|group| are_alike(&group[0], &candidate)) {
                Some(group) => group.push(candidate),
                None => groups.push(vec![candidate]),
            }
        }
        let wasted =
            |group: &[Candidate]| group.iter().map(|one| one.finding.wasted.get()).fold(0, u64::saturating_add);
        let least = self.now.total_with_scratch().get() / MATTERS;
        groups.retain(|group| group.len() > 1 && wasted(group) >= least);
        groups.sort_by_key(|group| Reverse(wasted(group)));
        groups.truncate(bounds::ALTERNATIVES);
        groups
    }

    /// Rewrites that did not lower the total when they were tried, and hardly raised it.
    fn first_of_two(&mut self) -> Vec<Candidate> {
        let mut first = self.gather(PassKind::Rewrite);
        let now = self.now.total_with_scratch();
        let harmless = |candidate: &Candidate| match self.trial(candidate) {
            Some(Trial::Total(total)) => *total <= now + Bytes(now.get() / NEGLIGIBLE),
            _ => false,
        };
        let is_first = |candidate: &Candidate| {
            let rewrites = matches!(candidate.finding.outcome, Outcome::Rewrite { .. });
            rewrites && candidate.finding.wasted.get() >= now.get() / MATTERS && harmless(candidate)
        };
        first.retain(is_first);
        first.sort_by_key(|candidate| Reverse(candidate.finding.wasted));
        first.truncate(bounds::ALTERNATIVES);
        first
    }
}
