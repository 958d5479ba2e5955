//! What is done to the result once the search has ended.

use hlo_ir::edit::{Patch, Undo};
use hlo_ir::{InstructionId, Module};
use hlo_memory::{Bytes, Target};

use super::Search;
use crate::manager::RunError;
use crate::manager::trial::{self, Claim};
use crate::polish::{columns, gathers, products, reads, sums, units, writes};
use crate::{Grade, PassKind};

/// Blocks that stand in memory for themselves may take a twenty-fifth of the peak. A kernel that reads one too is not vectorized and takes up to four
/// times as long; one that writes it too runs on one thread, however many there are.
const SHARE_OF_PEAK: u64 = 25;
/// What is weighted before it is summed may take as much as this: together both take ten times as long.
const SHARE_OF_PEAK_SUMMED: u64 = 2;
/// And no more than this part of what was saved.
const SHARE_OF_SAVING: u64 = 10;

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
const TOUCHES: [Touch; 6] = [
    Touch { name: "writes", patch: |module, new| writes::patch(module, new), loose: false, share: SHARE_OF_PEAK },
    Touch { name: "units", patch: |module, new| units::patch(module, new), loose: true, share: SHARE_OF_PEAK },
    Touch { name: "sums", patch: |module, new| sums::patch(module, new), loose: true, share: SHARE_OF_PEAK_SUMMED },
    Touch { name: "products", patch: |module, new| products::patch(module, new), loose: true, share: SHARE_OF_PEAK },
    Touch { name: "gathers", patch: |module, new| gathers::patch(module, new), loose: false, share: SHARE_OF_PEAK },
    Touch { name: "reads", patch: |module, new| reads::patch(module, new), loose: false, share: SHARE_OF_PEAK },
];

impl Search<'_> {
    /// Lets the loops that were made run faster, if that takes no memory worth the name; the input's own instructions stay as they are.
    pub(super) fn polish(&mut self) -> Result<(), RunError> {
        if self.steps.is_empty() || self.options.target != Target::Cpu {
            return Ok(());
        }
        let origins = &self.origins;
        let columns = columns::patch(self.module, |id| origins.is_new(id));
        let mut changed = self.spend("columns", columns, self.now.charged())?;
        for touch in &TOUCHES {
            let is_ours = |id| if touch.loose { self.is_of_loose_loop(id) } else { self.origins.is_new(id) };
            let patch = (touch.patch)(self.module, &is_ours);
            let most = most(self.before.charged(), self.now.charged(), touch.share, self.options.budget);
            changed |= self.spend(touch.name, patch, most)?;
        }
        if changed {
            self.observer.polished(self.steps.len() + 1, self.module);
        }
        Ok(())
    }
    /// Whether an instruction stands in a loop of a run that keeps every bit nowhere: a product in a kernel of its own is rounded, which it
    /// was not where it was summed on the fly. Loops of the input are not touched.
    fn is_of_loose_loop(&self, id: InstructionId) -> bool {
        let mut parameters = self.module.parameters(self.module.instruction(id).parent).into_iter();
        let mut rewrites = self.steps.iter().filter(|step| self.passes[step.pass].kind() == PassKind::Rewrite);
        parameters.all(|parameter| self.origins.is_new(parameter))
            && rewrites.all(|step| step.rewrite.grade > Grade::Bitwise)
    }
    /// Makes one change if the result needs no more than `most`, and whether it stays.
    fn spend(&mut self, name: &'static str, patch: Patch, most: Bytes) -> Result<bool, RunError> {
        let before = self.now.clone();
        let Some(undo) = self.touch(name, patch, most)? else { return Ok(false) };
        // A result that the next run would rewrite is none: the block counts for more than it is worth.
        let stays = !self.would_go_on()?;
        if !stays {
            undo.revert(self.module);
            self.origins.truncate(self.module.instruction_count());
            self.now = before;
        }
        Ok(stays)
    }
    /// Whether a search of what the module is now would find something.
    fn would_go_on(&mut self) -> Result<bool, RunError> {
        let ended = self.fits() || !self.left_out.is_empty() || self.room() < self.least().max(Bytes(1));
        let (taken, estimate, state) = (self.steps.len(), self.now.clone(), self.said.step());
        let found = !ended && self.next_step()?.is_some();
        // What was done on the way to it.
        self.roll_back(taken);
        self.now = estimate;
        self.said.step_back(state);
        Ok(found)
    }
    /// Makes one change if the result needs no more than `most`; how to undo it, if it was made.
    fn touch(&mut self, name: &'static str, patch: Patch, most: Bytes) -> Result<Option<Undo>, RunError> {
        let Some(last) = self.steps.last().filter(|_| !patch.is_empty()) else { return Ok(None) };
        let instruction = self.origins.of(last.instruction);
        let claim = Claim { pass: name, kind: PassKind::Enabling, instruction, wasted: Bytes::ZERO };
        let origins = patch.clone();
        let undo = trial::apply(self.module, claim, patch, self.options)?;
        let (module, estimator) = (&*self.module, self.estimator);
        match self.statistics.estimates.measure(|| estimator.estimate(module)) {
            Ok(estimate) if estimate.charged() <= most => {
                self.now = estimate;
                self.origins.extend(&origins, instruction);
                Ok(Some(undo))
            }
            _ => {
                undo.revert(self.module);
                Ok(None)
            }
        }
    }
}

/// What the result may need when blocks stand in memory for the sake of run time, a part of the peak.
fn most(before: Bytes, now: Bytes, share: u64, budget: Option<Bytes>) -> Bytes {
    let saved = before.get().saturating_sub(now.get());
    let most = now + Bytes((now.get() / share).min(saved / SHARE_OF_SAVING));
    budget.map_or(most, |budget| most.min(budget.max(now)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_may_take_little_of_the_peak_of_the_saving_and_of_the_budget() {
        let most = |before, now, budget: Option<u64>| most(Bytes(before), Bytes(now), 100, budget.map(Bytes)).get();
        assert_eq!(most(9_000, 1_000, None), 1_010, "a hundredth of the peak");
        assert_eq!(most(1_050, 1_000, None), 1_005, "a tenth of the saving");
        assert_eq!(most(9_000, 1_000, Some(1_004)), 1_004, "what the budget leaves");
        assert_eq!(most(9_000, 1_000, Some(500)), 1_000, "nothing where the budget is missed anyway");
    }
}
