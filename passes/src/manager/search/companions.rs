//! A second look behind an enabling change: some of what calls hide can be used only in another form.

use hlo_ir::edit::Patch;
use hlo_memory::Bytes;

use super::super::RunError;
use super::{Candidate, Score, Search};
use crate::PassKind;

impl Search<'_> {
    /// After an enabling change behind which `found` is the best rewrite: makes one that [accompanies](crate::Pass::accompanies) others as
    /// well, where a better rewrite is then found, and returns the latter. Otherwise the module is left as it is.
    pub(super) fn with_companion(
        &mut self,
        found: Option<(Score, Candidate)>,
        measured: &[(usize, Patch)],
    ) -> Result<Option<(Score, Candidate)>, RunError> {
        let companion =
            self.gather(PassKind::Enabling).into_iter().find(|change| self.passes[change.pass].accompanies());
        let Some(change) = companion else { return Ok(found) };
        let (taken, estimate) = (self.steps.len(), self.now.clone());
        if !self.take(change)? {
            return Ok(found);
        }
        let least = self.least().max(Bytes(1));
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
