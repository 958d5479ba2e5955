//! What a run counts, how long it takes, and who is told while it goes on.

use std::time::{Duration, Instant};

use hlo_ir::Module;

use super::Rewrite;

/// Someone who follows a run. Nothing said here decides anything.
pub trait Observer {
    /// The module before any change.
    fn begun(&mut self, _module: &Module) {}
    /// What is being done now, in a few words: for a person who waits.
    fn working(&mut self, _what: &str) {}
    /// Rewrite `number`, counted from 1, was made; `module` holds it. It may still be put back.
    fn applied(&mut self, _number: usize, _rewrite: &Rewrite, _module: &Module) {}
    /// All rewrites but the first `kept` were put back.
    fn undone(&mut self, _kept: usize) {}
}

/// An observer that ignores all events.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoObserver;

impl Observer for NoObserver {}

/// How often something was done and how long that took together.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Work {
    /// How often.
    pub count: usize,
    /// Time of all of them, by the clock on the wall.
    pub time: Duration,
}

impl Work {
    /// Does it once more.
    pub(super) fn measure<T>(&mut self, work: impl FnOnce() -> T) -> T {
        let start = Instant::now();
        let result = work();
        self.count += 1;
        self.time += start.elapsed();
        result
    }
}

/// What one pass did.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct PassStatistics {
    /// Its name.
    pub name: &'static str,
    /// Searches for waste.
    pub searches: Work,
    /// Findings of all searches together; the same waste is found again in each of them.
    pub findings: usize,
    /// Patches tried and taken back, to measure what they would do.
    pub tried: usize,
    /// Changes made.
    pub made: usize,
    /// Changes put back later, because nothing was gained.
    pub put_back: usize,
}

/// What a run did.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Statistics {
    /// Each pass, in the order of the pipeline.
    pub passes: Vec<PassStatistics>,
    /// Patches applied, verified and compared.
    pub patches: Work,
    /// Memory estimates.
    pub estimates: Work,
    /// Instructions before and after.
    pub instructions: (usize, usize),
    /// The whole run.
    pub total: Duration,
}

impl Statistics {
    /// Nothing done yet.
    pub(super) fn of(names: impl Iterator<Item = &'static str>, instructions: usize) -> Self {
        let passes = names.map(|name| PassStatistics { name, ..PassStatistics::default() }).collect();
        Self { passes, instructions: (instructions, instructions), ..Self::default() }
    }
}
