//! Which of many candidates are worth an estimate: those that touch what is alive at the peak.
//!
//! An estimate costs time for the whole module, however small the change. Where a module and its candidates together are too many for an
//! estimate each, every candidate gets a bound first, from the buffers alive at the peak that it touches (see
//! [`hlo_memory::saving_bound`]); those that could save most are estimated first, and the others only as long as they could still win.

use crate::hash::IndexSet;
use hlo_ir::arena::SideTable;
use hlo_ir::edit::Patch;
use hlo_ir::graph::Users;
use hlo_ir::{ComputationId, InstructionId, Module, Opcode};
use hlo_memory::{Bytes, SavingBound};

use crate::{Pass, bounds};

/// Whether a step with so many candidates on a module of so many instructions begins with bounds, because estimating every candidate would take too long.
pub(super) fn is_large(candidates: usize, instructions: usize) -> bool {
    candidates.saturating_mul(instructions) > bounds::MODULE
}

/// Instructions that run from the entry, those of computations it calls once for each call.
pub(super) fn inlined_size(module: &Module) -> usize {
    let mut sizes: SideTable<ComputationId, usize> = SideTable::new(0);
    // Callees stand before their callers.
    for &id in module.computation_ids() {
        let called = module.instructions_of(id).map(|(_, inst)| match inst.opcode {
            Opcode::Call | Opcode::While | Opcode::Conditional => {
                inst.called_computations().fold(1_usize, |sum, callee| sum.saturating_add(sizes[callee]))
            }
            _ => 1,
        });
        let size = called.fold(0, usize::saturating_add);
        sizes.set(id, size);
    }
    sizes[module.entry()]
}

/// What is known about a module before any candidate is tried.
pub(super) struct Scope<'a> {
    module: &'a Module,
    users: Users,
    saving_bound: SavingBound,
}

impl<'a> Scope<'a> {
    /// The scope of changes of `module`.
    pub(super) fn new(module: &'a Module, saving_bound: SavingBound) -> Self {
        Self { module, users: Users::of(module), saving_bound }
    }

    /// The most a patch of a pass could save; `None` if it computes values again elsewhere, which changes what kernels store in between.
    pub(super) fn most_saved_by(&self, pass: &dyn Pass, patch: &Patch) -> Option<Bytes> {
        if pass.is_timed() { None } else { self.most_saved(patch) }
    }

    /// The most a patch could save; `None` for one that lets instructions wait for others, which may change the order of everything.
    fn most_saved(&self, patch: &Patch) -> Option<Bytes> {
        let region = self.region(patch);
        let inputs = self.inputs(&region);
        let waits = |&id: &InstructionId| {
            !region.contains(&id) && !inputs.contains(&id) && !self.module.instruction(id).operands.is_empty()
        };
        if patch.inputs().any(|id| waits(&id)) {
            return None;
        }
        Some(self.around(region, inputs))
    }

    /// Bytes alive at the peak that a patch touches, reads or shows to others.
    pub(super) fn alive_at_peak(&self, patch: &Patch) -> Bytes {
        let region = self.region(patch);
        let inputs = self.inputs(&region);
        self.around(region, inputs)
    }

    fn around(&self, mut region: IndexSet<InstructionId>, inputs: IndexSet<InstructionId>) -> Bytes {
        let readers: Vec<InstructionId> = region.iter().flat_map(|&id| self.users.get(id)).copied().collect();
        region.extend(inputs);
        region.extend(readers);
        self.saving_bound.most_saved(region)
    }

    /// What the patch touches, what it runs, and what nothing else needs.
    fn region(&self, patch: &Patch) -> IndexSet<InstructionId> {
        let mut region: IndexSet<InstructionId> = patch.touched().collect();
        let mut at = 0;
        while let Some(&id) = region.get_index(at) {
            at += 1;
            let inst = self.module.instruction(id);
            for callee in inst.called_computations() {
                region.extend(self.module.computation(callee).instructions.iter().copied());
            }
            for &operand in &inst.operands {
                // Of a loop that loses a result the compiler drops what only that needs.
                let shrinks =
                    inst.opcode == Opcode::GetTupleElement && self.module.instruction(operand).opcode == Opcode::While;
                if shrinks || self.users.get(operand).iter().all(|user| region.contains(user)) {
                    region.insert(operand);
                }
            }
        }
        region
    }

    /// What the region reads from outside.
    fn inputs(&self, region: &IndexSet<InstructionId>) -> IndexSet<InstructionId> {
        let operands = region.iter().flat_map(|&id| &self.module.instruction(id).operands).copied();
        operands.filter(|id| !region.contains(id)).collect()
    }
}

#[cfg(test)]
mod tests {
    use std::path::{Path, PathBuf};

    use hlo_memory::{Estimator, ModelEstimator};

    use super::*;
    use crate::{Context, Options, Outcome, manager};

    /// Programs of the corpus in which estimates are cheap, by path.
    fn programs() -> Vec<PathBuf> {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../corpus");
        let folders = std::fs::read_dir(root).unwrap().map(|entry| entry.unwrap().path()).filter(|path| path.is_dir());
        let files = folders.flat_map(|folder| std::fs::read_dir(folder).unwrap()).map(|entry| entry.unwrap().path());
        let mut programs: Vec<PathBuf> = files.filter(|path| path.to_string_lossy().ends_with(".before.hlo")).collect();
        programs.sort();
        programs
    }

    /// For every rewrite of a program: its bound and what a full estimate says it saves.
    fn bounds_and_savings(module: &mut Module, passes: &[Box<dyn Pass>]) -> Vec<(&'static str, Option<Bytes>, Bytes)> {
        let estimator = ModelEstimator::default();
        let Ok(now) = estimator.estimate(module) else { return Vec::new() };
        let options = Options { min_saving: Bytes(1), ..Options::default() };
        let users = Users::of(module);
        let context = Context::of_input(module, &users, &now, &options);
        let found: Vec<(&dyn Pass, Patch)> = passes
            .iter()
            .flat_map(|pass| pass.find(&context).into_iter().map(|finding| (&**pass, finding)))
            .filter_map(|(pass, finding)| match finding.outcome {
                Outcome::Rewrite { patch, .. } => Some((pass, patch)),
                _ => None,
            })
            .collect();
        let saving_bound = estimator.saving_bound(module).expect("what has an estimate has a bound");
        let bounds: Vec<Option<Bytes>> = {
            let scope = Scope::new(module, saving_bound);
            found.iter().map(|(pass, patch)| scope.most_saved_by(*pass, patch)).collect()
        };
        let mut results = Vec::new();
        for ((pass, patch), bound) in found.into_iter().zip(bounds) {
            let undo = patch.apply(module).expect("the patch fits");
            if let Ok(after) = estimator.estimate(module) {
                results.push((pass.name(), bound, now.total_with_scratch() - after.total_with_scratch()));
            }
            undo.revert(module);
        }
        results
    }

    #[test]
    fn no_rewrite_of_the_corpus_saves_more_than_its_bound() {
        let passes = manager::default_pipeline();
        let (mut bounded, mut wrong) = (0, Vec::new());
        for path in programs() {
            let text = std::fs::read_to_string(&path).unwrap();
            let Ok(mut module) = hlo_ir::text::parse(&text) else { continue };
            for (pass, bound, saved) in bounds_and_savings(&mut module, &passes) {
                let Some(bound) = bound else { continue };
                bounded += 1;
                if saved > bound {
                    wrong.push(format!("{}: {pass} saves {saved}, bound {bound}", path.display()));
                }
            }
        }
        assert!(bounded > 100, "only {bounded} rewrites have a bound");
        assert!(wrong.is_empty(), "{} of {bounded}:\n{}", wrong.len(), wrong.join("\n"));
    }

    #[test]
    fn a_rewrite_far_from_the_peak_has_a_small_bound() {
        let text = "HloModule m\n\nENTRY e {\n  p = f32[1024]{0} parameter(0)\n  z = f32[] constant(0)\n  \
                    i = f32[1048576]{0} broadcast(z), dimensions={}\n  \
                    s = f32[1024]{0} sine(p)\n  ROOT t = (f32[1048576]{0}, f32[1024]{0}) tuple(i, s)\n}\n";
        let module = hlo_ir::text::parse(text).unwrap();
        let saving_bound = ModelEstimator::default().saving_bound(&module).unwrap();
        let named = |name: &str| module.live_instructions().find(|(_, inst)| inst.name == name).unwrap().0;
        let mut patch = Patch::new(&module);
        let copy = patch.add(module.entry(), module.instruction(named("s")).clone());
        patch.replace(named("s"), copy);
        assert!(Scope::new(&module, saving_bound).most_saved(&patch).unwrap() < Bytes(1 << 20));
    }
}
