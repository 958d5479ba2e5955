//! Estimates of the module in its present state, counted and timed for the statistics of the run.

use std::time::Instant;

use hlo_memory::{EstimateError, Estimator as _};

use super::super::memoized::Answer;
use super::Search;

impl Search<'_> {
    /// Estimates the module.
    pub(super) fn measure(&mut self) -> Answer {
        self.judged(|search| search.estimator.estimate(search.module))
    }

    /// What an estimator says, counted, if it [can be compared](Self::comparable).
    pub(super) fn judged(&mut self, answer: impl FnOnce(&Self) -> Answer) -> Answer {
        let start = Instant::now();
        let found = answer(self);
        self.statistics.estimates.count += 1;
        self.statistics.estimates.time += start.elapsed();
        self.comparable(found)
    }

    /// An answer that can be compared. Figures of one device and of all devices together do not compare: there are none of a form whose division among the devices is
    /// known where that of the input is not, or the other way round.
    pub(super) fn comparable(&self, found: Answer) -> Answer {
        found.and_then(|found| {
            let compares = found.of_all_devices == self.before.of_all_devices;
            if compares { Ok(found) } else { Err(EstimateError::OtherDevices) }
        })
    }
}
