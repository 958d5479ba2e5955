//! Does no more of a rewrite than a budget asks for.
//!
//! A pass that computes layers again offers to do so in all of them, because what is missing to a budget and what it accounts for are not the same. Where the last
//! rewrite of a search meets the budget, fewer layers may meet it too, in less time. Of each way that the pass offers the least part that fits is found by bisection,
//! and of those the one that takes least time is made.

// Tests: `passes/tests/layers.rs`.

use std::time::Instant;

use hlo_ir::edit::Patch;

use super::super::RunError;
use super::replay::Recording;
use super::restarts::Checkpoint;
use super::steps::Made;
use super::{Candidate, Search};
use crate::objective::NEGLIGIBLE;

/// The parts of a way that may be the least that fits: those behind `from`, up to `enough`, which does.
struct Bisection {
    parts: Vec<Candidate>,
    from: usize,
    enough: usize,
}

impl Bisection {
    /// The part that is to be tried next, if more than one is left.
    fn middle(&self) -> Option<&Candidate> {
        (self.from < self.enough).then(|| &self.parts[usize::midpoint(self.from, self.enough)])
    }
}

/// The seconds that are to be undercut, and the part that takes so many, once there is one.
struct Least {
    seconds: f64,
    part: Option<Candidate>,
}

impl Search<'_> {
    /// Makes the part of the last rewrite since `start` of which there are parts that meets a budget in least time. What was made behind it is made before it.
    pub(super) fn keep_just_enough(&mut self, start: &Checkpoint) -> Result<(), RunError> {
        if !self.asks_for_time() || !self.fits() {
            return Ok(());
        }
        let end = self.recorded();
        let Some((now, input)) = self.estimator.seconds(self.module).zip(self.seconds_before) else { return Ok(()) };
        let made: Vec<usize> = end.since(start).map(|made| made.pass).collect();
        let Some(step) = made.iter().rposition(|&pass| self.passes[pass].has_parts()) else { return Ok(()) };
        self.make_without(start, &end, step)?;
        let part = self.least_part(made[step], now - input / NEGLIGIBLE as f64)?;
        let is_made = match part {
            Some(part) => self.take(part)?,
            None => false,
        };
        if is_made { Ok(()) } else { self.restore_end(start, &end) }
    }

    /// Makes the steps again without one of them: those before it as they were, those behind it as passes find them now, as far as they do.
    fn make_without(&mut self, start: &Checkpoint, kept: &Recording, left_out: usize) -> Result<(), RunError> {
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

    /// Of the parts that a pass offers the one that meets the budget in least time, and in less than so many seconds.
    fn least_part(&mut self, pass: usize, seconds: f64) -> Result<Option<Candidate>, RunError> {
        let mut least = Least { seconds, part: None };
        let mut ways = self.ways_that_fit(pass)?;
        while !ways.is_empty() {
            self.estimate_together(ways.iter().filter_map(Bisection::middle));
            let mut left = Vec::new();
            for way in ways {
                left.extend(self.narrowed(way, &mut least)?);
            }
            ways = left;
        }
        Ok(least.part)
    }

    /// The ways of which all is enough.
    fn ways_that_fit(&mut self, pass: usize) -> Result<Vec<Bisection>, RunError> {
        let ways = self.parts(pass);
        self.estimate_together(ways.iter().filter_map(|parts| parts.last()));
        let mut fit = Vec::new();
        for parts in ways {
            let enough = parts.len().saturating_sub(1);
            if let Some(all) = parts.last()
                && self.fits_with(all)?
            {
                fit.push(Bisection { parts, from: 0, enough });
            }
        }
        Ok(fit)
    }

    /// A way behind the next part that is tried; `None` where it is decided.
    fn narrowed(&mut self, mut way: Bisection, least: &mut Least) -> Result<Option<Bisection>, RunError> {
        let Some(middle) = way.middle() else {
            let candidate = way.parts.swap_remove(way.enough);
            if let Some(seconds) = self.seconds_with(&candidate)?.filter(|seconds| *seconds < least.seconds) {
                *least = Least { seconds, part: Some(candidate) };
            }
            return Ok(None);
        };
        let at = usize::midpoint(way.from, way.enough);
        if self.fits_with(middle)? {
            way.enough = at;
        } else if self.seconds_with(middle)?.is_none_or(|seconds| seconds >= least.seconds) {
            // What does more takes longer.
            return Ok(None);
        } else {
            way.from = at + 1;
        }
        Ok(Some(way))
    }

    /// Lets what these candidates need be known, estimated side by side.
    fn estimate_together<'c>(&mut self, candidates: impl Iterator<Item = &'c Candidate>) {
        let patches: Vec<&Patch> = candidates.filter_map(Candidate::patch).collect();
        let start = Instant::now();
        for some in patches.chunks(self.estimator.at_a_time(self.module)) {
            let _ = self.estimator.ahead(self.module, some);
        }
        self.statistics.estimates.time += start.elapsed();
    }

    fn fits_with(&mut self, candidate: &Candidate) -> Result<bool, RunError> {
        Ok(self.try_out(candidate, None)?.is_some_and(|estimate| self.fits_in(&estimate)))
    }

    /// Seconds of a run with a candidate made.
    fn seconds_with(&mut self, candidate: &Candidate) -> Result<Option<f64>, RunError> {
        Ok(self.behind(candidate, |search| search.estimator.seconds(search.module))?.flatten())
    }
}
