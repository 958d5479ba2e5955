//! What the module needs as it is now.

use hlo_memory::{Estimate, EstimateError};

use super::Search;

impl Search<'_> {
    /// Estimates the module. Figures of one device and of all devices together do not compare: there are none of a form whose division among the devices is
    /// known where that of the input is not, or the other way round.
    pub(super) fn measure(&mut self) -> Result<Estimate, EstimateError> {
        let found = self.statistics.estimates.measure(|| self.estimator.estimate(self.module))?;
        if found.of_all_devices == self.before.of_all_devices { Ok(found) } else { Err(EstimateError::OtherDevices) }
    }
}
