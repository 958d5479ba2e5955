//! What is done to the result once the search has ended.

use hlo_memory::Target;

use super::Search;
use crate::columns;
use crate::manager::RunError;

impl Search<'_> {
    /// Lets the loops that were made run faster, if that takes no memory; the input's own instructions stay as they are.
    pub(super) fn polish(&mut self) -> Result<(), RunError> {
        if self.steps.is_empty() || self.options.target != Target::Cpu {
            return Ok(());
        }
        let origins = &self.origins;
        let patch = columns::patch(self.module, |id| origins.is_new(id));
        if patch.is_empty() {
            return Ok(());
        }
        let broken = |message: String| RunError::Broken { pass: "columns", message };
        let undo = patch.apply(self.module).map_err(|error| broken(error.to_string()))?;
        let violation = hlo_ir::verify::verify(self.module).into_iter().next();
        let (module, estimator) = (&*self.module, self.estimator);
        let estimate = self.statistics.estimates.measure(|| estimator.estimate(module));
        match (violation, estimate) {
            (None, Ok(estimate)) if estimate.charged() <= self.now.charged() => {
                self.now = estimate;
                self.observer.polished(self.steps.len() + 1, self.module);
            }
            (None, Ok(_)) => undo.revert(self.module),
            (violation, estimate) => {
                undo.revert(self.module);
                estimate?;
                return Err(broken(violation.map_or_else(String::new, |violation| violation.message)));
            }
        }
        Ok(())
    }
}
