//! What is done to the result once the search has ended.

use hlo_ir::edit::Patch;
use hlo_memory::{Bytes, Target};

use super::Search;
use crate::PassKind;
use crate::manager::RunError;
use crate::manager::trial::{self, Claim};
use crate::polish::{columns, reads};

/// Blocks read for themselves may take a hundredth of the peak: kernels that are not vectorized take up to four times as long.
const SHARE_OF_PEAK: u64 = 100;
/// And no more than this part of what was saved.
const SHARE_OF_SAVING: u64 = 10;

impl Search<'_> {
    /// Lets the loops that were made run faster, if that takes no memory worth the name; the input's own instructions stay as they are.
    pub(super) fn polish(&mut self) -> Result<(), RunError> {
        if self.steps.is_empty() || self.options.target != Target::Cpu {
            return Ok(());
        }
        let origins = &self.origins;
        let columns = columns::patch(self.module, |id| origins.is_new(id));
        let changed = self.touch("columns", columns, self.now.charged())?;
        let origins = &self.origins;
        let reads = reads::patch(self.module, |id| origins.is_new(id));
        if self.touch("reads", reads, self.most_for_reads())? || changed {
            self.observer.polished(self.steps.len() + 1, self.module);
        }
        Ok(())
    }
    /// What the result may need when blocks are read for themselves.
    fn most_for_reads(&self) -> Bytes {
        let (before, now) = (self.before.charged(), self.now.charged());
        let most = now + Bytes((now.get() / SHARE_OF_PEAK).min((before - now).get() / SHARE_OF_SAVING));
        self.options.budget.map_or(most, |budget| most.min(budget.max(now)))
    }
    /// Makes one change if the result needs no more than `most`; tells whether it was made.
    fn touch(&mut self, name: &'static str, patch: Patch, most: Bytes) -> Result<bool, RunError> {
        let Some(last) = self.steps.last().filter(|_| !patch.is_empty()) else { return Ok(false) };
        let instruction = self.origins.of(last.instruction);
        let claim = Claim { pass: name, kind: PassKind::Enabling, instruction, wasted: Bytes::ZERO };
        let undo = trial::apply(self.module, claim, patch, self.options)?;
        let (module, estimator) = (&*self.module, self.estimator);
        match self.statistics.estimates.measure(|| estimator.estimate(module)) {
            Ok(estimate) if estimate.charged() <= most => {
                self.now = estimate;
                Ok(true)
            }
            _ => {
                undo.revert(self.module);
                Ok(false)
            }
        }
    }
}
