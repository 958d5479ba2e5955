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
    /// Keeps, of the steps made since `start`, the first ones up to where bytes times seconds are least; all of them where that is a hundredth less at most.
    pub(super) fn keep_what_is_worth_its_time(&mut self, start: &Checkpoint) -> Result<(), RunError> {
        let end = self.recorded();
        let Some(all) = self.bytes_times_seconds() else { return Ok(()) };
        let (mut least, mut kept) = (all * (1.0 - 1.0 / NEGLIGIBLE as f64), end.len());
        let (mut behind, mut taken_back) = (Vec::new(), Vec::new());
        let steps: Vec<&Made> = end.since(start).collect();
        for (at, made) in steps.iter().enumerate().rev() {
            let before = start.step_count() + at;
            behind.extend(self.taken_back(made));
            self.roll_back(before);
            // Behind an enabling change there may be no estimate.
            let Ok(now) = self.measure() else { continue };
            self.now = now;
            if let Some(product) = self.bytes_times_seconds().filter(|product| *product < least) {
                // What was done for the rewrites that are taken back goes with them.
                let of_rewrites = steps[..at].iter().rposition(|made| made.rewrite.kind == PassKind::Rewrite);
                (least, kept) = (product, start.step_count() + of_rewrites.map_or(0, |last| last + 1));
                taken_back.clone_from(&behind);
            }
        }
        if kept == end.len() {
            return self.restore_end(start, &end);
        }
        self.restore_end(start, &end.first(kept))?;
        self.now = self.measure()?;
        self.commit();
        self.findings.forget();
        self.taken_back = taken_back.into_iter().rev().collect();
        Ok(())
    }

    /// What is to be said of the step that was made last, if it is taken back.
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

    /// What decides which of two ends is better, beside the bytes; `None` where time does not count.
    pub(super) fn bytes_times_seconds(&self) -> Option<f64> {
        if !self.weighs_time() {
            return None;
        }
        Some(self.now.total_with_scratch().get() as f64 * self.estimator.seconds(self.module)?)
    }
}
