//! Two rewrites that save something only together: each lets go of what stands at the peak, and the peak is then where the other one's values stand.
//!
//! (The standard deviation of segments needs two loops: the mean reads copied indices, and so does the sum of squares.)

use std::cmp::Reverse;

use hlo_memory::Bytes;

use super::super::RunError;
use super::super::remarks::Trial;
use super::{Candidate, RISE, Search};
use crate::{Outcome, PassKind};

/// First steps that are tried.
const MOST_FIRST: usize = 2;
/// What a first step must reckon to save, as a part of the total.
const GAIN: u64 = 20;

impl Search<'_> {
    /// Where no rewrite helps by itself: makes one of those that reckon to save most, and returns one that helps behind it. The module is left as it is
    /// if there are none.
    pub(super) fn best_of_two(&mut self) -> Result<Option<Candidate>, RunError> {
        if !self.is_small() || !super::again::is_far(&self.now) {
            return Ok(None);
        }
        let (taken, estimate) = (self.steps.len(), self.now.clone());
        for first in self.first_of_two() {
            if self.take(first)?
                && let Some((score, second)) = self.best(&[])?
                && score.total + self.least().max(Bytes(1)) <= self.paid_estimate.charged()
            {
                return Ok(Some(second));
            }
            self.roll_back(taken);
            self.now = estimate.clone();
        }
        Ok(None)
    }

    /// Rewrites that were tried and did not help, but hardly harm.
    fn first_of_two(&mut self) -> Vec<Candidate> {
        let mut first = self.gather(PassKind::Rewrite);
        let now = self.now.charged();
        let harmless = |candidate: &Candidate| match self.trial(candidate) {
            Some(Trial::Total(total)) => *total <= now + Bytes(now.get() / RISE),
            _ => false,
        };
        let is_first = |candidate: &Candidate| {
            let rewrites = matches!(candidate.finding.outcome, Outcome::Rewrite { .. });
            rewrites && candidate.finding.wasted.get() >= now.get() / GAIN && harmless(candidate)
        };
        first.retain(is_first);
        first.sort_by_key(|candidate| Reverse(candidate.finding.wasted));
        first.truncate(MOST_FIRST);
        first
    }
}
