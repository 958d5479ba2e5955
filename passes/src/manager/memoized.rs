//! Estimates of forms that were seen before: searches with more and less freedom, from second best steps and behind enabling changes come to the same forms
//! of a module again and again.

use std::cell::RefCell;

use hlo_ir::{InstructionId, Module, hash};
use hlo_memory::attribution::Holder;
use hlo_memory::{Estimate, EstimateError, Estimator, SavingBound};
use indexmap::IndexMap;

/// An estimator that remembers its answers by all that they could depend on.
pub(super) struct Memoized<'a> {
    estimator: &'a dyn Estimator,
    known: RefCell<IndexMap<u64, Result<Estimate, EstimateError>>>,
}

impl<'a> Memoized<'a> {
    pub(super) fn of(estimator: &'a dyn Estimator) -> Self {
        Self { estimator, known: RefCell::default() }
    }
}

impl Estimator for Memoized<'_> {
    fn estimate(&self, module: &Module) -> Result<Estimate, EstimateError> {
        let form = hash::named_hash(module);
        if let Some(known) = self.known.borrow().get(&form) {
            return known.clone();
        }
        let found = self.estimator.estimate(module);
        self.known.borrow_mut().insert(form, found.clone());
        found
    }
    fn saving_bound(&self, module: &Module) -> Option<SavingBound> {
        self.estimator.saving_bound(module)
    }
    fn holders(&self, module: &Module) -> Vec<(Holder, Option<InstructionId>)> {
        self.estimator.holders(module)
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use hlo_memory::ModelEstimator;

    use super::*;

    /// Counts what it is asked.
    struct Counted(Cell<usize>);

    impl Estimator for Counted {
        fn estimate(&self, module: &Module) -> Result<Estimate, EstimateError> {
            self.0.set(self.0.get() + 1);
            ModelEstimator::default().estimate(module)
        }
    }

    #[test]
    fn the_same_form_is_estimated_once() {
        let text = "HloModule m\n\nENTRY e {\n  p = f32[8]{0} parameter(0)\n  s = f32[8]{0} sine(p)\n  ROOT t = f32[8]{0} tanh(s)\n}\n";
        let other = text.replace("tanh", "cosine");
        let renamed = text.replace("s = ", "u = ").replace("(s)", "(u)");
        let counted = Counted(Cell::new(0));
        let memoized = Memoized::of(&counted);
        for (times, text) in [(1, text), (1, text), (2, &*other), (3, &*renamed), (3, &*other)] {
            let module = hlo_ir::text::parse(text).unwrap();
            assert_eq!(memoized.estimate(&module), ModelEstimator::default().estimate(&module));
            assert_eq!(counted.0.get(), times, "{text}");
        }
    }
}
