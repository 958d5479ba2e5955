//! Restarts: where the best steps lead to a poor end, the search descends again from the next best ones.
//!
//! Of two loops that remove the same values, the one that saves more in one step can prevent the other, and which of them ends lower is known only at the end. The
//! search restarts from the second best first step, and from the steps in which the second best candidate was closest to the best one.

use hlo_memory::{Bytes, Estimate, Target};

use super::super::RunError;
use super::{Candidate, Score, Search, Step};
use crate::bounds;
use crate::objective::{ALWAYS_AVAILABLE, MATTERS};

/// Where a descent, or a change for speed, began.
pub(super) struct Checkpoint {
    steps: usize,
    committed: usize,
    committed_state: u64,
    now: Estimate,
    committed_estimate: Estimate,
}

impl Checkpoint {
    /// All that was estimated there.
    pub(super) fn estimate(&self) -> &Estimate {
        &self.now
    }
    /// Changes made before.
    pub(super) fn step_count(&self) -> usize {
        self.steps
    }
    /// Memory that was needed there.
    pub(super) fn total_with_scratch(&self) -> Bytes {
        self.now.total_with_scratch()
    }
}

/// A way that was not taken.
struct Restart {
    /// What the best step saves more, in parts of 2^20 of what it saves.
    behind: u64,
    /// Memory after the best candidate and after this one.
    totals: (Bytes, Bytes),
    /// Changes made before, and the candidate that was not the best one then.
    way: Vec<Candidate>,
}

/// The ways that the first descent did not take.
#[derive(Default)]
pub(super) struct Restarts {
    /// The number of steps before the descent that is watched; `None` while none is.
    from: Option<usize>,
    /// The second best first step.
    first: Option<Vec<Candidate>>,
    seen_first: bool,
    /// The closest ones behind it, the closest first.
    closest: Vec<Restart>,
}

impl Search<'_> {
    /// Continues with rewrites that recompute large values, if the module still needs much memory.
    pub(super) fn descend_with_large_recomputation(&mut self) -> Result<(), RunError> {
        if self.allow_large_recomputation() { self.descend_repeatedly() } else { Ok(()) }
    }

    /// Allows rewrites that recompute large values from now on, if the module still needs much memory. Returns whether it does.
    pub(super) fn allow_large_recomputation(&mut self) -> bool {
        let worth =
            self.is_small() && self.now.total_with_scratch() >= ALWAYS_AVAILABLE && self.options.target == Target::Cpu;
        if worth {
            self.recompute_large = true;
            self.findings.forget();
        }
        worth
    }

    pub(super) fn checkpoint(&self) -> Checkpoint {
        let (now, committed_estimate) = (self.now.clone(), self.committed_estimate.clone());
        Checkpoint {
            steps: self.steps.len(),
            committed: self.committed,
            committed_state: self.committed_state,
            now,
            committed_estimate,
        }
    }

    /// Descends, and again from other steps if memory far above the floor is left; the best end stays.
    pub(super) fn descend_repeatedly(&mut self) -> Result<(), RunError> {
        let start = self.checkpoint();
        self.restarts.from = self.is_small().then_some(start.steps);
        self.descend()?;
        let restarts = std::mem::take(&mut self.restarts);
        let ways = restarts.first.into_iter().chain(restarts.closest.into_iter().map(|restart| restart.way));
        let mut end = (self.now.clone(), self.made_since(&start), self.tried_here());
        let mut at_end = true;
        for way in ways {
            if self.fits() || !is_far_above_floor(&end.0) || self.has_worked_long() {
                break;
            }
            self.restore(&start);
            self.descend_by(way)?;
            let least = self.min_step_saving().max(Bytes(end.0.total_with_scratch().get() / MATTERS)).max(Bytes(1));
            at_end = self.fits() || self.now.total_with_scratch() + least <= end.0.total_with_scratch();
            if at_end {
                end = (self.now.clone(), self.made_since(&start), self.tried_here());
            }
        }
        if at_end {
            return Ok(());
        }
        self.restore(&start);
        self.make_again(end.1)?;
        self.tried_again(end.2);
        Ok(())
    }

    /// Makes changes again that led to a better end; all of them were worth keeping.
    pub(super) fn make_again(&mut self, made: Vec<Candidate>) -> Result<(), RunError> {
        for step in made {
            self.take(step)?;
        }
        self.roll_back(self.committed);
        self.now = self.committed_estimate.clone();
        Ok(())
    }

    /// Makes these changes and descends from there.
    fn descend_by(&mut self, way: Vec<Candidate>) -> Result<(), RunError> {
        for step in way {
            if !self.take(step)? {
                break;
            }
        }
        self.descend()
    }

    /// Remembers a candidate that was not the best one of its step.
    pub(super) fn note_restart(
        &mut self,
        now: Score,
        best: Option<&(Score, Candidate)>,
        second: Option<(Score, Candidate)>,
    ) {
        let Some(from) = self.restarts.from else { return };
        let is_first = !std::mem::replace(&mut self.restarts.seen_first, true);
        let (Some((best, _)), Some((score, candidate))) = (best, second) else { return };
        let way = || {
            let made = made_of(&self.steps[from..]).into_iter();
            made.chain([candidate]).collect()
        };
        if is_first {
            self.restarts.first = Some(way());
            return;
        }
        self.keep_restart(now, *best, score, way());
    }

    /// Remembers the best candidate behind an enabling change that was put back, because another candidate is better without it.
    pub(super) fn note_restart_behind(&mut self, now: Score, plain: Score, (score, candidate): (Score, Candidate)) {
        let Some(from) = self.restarts.from else { return };
        let way = made_of(&self.steps[from..]).into_iter().chain([candidate]).collect();
        self.keep_restart(now, plain, score, way);
    }

    fn keep_restart(&mut self, now: Score, best: Score, score: Score, way: Vec<Candidate>) {
        let (saved, lost) = (now.total - best.total, score.total - best.total);
        if lost.get() > saved.get() / bounds::MAX_ATTEMPTS as u64 {
            return;
        }
        let behind = lost.get().saturating_mul(1 << 20) / saved.get().max(1);
        let restart = Restart { behind, totals: (best.total, score.total), way };
        let closest = &mut self.restarts.closest;
        // Behind different enabling changes the same two are found again.
        if closest.iter().any(|other| other.totals == restart.totals) {
            return;
        }
        let place = closest.partition_point(|other| other.behind <= behind);
        closest.insert(place, restart);
        closest.truncate(bounds::ALTERNATIVES);
    }

    /// Whether the search has estimated so many instructions that it should not restart. A search for a goal has no such limit.
    pub(super) fn has_worked_long(&self) -> bool {
        self.is_long_work(self.trials - self.trials_left)
    }

    /// Whether it has looked for waste in so many that enabling changes of a large module are made together.
    pub(super) fn has_looked_long(&self) -> bool {
        self.has_worked_long() || !self.is_small() && self.is_long_work(self.searches)
    }

    fn is_long_work(&self, times: usize) -> bool {
        let size = self.module.live_instructions().count();
        self.pass_options.goal().is_none() && times.saturating_mul(size) > bounds::COMPARISON_WORK
    }

    /// Whether the search may run several times.
    pub(super) const fn is_small(&self) -> bool {
        self.statistics.instructions.0 <= bounds::SMALL
    }

    /// The changes made since, in order.
    pub(super) fn made_since(&self, start: &Checkpoint) -> Vec<Candidate> {
        made_of(&self.steps[start.steps..])
    }

    pub(super) fn restore(&mut self, start: &Checkpoint) {
        self.roll_back(start.steps);
        self.committed = start.committed;
        self.committed_state = start.committed_state;
        self.now = start.now.clone();
        self.committed_estimate = start.committed_estimate.clone();
    }
}

/// The changes that steps made.
fn made_of(steps: &[Step]) -> Vec<Candidate> {
    steps.iter().map(|step| step.made.candidate.clone()).collect()
}

/// Whether more than a tenth is left to win.
pub(super) fn is_far_above_floor(estimate: &Estimate) -> bool {
    estimate.total_with_scratch() > estimate.floor + Bytes(estimate.floor.get() / 10)
}
