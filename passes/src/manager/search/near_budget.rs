//! What is kept of a search that misses its budget by no more than the error margin of the model.
//!
//! The lowest end may take any time. Of the states on the way that fit the budget if the model is right, the one with the fewest bytes times seconds is kept; the error
//! margin is reported, and a compiler can judge it.

// Tests: `passes/tests/budget.rs`.

use super::super::RunError;
use super::replay::Recording;
use super::restarts::Checkpoint;
use super::{Freedom, Search};

/// A state that fits if the model is right.
pub(super) struct NearBudget {
    bytes_times_seconds: f64,
    recording: Recording,
}

impl Search<'_> {
    /// Remembers the module as it is now, if it fits the budget but for the error margin, and better than what was remembered before.
    pub(super) fn note_near_budget(&mut self) {
        let likely = self.now.likely();
        let is_near = self.options.budget.is_some_and(|budget| likely <= budget) && !self.fits();
        let Some(seconds) = self.time().filter(|_| is_near) else { return };
        let bytes_times_seconds = likely.get() as f64 * seconds;
        if self.near_budget.as_ref().is_none_or(|before| bytes_times_seconds < before.bytes_times_seconds) {
            self.near_budget = Some(NearBudget { bytes_times_seconds, recording: self.recorded() });
        }
    }

    /// Goes to what was remembered, if anything was; `false` if not.
    pub(super) fn end_near_budget(&mut self, start: &Checkpoint) -> Result<bool, RunError> {
        let Some(NearBudget { recording, .. }) = self.near_budget.take() else { return Ok(false) };
        self.restore_end(start, &recording)?;
        self.allow(Freedom::full(self.options, false));
        self.clean_up()?;
        while self.speed_up()? {}
        Ok(true)
    }
}
