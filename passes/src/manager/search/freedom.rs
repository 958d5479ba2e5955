//! How much of what the user allows is used at a time.
//!
//! A search takes the best step of each state, so one that may do more can end where one that may do less would not have ended. Where the options allow
//! more than the default, the search is also run with less, and the better end stays: more freedom never ends higher.

use hlo_memory::Bytes;

use super::super::RunError;
use super::again::{Mark, is_far};
use super::{Candidate, Search};
use crate::{Grade, Options};

/// A part of what the user allows.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Freedom {
    /// The weakest grade.
    exactness: Grade,
    /// Whether promises about the data may be used.
    promises: bool,
    /// Whether passes are told of the budget: rewrites may then cost run time.
    for_budget: bool,
}

impl Freedom {
    /// Everything that `options` allow, or all but rewrites that cost run time.
    pub(super) const fn full(options: &Options, for_budget: bool) -> Self {
        Self { exactness: options.exactness, promises: true, for_budget }
    }

    /// The options as passes see them.
    pub(super) fn of(self, options: &Options) -> Options {
        Options {
            exactness: self.exactness,
            assumptions: if self.promises { options.assumptions.clone() } else { Vec::new() },
            budget: options.budget.filter(|_| self.for_budget),
            ..options.clone()
        }
    }

    /// What is tried under `options`, the most first; without a budget nothing may cost run time, and with one that comes last.
    fn ladder(options: &Options) -> Vec<Self> {
        let exactness = [options.exactness, options.exactness.min(Grade::HloExact)];
        let promises = [!options.assumptions.is_empty(), false];
        let mut ladder: Vec<Self> = Vec::new();
        for for_budget in [false, true].into_iter().take(1 + usize::from(options.budget.is_some())) {
            for promises in promises {
                for exactness in exactness {
                    ladder.push(Self { exactness, promises, for_budget });
                }
            }
        }
        let mut seen = Vec::new();
        ladder.retain(|freedom| {
            !seen.contains(freedom) && {
                seen.push(*freedom);
                true
            }
        });
        ladder
    }
}

/// Where a descent ended.
struct End {
    total: Bytes,
    freedom: Freedom,
    made: Vec<Candidate>,
    is_far: bool,
}

impl Search<'_> {
    /// Descends with all that is allowed; where that leaves memory far above the floor, or misses a budget, also with less, and where a budget is missed
    /// with rewrites that cost run time. The lowest end stays, the first of several.
    pub(super) fn descend_freely(&mut self) -> Result<(), RunError> {
        let (start, trials) = (self.mark(), self.trials_left);
        let mut ends: Vec<End> = Vec::new();
        for freedom in Freedom::ladder(self.options) {
            if !ends.is_empty() {
                self.back_to(&start);
            }
            (self.trials_left, self.limited) = (trials, false);
            ends.push(self.end_of(&start, freedom)?);
            if self.fits() || self.options.budget.is_none() && !ends.iter().all(|end| end.is_far) {
                break;
            }
        }
        let lowest = ends.iter().map(|end| end.total).min();
        let is_last = ends.last().map(|end| end.total) == lowest;
        match ends.into_iter().find(|end| Some(end.total) == lowest) {
            Some(end) if !is_last => self.go_to(&start, end),
            _ => Ok(()),
        }
    }

    /// Descends with this much freedom.
    fn end_of(&mut self, start: &Mark, freedom: Freedom) -> Result<End, RunError> {
        self.allow(freedom);
        self.descend_repeatedly()?;
        self.descend_with_repeats()?;
        Ok(End { total: self.now.total, freedom, made: self.made_since(start), is_far: is_far(&self.now) })
    }

    /// Makes the changes of an end again.
    fn go_to(&mut self, start: &Mark, end: End) -> Result<(), RunError> {
        self.back_to(start);
        self.allow(end.freedom);
        self.make_again(end.made)
    }

    /// Passes are told of this much freedom from now on.
    fn allow(&mut self, freedom: Freedom) {
        self.told = freedom.of(self.options);
        self.repeats = false;
        self.said.forget();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Assumption;

    #[test]
    fn less_is_tried_where_more_is_allowed() {
        let plain = Options::default();
        assert_eq!(Freedom::ladder(&plain), [Freedom { promises: false, ..Freedom::full(&plain, false) }]);
        let more = Options {
            exactness: Grade::Reassociate,
            assumptions: vec![Assumption::IndicesInBounds],
            budget: Some(Bytes(1)),
            ..plain
        };
        let ladder = Freedom::ladder(&more);
        assert_eq!(ladder.len(), 8);
        assert_eq!(ladder[0], Freedom::full(&more, false));
        assert!(ladder.iter().take(4).all(|freedom| freedom.of(&more).budget.is_none()));
        let least = ladder[3].of(&more);
        assert_eq!((least.exactness, least.assumptions.len()), (Grade::HloExact, 0));
    }
}
