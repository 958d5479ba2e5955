//! Enabling changes: which of them to make, by the best rewrite that each of them allows.

use std::cmp::Reverse;

use hlo_ir::edit::Patch;
use hlo_memory::{Bytes, Estimate};

use super::super::RunError;
use super::{Candidate, Score, Search, candidate_order};
use crate::PassKind;
use crate::bounds;
use crate::objective::NEGLIGIBLE;

impl Search<'_> {
    /// The next rewrite to take; an enabling change that leads to one, or to a better one, is taken on the way.
    pub(super) fn next_step(&mut self) -> Result<Option<Candidate>, RunError> {
        let changes = self.changes_behind_first()?;
        let found = self.best(&[])?;
        let measured = std::mem::take(&mut self.measured);
        if let Some((score, candidate)) = found {
            // One look behind the change that hides most: a lesser rewrite now could stand in the way of a greater one then. Changes that accompany
            // others are tried beside that one.
            let accompanies = |change: &Candidate| self.passes[change.pass].accompanies();
            let largest = changes.into_iter().max_by_key(|change| (!accompanies(change), change.finding.wasted));
            let better = match largest {
                Some(change) => self.best_beside(change, score, &measured)?,
                None => None,
            };
            return Ok(Some(better.unwrap_or(candidate)));
        }
        match self.best_of(changes, &measured)? {
            Some(candidate) => Ok(Some(candidate)),
            None => match self.best_of_equal_rewrites() {
                Some(candidate) => Ok(Some(candidate)),
                None => self.best_of_two(),
            },
        }
    }

    /// Enabling changes to look behind, once those are made that [come first](crate::Pass::comes_first): tentatively, as others are.
    pub(super) fn changes_behind_first(&mut self) -> Result<Vec<Candidate>, RunError> {
        loop {
            let mut changes = self.gather(PassKind::Enabling);
            let first = changes.iter().position(|change| self.passes[change.pass].comes_first(self.module));
            let Some(first) = first.filter(|_| self.steps.len() < bounds::STEPS) else { return Ok(changes) };
            // One change may stand in another one's place.
            if !self.take(changes.swap_remove(first))? {
                return Ok(changes);
            }
        }
    }

    /// The best rewrite behind an enabling change, if it is better than the best one without it. In large modules a change that led to none is looked behind
    /// again only once no rewrite is left without it.
    fn best_beside(
        &mut self,
        change: Candidate,
        plain: Score,
        measured: &[(usize, Patch)],
    ) -> Result<Option<Candidate>, RunError> {
        let key = candidate_order::key(&change);
        if !self.is_small() && self.without_gain.contains(&key) {
            return Ok(None);
        }
        let better = self.best_behind(change, Some(plain), measured)?;
        if better.is_none() {
            self.without_gain.insert(key);
        }
        Ok(better.map(|(_, candidate)| candidate))
    }

    /// Makes the enabling change behind which the best rewrite is found, of the first few that lead to one, and returns that rewrite. What
    /// one change shows can stand in the way of what another one would have shown.
    fn best_of(&mut self, changes: Vec<Candidate>, measured: &[(usize, Patch)]) -> Result<Option<Candidate>, RunError> {
        // Each change is followed to its end, which takes as long as a descent.
        if self.has_looked_long() {
            return self.best_behind_all(changes, measured);
        }
        let (taken, estimate) = (self.steps.len(), self.now.clone());
        let mut found: Vec<(Score, Candidate)> = Vec::new();
        for change in changes {
            if found.len() == bounds::ALTERNATIVES {
                break;
            }
            if let Some((score, _)) = self.best_behind(change.clone(), None, measured)? {
                found.push((score, change));
                self.roll_back(taken);
                self.now = estimate.clone();
            }
        }
        let Some((_, change)) = found.into_iter().min_by_key(|(score, _)| *score) else { return Ok(None) };
        Ok(self.best_behind(change, None, measured)?.map(|(_, candidate)| candidate))
    }

    /// Makes an enabling change and returns the best rewrite that it lets be found, other than those measured without it; the change is put
    /// back if there is none better than `plain`.
    fn best_behind(
        &mut self,
        change: Candidate,
        plain: Option<Score>,
        measured: &[(usize, Patch)],
    ) -> Result<Option<(Score, Candidate)>, RunError> {
        if self.steps.len() >= bounds::STEPS {
            self.limited = true;
            return Ok(None);
        }
        let (taken, estimate) = (self.steps.len(), self.now.clone());
        if !self.take(change)? {
            return Ok(None);
        }
        self.best_there(taken, estimate, plain, measured)
    }

    /// The same behind all of these changes at once, those aside that only accompany others: in a large module there is no time for each of them.
    fn best_behind_all(
        &mut self,
        changes: Vec<Candidate>,
        measured: &[(usize, Patch)],
    ) -> Result<Option<Candidate>, RunError> {
        let (taken, estimate) = (self.steps.len(), self.now.clone());
        let leads = |change: &Candidate| !self.passes[change.pass].accompanies();
        let (leading, accompanying): (Vec<_>, Vec<_>) = changes.into_iter().partition(leads);
        let mut wanted = if leading.is_empty() { accompanying } else { leading };
        // Of changes that overlap the one that contains the others is made.
        wanted.sort_by_key(|change| Reverse(change.patch().map_or(0, |patch| patch.touched().count())));
        self.make_unmeasured(wanted, taken);
        if self.steps.len() == taken {
            return Ok(None);
        }
        Ok(self.best_there(taken, estimate, None, measured)?.map(|(_, candidate)| candidate))
    }

    /// The best rewrite that is found behind the enabling changes made since `taken`; they are put back if it is not good enough.
    fn best_there(
        &mut self,
        taken: usize,
        estimate: Estimate,
        plain: Option<Score>,
        measured: &[(usize, Patch)],
    ) -> Result<Option<(Score, Candidate)>, RunError> {
        let found = self.best(measured)?;
        if let Some((score, candidate)) = self.with_companions(found, measured)? {
            let least = self.min_step_saving().max(Bytes(1));
            let enough = match plain {
                Some(plain) => score.beats(plain, least),
                // What saves next to nothing is not worth a change of its own beside it.
                None => {
                    score.total >= estimate.total_with_scratch()
                        || score.total + Bytes(estimate.total_with_scratch().get() / NEGLIGIBLE)
                            <= estimate.total_with_scratch()
                }
            };
            if enough {
                return Ok(Some((score, candidate)));
            }
            if let Some(plain) = plain {
                self.note_restart_behind(Score { rises: false, ..self.score(&estimate) }, plain, (score, candidate));
            }
        }
        self.roll_back(taken);
        self.now = estimate;
        Ok(None)
    }
}
