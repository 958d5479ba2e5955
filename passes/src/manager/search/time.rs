//! What computing values again costs: the estimated time of a form beside that of the input.
//!
//! Passes that compute values again weigh that against the traffic it spares, one value at a time. What a kernel takes in, what it stores for others and what
//! stands behind a barrier only shows in the module as it is compiled, so the time of that decides.

use hlo_ir::{Module, hash};
use hlo_memory::Target;
use indexmap::IndexMap;

use super::super::RunError;
use super::super::remarks::Trial;
use super::{Candidate, Search, trial};
use crate::pass::MAX_SLOWDOWN;
use crate::{Options, run_time};

/// How many times as slow loops over blocks may make a program on a GPU: each block starts its kernels anew, and reads again what all of them need.
const MAX_SLOWDOWN_BY_BLOCKS: f64 = 1.25;

/// Times of a run of the input and of forms that were seen before, as far as there are any.
#[derive(Default)]
pub(super) struct Times {
    /// Kept only where a pass is timed.
    input: Option<Module>,
    known: IndexMap<u64, Option<f64>>,
}

impl Times {
    pub(super) fn of(input: &Module, is_asked_for: bool) -> Self {
        Self { input: (is_asked_for && !input.is_scheduled()).then(|| input.clone()), known: IndexMap::new() }
    }
    /// Seconds of a run of a module, and of the input.
    fn ask(&mut self, module: &Module, options: &Options) -> Option<[f64; 2]> {
        let Self { input, known } = self;
        let mut of = |module: &Module| {
            let measure = || run_time(module, options.target, options.machine()).ok().map(|time| time.seconds);
            *known.entry(hash::named_hash(module)).or_insert_with(measure)
        };
        Some([of(module)?, of(input.as_ref()?)?])
    }
}

impl Search<'_> {
    /// Whether the candidate that was tried last makes the program take longer beside the input than a user accepts who did not ask for memory at the cost of time.
    pub(super) fn is_too_slow(&mut self, candidate: &Candidate) -> Result<bool, RunError> {
        let pass = &self.passes[candidate.pass];
        let most = match (pass.is_timed(), self.options.target) {
            (true, _) => MAX_SLOWDOWN,
            // Who sets a size of blocks or asks for less than the usual savings wants memory at the cost of time.
            (false, Target::Gpu) if !self.options.asks_for_small_savings() => MAX_SLOWDOWN_BY_BLOCKS,
            // On CPU passes go by prices of their own, which were fitted to run times. What kernels and iterations take on TPU was not measured.
            (false, _) => return Ok(false),
        };
        let Some(patch) = candidate.patch() else { return Ok(false) };
        if self.told.budget.is_some() || !self.fits_device() {
            return Ok(false);
        }
        let undo = trial::apply(self.module, self.claim(candidate), patch.clone(), self.options)?;
        let times = self.times.ask(self.module, self.options);
        undo.revert(self.module);
        let slowdown = times.map(|[seconds, input]| seconds / input).filter(|slowdown| *slowdown > most);
        if let Some((slowdown, tried)) = slowdown.zip(self.tried.last_mut()) {
            tried.outcome = Trial::Slower(slowdown);
        }
        Ok(slowdown.is_some())
    }

    /// Whether the input runs at all on the device that was named: what does not may take longer.
    fn fits_device(&self) -> bool {
        self.options.machine().memory.is_none_or(|memory| self.before.total <= memory)
    }
}
