//! Which candidates of a long step stand for others, and which cannot be fast enough.
//!
//! Where a model's layers are equal, the passes offer the same change at each of them, and an estimate of each would say the same once for every layer. So of equal changes the
//! one that touches most of what is alive at the peak is tried; the others are made with it if it is taken ([`super::equal_rewrites`]).
//!
//! A rewrite that computes products again cannot be faster than they are. Where that alone is more than rewrites may cost, there is nothing to estimate.

// Tests: `passes/tests/layers.rs`.

use hlo_ir::InstructionId;
use hlo_memory::{Bytes, Estimator as _};

use super::candidate_order::is_long_step;
use super::trial_cache::label;
use super::{Candidate, Search};
use crate::Grade;
use crate::hash::IndexMap;
use crate::manager::scope::Scope;
use crate::manager::trial_record::Trial;

/// What equal changes have in common: the pass, the grade, the bytes, what is done, and the number among those at one instruction.
type Kind = (usize, Grade, Bytes, String, usize);

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
                Some(slowdown) => self.note(&candidate, Trial::SlowerAtLeast(slowdown)),
                None => fast.push(candidate),
            }
        }
        fast
    }

    /// One of each kind, in the order in which they are; the others are noted to be like it.
    fn representatives(&mut self, candidates: Vec<Candidate>) -> Vec<Candidate> {
        let mut kinds: IndexMap<Kind, Vec<usize>> = IndexMap::default();
        let mut seen: IndexMap<(InstructionId, Kind), usize> = IndexMap::default();
        for (index, candidate) in candidates.iter().enumerate() {
            let mut kind = kind(candidate);
            let before = seen.entry((candidate.finding.instruction, kind.clone())).or_default();
            kind.4 = *before;
            *before += 1;
            kinds.entry(kind).or_default().push(index);
        }
        if kinds.len() == candidates.len() {
            return candidates;
        }
        let Some(saving_bound) = self.estimator.saving_bound(self.module) else { return candidates };
        let scope = Scope::new(self.module, saving_bound);
        let at_peak = |index: usize| candidates[index].patch().map_or(Bytes::ZERO, |patch| scope.alive_at_peak(patch));
        // Of several that touch as much the first one.
        let chosen = |all: &Vec<usize>| match all[..] {
            [one] => one,
            _ => all.iter().copied().rev().max_by_key(|&index| at_peak(index)).unwrap_or(all[0]),
        };
        let mut stands_for: Vec<usize> = (0..candidates.len()).collect();
        for all in kinds.values() {
            let chosen = chosen(all);
            for &index in all {
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

fn kind(candidate: &Candidate) -> Kind {
    let finding = &candidate.finding;
    (candidate.pass, finding.grade, finding.wasted, label(&finding.outcome).to_owned(), 0)
}
