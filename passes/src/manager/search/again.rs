//! A second descent: where the best first step leads to a poor end, the search is run again from the next best one.
//!
//! Of two loops that let the same values disappear, the one that saves more at once can keep the other from being made. What each of them leads to
//! shows only at the end.

use hlo_memory::{Bytes, Estimate};

use super::super::RunError;
use super::{Candidate, Search, Step};

/// Modules of more instructions are searched once.
const MOST_INSTRUCTIONS: usize = 2000;

/// Where a descent began.
struct Mark {
    steps: usize,
    paid: usize,
    paid_state: u64,
    now: Estimate,
    paid_estimate: Estimate,
}

impl Search<'_> {
    /// Descends, and once more from another first step if memory far above the floor is left; the better end stays.
    pub(super) fn descend_twice(&mut self) -> Result<(), RunError> {
        let (now, paid_estimate) = (self.now.clone(), self.paid_estimate.clone());
        let (steps, paid, paid_state) = (self.steps.len(), self.paid, self.paid_state);
        let start = Mark { steps, paid, paid_state, now, paid_estimate };
        self.first = self.is_small();
        self.descend()?;
        let Some(other) = self.second.take().filter(|_| !self.fits() && is_far(&self.now)) else { return Ok(()) };
        let (end, steps) = (self.now.clone(), self.made_since(&start));
        self.back_to(&start);
        if self.take(other)? {
            self.descend()?;
        }
        let least = self.least().max(Bytes(end.charged().get() / 20)).max(Bytes(1));
        if self.now.charged() + least <= end.charged() {
            return Ok(());
        }
        self.back_to(&start);
        for step in steps {
            self.take(step)?;
        }
        self.roll_back(self.paid);
        self.now = self.paid_estimate.clone();
        Ok(())
    }

    /// Whether changes are kept to be made again.
    pub(super) const fn is_small(&self) -> bool {
        self.statistics.instructions.0 <= MOST_INSTRUCTIONS
    }

    /// The changes made since, in order.
    fn made_since(&self, start: &Mark) -> Vec<Candidate> {
        self.steps[start.steps..].iter().filter_map(|step: &Step| step.candidate.clone()).collect()
    }

    fn back_to(&mut self, start: &Mark) {
        self.roll_back(start.steps);
        self.paid = start.paid;
        self.paid_state = start.paid_state;
        self.now = start.now.clone();
        self.paid_estimate = start.paid_estimate.clone();
    }
}

/// Whether more than a tenth is left to win.
fn is_far(estimate: &Estimate) -> bool {
    estimate.charged() > estimate.floor + Bytes(estimate.floor.get() / 10)
}
