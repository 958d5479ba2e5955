//! The user's limit on rewrites: what lies behind it is put back.

use super::super::RunError;
use super::{LeftOut, Search};
use crate::PassKind;

impl Search<'_> {
    /// Whether the limit keeps away more than changes for speed, behind which there is nothing to find.
    pub(in super::super) fn is_cut_short(&self) -> bool {
        self.left_out.iter().any(|left| left.rewrite.kind != PassKind::Speed)
    }
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
            self.roll_back(limit);
            self.now = self.measure()?;
            self.commit();
        }
        Ok(())
    }
}
