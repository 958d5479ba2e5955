//! The best step forward: all candidates of a state are estimated, several side by side, and compared.

use std::cmp::Ordering;
use std::collections::VecDeque;
use std::time::Instant;

use hlo_ir::edit::Patch;
use hlo_memory::{Bytes, Estimate};

use super::super::RunError;
use super::super::memoized::Answer;
use super::super::trial_record::Trial;
use super::bisection::{Ordered, TooSlow};
use super::equal_rewrites::are_alike;
use super::{Candidate, Score, Search, trial_cache};
use crate::bounds;
use crate::objective::NEGLIGIBLE;
use crate::{Outcome, PassKind};

/// What was found so far among the candidates of a state.
struct BestSoFar {
    /// The score of the state itself.
    now: Score,
    best: Option<(Score, Candidate)>,
    second: Option<(Score, Candidate)>,
    /// The lowest total of any that was the best one or came close to it.
    lowest: Bytes,
    /// Candidates in a row that were no better.
    without_gain: usize,
    /// Whether the peak fits behind the best one.
    fits: bool,
    /// The least that was too slow.
    too_slow: TooSlow,
    /// Candidates of a large module that are steps forward.
    improving: Vec<Candidate>,
    /// Whether candidates may be left out that saved less before than the best one does now.
    lazy: bool,
    /// Whether the time that candidates take decides, so that one that saves less may be better.
    counts_time: bool,
}

impl BestSoFar {
    fn beside(now: Score, lazy: bool, counts_time: bool) -> Self {
        let lazy = lazy && !counts_time;
        let (best, second, improving, too_slow) = (None, None, Vec::new(), TooSlow::default());
        let lowest = now.total;
        Self { now, best, second, lowest, without_gain: 0, fits: false, too_slow, improving, lazy, counts_time }
    }
    /// The total that is to be undercut.
    fn goal(&self) -> Bytes {
        let best = self.best.as_ref().filter(|(score, _)| !score.rises && !self.counts_time);
        best.map_or(self.now.total, |(score, _)| score.total)
    }
    fn best_candidate(&self) -> Option<&Candidate> {
        self.best.as_ref().map(|(_, best)| best)
    }
}

/// What is done about a candidate.
#[derive(PartialEq)]
enum Decision {
    /// It is estimated.
    Try,
    /// It cannot win by the bound of what it saves.
    SkipByBound,
    /// One that computes no more of the same again takes so many times as long as the input, which is too long.
    SkipSlow(f64),
    /// An equal rewrite stands for it.
    SkipEqual,
    /// Neither it nor any candidate behind it is estimated.
    Stop,
}

impl Search<'_> {
    /// The rewrite with the best score of all that are steps forward and not among those that are `known`: an enabling change leaves
    /// what they save as it was.
    pub(super) fn best(&mut self, known: &[(usize, Patch)]) -> Result<Option<(Score, Candidate)>, RunError> {
        if self.steps.len() >= bounds::STEPS {
            self.limited = true;
            return Ok(None);
        }
        self.tried.retain(|tried| tried.state >= self.committed_state);
        self.measured.clear();
        let mut candidates = self.gather(PassKind::Rewrite);
        candidates.retain(|candidate| !trial_cache::is_known(known, candidate));
        let candidates = self.worth_trying(candidates);
        let promising = self.by_bound(candidates);
        let (ordered, lazy) = self.savings.order(promising, self.inlined_size);
        let ordered = self.bisected(ordered, lazy);
        let mut found =
            BestSoFar::beside(self.score(&self.now), lazy, self.time_policy.is_least() || self.takes_most());
        let mut ahead = VecDeque::new();
        for (at, one) in ordered.iter().enumerate() {
            let Ordered { candidate, most, .. } = one;
            let decision = self.decide(&found, one);
            match decision {
                Decision::SkipByBound => {
                    self.pass_over(candidate, most.unwrap_or_default());
                    continue;
                }
                Decision::SkipSlow(slowdown) => {
                    self.note(candidate, Trial::SlowerUntried(slowdown));
                    continue;
                }
                Decision::Stop => break,
                Decision::Try | Decision::SkipEqual => {}
            }
            if let Outcome::Rewrite { patch, .. } = &candidate.finding.outcome {
                self.measured.push((candidate.pass, patch.clone()));
            }
            if decision == Decision::SkipEqual {
                continue;
            }
            ahead.retain(|(other, _)| *other >= at);
            if ahead.is_empty() {
                ahead = self.estimate_ahead(&found, &ordered, at);
            }
            let known = ahead.pop_front().filter(|(other, _)| *other == at).and_then(|(_, answer)| answer);
            if let Some(estimate) = self.try_out(candidate, known)? {
                self.compare(&mut found, one, &estimate)?;
            }
        }
        self.note_restart(found.now, found.best.as_ref(), found.second);
        Ok(found.best)
    }

    /// What is done about a candidate that saves so much `most`, if that is known.
    fn decide(&self, found: &BestSoFar, one: &Ordered) -> Decision {
        let Ordered { candidate, most, .. } = one;
        let most = *most;
        if let Some(slowdown) = found.too_slow.slowdown_of(one) {
            return Decision::SkipSlow(slowdown);
        }
        let best = found.best_candidate();
        if most.is_some_and(|most| found.now.total - most > found.goal() || most < self.min_step_saving()) {
            return Decision::SkipByBound;
        }
        // Those behind so many that were no better are left for the next step.
        if most.is_some() && best.is_some() && found.without_gain >= bounds::MAX_ATTEMPTS {
            return Decision::Stop;
        }
        // It does the same in less time.
        let is_settled = found.fits && best.is_some_and(|best| self.are_alternatives(best, candidate));
        // Its like would save as much; both are made together.
        let has_equal = || found.improving.iter().any(|other| are_alike(other, candidate));
        let saved = found.now.total - found.goal();
        let is_outdone = || found.lazy && best.is_some_and(|best| self.savings.is_outdone(candidate, best, saved));
        if is_settled || has_equal() || is_outdone() { Decision::SkipEqual } else { Decision::Try }
    }

    /// What the next candidates that are tried would need, as many as are estimated side by side, each with its place.
    fn estimate_ahead(
        &mut self,
        found: &BestSoFar,
        ordered: &[Ordered],
        from: usize,
    ) -> VecDeque<(usize, Option<Answer>)> {
        let next = ordered.iter().enumerate().skip(from);
        let tried = next.filter(|(_, one)| self.decide(found, one) == Decision::Try);
        let patches = tried.filter_map(|(at, one)| Some((at, one.candidate.patch()?)));
        let (places, patches): (Vec<_>, Vec<_>) = patches.take(self.estimator.at_a_time(self.module)).unzip();
        let start = Instant::now();
        let answers = self.estimator.ahead(self.module, &patches);
        self.statistics.estimates.time += start.elapsed();
        places.into_iter().zip(answers).collect()
    }

    /// Compares a candidate that was tried with what was found before.
    fn compare(&mut self, found: &mut BestSoFar, one: &Ordered, estimate: &Estimate) -> Result<(), RunError> {
        let candidate = &one.candidate;
        let mut score = self.score(estimate);
        if found.counts_time && score.improves(found.now, self.min_step_saving(), self.tentative_rise()) {
            // Where what saves most is taken, time decides only among those that meet the budget.
            let is_asked = self.time_policy.is_least() || self.fits_in(estimate);
            score.cost = if is_asked { self.cost(candidate, estimate)? } else { u64::MAX };
        }
        if !self.is_small() && score.improves(found.now, self.min_step_saving(), Bytes::ZERO) {
            found.improving.push(candidate.clone());
        }
        self.savings.note(candidate, found.now.total - score.total);
        let is_below = |other: &Option<(Score, Candidate)>| other.as_ref().is_none_or(|(other, _)| score < *other);
        let is_faster = self.as_good_in_less_time(found, candidate, score)?;
        let better = is_faster.unwrap_or_else(|| is_below(&found.best));
        let next = is_below(&found.second);
        let improves = score.improves(found.now, self.min_step_saving(), self.tentative_rise()) && (better || next);
        let slowdown = if improves { self.excessive_slowdown(candidate)? } else { None };
        if slowdown.is_none() && (improves && better || is_faster.is_some()) {
            found.lowest = found.lowest.min(score.total);
        }
        if let Some(slowdown) = slowdown {
            if self.most_slowdown(candidate.pass).is_some_and(|most| slowdown > most) {
                found.too_slow.note(one, slowdown);
            }
            found.without_gain += 1;
        } else if improves && better {
            found.fits = self.fits_in(estimate);
            let before = found.best.replace((score, candidate.clone()));
            let before = before.filter(|(_, other)| self.are_other_ways(other, candidate));
            found.second = before.or_else(|| found.second.take());
            found.without_gain = 0;
        } else {
            let other = found.best_candidate().is_none_or(|best| self.are_other_ways(best, candidate));
            if improves && next && other {
                found.second = Some((score, candidate.clone()));
            }
            found.without_gain += 1;
        }
        Ok(())
    }

    /// Whether a candidate takes less time than the best one so far, if it is another way to do the same that saves as much as any but for what is negligible: what it
    /// does not take is left for later steps. Nothing is left where memory counts alone.
    fn as_good_in_less_time(
        &mut self,
        found: &BestSoFar,
        candidate: &Candidate,
        score: Score,
    ) -> Result<Option<bool>, RunError> {
        let Some((best, other)) = &found.best else { return Ok(None) };
        // From the lowest, so that small steps up do not add up.
        let lowest = found.lowest.min(score.total);
        let is_near = score.rises == best.rises
            && score.total.max(best.total) - lowest <= Bytes(found.now.total.get() / NEGLIGIBLE);
        let is_bounded = self.seconds_before.is_some() && self.pass_options.goal().is_none() && !found.counts_time;
        if !is_near || !is_bounded || !self.are_alternatives(other, candidate) {
            return Ok(None);
        }
        let mut seconds = |one: &Candidate| self.behind(one, |search| search.estimator.seconds(search.module));
        let (own, others) = (seconds(candidate)?.flatten(), seconds(other)?.flatten());
        let order = own.zip(others).and_then(|(own, others)| own.partial_cmp(&others));
        Ok(order.filter(|order| order.is_ne()).map(Ordering::is_lt))
    }

    /// Whether a search that takes one of two candidates may end elsewhere than one that takes the other: not where they do the same, here or at two places.
    fn are_other_ways(&self, one: &Candidate, other: &Candidate) -> bool {
        !self.are_alternatives(one, other) && !are_alike(one, other)
    }

    /// Whether two candidates are ways to do the same.
    fn are_alternatives(&self, one: &Candidate, other: &Candidate) -> bool {
        let place = |candidate: &Candidate| self.module.instruction(candidate.finding.instruction).parent;
        one.pass == other.pass && self.passes[one.pass].recomputes() && place(one) == place(other)
    }
}
