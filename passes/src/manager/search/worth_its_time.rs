//! Takes back the last rewrites where they cost a larger part of the run time than they save of the memory.
//!
//! Loops may take a quarter more time by default, whatever they save. Of two ends of a search the better one holds less memory for less time, and where one holds less and
//! takes longer, the product says which: bytes times seconds, as clouds charge for them. Whoever asks for memory by a budget or an objective gets it at any price.

// Tests: `passes/tests/chunk_time.rs`.

use hlo_memory::Target;

use super::super::RunError;
use super::Search;
use super::restarts::Checkpoint;
use crate::objective::NEGLIGIBLE;

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
        for made in end.since(start) {
            self.put_back([made.clone()])?;
            // Behind an enabling change there may be no estimate.
            let Ok(now) = self.measure() else { continue };
            self.now = now;
            if let Some(product) = self.bytes_times_seconds().filter(|product| *product < least) {
                self.commit();
                (least, best) = (product, self.checkpoint());
            }
        }
        if all * (1.0 - 1.0 / NEGLIGIBLE as f64) <= least {
            return self.restore_end(start, &end);
        }
        self.restore(&best);
        self.findings.forget();
        Ok(())
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
