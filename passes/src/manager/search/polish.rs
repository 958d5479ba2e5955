//! What is done to the result once the search has ended.

use hlo_memory::{Bytes, Target};

use super::Search;
use crate::manager::RunError;
use crate::manager::trial::{self, Claim};
use crate::{PassKind, columns};

impl Search<'_> {
    /// Lets the loops that were made run faster, if that takes no memory; the input's own instructions stay as they are.
    pub(super) fn polish(&mut self) -> Result<(), RunError> {
        let Some(last) = self.steps.last().filter(|_| self.options.target == Target::Cpu) else { return Ok(()) };
        let origins = &self.origins;
        let patch = columns::patch(self.module, |id| origins.is_new(id));
        if patch.is_empty() {
            return Ok(());
        }
        let instruction = origins.of(last.instruction);
        let claim = Claim { pass: "columns", kind: PassKind::Enabling, instruction, wasted: Bytes::ZERO };
        let undo = trial::apply(self.module, claim, patch, self.options)?;
        let (module, estimator) = (&*self.module, self.estimator);
        match self.statistics.estimates.measure(|| estimator.estimate(module)) {
            Ok(estimate) if estimate.charged() <= self.now.charged() => {
                self.now = estimate;
                self.observer.polished(self.steps.len() + 1, self.module);
            }
            _ => undo.revert(self.module),
        }
        Ok(())
    }
}
