//! Two rewrites that save something only together are made together, or not at all.

mod common;

use common::{Fake, estimate, module};
use hlo_ir::edit::Patch;
use hlo_ir::{Instruction, Module, Opcode, text};
use hlo_memory::{Bytes, Estimate, EstimateError, Estimator};
use hlo_passes::manager::run;
use hlo_passes::{Context, Finding, Grade, Options, Outcome, Pass, PassKind};

const SUMS: &str = "  %p = f32[4]{0} parameter(0)
  %a = f32[4]{0} sine(%p)
  %b = f32[4]{0} cosine(%p)
  ROOT %r = f32[4]{0} add(%a, %b)";

/// What a module takes that has so many sines and cosines left.
struct ByCount([u64; 3]);

impl Estimator for ByCount {
    fn estimate(&self, module: &Module) -> Result<Estimate, EstimateError> {
        let waves = module.live_instructions().filter(|(_, inst)| is_wave(inst)).count();
        let total = Bytes(self.0[waves]);
        Ok(estimate(total, vec![total]))
    }
}

fn is_wave(inst: &Instruction) -> bool {
    matches!(inst.opcode, Opcode::Sine | Opcode::Cosine)
}

/// Negates instead of one of the functions, and reckons to save so much.
fn negates(name: &'static str, opcode: Opcode, wasted: u64) -> Box<dyn Pass> {
    let find = move |context: &Context<'_>| {
        let module = context.module;
        let found = module.live_instructions().filter(|(_, inst)| inst.opcode == opcode);
        let finding = |(id, inst): (_, &Instruction)| {
            let mut patch = Patch::new(module);
            patch.rewrite(id, Instruction { opcode: Opcode::Negate, ..inst.clone() });
            let outcome = Outcome::Rewrite { patch, note: String::new(), conditions: Vec::new() };
            Finding { instruction: id, grade: Grade::Bitwise, wasted: Bytes(wasted), outcome }
        };
        found.map(finding).collect::<Vec<_>>()
    };
    Box::new(Fake(name, PassKind::Rewrite, find))
}

/// How many rewrites are made where none, one and two of them lead to these totals, and each reckons to save so much.
fn made(totals: [u64; 3], wasted: u64) -> usize {
    let mut module = module(SUMS);
    let before = text::print(&module);
    let passes = [negates("sines", Opcode::Sine, wasted), negates("cosines", Opcode::Cosine, wasted)];
    let options = Options { min_saving: Bytes(10), ..Options::default() };
    let [none, one, two] = totals;
    let report = run(&mut module, &passes, &options, &ByCount([two, one, none])).expect("the passes are sound");
    assert_eq!(report.rewrites.is_empty(), text::print(&module) == before);
    assert!(report.after.total <= report.before.total);
    report.rewrites.len()
}

#[test]
fn the_first_of_two_may_save_nothing_by_itself() {
    assert_eq!(made([1000, 1000, 500], 100), 2);
    assert_eq!(made([1000, 1010, 500], 100), 2, "it may take a little more");
    assert_eq!(made([1000, 1011, 500], 100), 0, "but not much");
}

#[test]
fn both_are_put_back_where_they_save_nothing() {
    assert_eq!(made([1000, 1000, 1000], 100), 0);
    assert_eq!(made([1000, 1010, 995], 100), 0, "less than is asked for");
    assert_eq!(made([1000, 1010, 990], 100), 2);
}

#[test]
fn what_reckons_to_save_little_is_no_first_step() {
    assert_eq!(made([1000, 1000, 500], 49), 0);
    assert_eq!(made([1000, 1000, 500], 50), 2);
}
