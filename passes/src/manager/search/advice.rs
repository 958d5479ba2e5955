//! Remarks on flags that would save more: where the result stays far above the floor, the input is searched again with weaker grades and with a budget.
//!
//! Users learn of such flags from these remarks. The searches run on a copy of the input, are bounded, and change nothing. A run with the flags reaches the figure
//! of the remark or a lower one.

use hlo_ir::Module;
use hlo_memory::Bytes;

use super::Search;
use super::freedom::Freedom;
use super::restarts::is_far_above_floor;
use crate::manager::memoized::Memoized;
use crate::manager::watch::NoObserver;
use crate::manager::{Remark, RemarkKind, remark_site};
use crate::{Grade, Objective, Options, Pass};

/// Instructions looked at by all searches for waste of one run together. Bounds what advice takes to about a second.
const INSTRUCTIONS_SEARCHED: usize = 20_000;
/// A gain of less than this part of the peak, as a divisor, is no reason for another flag.
const WORTH_A_FLAG: u64 = 20;

/// Flags that allow more: a weaker grade, and memory at the cost of time.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Flags {
    grade: Option<Grade>,
    for_budget: bool,
}

impl Flags {
    /// From less freedom to more.
    const ALL: [Self; 4] = [
        Self { grade: Some(Grade::HloExact), for_budget: false },
        Self { grade: Some(Grade::Reassociate), for_budget: false },
        Self { grade: None, for_budget: true },
        Self { grade: Some(Grade::Reassociate), for_budget: true },
    ];

    /// Whether each of them allows anything that `options` do not.
    fn are_new(self, options: &Options) -> bool {
        self.grade.is_none_or(|grade| options.exactness < grade) && (!self.for_budget || options.goal().is_none())
    }

    /// Whether all that these allow is allowed by `other` too.
    fn are_within(self, other: Self) -> bool {
        self.grade <= other.grade && self.for_budget <= other.for_budget
    }

    /// The options of a run with these flags that wants as little memory as can be had.
    fn of(self, options: &Options) -> Options {
        let exactness = self.grade.unwrap_or(options.exactness);
        let objective = if self.for_budget { Objective::Memory } else { options.objective };
        Options { exactness, objective, bisect_limit: None, advise: false, ..options.clone() }
    }

    /// What a run with them would give.
    fn message(self, peak: Bytes) -> String {
        let grade = self.grade.map(|grade| match grade {
            Grade::Reassociate => "--exactness=reassociate, which sums up in blocks,".to_owned(),
            grade => format!("--exactness={}, with which last bits of a block may differ,", grade.name()),
        });
        let objective = "--objective=memory, with which rewrites may cost run time,".to_owned();
        let flags: Vec<String> = grade.into_iter().chain(self.for_budget.then_some(objective)).collect();
        format!("{} would lower the peak to {peak}", flags.join(" and "))
    }
}

impl Search<'_> {
    /// The remarks, and before them what other flags would give.
    pub(super) fn with_advice(&mut self, remarks: Vec<Remark>) -> Vec<Remark> {
        if !is_wanted(self) {
            return remarks;
        }
        self.observer.working("looking at what other flags would give");
        let mut input = self.module.clone();
        for step in self.steps.iter().rev() {
            step.undo.clone().revert(&mut input);
        }
        let mut all = collect(self, &input, self.passes, self.estimator);
        all.extend(remarks);
        all
    }
}

/// Whether there is memory left that other flags could spare.
fn is_wanted(search: &Search<'_>) -> bool {
    let (options, end) = (search.options, &search.now);
    let asked = options.advise && options.bisect_limit.is_none() && !search.passes.is_empty();
    asked
        && !search.fits()
        && is_far_above_floor(end)
        && end.total_with_scratch() - end.floor >= search.min_step_saving()
}

/// One remark for each set of flags that would lower the peak of `search`'s end by more than any that allow less; `input` is the module as it was given.
fn collect(search: &Search<'_>, input: &Module, passes: &[Box<dyn Pass>], estimator: &Memoized<'_>) -> Vec<Remark> {
    let (options, end) = (search.options, &search.now);
    let new: Vec<Flags> = Flags::ALL.into_iter().filter(|flags| flags.are_new(options)).collect();
    let peak = |flags: Flags| lowest(input, passes, &flags.of(options), estimator);
    let Some((&most, others)) = new.split_last() else { return Vec::new() };
    let gain = |from: Bytes, to: Bytes| to + search.min_step_saving().max(Bytes(from.get() / WORTH_A_FLAG)) <= from;
    // What nothing of it helps, no part of it does.
    let Some(all) = peak(most).filter(|&all| gain(end.total, all)) else { return Vec::new() };
    let mut found: Vec<(Flags, Bytes)> = Vec::new();
    let of_others = others.iter().filter_map(|&flags| peak(flags).map(|peak| (flags, peak)));
    for (flags, peak) in of_others.chain([(most, all)]) {
        let mut weaker = found.iter().filter(|(other, _)| other.are_within(flags));
        if gain(end.total, peak) && weaker.all(|&(_, other)| gain(other, peak)) {
            found.push((flags, peak));
        }
    }
    found.into_iter().map(|(flags, peak)| remark(search, flags, peak)).collect()
}

/// The peak that a search with all the freedom of these options reaches, if it can be run. A run goes up to that freedom step by step and keeps the lowest
/// end, so it ends there or lower; the steps before would use up what may be searched here.
fn lowest(input: &Module, passes: &[Box<dyn Pass>], options: &Options, estimator: &Memoized<'_>) -> Option<Bytes> {
    let mut module = input.clone();
    let mut observer = NoObserver;
    let mut search = Search::begin(&mut module, passes, options, estimator, &mut observer).ok()?;
    search.searched_at_most(INSTRUCTIONS_SEARCHED);
    search.search_once(Freedom::full(options, options.goal().is_some())).ok()?;
    Some(search.now.total)
}

/// The remark stands at the largest buffer that is no part of the floor.
fn remark(search: &Search<'_>, flags: Flags, peak: Bytes) -> Remark {
    let mut remark =
        remark_site::of_module(search.module, &search.origins, "manager", "more-freedom", &flags.message(peak));
    remark.kind = RemarkKind::Missed;
    remark.bytes = search.now.total - peak;
    remark
}
