//! Estimates of forms that were seen before: searches with more and less freedom, from second best steps and behind enabling changes come to the same forms
//! of a module again and again.

use std::cell::{Cell, RefCell};

use hlo_ir::{InstructionId, Module, hash};
use hlo_memory::attribution::Holder;
use hlo_memory::{Estimate, EstimateError, Estimator, Outlook};
use indexmap::IndexMap;

/// An estimator that remembers what it said. Names do not count: those in an estimate are of the form that was seen first.
pub(super) struct Recalled<'a> {
    estimator: &'a dyn Estimator,
    said: RefCell<IndexMap<u64, Result<Estimate, EstimateError>>>,
    repeated: Cell<bool>,
}

impl<'a> Recalled<'a> {
    pub(super) fn of(estimator: &'a dyn Estimator) -> Self {
        Self { estimator, said: RefCell::default(), repeated: Cell::new(false) }
    }

    /// An estimate of `module` with the names that it has there, where another form of the same structure may have been estimated.
    pub(super) fn named(&self, module: &Module, estimate: Estimate) -> Estimate {
        if !self.repeated.get() {
            return estimate;
        }
        match self.estimator.estimate(module) {
            Ok(Estimate { peak, largest, .. }) => Estimate { peak, largest, ..estimate },
            Err(_) => estimate,
        }
    }
}

impl Estimator for Recalled<'_> {
    fn estimate(&self, module: &Module) -> Result<Estimate, EstimateError> {
        let form = hash::structural_hash(module);
        if let Some(said) = self.said.borrow().get(&form) {
            self.repeated.set(true);
            return said.clone();
        }
        let found = self.estimator.estimate(module);
        self.said.borrow_mut().insert(form, found.clone());
        found
    }
    fn outlook(&self, module: &Module) -> Option<Outlook> {
        self.estimator.outlook(module)
    }
    fn holders(&self, module: &Module) -> Vec<(Holder, Option<InstructionId>)> {
        self.estimator.holders(module)
    }
}

#[cfg(test)]
mod tests {
    use hlo_ir::edit::Patch;
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
    fn the_same_form_is_estimated_once_and_named_as_it_is() {
        let text = "HloModule m\n\nENTRY e {\n  p = f32[8]{0} parameter(0)\n  s = f32[8]{0} sine(p)\n  ROOT t = f32[8]{0} tanh(s)\n}\n";
        let mut module = hlo_ir::text::parse(text).unwrap();
        let renamed = hlo_ir::text::parse(&text.replace("s = ", "u = ").replace("(s)", "(u)")).unwrap();
        let counted = Counted(Cell::new(0));
        let recalled = Recalled::of(&counted);
        let first = recalled.estimate(&module).unwrap();
        assert_eq!(recalled.estimate(&renamed).unwrap(), first);
        assert_eq!(counted.0.get(), 1);
        assert_eq!(recalled.named(&renamed, first.clone()), ModelEstimator::default().estimate(&renamed).unwrap());
        let root = module.computation(module.entry()).root;
        let mut patch = Patch::new(&module);
        patch.replace(root, module.instruction(root).operands[0]);
        patch.apply(&mut module).unwrap();
        recalled.estimate(&module).unwrap();
        assert_eq!(counted.0.get(), 3, "another form, besides the names");
    }
}
