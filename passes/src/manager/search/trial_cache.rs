//! Trials made before: what came of each candidate in a state of the module, and which changes were measured.

use hlo_ir::edit::Patch;
use hlo_memory::Bytes;

use super::{Candidate, Search};
use crate::Outcome;
use crate::manager::trial_record::{Trial, Tried};

impl Search<'_> {
    /// Notes a candidate that cannot win.
    pub(super) fn pass_over(&mut self, candidate: &Candidate, most: Bytes) {
        self.note(candidate, Trial::PassedOver(most));
    }

    /// What came of trying a candidate on the module as it is now.
    pub(in crate::manager) fn trial(&self, candidate: &Candidate) -> Option<&Trial> {
        let (pass, at) = (self.passes[candidate.pass].name(), candidate.finding.instruction);
        let (label, state) = (label(&candidate.finding.outcome), self.findings.state());
        let is_it = |tried: &&Tried| {
            tried.state == state && tried.pass == pass && tried.instruction == at && tried.label == label
        };
        self.tried.iter().find(is_it).map(|tried| &tried.outcome)
    }

    /// Notes what came of a candidate.
    pub(super) fn note(&mut self, candidate: &Candidate, outcome: Trial) {
        self.tried.push(Tried {
            state: self.findings.state(),
            pass: self.passes[candidate.pass].name(),
            instruction: candidate.finding.instruction,
            label: label(&candidate.finding.outcome).to_owned(),
            outcome,
        });
    }
}

/// Whether a candidate is one of the changes measured before.
pub(super) fn is_known(known: &[(usize, Patch)], candidate: &Candidate) -> bool {
    let Outcome::Rewrite { patch, .. } = &candidate.finding.outcome else { return false };
    known.iter().any(|(pass, other)| *pass == candidate.pass && patch.is_same_change(other))
}

/// What tells several findings of one pass at one instruction apart.
pub(super) fn label(outcome: &Outcome) -> &str {
    match outcome {
        Outcome::Rewrite { note, .. } => note,
        Outcome::Withheld { reason, .. } | Outcome::Missed(reason) => reason.code,
    }
}
