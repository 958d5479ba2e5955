//! What is kept of a search that misses its budget by no more than the error margin of the model.
//!
//! The lowest end may take any time. Of the states that fit the budget if the model is right, and need no more than the end without a budget, the one with the fewest
//! bytes times seconds is kept; the error margin is reported, and a compiler can judge it.

// Tests: `passes/tests/budget.rs`.

use hlo_memory::Bytes;

use super::super::RunError;
use super::replay::Recording;
use super::restarts::Checkpoint;
use super::{Freedom, Search};

/// The best state so far that fits if the model is right.
#[derive(Default)]
pub(super) struct NearBudget {
    /// What the end without a budget needs, once that is known.
    most: Option<Bytes>,
    /// Its bytes times seconds, and the way to it.
    best: Option<(f64, Recording)>,
}

impl Search<'_> {
    /// Begins with the module as it is now, which is the end without a budget: nothing that needs more is remembered.
    pub(super) fn begin_near_budget(&mut self) {
        self.near_budget = NearBudget { most: Some(self.now.total), best: None };
        self.note_near_budget();
    }

    /// Remembers the module as it is now, if it fits the budget but for the error margin, and better than what was remembered before.
    pub(super) fn note_near_budget(&mut self) {
        let likely = self.now.likely();
        let is_near = self.options.budget.is_some_and(|budget| likely <= budget) && !self.fits();
        let is_low = self.near_budget.most.is_some_and(|most| self.now.total <= most);
        let Some(seconds) = self.time().filter(|_| is_near && is_low) else { return };
        let bytes_times_seconds = likely.get() as f64 * seconds;
        if self.near_budget.best.as_ref().is_none_or(|(least, _)| bytes_times_seconds < *least) {
            self.near_budget.best = Some((bytes_times_seconds, self.recorded()));
        }
    }

    /// Goes to what was remembered, if anything was; `false` if not.
    pub(super) fn end_near_budget(&mut self, start: &Checkpoint) -> Result<bool, RunError> {
        let Some((_, recording)) = self.near_budget.best.take() else { return Ok(false) };
        self.restore_end(start, &recording)?;
        self.allow(Freedom::full(self.options, false));
        self.clean_up()?;
        while self.speed_up()? {}
        Ok(true)
    }
}
