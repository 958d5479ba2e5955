//! The user's limit on rewrites: what lies behind it is put back.

use super::super::RunError;
use super::{LeftOut, Search};

impl Search<'_> {
    /// Puts back what lies behind the user's limit on rewrites.
    pub(super) fn obey_limit(&mut self) -> Result<(), RunError> {
        let limit = self.options.bisect_limit.unwrap_or(usize::MAX);
        let behind = self.steps.iter().enumerate().skip(limit);
        self.left_out = behind
            .map(|(index, step)| LeftOut {
                number: index + 1,
                rewrite: step.rewrite.clone(),
                origin: self.origins.of(step.instruction),
            })
            .collect();
        if !self.left_out.is_empty() {
            self.roll_back(limit);
            self.now = self.statistics.estimates.measure(|| self.estimator.estimate(self.module))?;
        }
        Ok(())
    }
}
