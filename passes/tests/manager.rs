//! The manager's rules, one test each, with passes and estimators that do one thing.
//!
//! Pins `passes/src/manager.rs`, `passes/src/pass.rs`.

use crate::common::{self, Fake, LargestArray, module};
use hlo_ir::edit::Patch;
use hlo_ir::{AttrKey, Attribute, Instruction, InstructionId, Module, Opcode, Shape, text};
use hlo_memory::{Bytes, Estimate, EstimateError, Estimator, Model, Target};
use hlo_passes::manager::{Observer, RemarkKind, Rewrite, RunError, RunReport, run, run_observed};
use hlo_passes::{Assumption, Context, Finding, Grade, Machine, Options, Outcome, Pass, PassKind, Reason};

/// Two large arrays, neither of which the result needs whole.
pub(crate) const TWO_PEAKS: &str = "  %p = f32[4]{0} parameter(0)
  %a = f32[4096,4]{1,0} broadcast(%p), dimensions={1}
  %b = f32[4096,4]{1,0} sine(%a)
  %s = f32[1,4]{1,0} slice(%b), slice={[0:1], [0:4]}
  %q = f32[4]{0} reshape(%s)
  %c = f32[4096,4]{1,0} broadcast(%q), dimensions={1}, metadata={op_name=\"c\" source_file=\"f.py\" source_line=7}
  %d = f32[4096,4]{1,0} cosine(%c)
  ROOT %t = f32[1,4]{1,0} slice(%d), slice={[0:1], [0:4]}";

pub(crate) fn options(min_saving: u64) -> Options {
    let machine = Some(Machine::without_malloc_cache());
    Options { min_saving: Bytes(min_saving), machine, advise: false, ..Options::default() }
}

/// Replaces the instruction by one with `rows` rows of zeros, or what the test wants to have in its place.
fn shrink(module: &Module, id: InstructionId, rows: i64, note: &str) -> Finding {
    shrink_and(module, id, rows, note, |_, small| small)
}

/// The same, with the first row of what `then` makes of them.
pub(crate) fn shrink_and(
    module: &Module,
    id: InstructionId,
    rows: i64,
    note: &str,
    then: impl FnOnce(&mut Patch, InstructionId) -> InstructionId,
) -> Finding {
    let mut patch = Patch::new(module);
    let parent = module.instruction(id).parent;
    let source = module.parameters(module.entry())[0];
    let small = Instruction::new("small", rows_of_four(rows), Opcode::Broadcast, [source])
        .with(Attribute::ints(AttrKey::Dimensions, [1]));
    let small = patch.add(parent, small);
    let made = then(&mut patch, small);
    let dims = [1, 4].map(hlo_ir::attribute::SliceDim::full);
    let slice = Instruction::new("row", module.instruction(id).shape.clone(), Opcode::Slice, [made])
        .with(Attribute::new(AttrKey::Slice, hlo_ir::AttrValue::Slice(dims.into())));
    let slice = patch.add(parent, slice);
    patch.replace(id, slice);
    finding(id, Bytes(1 << 16), patch, note)
}

pub(crate) fn rows_of_four(rows: i64) -> hlo_ir::shape::ShapeRef {
    Shape::array(hlo_ir::ElementType::F32, [rows, 4])
}

fn finding(instruction: InstructionId, wasted: Bytes, patch: Patch, note: &str) -> Finding {
    let outcome = Outcome::Rewrite { patch, note: note.to_owned(), conditions: Vec::new() };
    Finding { instruction, grade: Grade::Bitwise, wasted, outcome }
}

fn named(module: &Module, name: &str) -> Option<InstructionId> {
    module.live_instructions().find(|(_, inst)| inst.name == name).map(|(id, _)| id)
}

/// A pass that shrinks the cone of the instruction called `name` to `rows` rows.
fn shrinker(name: &'static str, kind: PassKind, at: &'static str, rows: i64) -> Box<dyn Pass> {
    let find = move |context: &Context<'_>| {
        let id = named(context.module, at);
        id.map(|id| shrink(context.module, id, rows, name)).into_iter().collect::<Vec<_>>()
    };
    Box::new(Fake(name, kind, find))
}

fn run_on(module: &mut Module, passes: &[Box<dyn Pass>], least: u64) -> RunReport {
    run(module, passes, &options(least), &LargestArray).expect("the passes are sound")
}

#[test]
fn two_equal_peaks_fall_together() {
    let mut module = module(TWO_PEAKS);
    let passes = [shrinker("first", PassKind::Rewrite, "s", 1), shrinker("second", PassKind::Rewrite, "t", 1)];
    let report = run_on(&mut module, &passes, 1024);
    assert!(report.after.total < report.before.total);
    assert!(!text::print(&module).contains("4096"), "{}", text::print(&module));
}

#[test]
fn a_tentative_step_is_put_back_when_nothing_follows() {
    let mut module = module(TWO_PEAKS);
    let before = text::print(&module);
    // It removes one of two equal peaks; the other stays, so nothing is gained.
    let report = run_on(&mut module, &[shrinker("first", PassKind::Rewrite, "s", 1)], 1024);
    assert_eq!(text::print(&module), before);
    assert_eq!(report.before, report.after);
    assert!(report.rewrites.is_empty());
    let [remark] = &report.remarks[..] else { panic!("{:?}", report.remarks) };
    assert_eq!((remark.kind, remark.code, remark.instruction.as_str()), (RemarkKind::Missed, "no-gain", "s"));
    assert_eq!(remark.message, "would not lower the peak of 64.00 KiB (first)");
}

#[test]
fn the_best_of_several_rewrites_wins() {
    let mut module = module(TWO_PEAKS);
    let passes = [shrinker("half", PassKind::Rewrite, "t", 2048), shrinker("whole", PassKind::Rewrite, "t", 2)];
    let report = run_on(&mut module, &passes, 1024);
    assert_eq!(report.rewrites.iter().map(|rewrite| rewrite.pass).collect::<Vec<_>>(), ["whole"]);
    assert_eq!(report.rewrites[0].saved, Bytes((4096 - 2) * 16));
    assert_eq!(report.rewrites[0].computation, "main");
}

#[test]
fn equal_rewrites_go_to_the_first_pass() {
    let mut module = module(TWO_PEAKS);
    let passes = [shrinker("one", PassKind::Rewrite, "t", 2), shrinker("two", PassKind::Rewrite, "t", 2)];
    assert_eq!(run_on(&mut module, &passes, 1024).rewrites[0].pass, "one");
}

#[test]
fn savings_below_the_minimum_are_left_alone() {
    let mut module = module(TWO_PEAKS);
    let before = text::print(&module);
    let report = run_on(&mut module, &[shrinker("little", PassKind::Rewrite, "t", 4095)], 1024);
    assert_eq!(text::print(&module), before);
    assert_eq!(report.remarks[0].message, "would save 16 B, less than --min-saving 1.00 KiB (little)");
}

/// However little it is: two figures that look alike would say nothing.
#[test]
fn a_rise_is_undone_and_told() {
    for (rows, by) in [(8192, "64.00 KiB"), (4097, "16 B")] {
        let report = run_on(&mut module(TWO_PEAKS), &[shrinker("worse", PassKind::Rewrite, "t", rows)], 1024);
        assert_eq!(report.remarks[0].code, "no-gain");
        assert_eq!(report.remarks[0].message, format!("would raise the peak of 64.00 KiB by {by} (worse)"));
    }
}

#[test]
fn enabling_changes_stay_only_with_a_gain() {
    // The rewrite is found only once the root is no longer called `t`.
    let needs_row = |context: &Context<'_>| {
        let root = context.module.computation(context.module.entry()).root;
        let ready = context.module.instruction(root).name == "row";
        ready.then(|| shrink(context.module, root, 1, "now")).into_iter().collect::<Vec<_>>()
    };
    let enabling = || shrinker("open", PassKind::Enabling, "t", 4096);
    let mut enabled = module(TWO_PEAKS);
    let rewrite: Box<dyn Pass> = Box::new(Fake("late", PassKind::Rewrite, needs_row));
    let report = run_on(&mut enabled, &[enabling(), rewrite], 1024);
    assert_eq!(report.rewrites.iter().map(|rewrite| rewrite.pass).collect::<Vec<_>>(), ["open", "late"]);
    assert_eq!(report.rewrites[1].instruction, "t", "reports name the input");

    let mut alone = module(TWO_PEAKS);
    let before = text::print(&alone);
    assert!(run_on(&mut alone, &[enabling()], 1024).rewrites.is_empty());
    assert_eq!(text::print(&alone), before);
}

#[test]
fn the_enabling_change_that_leads_furthest_is_made() {
    // Behind the first change there is a rewrite, behind the second a better one; neither shows the other.
    let behind = |context: &Context<'_>| {
        let root = context.module.instruction(context.module.computation(context.module.entry()).root);
        let small = context.module.instruction(root.operands[0]).array().map(|array| array.dims[0]);
        let rows = match (root.name.as_str(), small) {
            ("row", Some(4096)) => 2048,
            ("row", Some(4095)) => 1,
            _ => return Vec::new(),
        };
        vec![shrink(context.module, context.module.computation(context.module.entry()).root, rows, "now")]
    };
    let mut enabled = module(TWO_PEAKS);
    let changes = [("first", 4096), ("second", 4095)].map(|(name, rows)| shrinker(name, PassKind::Enabling, "t", rows));
    let passes: Vec<Box<dyn Pass>> =
        changes.into_iter().chain([Box::new(Fake("late", PassKind::Rewrite, behind)) as Box<dyn Pass>]).collect();
    let report = run_on(&mut enabled, &passes, 1024);
    assert_eq!(report.rewrites.iter().map(|rewrite| rewrite.pass).collect::<Vec<_>>(), ["second", "late"]);
    assert_eq!(report.after.total, Bytes(16));
}

#[test]
fn a_lesser_first_step_is_taken_if_it_leads_further() {
    // Only behind the lesser rewrite there is another one.
    let after = |rows: i64| {
        move |context: &Context<'_>| {
            let root = context.module.computation(context.module.entry()).root;
            let inst = context.module.instruction(root);
            let small = context.module.instruction(inst.operands[0]).array().map(|array| array.dims[0]);
            let ready = inst.name == "row" && small == Some(2000);
            ready.then(|| shrink(context.module, root, rows, "now")).into_iter().collect::<Vec<_>>()
        }
    };
    let run_with = |rows: i64| {
        let firsts = [("greedy", 1500), ("patient", 2000)];
        let firsts = firsts.map(|(name, rows)| shrinker(name, PassKind::Rewrite, "t", rows));
        let last = Box::new(Fake("after", PassKind::Rewrite, after(rows))) as Box<dyn Pass>;
        let passes: Vec<Box<dyn Pass>> = firsts.into_iter().chain([last]).collect();
        let mut module = module(TWO_PEAKS);
        let report = run_on(&mut module, &passes, 1024);
        let kept = text::print(&module).lines().filter(|line| line.contains("broadcast")).count();
        assert_eq!(kept, 1, "what was tried in between is gone");
        report.rewrites.iter().map(|rewrite| rewrite.pass).collect::<Vec<_>>()
    };
    assert_eq!(run_with(1), ["patient", "after"]);
    assert_eq!(run_with(1499), ["greedy"], "a hair less is not worth another way");
}

/// Rows of what the root reads.
pub(crate) fn rows_left(module: &Module) -> i64 {
    let root = module.instruction(module.computation(module.entry()).root);
    module.instruction(root.operands[0]).array().map_or(0, |array| array.dims[0])
}

/// A pass that leaves so many rows where there are `from`.
fn step(name: &'static str, from: i64, to: i64) -> Box<dyn Pass> {
    let find = move |context: &Context<'_>| {
        let root = context.module.computation(context.module.entry()).root;
        let ready = rows_left(context.module) == from;
        ready.then(|| shrink(context.module, root, to, "now")).into_iter().collect::<Vec<_>>()
    };
    Box::new(Fake(name, PassKind::Rewrite, find))
}

#[test]
fn a_later_step_that_is_second_by_little_is_taken_if_it_leads_further() {
    let made = |patient: i64| {
        let passes = [
            step("begin", 4096, 3000),
            step("greedy", 3000, 1000),
            step("patient", 3000, patient),
            step("after", patient, 1),
        ];
        let report = run_on(&mut module(TWO_PEAKS), &passes, 1024);
        report.rewrites.iter().map(|rewrite| rewrite.pass).collect::<Vec<_>>()
    };
    assert_eq!(made(1100), ["begin", "patient", "after"]);
    assert_eq!(made(1300), ["begin", "greedy"], "more than an eighth is not little");
}

/// The largest array, by a model that knows the compiler roughly.
struct RoughlyLargest;

impl Estimator for RoughlyLargest {
    fn estimate(&self, module: &Module) -> Result<Estimate, EstimateError> {
        let known = LargestArray.estimate(module)?;
        Ok(Estimate { model: Model::Rough, error_margin: Bytes(known.total.get() / 4), ..known })
    }
}

#[test]
fn rewrites_that_save_less_together_than_a_rough_model_may_be_off_are_put_back() {
    // Each step saves more than the hundredth of the peak that a single one has to.
    let made = |target: Target, estimator: &dyn Estimator, rows: i64| {
        let mut module = module(TWO_PEAKS);
        let before = text::print(&module);
        let passes = [step("first", 4096, 4000), step("second", 4000, rows)];
        let options = Options { target, ..options(1) };
        let report = run(&mut module, &passes, &options, estimator).expect("the passes are sound");
        assert_eq!(report.rewrites.is_empty(), text::print(&module) == before);
        assert_eq!(report.rewrites.is_empty(), report.after == report.before);
        let doubted = report.remarks.iter().any(|remark| remark.message.contains("less than the estimate may be off"));
        assert_eq!(report.rewrites.is_empty(), doubted, "{:?}", report.remarks);
        report.rewrites.len()
    };
    // A twentieth of 4096 rows is 204.8, a third of them 1365.3.
    assert_eq!(made(Target::Gpu, &RoughlyLargest, 4096 - 204), 0);
    assert_eq!(made(Target::Gpu, &RoughlyLargest, 4096 - 205), 2);
    assert_eq!(made(Target::Tpu, &RoughlyLargest, 4096 - 1365), 0, "XLA:TPU moves buffers out of its main memory");
    assert_eq!(made(Target::Tpu, &RoughlyLargest, 4096 - 1366), 2);
    assert_eq!(made(Target::Cpu, &LargestArray, 4096 - 204), 2, "XLA:CPU is known better");
}

#[test]
fn a_budget_leaves_room_for_the_error_margin_unless_a_compiler_judges() {
    let made = |is_judged| {
        let options = Options { target: Target::Gpu, budget: Some(Bytes(1000 * 16)), is_judged, ..options(1) };
        let passes = [step("first", 4096, 1000), step("second", 1000, 500)];
        run(&mut module(TWO_PEAKS), &passes, &options, &RoughlyLargest).expect("it is sound").rewrites.len()
    };
    assert_eq!((made(true), made(false)), (1, 2));
}

/// The largest array, of all devices together while `true` says so of the rows that are left.
struct OfDevices(fn(i64) -> bool);

impl Estimator for OfDevices {
    fn estimate(&self, module: &Module) -> Result<Estimate, EstimateError> {
        Ok(Estimate { of_all_devices: self.0(rows_left(module)), ..LargestArray.estimate(module)? })
    }
}

#[test]
fn figures_of_one_device_and_of_all_together_do_not_compare() {
    let made = |is_of_all: fn(i64) -> bool| {
        let passes = [step("shrink", 4096, 1000)];
        run(&mut module(TWO_PEAKS), &passes, &options(1), &OfDevices(is_of_all)).expect("it is sound").rewrites.len()
    };
    assert_eq!((made(|_| true), made(|_| false)), (1, 1));
    assert_eq!(made(|rows| rows == 4096), 0, "the division is known of the new form only");
    assert_eq!(made(|rows| rows < 4096), 0, "it is known of the input only");
}

#[test]
fn clean_ups_stay_unless_the_peak_rises() {
    let mut module = module(TWO_PEAKS);
    let passes = [shrinker("same", PassKind::CleanUp, "t", 4096), shrinker("worse", PassKind::CleanUp, "row", 8192)];
    let report = run_on(&mut module, &passes, 1024);
    assert_eq!(report.rewrites.iter().map(|rewrite| rewrite.pass).collect::<Vec<_>>(), ["same"]);
}

#[test]
fn a_patch_that_changes_nothing_is_an_error() {
    let mut module = module(TWO_PEAKS);
    let before = text::print(&module);
    let nothing = |context: &Context<'_>| {
        let root = context.module.computation(context.module.entry()).root;
        let mut patch = Patch::new(context.module);
        patch.rewrite(root, context.module.instruction(root).clone());
        vec![finding(root, Bytes(8), patch, "nothing")]
    };
    let pass: Box<dyn Pass> = Box::new(Fake("idle", PassKind::Rewrite, nothing));
    let error = run(&mut module, &[pass], &options(0), &LargestArray).expect_err("the claim is wrong");
    assert_eq!(error.to_string(), "pass `idle` made a wrong claim about `t`: the patch changes nothing");
    assert_eq!(text::print(&module), before);
}

#[test]
fn a_rewrite_that_claims_nothing_is_an_error() {
    let mut module = module(TWO_PEAKS);
    let modest = |context: &Context<'_>| {
        let root = named(context.module, "t").expect("the root");
        vec![Finding { wasted: Bytes::ZERO, ..shrink(context.module, root, 1, "modest") }]
    };
    let pass: Box<dyn Pass> = Box::new(Fake("modest", PassKind::Rewrite, modest));
    let error = run(&mut module, &[pass], &options(0), &LargestArray).expect_err("the claim is wrong");
    assert!(matches!(error, RunError::Dishonest { pass: "modest", .. }), "{error}");
}

#[test]
fn a_patch_that_breaks_the_module_is_an_error_and_is_undone() {
    let mut module = module(TWO_PEAKS);
    let before = text::print(&module);
    let cycle = |context: &Context<'_>| {
        let (b, d) = (named(context.module, "b").expect("b"), named(context.module, "d").expect("d"));
        let mut patch = Patch::new(context.module);
        let mut looped = context.module.instruction(b).clone();
        looped.operands[0] = d;
        patch.rewrite(b, looped);
        vec![finding(b, Bytes(8), patch, "cycle")]
    };
    let pass: Box<dyn Pass> = Box::new(Fake("cycle", PassKind::Rewrite, cycle));
    let error = run(&mut module, &[pass], &options(0), &LargestArray).expect_err("a cycle is illegal");
    assert_eq!(error.to_string(), "pass `cycle` produced an illegal module: the patch makes computation `main` cyclic");
    assert_eq!(text::print(&module), before);
}

/// A pass whose one rewrite has the given grade.
fn graded(grade: Grade) -> Box<dyn Pass> {
    let find = move |context: &Context<'_>| {
        let id = named(context.module, "t");
        id.map(|id| Finding { grade, ..shrink(context.module, id, 1, "graded") }).into_iter().collect::<Vec<_>>()
    };
    Box::new(Fake("graded", PassKind::Rewrite, find))
}

#[test]
fn grades_weaker_than_asked_for_are_remarks() {
    let strict = Options { exactness: Grade::Bitwise, ..options(1024) };
    let report = run(&mut module(TWO_PEAKS), &[graded(Grade::HloExact)], &strict, &LargestArray).expect("sound");
    assert_eq!(report.remarks[0].code, "grade");
    assert!(report.remarks[0].message.contains("--exactness=hlo-exact"), "{}", report.remarks[0].message);
    let report = run(&mut module(TWO_PEAKS), &[graded(Grade::HloExact)], &options(1024), &LargestArray).expect("sound");
    assert_eq!(report.rewrites[0].grade, Grade::HloExact);
}

#[test]
fn assumed_rewrites_need_a_promise() {
    let report = run(&mut module(TWO_PEAKS), &[graded(Grade::Assume)], &options(1024), &LargestArray).expect("sound");
    assert_eq!(report.remarks[0].code, "grade");
    let promise =
        Options { exactness: Grade::Bitwise, assumptions: vec![Assumption::IndicesInBounds], ..options(1024) };
    let report = run(&mut module(TWO_PEAKS), &[graded(Grade::Assume)], &promise, &LargestArray).expect("sound");
    assert_eq!(report.rewrites[0].grade, Grade::Assume);
}

/// A pass that would shrink the cone of `at`, but may not.
fn withholding(at: &'static str, rows: i64) -> Box<dyn Pass> {
    let find = move |context: &Context<'_>| {
        let withhold = |id| {
            let finding = shrink(context.module, id, rows, "");
            let Outcome::Rewrite { patch, .. } = finding.outcome else { panic!("it shrinks") };
            let reason = Reason { code: "not-now", message: "it may not be".to_owned() };
            Finding { outcome: Outcome::Withheld { patch, reason }, ..finding }
        };
        named(context.module, at).map(withhold).into_iter().collect::<Vec<_>>()
    };
    Box::new(Fake("withholds", PassKind::Rewrite, find))
}

#[test]
fn what_is_withheld_is_measured() {
    let mut module = module(TWO_PEAKS);
    let before = text::print(&module);
    // The rewrite of `t` leaves the largest array of 4096 rows, that of `s` does not lower the peak.
    let report = run_on(&mut module, &[withholding("t", 1), withholding("s", 1)], 1024);
    assert_eq!(text::print(&module), before);
    let told: Vec<_> =
        report.remarks.iter().map(|remark| (remark.instruction.as_str(), remark.code, remark.bytes)).collect();
    assert_eq!(told, [("t", "not-now", Bytes(4095 * 16))]);
}

#[test]
fn missed_chances_are_told_once_with_their_line() {
    let twice = |context: &Context<'_>| {
        let at = named(context.module, "c").expect("c");
        let reason = Reason { code: "why", message: "because".to_owned() };
        let missed = || Finding {
            instruction: at,
            grade: Grade::Bitwise,
            wasted: Bytes(5),
            outcome: Outcome::Missed(reason.clone()),
        };
        vec![missed(), missed()]
    };
    let pass: Box<dyn Pass> = Box::new(Fake("tells", PassKind::Rewrite, twice));
    let report = run_on(&mut module(TWO_PEAKS), &[pass], 0);
    let [remark] = &report.remarks[..] else { panic!("{:?}", report.remarks) };
    assert_eq!((remark.code, remark.message.as_str(), remark.bytes), ("why", "because", Bytes(5)));
    assert_eq!(remark.source.line.as_deref(), Some("f.py:7"));
}

#[test]
fn a_pass_that_never_settles_hits_the_bound() {
    // Every round takes one row off the array of a module that starts with more rows than there are rounds.
    let endless = |context: &Context<'_>| {
        let root = context.module.computation(context.module.entry()).root;
        let rows = context.module.live_instructions().filter_map(|(_, inst)| inst.array()?.dims.first().copied()).max();
        vec![shrink(context.module, root, rows.expect("arrays") - 1, "less")]
    };
    let pass: Box<dyn Pass> = Box::new(Fake("endless", PassKind::Rewrite, endless));
    let report = run_on(&mut module(TWO_PEAKS), &[pass], 1);
    let last = report.remarks.last().expect("a remark");
    assert_eq!((last.kind, last.code), (RemarkKind::Analysis, "limit"));
    assert_eq!(report.rewrites.len(), 512);
    assert!(report.rewrites.iter().all(|rewrite| rewrite.instruction == "t"), "all stem from the input's root");
}

#[test]
fn without_passes_nothing_happens() {
    let mut module = module(TWO_PEAKS);
    let before = text::print(&module);
    let report = run_on(&mut module, &[], 0);
    assert_eq!((report.rewrites.len(), report.remarks.len()), (0, 0));
    assert_eq!(text::print(&module), before);
}

#[test]
fn notes_speak_of_the_input_too() {
    let mut module = module(TWO_PEAKS);
    let again = |context: &Context<'_>| {
        let row = named(context.module, "row");
        row.map(|id| shrink(context.module, id, 1, "shrinks `row` behind `d`")).into_iter().collect::<Vec<_>>()
    };
    let passes: [Box<dyn Pass>; 2] =
        [shrinker("half", PassKind::Rewrite, "t", 2048), Box::new(Fake("again", PassKind::Rewrite, again))];
    let notes: Vec<String> =
        run_on(&mut module, &passes, 1024).rewrites.into_iter().map(|rewrite| rewrite.note).collect();
    assert_eq!(notes, ["half", "shrinks `t` behind `d`"]);
}

/// No total is ever lower: everything is tried and nothing kept.
struct Never;

impl Estimator for Never {
    fn estimate(&self, _: &Module) -> Result<Estimate, EstimateError> {
        Ok(common::estimate(Bytes(1 << 40), vec![Bytes(1)]))
    }
}

/// Every rewrite of every pass is tried and undone again on the corpus: not a letter may change.
#[test]
fn undoing_restores_the_text() {
    let corpus = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../corpus");
    let folders = ["founding-small", "chunk-small", "direct-index-small"];
    let files = folders.iter().flat_map(|folder| {
        std::fs::read_dir(corpus.join(folder))
            .expect("the corpus is part of the repository")
            .map(|entry| entry.expect("readable").path())
    });
    let mut tried = 0;
    for file in files.filter(|file| file.to_string_lossy().ends_with(".before.hlo")) {
        let source = std::fs::read_to_string(&file).expect("the corpus is text");
        let mut module = common::parse(&source);
        let before = text::print(&module);
        let options = Options { assumptions: vec![Assumption::IndicesInBounds], ..options(1) };
        let report =
            run(&mut module, &hlo_passes::manager::default_pipeline(), &options, &Never).expect("they are sound");
        assert!(report.rewrites.is_empty());
        tried += report.remarks.iter().filter(|remark| remark.code == "no-gain").count();
        assert_eq!(text::print(&module), before, "{}", file.display());
    }
    assert!(tried > 50, "{tried} rewrites were tried");
}

/// What an observer is told, in short.
#[derive(Default)]
struct Told(Vec<String>);

impl Observer for Told {
    fn applied(&mut self, number: usize, rewrite: &Rewrite, _module: &Module) {
        self.0.push(format!("{number} {}", rewrite.pass));
    }
    fn undone(&mut self, kept: usize) {
        self.0.push(format!("kept {kept}"));
    }
}

#[test]
fn a_budget_ends_the_search_and_says_so() {
    let passes = || [shrinker("half", PassKind::Rewrite, "t", 2048), shrinker("other", PassKind::Rewrite, "s", 1)];
    let budget = |bytes| Options { budget: Some(Bytes(bytes)), ..options(1024) };
    let mut untouched = module(TWO_PEAKS);
    let report = run(&mut untouched, &passes(), &budget(1 << 20), &LargestArray).expect("sound");
    assert!(report.rewrites.is_empty());
    assert!(report.remarks.iter().all(|remark| remark.code == "budget"), "{:?}", report.remarks);
    let mut halved = module(TWO_PEAKS);
    let report = run(&mut halved, &passes(), &budget(32 << 10), &LargestArray).expect("sound");
    assert_eq!(report.after.total, Bytes(32 << 10));
}

/// Two large arrays side by side.
const SIDE_BY_SIDE: &str = "  %p = f32[4]{0} parameter(0)
  %a = f32[4096,4]{1,0} broadcast(%p), dimensions={1}
  %s = f32[1,4]{1,0} slice(%a), slice={[0:1], [0:4]}
  %b = f32[4096,4]{1,0} broadcast(%p), dimensions={1}
  %t = f32[1,4]{1,0} slice(%b), slice={[1:2], [0:4]}
  ROOT %r = f32[1,4]{1,0} add(%s, %t)";

#[test]
fn a_limit_keeps_the_first_rewrites_of_the_full_run() {
    let passes = || [shrinker("first", PassKind::Rewrite, "s", 1), shrinker("second", PassKind::Rewrite, "t", 1)];
    let limited = |limit| {
        let mut module = module(SIDE_BY_SIDE);
        let options = Options { bisect_limit: Some(limit), ..options(1024) };
        let report = run(&mut module, &passes(), &options, &LargestArray).expect("sound");
        (report, text::print(&module))
    };
    let full = limited(9).0.rewrites;
    assert_eq!(full.len(), 2);
    let (one, _) = limited(1);
    assert_eq!(one.rewrites[0].pass, full[0].pass);
    let numbered = |report: &RunReport| -> Vec<String> {
        let withheld = report.remarks.iter().filter(|remark| remark.code == "bisect-limit");
        withheld.map(|remark| format!("{} by {}", &remark.message[..9], remark.pass)).collect()
    };
    assert_eq!(numbered(&one), ["rewrite 2 by second"], "only what is withheld");
    assert_eq!(limited(0).1, text::print(&module(SIDE_BY_SIDE)));
}

#[test]
fn an_observer_is_told_of_every_step_and_what_is_put_back() {
    let mut told = Told::default();
    let mut module = module(TWO_PEAKS);
    let passes = [shrinker("first", PassKind::Rewrite, "s", 1)];
    let report = run_observed(&mut module, &passes, &options(1024), &LargestArray, &mut told).expect("sound");
    assert_eq!(told.0, ["1 first", "kept 0"]);
    let counted = &report.statistics.passes[0];
    assert_eq!((counted.made, counted.put_back), (1, 1));
    assert!(counted.tried > 0 && counted.findings >= counted.tried && report.statistics.estimates.count > 0);
}
