//! What is done to the result once the search has ended.

use hlo_ir::edit::Patch;
use hlo_ir::{InstructionId, Module};
use hlo_memory::{Bytes, Target};

use super::{Search, Step};
use crate::manager::RunError;
use crate::manager::trial::{self, Claim};
use crate::polish::{columns, gathers, products, reads, sines, sums, units, writes};
use crate::{Grade, PassKind};

/// Blocks that stand in memory for themselves may take a twenty-fifth of the peak. A kernel that reads one too is not vectorized and takes up to four
/// times as long; one that writes it too runs on one thread, however many there are.
const SHARE_OF_PEAK: u64 = 25;
/// What is weighted before it is summed may take as much as this: together both take ten times as long.
const SHARE_OF_PEAK_SUMMED: u64 = 2;
/// And no more than this part of what was saved. (The gradient of a network with sines, whose blocks take 1 of the 13 MiB that loops save, runs at 0.71 of
/// its speed without them and at 0.93 with them, `sines-gradient` of `families.py`.)
const SHARE_OF_SAVING: u64 = 3;

/// A change that takes memory for the sake of run time.
struct Touch {
    name: &'static str,
    patch: fn(&Module, &dyn Fn(InstructionId) -> bool) -> Patch,
    /// Whether it may round or add up in another order.
    loose: bool,
    /// The part of the peak that it may take, as a divisor.
    share: u64,
}

/// In the order in which they are made.
const TOUCHES: [Touch; 8] = [
    Touch { name: "sines", patch: |module, new| sines::patch(module, new, false), loose: false, share: SHARE_OF_PEAK },
    Touch { name: "sines", patch: |module, new| sines::patch(module, new, true), loose: true, share: SHARE_OF_PEAK },
    Touch { name: "writes", patch: |module, new| writes::patch(module, new), loose: false, share: SHARE_OF_PEAK },
    Touch { name: "units", patch: |module, new| units::patch(module, new), loose: true, share: SHARE_OF_PEAK },
    Touch { name: "sums", patch: |module, new| sums::patch(module, new), loose: true, share: SHARE_OF_PEAK_SUMMED },
    Touch { name: "products", patch: |module, new| products::patch(module, new), loose: true, share: SHARE_OF_PEAK },
    Touch { name: "gathers", patch: |module, new| gathers::patch(module, new), loose: false, share: SHARE_OF_PEAK },
    Touch { name: "reads", patch: |module, new| reads::patch(module, new), loose: false, share: SHARE_OF_PEAK },
];

impl Search<'_> {
    /// Lets the loops that were made run faster, if that takes no memory worth the name; the input's own instructions stay as they are.
    ///
    /// Whether the search went on behind a change, and has to end anew; the changes that were not made yet are then still to be made.
    pub(super) fn polish(&mut self) -> Result<bool, RunError> {
        if self.made().next().is_none() || self.options.target != Target::Cpu {
            return Ok(false);
        }
        let start = self.steps.len();
        let columns = columns::patch(self.module, |id| self.origins.is_new(id));
        if self.spend("columns", columns, self.now.charged())? {
            return Ok(true);
        }
        for touch in &TOUCHES {
            let is_ours = |id| if touch.loose { self.is_of_loose_loop(id) } else { self.origins.is_new(id) };
            let patch = (touch.patch)(self.module, &is_ours);
            let most = most(self.before.charged(), self.now.charged(), touch.share);
            if self.spend(touch.name, patch, most)? {
                return Ok(true);
            }
        }
        if self.steps.len() > start {
            self.observer.polished(self.made().count() + 1, self.module);
        }
        Ok(false)
    }
    /// Takes back the changes that were made last for the sake of run time.
    pub(super) fn drop_touches(&mut self) -> Result<(), RunError> {
        let last = self.steps.iter().rposition(|step| step.made.is_some());
        let kept = last.map_or(0, |last| last + 1);
        if kept < self.steps.len() {
            self.roll_back(kept);
            self.now = self.statistics.estimates.measure(|| self.estimator.estimate(self.module))?;
            self.pay();
        }
        Ok(())
    }
    /// Whether an instruction stands in a loop that keeps less than every bit: a product in a kernel of its own is rounded, which it was not
    /// where it was summed on the fly. Loops of the input are not touched.
    fn is_of_loose_loop(&self, id: InstructionId) -> bool {
        let mut parameters = self.module.parameters(self.module.instruction(id).parent).into_iter();
        parameters.all(|parameter| self.origins.is_loose(parameter))
    }
    /// Makes one change if the result needs no more than `most`, and searches on behind it: a second run must find nothing. The change is put back
    /// where the search goes on and does not lead below what was needed without it. Whether the search went on.
    fn spend(&mut self, name: &'static str, patch: Patch, most: Bytes) -> Result<bool, RunError> {
        let start = self.mark();
        if !self.touch(name, patch, most)? {
            return Ok(false);
        }
        self.pay();
        let touched = self.steps.len();
        if !self.fits() && !self.is_settled && self.is_small() {
            self.descend_repeatedly()?;
        }
        let went_on = self.steps.len() > touched;
        let in_vain = went_on && self.now.charged() + self.least().max(Bytes(1)) > start.charged();
        // What a change takes may miss a budget; what the search finds behind it may meet it all the same.
        if in_vain || overruns(self.now.total, start.total(), self.options.budget) {
            self.back_to(&start);
            return Ok(false);
        }
        Ok(went_on)
    }
    /// Makes one change if the result needs no more than `most`, and whether it was made.
    fn touch(&mut self, name: &'static str, patch: Patch, most: Bytes) -> Result<bool, RunError> {
        let Some(last) = self.made().last().filter(|_| !patch.is_empty()) else { return Ok(false) };
        let instruction = self.origins.of(last.instruction);
        let claim = Claim { pass: name, kind: PassKind::Enabling, instruction, wasted: Bytes::ZERO };
        let origins = patch.clone();
        let undo = trial::apply(self.module, claim, patch, self.options)?;
        let (module, estimator) = (&*self.module, self.estimator);
        match self.statistics.estimates.measure(|| estimator.estimate(module)) {
            Ok(estimate) if estimate.charged() <= most && !self.rises(&estimate) => {
                self.now = estimate;
                self.origins.extend(&origins, instruction, Grade::Bitwise);
                let before = self.said.step();
                self.steps.push(Step { undo, before, made: None });
                Ok(true)
            }
            _ => {
                undo.revert(self.module);
                Ok(false)
            }
        }
    }
}

/// What the result may need when blocks stand in memory for the sake of run time, a part of the peak.
fn most(before: Bytes, now: Bytes, share: u64) -> Bytes {
    let saved = before.get().saturating_sub(now.get());
    now + Bytes((now.get() / share).min(saved / SHARE_OF_SAVING))
}

/// Whether XLA's figure misses a budget that it met, or one that it missed by more than before.
fn overruns(total: Bytes, now: Bytes, budget: Option<Bytes>) -> bool {
    budget.is_some_and(|budget| total > budget.max(now))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_may_take_little_of_the_peak_and_of_the_saving() {
        let most = |before, now| most(Bytes(before), Bytes(now), 100).get();
        assert_eq!(most(9_000, 1_000), 1_010, "a hundredth of the peak");
        assert_eq!(most(1_015, 1_000), 1_005, "a third of the saving");
    }

    #[test]
    fn budgets_are_kept() {
        let overruns = |total, now, budget: Option<u64>| overruns(Bytes(total), Bytes(now), budget.map(Bytes));
        assert!(!overruns(9_000, 1_000, None));
        assert!(!overruns(1_004, 1_000, Some(1_004)), "what the budget leaves");
        assert!(overruns(1_005, 1_000, Some(1_004)));
        assert!(overruns(1_001, 1_000, Some(500)), "nothing where the budget is missed anyway");
        assert!(!overruns(1_000, 1_000, Some(500)));
    }
}
