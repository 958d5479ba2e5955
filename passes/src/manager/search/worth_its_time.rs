//! Takes back the last rewrites where they cost a larger part of the run time than they save of the memory.
//!
//! Loops may take a quarter more time by default, whatever they save. Of two ends of a search the better one holds less memory for less time, and where one holds less and
//! takes longer, the product says which: bytes times seconds, as clouds charge for them. Whoever asks for memory by a budget or an objective gets it at any price.

// Tests: `passes/tests/chunk_time.rs`.

use hlo_ir::InstructionId;
use hlo_memory::Target;

use super::super::{Rewrite, RunError};
use super::Search;
use super::restarts::Checkpoint;
use super::steps::Made;
use super::time::slowdown;
use crate::PassKind;
use crate::objective::NEGLIGIBLE;

/// A rewrite that was made and taken back.
#[derive(Clone, Debug)]
pub(in crate::manager) struct TakenBack {
    pub(in crate::manager) rewrite: Rewrite,
    /// Its instruction in the input.
    pub(in crate::manager) origin: InstructionId,
    /// How many times as long as the input the program takes with it and those before it.
    pub(in crate::manager) slowdown: f64,
}

impl Search<'_> {
    /// Keeps, of the steps made since `start`, the first ones up to where bytes times seconds are least.
    pub(super) fn keep_what_is_worth_its_time(&mut self, start: &Checkpoint) -> Result<(), RunError> {
        if !self.weighs_time() {
            return Ok(());
        }
        let end = self.recorded();
        let Some(all) = self.bytes_times_seconds() else { return Ok(()) };
        self.restore(start);
        let (mut least, mut best) = (self.bytes_times_seconds().unwrap_or(f64::INFINITY), self.checkpoint());
        let mut behind = Vec::new();
        for made in end.since(start) {
            self.put_back([made.clone()])?;
            // Behind an enabling change there may be no estimate.
            let Ok(now) = self.measure() else { continue };
            self.now = now;
            behind.extend(self.taken_back(made));
            if let Some(product) = self.bytes_times_seconds().filter(|product| *product < least) {
                self.commit();
                (least, best) = (product, self.checkpoint());
                behind.clear();
            }
        }
        if all * (1.0 - 1.0 / NEGLIGIBLE as f64) <= least {
            return self.restore_end(start, &end);
        }
        self.restore(&best);
        self.findings.forget();
        self.taken_back = behind;
        Ok(())
    }

    /// What is to be said of the rewrite that was made last, if it is taken back.
    fn taken_back(&self, made: &Made) -> Option<TakenBack> {
        let slowdown = slowdown(self.estimator, self.module, self.seconds_before)?;
        let is_rewrite = made.rewrite.kind == PassKind::Rewrite;
        let origin = self.origins.of(made.instruction);
        is_rewrite.then(|| TakenBack { rewrite: made.rewrite.clone(), origin, slowdown })
    }

    /// Whether time is known, and counts as much as memory.
    fn weighs_time(&self) -> bool {
        let options = self.options;
        options.target != Target::Cpu && options.goal().is_none() && options.chunk_bytes.is_none() && self.fits_device()
    }

    fn bytes_times_seconds(&self) -> Option<f64> {
        Some(self.now.total_with_scratch().get() as f64 * self.estimator.seconds(self.module)?)
    }
}
