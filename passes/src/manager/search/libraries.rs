//! What the compiler's library computes, by the form of the module: passes ask for it in every state that the search comes to, and it takes a compilation.

use std::cell::OnceCell;

use crate::hash::{IndexMap, IndexSet};
use hlo_ir::{InstructionId, Module};
use hlo_memory::excess::Libraries;

/// Answers by form; instructions are numbered in the order of the module.
#[derive(Default)]
pub(super) struct KnownLibraries(IndexMap<u64, [Vec<usize>; 2]>);

impl KnownLibraries {
    /// What is known of `module`, which has this [hash](hlo_ir::hash::named_hash).
    pub(super) fn of(&self, module: &Module, form: u64) -> OnceCell<Libraries> {
        let cell = OnceCell::new();
        if let Some(numbers) = self.0.get(&form) {
            let ids: Vec<InstructionId> = module.live_instructions().map(|(id, _)| id).collect();
            let [inside, results] =
                numbers.each_ref().map(|numbers| numbers.iter().map(|&number| ids[number]).collect::<IndexSet<_>>());
            _ = cell.set(Libraries { inside, results });
        }
        cell
    }

    /// Notes what was found out about `module` since.
    pub(super) fn note(&mut self, module: &Module, form: u64, cell: OnceCell<Libraries>) {
        let Some(found) = cell.into_inner().filter(|_| !self.0.contains_key(&form)) else { return };
        let numbers = |wanted: &IndexSet<InstructionId>| {
            let all = module.live_instructions().enumerate();
            all.filter(|(_, (id, _))| wanted.contains(id)).map(|(number, _)| number).collect()
        };
        self.0.insert(form, [numbers(&found.inside), numbers(&found.results)]);
    }
}

#[cfg(test)]
mod tests {
    use hlo_ir::hash;
    use hlo_memory::Target;

    use super::*;

    #[test]
    fn what_is_known_is_what_would_be_found_again() {
        let text = "HloModule m\n\nmost {\n  p = bf16[] parameter(0)\n  q = bf16[] parameter(1)\n  ROOT s = bf16[] maximum(p, q)\n}\n\nENTRY e {\n  \
                    x = bf16[512,512] parameter(0)\n  low = bf16[] constant(-inf)\n  double = bf16[512,512] add(x, x)\n  \
                    square = bf16[512,512] multiply(double, double)\n  \
                    ROOT max = bf16[512] reduce(square, low), dimensions={1}, to_apply=most\n}\n";
        let module = hlo_ir::text::parse(text).unwrap();
        let found = Libraries::of(&module, Target::Cpu);
        let mut known = KnownLibraries::default();
        let form = hash::named_hash(&module);
        let cell = known.of(&module, form);
        assert!(cell.get().is_none());
        _ = cell.set(found.clone());
        known.note(&module, form, cell);
        let again = known.of(&module, form);
        let again = again.into_inner().unwrap();
        assert!(!found.inside.is_empty() && !found.results.is_empty());
        assert!(again.inside.len() == found.inside.len() && again.inside.iter().all(|id| found.inside.contains(id)));
        assert!(
            again.results.len() == found.results.len() && again.results.iter().all(|id| found.results.contains(id))
        );
    }
}
