//! Undoes rewrites that a later one made needless: the budget is met without them, and they cost run time.
//!
//! A search for a budget takes what costs least for what it brings nearer, one step after the other. What an early step brought may be brought by a later one as
//! well, or the budget may be met without it by now. So the steps are made once more without the one that took most time, those behind it as they are found then.

// Tests: `passes/tests/budget.rs`.

use std::cmp::Reverse;

use super::super::RunError;
use super::replay::Recording;
use super::restarts::Checkpoint;
use super::steps::Made;
use super::{Candidate, Search};
use crate::bounds;
use crate::objective::NEGLIGIBLE;

impl Search<'_> {
    /// Takes back what is needless of the steps made since `start`, where they meet a budget that may take time.
    pub(super) fn drop_needless_rewrites(&mut self, start: &Checkpoint) -> Result<(), RunError> {
        let is_asked = self.asks_for_time() && self.is_small() && self.fits();
        let Some(input) = self.seconds_before.filter(|_| is_asked) else { return Ok(()) };
        let mut kept = self.recorded();
        let mut tries = bounds::ALTERNATIVES;
        while let Some(shorter) = self.shorter(start, &kept, input, &mut tries)? {
            kept = shorter;
        }
        self.restore_end(start, &kept)
    }

    /// Steps that meet the budget as well, in less time: those made since `start` without one of them.
    fn shorter(
        &mut self,
        start: &Checkpoint,
        kept: &Recording,
        input: f64,
        tries: &mut usize,
    ) -> Result<Option<Recording>, RunError> {
        let Some(now) = self.estimator.seconds(self.module) else { return Ok(None) };
        for step in self.slowest(start, kept, input)? {
            let Some(left) = tries.checked_sub(1) else { break };
            *tries = left;
            self.make_without(start, kept, step)?;
            let seconds = self.estimator.seconds(self.module);
            if self.fits() && seconds.is_some_and(|seconds| seconds + input / NEGLIGIBLE as f64 <= now) {
                return Ok(Some(self.recorded()));
            }
        }
        Ok(None)
    }

    /// The steps that take a hundredth of the input's time or more, those first that take most.
    fn slowest(&mut self, start: &Checkpoint, kept: &Recording, input: f64) -> Result<Vec<usize>, RunError> {
        self.restore(start);
        let (mut before, mut slow) = (self.estimator.seconds(self.module), Vec::new());
        for (at, made) in kept.since(start).enumerate() {
            self.put_back([made.clone()])?;
            let behind = self.estimator.seconds(self.module);
            let longer = before.zip(behind).map_or(0.0, |(before, behind)| behind - before);
            let hundredths = (longer / input * NEGLIGIBLE as f64) as u64;
            slow.extend((hundredths > 0).then_some((Reverse(hundredths), at)));
            before = behind;
        }
        slow.sort_unstable();
        Ok(slow.into_iter().map(|(_, at)| at).collect())
    }

    /// Makes the steps again without one of them: those before it as they were, those behind it as passes find them now, as far as they do.
    pub(super) fn make_without(
        &mut self,
        start: &Checkpoint,
        kept: &Recording,
        left_out: usize,
    ) -> Result<(), RunError> {
        self.restore(start);
        self.put_back(kept.since(start).take(left_out).cloned())?;
        self.findings.forget();
        // Behind an enabling change there may be no estimate; the steps do not count as meeting the budget then.
        let Ok(now) = self.measure() else { return Ok(()) };
        self.now = now;
        self.commit();
        for made in kept.since(start).skip(left_out + 1) {
            if let Some(candidate) = self.found_again(made) {
                self.take(candidate)?;
            }
        }
        self.commit();
        Ok(())
    }

    /// What a pass finds now where it made a step before, the same if it does.
    fn found_again(&mut self, made: &Made) -> Option<Candidate> {
        let mut found = self.gather(made.rewrite.kind);
        found.retain(|candidate| candidate.pass == made.pass);
        let claimed = |candidate: &Candidate| self.rewrite_of(candidate, self.claim(candidate));
        let place = |candidate: &&Candidate| claimed(candidate).instruction == made.rewrite.instruction;
        let same = |candidate: &&Candidate| place(candidate) && claimed(candidate).note == made.rewrite.note;
        found.iter().find(same).or_else(|| found.iter().find(place)).cloned()
    }
}
