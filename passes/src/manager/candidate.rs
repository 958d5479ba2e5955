//! Candidates of the search: findings, each with the pass that made it, and the check that the options allow their grade.

use hlo_ir::edit::Patch;

use crate::{Finding, Grade, Options, Outcome};

/// A finding with the pass that made it, by index.
#[derive(Clone, Debug)]
pub(super) struct Candidate {
    pub(super) pass: usize,
    pub(super) finding: Finding,
}

impl Candidate {
    /// The change that it makes, if it is a rewrite.
    pub(super) const fn patch(&self) -> Option<&Patch> {
        match &self.finding.outcome {
            Outcome::Rewrite { patch, .. } => Some(patch),
            Outcome::Withheld { .. } | Outcome::Missed(_) => None,
        }
    }
}

/// Whether the options allow results that are equal only to this grade.
pub(super) fn allowed(grade: Grade, options: &Options) -> bool {
    match grade {
        Grade::Assume => !options.assumptions.is_empty(),
        grade => grade <= options.exactness,
    }
}
