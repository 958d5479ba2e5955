//! Two rewrites at once: those that save something only together are made together or not at all, and of those that cannot both be made one is.
//!
//! Pins `passes/src/manager.rs`.

use crate::common::{Fake, estimate, module};
use hlo_ir::edit::Patch;
use hlo_ir::{Instruction, InstructionId, Module, Opcode, text, verify};
use hlo_memory::{Bytes, Estimate, EstimateError, Estimator, size};
use hlo_passes::manager::run;
use hlo_passes::{Context, Finding, Grade, Machine, Options, Outcome, Pass, PassKind};

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
    let options =
        Options { min_saving: Bytes(10), machine: Some(Machine::without_malloc_cache()), ..Options::default() };
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

/// Three rows of large arrays.
const ROWS: &str = "  %p = f32[4]{0} parameter(0)
  %a = f32[4096,4]{1,0} broadcast(%p), dimensions={1}
  %one = f32[1,4]{1,0} slice(%a), slice={[0:1], [0:4]}
  %b = f32[4096,4]{1,0} broadcast(%p), dimensions={1}
  %other = f32[1,4]{1,0} slice(%b), slice={[0:1], [0:4]}
  %c = f32[4096,4]{1,0} broadcast(%p), dimensions={1}
  %apart = f32[1,4]{1,0} slice(%c), slice={[0:1], [0:4]}
  %sum = f32[1,4]{1,0} add(%one, %other)
  ROOT %r = f32[1,4]{1,0} add(%sum, %apart)";

/// What all arrays take together.
struct AllArrays;

impl Estimator for AllArrays {
    fn estimate(&self, module: &Module) -> Result<Estimate, EstimateError> {
        let sizes = module.live_instructions().filter_map(|(_, inst)| size::shape_size(&inst.shape));
        let total = Bytes(sizes.map(Bytes::get).sum());
        Ok(estimate(total, vec![total]))
    }
}

/// While both are read from large arrays: lets `one` be a copy of `other`, `other` a copy of `one`, and `apart` a copy of their sum.
fn copies(context: &Context<'_>) -> Vec<Finding> {
    let module = context.module;
    let named = |name: &str| module.live_instructions().find(|(_, inst)| inst.name == name).expect("it stays");
    let is_read = |name: &str| named(name).1.opcode == Opcode::Slice;
    let copy = |name: &str, of: InstructionId| {
        let (id, inst) = named(name);
        let mut patch = Patch::new(module);
        let copy = Instruction::new(inst.name.clone(), inst.shape.clone(), Opcode::Copy, [of]);
        patch.rewrite(id, copy);
        let outcome = Outcome::Rewrite { patch, note: "copied".to_owned(), conditions: Vec::new() };
        Finding { instruction: id, grade: Grade::Bitwise, wasted: Bytes(1 << 16), outcome }
    };
    if !is_read("one") || !is_read("other") {
        return Vec::new();
    }
    vec![copy("one", named("other").0), copy("other", named("one").0), copy("apart", named("sum").0)]
}

#[test]
fn of_two_likes_that_read_each_other_one_is_made() {
    let mut module = module(ROWS);
    let passes: [Box<dyn Pass>; 1] = [Box::new(Fake("copies", PassKind::Rewrite, copies))];
    let options = Options {
        min_saving: Bytes(10),
        machine: Some(Machine::without_malloc_cache()),
        advise: false,
        ..Options::default()
    };
    let report = run(&mut module, &passes, &options, &AllArrays).expect("the passes are sound");
    let made: Vec<_> = report.rewrites.iter().map(|rewrite| rewrite.instruction.as_str()).collect();
    assert_eq!(
        made,
        ["one", "apart"],
        "the third is made all the same, in one step: once one is made, the pass finds nothing"
    );
    assert_eq!(verify::verify(&module), []);
}
