//! The user's limit on rewrites: what lies behind it is put back.

use super::super::RunError;
use super::{LeftOut, Search};

impl Search<'_> {
    /// Puts back what lies behind the user's limit on rewrites.
    pub(super) fn obey_limit(&mut self) -> Result<(), RunError> {
        let limit = self.options.bisect_limit.unwrap_or(usize::MAX);
        let behind = self.made().enumerate().skip(limit);
        self.left_out = behind
            .map(|(index, made)| LeftOut {
                number: index + 1,
                rewrite: made.rewrite.clone(),
                origin: self.origins.of(made.instruction),
            })
            .collect();
        if !self.left_out.is_empty() {
            let made_by_passes = self.steps.iter().enumerate().filter(|(_, step)| step.made.is_some());
            let first = made_by_passes.map(|(index, _)| index).nth(limit);
            self.roll_back(first.unwrap_or(self.steps.len()));
            self.now = self.statistics.estimates.measure(|| self.estimator.estimate(self.module))?;
        }
        Ok(())
    }
}
