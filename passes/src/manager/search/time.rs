//! What computing values again costs: the estimated time of a form beside that of the input.
//!
//! Passes that compute values again weigh that against the traffic it spares, one value at a time. What a kernel takes in, what it stores for others and what
//! stands behind a barrier only shows in the module as it is compiled, so the time of that decides.

use hlo_ir::{Module, hash};
use indexmap::IndexMap;

use super::Search;
use crate::pass::MAX_SLOWDOWN;
use crate::{Options, run_time};

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
    /// How many times as long as the input the module takes as it is now, if that is more than a user accepts who did not ask for memory at the cost of time.
    pub(super) fn slowdown(&mut self) -> Option<f64> {
        if self.told.budget.is_some() || !self.fits_device() {
            return None;
        }
        let [seconds, input] = self.times.ask(self.module, self.options)?;
        Some(seconds / input).filter(|slowdown| *slowdown > MAX_SLOWDOWN)
    }

    /// Whether the input runs at all on the device that was named: what does not may take longer.
    fn fits_device(&self) -> bool {
        self.options.machine().memory.is_none_or(|memory| self.before.total <= memory)
    }
}
