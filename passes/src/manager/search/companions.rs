//! Changes that accompany an enabling change: behind some inlined calls, a rewrite is found only once a second change has altered the form of what was inlined.

use hlo_ir::edit::Patch;
use hlo_memory::Bytes;

use super::super::RunError;
use super::{Candidate, Score, Search};
use crate::PassKind;

impl Search<'_> {
    /// After an enabling change behind which `found` is the best rewrite: makes those that [accompany](crate::Pass::accompanies) others as
    /// well, each where a better rewrite is then found, and returns the last of those. Otherwise the module is left as it is.
    pub(super) fn with_companions(
        &mut self,
        mut found: Option<(Score, Candidate)>,
        measured: &[(usize, Patch)],
    ) -> Result<Option<(Score, Candidate)>, RunError> {
        let passes: Vec<usize> = (0..self.passes.len()).filter(|&pass| self.passes[pass].accompanies()).collect();
        for pass in passes {
            let changes = self.gather(PassKind::Enabling);
            if let Some(change) = changes.into_iter().find(|change| change.pass == pass) {
                found = self.with_companion(change, found, measured)?;
            }
        }
        Ok(found)
    }

    /// The same for one such change.
    fn with_companion(
        &mut self,
        change: Candidate,
        found: Option<(Score, Candidate)>,
        measured: &[(usize, Patch)],
    ) -> Result<Option<(Score, Candidate)>, RunError> {
        let (taken, estimate) = (self.steps.len(), self.now.clone());
        if !self.take(change)? {
            return Ok(found);
        }
        let least = self.min_step_saving().max(Bytes(1));
        let better = self.best(measured)?;
        let gains =
            |(score, _): &(Score, Candidate)| found.as_ref().is_none_or(|(plain, _)| score.beats(*plain, least));
        if better.as_ref().is_some_and(gains) {
            return Ok(better);
        }
        self.roll_back(taken);
        self.now = estimate;
        Ok(found)
    }
}
