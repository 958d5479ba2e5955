//! The run time that rewrites cost: the estimated time of a form beside that of the input.
//!
//! Passes that compute values again weigh that against the traffic it spares, one value at a time. What a kernel takes in, what it stores for others and what
//! stands behind a barrier only shows in the module as it is compiled, so the time of that decides.

// Tests: `passes/tests/budget.rs`.

use hlo_ir::Module;
use hlo_memory::{Bytes, Estimate, Estimator as _, Target};

use super::super::RunError;
use super::super::memoized::Memoized;
use super::super::trial_record::Trial;
use super::freedom::TimePolicy;
use super::{Candidate, Search, trial};
use crate::MAX_SLOWDOWN;
use crate::Objective;
use crate::cost::Costs;
use crate::machine::MAX_LAUNCH_OVERHEAD;
use crate::objective::NEGLIGIBLE;
use crate::run_time::of_products;

/// How often a value that waits is moved, as `rematerialize` prices it: it is written, read by late products, and read by other late kernels.
const MOVED: u64 = 3;

/// Seconds that the input takes, that the module takes as it is now, and that its products take of that.
pub(super) struct TimeOfProducts {
    input: f64,
    now: f64,
    products: f64,
}

/// How many times as long as the input the program takes at an end of the search that may be taken, and what it needs there.
pub(super) struct Accepted {
    slowdown: f64,
    peak: Bytes,
}

impl Search<'_> {
    /// How many times as long as the input the program takes with the candidate that was tried last, if that is too long.
    pub(super) fn excessive_slowdown(&mut self, candidate: &Candidate) -> Result<Option<f64>, RunError> {
        if self.most_slowdown(candidate.pass).is_none() {
            return Ok(None);
        }
        let slowdown = self.behind(candidate, |search| search.slowdown_by(candidate.pass))?.flatten();
        if let Some((slowdown, tried)) = slowdown.zip(self.tried.last_mut()) {
            tried.outcome = Trial::Slower(slowdown);
        }
        Ok(slowdown)
    }

    /// What all instructions take with a candidate made, as traffic in bytes, where time limits what its pass computes again.
    pub(super) fn work_with(&mut self, candidate: &Candidate) -> Option<f64> {
        let limits = self.passes[candidate.pass].recomputes() && self.most_slowdown(candidate.pass).is_some();
        let patch = candidate.patch().filter(|_| limits)?;
        let undo = patch.clone().apply(self.module).ok()?;
        let work = Costs::new(self.module, self.options.machine()).at_least(self.module.entry());
        undo.revert(self.module);
        Some(work)
    }

    /// What the module takes as it is now, where something is timed.
    pub(super) fn time_of_products(&self) -> Option<TimeOfProducts> {
        let (input, now) = self.seconds_before.zip(self.estimator.seconds(self.module))?;
        Some(TimeOfProducts { input, now, products: of_products(self.module, self.options.machine()) })
    }

    /// How many times as long as the input the module would take with a candidate by its products, if that is more than its pass may make of it: what it takes now, and the
    /// products made again, without what is spared where values wait no more. All else that is computed again comes on top.
    pub(super) fn least_slowdown(&mut self, candidate: &Candidate, time: &TimeOfProducts) -> Option<f64> {
        let most = self.most_slowdown(candidate.pass).filter(|_| self.passes[candidate.pass].is_timed())?;
        let machine = self.options.machine();
        // What is only counted need not be legal.
        let Some(Ok(undo)) = candidate.patch().map(|patch| patch.clone().apply(self.module)) else { return None };
        let with = of_products(self.module, machine);
        undo.revert(self.module);
        let spared = (candidate.finding.wasted.get() * MOVED) as f64 / machine.bytes_per_second as f64;
        let slowdown = (time.now + (with - time.products).max(0.0) - spared) / time.input;
        (slowdown > most).then_some(slowdown)
    }

    /// How many times as long as the input the module takes as it is now, if that is more than rewrites of a pass may make of it.
    pub(super) fn slowdown_by(&mut self, pass: usize) -> Option<f64> {
        let most = self.most_slowdown(pass)?;
        let slowdown = slowdown(self.estimator, self.module, self.seconds_before)?;
        let is_weighed = self.passes[pass].is_timed() && slowdown > MAX_SLOWDOWN;
        (slowdown > most || is_weighed && !self.accepts(slowdown)).then_some(slowdown)
    }

    /// Whether the module as it is now may take so many times as long as the input, beside the lowest end so far.
    fn accepts(&self, slowdown: f64) -> bool {
        let Some(end) = &self.accepted else { return false };
        let peak = self.estimator.estimate(self.module).map_or(end.peak, |estimate| estimate.total_with_scratch());
        slowdown <= end.slowdown || slowdown * peak.get() as f64 <= end.slowdown * end.peak.get() as f64
    }

    /// Seconds that the module takes as it is now, where that is asked for and known.
    pub(super) fn time(&self) -> Option<f64> {
        if self.asks_for_time() { self.estimator.seconds(self.module) } else { None }
    }

    /// Whether a budget may take time, and how much is known. On CPU only the passes that compute again are timed.
    pub(super) fn asks_for_time(&self) -> bool {
        let asks = self.options.budget.is_some() && self.options.objective != Objective::Memory;
        asks && self.seconds_before.is_some() && self.options.target != Target::Cpu
    }

    /// Whether what saves most is taken on the way to a budget, however much time it takes, and time is known.
    pub(super) fn takes_most(&self) -> bool {
        self.time_policy == TimePolicy::Any && self.asks_for_time()
    }

    /// Time that the candidate that was tried last takes for each byte that it brings the peak nearer to the budget, in 10^-21 seconds; a hundredth of the program's time
    /// matters to nobody.
    pub(super) fn cost(&mut self, candidate: &Candidate, estimate: &Estimate) -> Result<u64, RunError> {
        let (Some(budget), Some(input)) = (self.pass_options.budget, self.seconds_before) else { return Ok(0) };
        let seconds = self.behind(candidate, |search| search.estimator.seconds(search.module))?.flatten();
        let Some(seconds) = seconds else { return Ok(u64::MAX) };
        let now = self.estimator.seconds(self.module).unwrap_or(input);
        let missing = |estimate: &Estimate| self.options.peak(estimate) - budget;
        let nearer = missing(&self.now) - missing(estimate);
        let longer = (seconds - now).max(input / NEGLIGIBLE as f64);
        Ok((longer * 1e21 / nearer.get().max(1) as f64) as u64)
    }

    /// What is asked of the module with a candidate made; the module is left as it is.
    pub(super) fn behind<T>(
        &mut self,
        candidate: &Candidate,
        ask: impl FnOnce(&mut Self) -> T,
    ) -> Result<Option<T>, RunError> {
        let Some(patch) = candidate.patch() else { return Ok(None) };
        let undo = trial::apply(self.module, self.claim(candidate), patch.clone(), self.options, self.estimator)?;
        let answer = ask(self);
        undo.revert(self.module);
        Ok(Some(answer))
    }

    /// What is computed again may take as long as what is done instead of that, at the lowest end so far: if it ends lower, it is better in memory and no slower. It may take
    /// even longer, as long as loops may, where it saves a larger part of the memory than it takes more of the time.
    pub(super) fn accept_slowdown(&mut self) {
        let slowdown = slowdown(self.estimator, self.module, self.seconds_before);
        let slowdown = slowdown.filter(|slowdown| self.options.target != Target::Cpu && *slowdown > MAX_SLOWDOWN);
        self.accepted = slowdown.map(|slowdown| Accepted { slowdown, peak: self.now.total_with_scratch() });
    }

    /// Whether the input fits the memory of its device, as far as that is known.
    pub(super) fn fits_device(&self) -> bool {
        self.options.machine().memory.is_none_or(|memory| self.before.likely() <= memory)
    }

    /// How many times as slow rewrites of a pass may make the program; any number where memory is asked for at the cost of time, and where the input does not fit
    /// its device.
    pub(super) fn most_slowdown(&self, pass: usize) -> Option<f64> {
        if self.pass_options.goal().is_some() || !self.fits_device() {
            return None;
        }
        if self.pass_options.objective == Objective::Time {
            return Some(1.0);
        }
        match (self.passes[pass].is_timed(), self.options.target) {
            (true, _) if self.accepted.is_none() => Some(MAX_SLOWDOWN),
            (true, _) => Some(1.0 + MAX_LAUNCH_OVERHEAD),
            // Blocks are as large as starting their kernels asks for. On CPU passes go by prices of their own, which were fitted to run times.
            (false, Target::Cpu) => None,
            (false, _) => self.options.chunk_bytes.is_none().then_some(1.0 + MAX_LAUNCH_OVERHEAD),
        }
    }
}

/// How many times as long as the input, which takes so many seconds, a module takes.
pub(super) fn slowdown(estimator: &Memoized<'_>, module: &Module, input: Option<f64>) -> Option<f64> {
    let input = input?;
    estimator.seconds(module).map(|seconds| seconds / input)
}
