//! How much of what the user allows is used at a time.
//!
//! A search takes the best step of each state, so one that may do more can end higher than one that may do less. Where the options allow more than the
//! default, the search is run with less first, and the lower end stays: more freedom never ends higher.

// Tests: `passes/tests/budget.rs`.

use hlo_memory::Bytes;

use super::super::RunError;
use super::Search;
use super::recompute::Asked;
use super::replay::Recording;
use super::restarts::is_far_above_floor;
use crate::objective::NEGLIGIBLE;
use crate::{Grade, Objective, Options};

/// How much run time rewrites may cost for a budget.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum TimePolicy {
    /// None: passes do not see the budget.
    NoTime,
    /// As little as can be: what takes least for what it brings is taken.
    LeastFromStart,
    /// The same, behind what is done without a budget.
    LeastFromDefault,
    /// Any: what saves most is taken.
    Any,
}

impl TimePolicy {
    /// Whether the time that a rewrite takes decides.
    pub(super) fn is_least(self) -> bool {
        matches!(self, Self::LeastFromStart | Self::LeastFromDefault)
    }
}

/// A part of what the user allows.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Freedom {
    /// The weakest grade.
    exactness: Grade,
    /// Whether promises about the data may be used.
    promises: bool,
    /// Whether passes are told of the budget, or that memory is all that counts: rewrites may then cost run time.
    time_policy: TimePolicy,
    /// Which passes are asked from the beginning; the others are asked behind them.
    asked: Asked,
}

impl Freedom {
    /// Everything that `options` allow, or all but rewrites that cost run time.
    pub(super) const fn full(options: &Options, for_budget: bool) -> Self {
        let time_policy = if for_budget { TimePolicy::Any } else { TimePolicy::NoTime };
        Self { exactness: options.exactness, promises: true, time_policy, asked: Asked::First }
    }

    /// Whether values are computed again outside of loops before anything else is done, not behind it.
    fn recomputes_first(self) -> bool {
        self.asked > Asked::First
    }

    /// Whether rewrites may cost run time.
    fn for_budget(self) -> bool {
        self.time_policy != TimePolicy::NoTime
    }

    /// Whether what meets a budget behind another search may take more time than this one finds: all ways to it in which time counts are compared, and in small
    /// modules the one that makes loops first.
    fn may_be_faster_than(self, before: Self, is_small: bool) -> bool {
        let is_loops_first = is_small && before.time_policy == TimePolicy::Any && before.recomputes_first();
        self.time_policy.is_least() || self.recomputes_first() && before.time_policy.is_least() || is_loops_first
    }

    /// The options as passes see them.
    pub(super) fn of(self, options: &Options) -> Options {
        Options {
            exactness: self.exactness,
            assumptions: if self.promises { options.assumptions.clone() } else { Vec::new() },
            budget: options.budget.filter(|_| self.for_budget()),
            objective: match options.objective {
                Objective::Memory if !self.for_budget() => Objective::Balanced,
                objective => objective,
            },
            ..options.clone()
        }
    }

    /// What is tried under `options`, the least first; what may cost run time comes last, and what takes the less of it first, if it is known.
    fn ladder(options: &Options, is_timed: bool) -> Vec<Self> {
        let mut exactness = vec![options.exactness.min(Grade::HloExact), options.exactness];
        exactness.dedup();
        let up_to = |most: bool| [false, true].into_iter().take(1 + usize::from(most));
        let mut ladder: Vec<Self> = Vec::new();
        for for_budget in up_to(options.goal().is_some()) {
            let mut known = Vec::new();
            if for_budget && is_timed {
                let fast = |(time_policy, asked)| Self { time_policy, asked, ..Self::full(options, true) };
                let ways = [
                    (TimePolicy::LeastFromStart, Asked::Recomputing),
                    (TimePolicy::LeastFromDefault, Asked::Recomputing),
                    (TimePolicy::Any, Asked::Recomputing),
                    (TimePolicy::LeastFromStart, Asked::Offloading),
                ];
                known.extend(ways.into_iter().take(if options.host_memory > Bytes::ZERO { 4 } else { 3 }).map(fast));
                ladder.extend(&known);
            }
            for promises in up_to(!options.assumptions.is_empty()) {
                let plain = Self { exactness: exactness[0], promises, ..Self::full(options, for_budget) };
                for &exactness in &exactness {
                    let first = Self { exactness, ..plain };
                    // Loops over sums that may be split reach most of what could be computed again; what they do not only a missed budget asks for.
                    let other = exactness == plain.exactness || for_budget;
                    let both = [first, Self { asked: Asked::Recomputing, ..first }];
                    let new = both.into_iter().take(1 + usize::from(other)).filter(|way| !known.contains(way));
                    ladder.extend(new);
                }
            }
        }
        ladder
    }
}

impl Search<'_> {
    /// Searches with little freedom first, and with more where that leaves memory far above the floor, or misses a budget. The lowest end stays; of several,
    /// the one that needed least.
    pub(super) fn descend_freely(&mut self) -> Result<(), RunError> {
        let (start, trials) = (self.checkpoint(), self.trials_left);
        let mut lowest: Option<(Bytes, Option<f64>, Recording)> = None;
        // The lowest end without a budget, and how long the program takes there.
        let mut default_end: Option<(Recording, Option<f64>)> = None;
        let mut is_there = true;
        let mut order_counts = true;
        // The time of the end that meets the budget.
        let mut met: Option<f64> = None;
        let mut ladder = self.ladder()?.into_iter().peekable();
        while let Some(freedom) = ladder.next() {
            let is_other_order = freedom.recomputes_first() && !freedom.time_policy.is_least();
            if is_other_order && !order_counts {
                continue;
            }
            match &default_end {
                Some((recording, time)) if freedom.time_policy == TimePolicy::LeastFromDefault => {
                    // What is computed again in addition takes more.
                    if met.zip(*time).is_some_and(|(met, time)| time >= met) {
                        continue;
                    }
                    self.restore_end(&start, recording)?;
                }
                _ => self.restore(&start),
            }
            (self.trials_left, self.searches) = (trials, 0);
            order_counts = self.descend_with(freedom)?;
            self.note_near_budget();
            let end = self.now.total;
            // Where loops end as low, but for a hundredth, no value is computed again in their place; nor is that worth time.
            let costs = freedom.recomputes_first() || freedom.for_budget();
            let margin = |other: Bytes| Bytes(if costs { other.get() / NEGLIGIBLE } else { 0 });
            let is_lower = |other: Bytes| end + margin(other) < other;
            let product = self.bytes_times_seconds();
            let is_worth_it = |other: Option<f64>| product.zip(other).is_none_or(|(own, other)| own < other);
            let is_better = |other: Bytes, of_other: Option<f64>| {
                is_lower(other) && is_worth_it(of_other) || end == other && self.keeps_sums_whole()
            };
            is_there = match met {
                Some(time) => self.fits() && self.time().is_some_and(|own| own < time),
                None => self.fits() || lowest.as_ref().is_none_or(|(other, product, _)| is_better(*other, *product)),
            };
            if is_there {
                lowest = Some((end, product, self.recorded()));
                met = self.time().filter(|_| self.fits());
                if !freedom.for_budget() {
                    default_end = Some((self.recorded(), self.time()));
                    self.accept_slowdown();
                    self.begin_near_budget();
                }
            }
            // What meets a budget at the price of time may take less of it on another way.
            let may_be_faster =
                met.is_some() && ladder.peek().is_some_and(|next| next.may_be_faster_than(freedom, self.is_small()));
            let is_settled =
                self.fits() || met.is_some() || self.options.goal().is_none() && !is_far_above_floor(&self.now);
            if is_settled && !may_be_faster {
                break;
            }
        }
        self.time_policy = TimePolicy::NoTime;
        if met.is_none() && self.end_near_budget(&start)? {
            return Ok(());
        }
        match lowest {
            Some((.., recording)) if !is_there => self.restore_end(&start, &recording),
            _ => Ok(()),
        }
    }

    /// What is tried, without what would be the same once more.
    fn ladder(&mut self) -> Result<Vec<Freedom>, RunError> {
        let mut ladder = Freedom::ladder(self.options, self.asks_for_time());
        self.allow(Freedom::full(self.options, self.options.goal().is_some()));
        let could_recompute = self.could_recompute()?;
        ladder.retain(|freedom| could_recompute || freedom.time_policy.is_least() || !freedom.recomputes_first());
        Ok(ladder)
    }

    /// Searches with this much freedom, and gives the loops their final form. Whether anything was made before values were computed again.
    fn descend_with(&mut self, freedom: Freedom) -> Result<bool, RunError> {
        self.allow(freedom);
        let start = self.checkpoint();
        self.descend_repeatedly()?;
        self.descend_with_large_recomputation()?;
        let made_loops = self.made().count() > start.step_count();
        self.descend_with_recomputation()?;
        self.descend_with_last()?;
        self.keep_what_counts(&start);
        self.keep_just_enough(&start)?;
        self.keep_what_is_worth_its_time(&start)?;
        self.clean_up()?;
        while self.speed_up()? {}
        Ok(made_loops)
    }

    /// Whether no rewrite that was made is of a weaker grade than the default.
    fn keeps_sums_whole(&self) -> bool {
        self.made().all(|made| made.rewrite.grade <= Grade::HloExact)
    }

    /// Passes are told of this much freedom from now on.
    pub(super) fn allow(&mut self, freedom: Freedom) {
        self.pass_options = freedom.of(self.options);
        self.time_policy = freedom.time_policy;
        self.asked = freedom.asked;
        (self.recompute_large, self.limited) = (false, false);
        self.taken_back.clear();
        self.findings.forget();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Assumption;

    #[test]
    fn less_is_tried_where_more_is_allowed() {
        let plain = Options::default();
        let least = Freedom { promises: false, ..Freedom::full(&plain, false) };
        assert_eq!(Freedom::ladder(&plain, true), [least, Freedom { asked: Asked::Recomputing, ..least }]);
        let more = Options {
            exactness: Grade::Reassociate,
            assumptions: vec![Assumption::IndicesInBounds],
            budget: Some(Bytes(1)),
            ..plain
        };
        let ladder = Freedom::ladder(&more, false);
        assert_eq!(ladder.len(), 14);
        assert_eq!(ladder[5], Freedom::full(&more, false));
        assert_eq!(ladder[12], Freedom::full(&more, true));
        assert_eq!(ladder[13], Freedom { asked: Asked::Recomputing, ..Freedom::full(&more, true) });
        assert!(ladder.iter().take(6).all(|freedom| freedom.of(&more).budget.is_none()));
        let timed = Freedom::ladder(&more, true);
        let time_policy: Vec<TimePolicy> = timed.iter().skip(5).take(4).map(|freedom| freedom.time_policy).collect();
        assert_eq!(
            time_policy,
            [TimePolicy::NoTime, TimePolicy::LeastFromStart, TimePolicy::LeastFromDefault, TimePolicy::Any]
        );
        assert_eq!(timed.len(), 16);
        let least = ladder[0].of(&more);
        assert_eq!((least.exactness, least.assumptions.len()), (Grade::HloExact, 0));
    }
}
