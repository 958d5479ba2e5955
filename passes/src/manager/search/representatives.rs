//! Which candidates of a long step stand for others, and which cannot be fast enough.
//!
//! Where a model's layers are equal, the passes offer the same change at each of them, and an estimate of each would say the same once for every layer. So of equal changes the
//! one that touches most of what is alive at the peak is tried; the others are made with it if it is taken ([`super::equal_rewrites`]).
//!
//! A rewrite that computes products again cannot be faster than they are. Where that alone is more than rewrites may cost, there is nothing to estimate.

// Tests: `passes/tests/layers.rs`.

use hlo_memory::{Bytes, Estimator as _};

use super::candidate_order::is_long_step;
use super::equal_rewrites::kind;
use super::{Candidate, Search};
use crate::hash::IndexMap;
use crate::manager::scope::Scope;
use crate::manager::trial_record::Trial;

impl Search<'_> {
    /// The candidates of a step that are worth an estimate.
    pub(super) fn worth_trying(&mut self, candidates: Vec<Candidate>) -> Vec<Candidate> {
        if !is_long_step(candidates.len(), self.inlined_size) {
            return candidates;
        }
        let fast = self.fast_enough(candidates);
        self.representatives(fast)
    }

    /// Those that may be fast enough; the others are noted not to be.
    fn fast_enough(&mut self, candidates: Vec<Candidate>) -> Vec<Candidate> {
        let is_timed = candidates.iter().any(|candidate| self.passes[candidate.pass].is_timed());
        let Some(time) = is_timed.then(|| self.time_of_products()).flatten() else { return candidates };
        let mut fast = Vec::new();
        for candidate in candidates {
            match self.least_slowdown(&candidate, &time) {
                Some(slowdown) => self.note(&candidate, Trial::SlowerUntried(slowdown)),
                None => fast.push(candidate),
            }
        }
        fast
    }

    /// One of each kind, in the order in which they are; the others are noted to be like it.
    fn representatives(&mut self, candidates: Vec<Candidate>) -> Vec<Candidate> {
        let kinds = by_kind(&candidates);
        if kinds.len() == candidates.len() {
            return candidates;
        }
        let Some(saving_bound) = self.estimator.saving_bound(self.module) else { return candidates };
        let scope = Scope::new(self.module, saving_bound);
        let at_peak = |index: usize| candidates[index].patch().map_or(Bytes::ZERO, |patch| scope.alive_at_peak(patch));
        let mut stands_for: Vec<usize> = (0..candidates.len()).collect();
        for all in kinds.into_iter().filter(|all| all.len() > 1) {
            // Of several that touch as much the first one.
            let chosen = all.iter().copied().rev().max_by_key(|&index| at_peak(index)).unwrap_or(all[0]);
            for index in all {
                stands_for[index] = chosen;
            }
        }
        for (index, &other) in stands_for.iter().enumerate().filter(|(index, other)| index != *other) {
            self.note(&candidates[index], Trial::TriedAt(candidates[other].finding.instruction));
        }
        let chosen = candidates.into_iter().enumerate().filter(|(index, _)| stands_for[*index] == *index);
        chosen.map(|(_, candidate)| candidate).collect()
    }
}

/// The places of the candidates of each kind. What is of one kind at one instruction is told apart by its number there.
fn by_kind(candidates: &[Candidate]) -> Vec<Vec<usize>> {
    let mut seen = IndexMap::<_, usize>::default();
    let mut kinds = IndexMap::<_, Vec<usize>>::default();
    for (index, candidate) in candidates.iter().enumerate() {
        let number = seen.entry((candidate.finding.instruction, kind(candidate))).or_default();
        kinds.entry((kind(candidate), *number)).or_default().push(index);
        *number += 1;
    }
    kinds.into_values().collect()
}
