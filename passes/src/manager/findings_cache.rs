//! The findings of one search for the states that it may return to, so that passes look at each state once.

use super::candidate::Candidate;
use crate::{PassKind, bounds};

/// Answers by the state of the module they are about. States are numbered as they come; the latest ones go first when the search steps back.
#[derive(Default)]
pub(super) struct FindingsCache {
    state: u64,
    last: u64,
    answers: Vec<Answer>,
}

struct Answer {
    state: u64,
    kind: PassKind,
    findings: Vec<Candidate>,
}

impl FindingsCache {
    /// Number of the state that the module is in.
    pub(super) fn state(&self) -> u64 {
        self.state
    }

    /// The module was changed; returns the number of the state before.
    pub(super) fn step(&mut self) -> u64 {
        self.last += 1;
        std::mem::replace(&mut self.state, self.last)
    }

    /// The module is as it was in an earlier state.
    pub(super) fn step_back(&mut self, state: u64) {
        self.state = state;
        self.answers.retain(|answer| answer.state <= state);
    }

    /// The passes may now say something else about every state.
    pub(super) fn forget(&mut self) {
        self.answers.clear();
    }

    /// What the passes of a kind said about the module as it is now, if that is still known.
    pub(super) fn recall(&self, kind: PassKind) -> Option<Vec<Candidate>> {
        let now = self.answers.iter().find(|answer| answer.state == self.state && answer.kind == kind);
        now.map(|answer| answer.findings.clone())
    }

    /// Notes what the passes of a kind say about the module as it is now.
    pub(super) fn note(&mut self, kind: PassKind, findings: &[Candidate]) {
        // A search steps back over few states.
        if self.answers.len() >= bounds::MAX_ATTEMPTS {
            self.answers.remove(0);
        }
        self.answers.push(Answer { state: self.state, kind, findings: findings.to_vec() });
    }
}
