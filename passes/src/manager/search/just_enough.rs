//! Does no more of a rewrite than a budget asks for.
//!
//! A pass that computes layers again offers to do so in all of them, because what is missing to a budget and what it accounts for are not the same. Where the last
//! rewrite of a search meets the budget, fewer layers may meet it too, in less time. Of each way that the pass offers the least part that fits is found by bisection,
//! and of those the one that takes least time is made.

// Tests: `passes/tests/budget.rs`.

use super::super::RunError;
use super::restarts::Checkpoint;
use super::{Candidate, Search};
use crate::PassKind;
use crate::objective::NEGLIGIBLE;

/// A part that fits, and the seconds that the program takes with it.
struct Part {
    seconds: f64,
    candidate: Candidate,
}

impl Search<'_> {
    /// Makes the part of the last rewrite since `start` that meets a budget in least time.
    pub(super) fn keep_just_enough(&mut self, start: &Checkpoint) -> Result<(), RunError> {
        let is_asked = self.asks_for_time() && self.fits() && self.steps.len() > start.step_count();
        let last = self.made().last().filter(|made| is_asked && made.rewrite.kind == PassKind::Rewrite);
        let Some(pass) = last.map(|made| made.pass) else { return Ok(()) };
        let Some((now, input)) = self.estimator.seconds(self.module).zip(self.seconds_before) else { return Ok(()) };
        let end = self.recorded();
        self.roll_back(self.steps.len() - 1);
        let mut least: Option<Part> = None;
        if let Ok(before) = self.measure() {
            self.now = before;
            self.commit();
            let most = now - input / NEGLIGIBLE as f64;
            for parts in self.parts(pass) {
                let most = least.as_ref().map_or(most, |least| least.seconds);
                least = self.least_part(parts, most)?.or(least);
            }
        }
        let made = match least {
            Some(least) => self.take(least.candidate)?,
            None => false,
        };
        if made { Ok(()) } else { self.restore_end(start, &end) }
    }

    /// The least of these parts that meets the budget, if the program takes less than so many seconds then.
    fn least_part(&mut self, mut parts: Vec<Candidate>, most: f64) -> Result<Option<Part>, RunError> {
        let Some(mut enough) = parts.len().checked_sub(1) else { return Ok(None) };
        if !self.fits_with(&parts[enough])? {
            return Ok(None);
        }
        let mut from = 0;
        while from < enough {
            let middle = usize::midpoint(from, enough);
            if self.fits_with(&parts[middle])? {
                enough = middle;
            } else if self.seconds_with(&parts[middle])?.is_none_or(|seconds| seconds >= most) {
                // What does more takes longer.
                return Ok(None);
            } else {
                from = middle + 1;
            }
        }
        let seconds = self.seconds_with(&parts[enough])?.filter(|seconds| *seconds < most);
        Ok(seconds.map(|seconds| Part { seconds, candidate: parts.swap_remove(enough) }))
    }

    fn fits_with(&mut self, candidate: &Candidate) -> Result<bool, RunError> {
        Ok(self.try_out(candidate, None)?.is_some_and(|estimate| self.fits_in(&estimate)))
    }

    /// Seconds of a run with a candidate made.
    fn seconds_with(&mut self, candidate: &Candidate) -> Result<Option<f64>, RunError> {
        Ok(self.behind(candidate, |search| search.estimator.seconds(search.module))?.flatten())
    }
}
