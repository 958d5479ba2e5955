//! Layers of a model, each of which holds as much as the peak: none of them is worth rewriting alone, all of them together are, and the search takes no longer
//! for more layers.
//!
//! Pins `passes/src/manager.rs`, `passes/src/manager/search/bisection.rs`, `passes/src/manager/search/just_enough.rs`,
//! `passes/src/manager/search/representatives.rs`.

use hlo_memory::{Bytes, ModelEstimator, Target};
use hlo_passes::manager::{RunReport, default_pipeline, run};
use hlo_passes::rematerialize::Rematerialize;
use hlo_passes::{Grade, Objective, Options};

const SCALARS: &str = "HloModule m
%most (a: f32[], b: f32[]) -> f32[] {
  %a = f32[] parameter(0)
  %b = f32[] parameter(1)
  ROOT %m = f32[] maximum(%a, %b)
}
%sum (a: f32[], b: f32[]) -> f32[] {
  %a = f32[] parameter(0)
  %b = f32[] parameter(1)
  ROOT %s = f32[] add(%a, %b)
}
ENTRY %main {
  %low = f32[] constant(-inf)
  %zero = f32[] constant(0)
  %x0 = f32[4096,64] parameter(0)
  %eighth = f32[] constant(0.125)
  %scale = f32[4096,4096] broadcast(%eighth), dimensions={}
";

/// Attention in `%x{k}` with weights of its own, in HLO text.
fn layer(k: usize) -> String {
    format!(
        "  %w{k} = f32[64,64] parameter({first})
  %up{k} = f32[64,64] parameter({second})
  %o{k} = f32[64,64] parameter({third})
  %h{k} = f32[4096,64] dot(%x{k}, %w{k}), lhs_contracting_dims={{1}}, rhs_contracting_dims={{0}}
  %q{k} = f32[4096,64] tanh(%h{k})
  %g{k} = f32[4096,64] dot(%x{k}, %up{k}), lhs_contracting_dims={{1}}, rhs_contracting_dims={{0}}
  %k{k} = f32[4096,64] tanh(%g{k})
  %v{k} = f32[4096,64] dot(%x{k}, %o{k}), lhs_contracting_dims={{1}}, rhs_contracting_dims={{0}}
  %y{k} = f32[4096,4096] dot(%q{k}, %k{k}), lhs_contracting_dims={{1}}, rhs_contracting_dims={{1}}
  %z{k} = f32[4096,4096] multiply(%y{k}, %scale)
  %m{k} = f32[4096] reduce(%z{k}, %low), dimensions={{1}}, to_apply=%most
  %n{k} = f32[4096,4096] broadcast(%m{k}), dimensions={{0}}
  %d{k} = f32[4096,4096] subtract(%z{k}, %n{k})
  %e{k} = f32[4096,4096] exponential(%d{k})
  %sums{k} = f32[4096] reduce(%e{k}, %zero), dimensions={{1}}, to_apply=%sum
  %t{k} = f32[4096,4096] broadcast(%sums{k}), dimensions={{0}}
  %p{k} = f32[4096,4096] divide(%e{k}, %t{k})
  %r{k} = f32[4096,64] dot(%p{k}, %v{k}), lhs_contracting_dims={{1}}, rhs_contracting_dims={{0}}
  %x{next} = f32[4096,64] sine(%r{k})
",
        next = k + 1,
        first = 3 * k + 1,
        second = 3 * k + 2,
        third = 3 * k + 3
    )
}

fn rewritten(layers: usize) -> RunReport {
    let body: String = (0..layers).map(layer).collect();
    let text = format!("{SCALARS}{body}  ROOT %result = f32[4096,64] negate(%x{layers})\n}}\n");
    let mut module = hlo_ir::text::parse(&text).expect("the test's module is legal");
    let options = Options { advise: false, ..Options::default() };
    let report = run(&mut module, &default_pipeline(), &options, &ModelEstimator { target: Target::Cpu });
    report.expect("the run is sound")
}

/// How often `chunk` made a loop.
fn loops(report: &RunReport) -> usize {
    report.rewrites.iter().filter(|rewrite| rewrite.pass == "chunk").count()
}

#[test]
fn layers_are_rewritten_together() {
    let report = rewritten(6);
    assert_eq!(loops(&report), 6, "{:#?}", report.rewrites);
    assert!(report.rewrites.iter().all(|rewrite| rewrite.grade <= Grade::HloExact));
    let (before, after) = (report.before.total_with_scratch().get(), report.after.total_with_scratch().get());
    assert!(before > 128 << 20 && after < before / 8, "{before} -> {after}");
    let saved: u64 = report.rewrites.iter().map(|rewrite| rewrite.saved.get()).sum();
    assert_eq!(saved, before - after, "what rewrites save is the fall of the peak");
}

#[test]
fn more_layers_take_no_more_searches() {
    let searches = |layers| {
        let report = rewritten(layers);
        let chunk = report.statistics.passes.iter().find(|pass| pass.name == "chunk").expect("it ran").searches.count;
        assert_eq!(loops(&report), layers);
        chunk
    };
    assert_eq!(searches(5), searches(10));
}

#[test]
fn one_of_equal_layers_is_estimated_for_all() {
    let tried = |layers| {
        let report = rewritten(layers);
        assert_eq!(loops(&report), layers);
        report.statistics.passes.iter().find(|pass| pass.name == "chunk").expect("it ran").tried
    };
    let (some, more) = (tried(40), tried(50));
    assert_eq!(some, more);
    assert!(some < 40, "{some} estimates of 40 equal layers");
}

/// A step of so many layers `tanh(x @ w)` and the gradients of their weights.
fn step(layers: usize, rows: usize, width: usize) -> String {
    let (values, weights) = (&format!("f32[{rows},{width}]"), &*format!("f32[{width},{width}]"));
    let start = format!(
        "  %x0 = {values} parameter(0)\n  %one = f32[] constant(1)\n  %ones = {values} broadcast(%one), dimensions={{}}\n"
    );
    let forward = (0..layers).map(|k| {
        format!(
            "  %w{k} = {weights} parameter({next})
  %h{k} = {values} dot(%x{k}, %w{k}), lhs_contracting_dims={{1}}, rhs_contracting_dims={{0}}
  %x{next} = {values} tanh(%h{k})
",
            next = k + 1
        )
    });
    let turn = format!("  %d{layers} = {values} negate(%x{layers})\n");
    let backward = (0..layers).rev().map(|k| {
        format!(
            "  %q{k} = {values} multiply(%x{next}, %x{next})
  %slope{k} = {values} subtract(%ones, %q{k})
  %e{k} = {values} multiply(%d{next}, %slope{k})
  %g{k} = {weights} dot(%x{k}, %e{k}), lhs_contracting_dims={{0}}, rhs_contracting_dims={{0}}
  %d{k} = {values} dot(%e{k}, %w{k}), lhs_contracting_dims={{1}}, rhs_contracting_dims={{1}}
",
            next = k + 1
        )
    });
    let body: String = std::iter::once(start).chain(forward).chain([turn]).chain(backward).collect();
    let gradients: Vec<String> = (0..layers).map(|k| format!("%g{k}")).collect();
    let shapes = vec![weights; layers].join(", ");
    format!("HloModule m\n\nENTRY %main {{\n{body}  ROOT %all = ({shapes}) tuple({})\n}}\n", gradients.join(", "))
}

/// What `rematerialize` alone makes of a step on GPU, and how many of the ways that it offers were estimated.
fn computed_again(source: &str, objective: Objective) -> (RunReport, usize) {
    let mut module = hlo_ir::text::parse(source).expect("the test's module is legal");
    let options = Options { advise: false, target: Target::Gpu, objective, ..Options::default() };
    let model = ModelEstimator { target: Target::Gpu };
    let report = run(&mut module, &[Box::new(Rematerialize)], &options, &model).expect("the run is sound");
    let untried = report.remarks.iter().filter(|remark| {
        remark.code == "slower" && remark.message.starts_with("was not tried: by what it computes again")
    });
    assert!(untried.count() > 0, "{:?}", report.remarks);
    let tried = report.statistics.passes[0].tried;
    (report, tried)
}

/// Where each is estimated 133 are, to the same end.
#[test]
fn of_ways_that_take_too_long_few_are_estimated() {
    let (report, tried) = computed_again(&step(200, 16384, 128), Objective::Balanced);
    let (before, after) = (report.before.total.get(), report.after.total.get());
    assert!(after < before - before / 7, "{before} -> {after}");
    assert!(tried < 90, "{tried} were tried");
}

/// Where each is estimated nine are, and with bisection alone more than half of them.
#[test]
fn what_takes_too_long_by_its_products_alone_is_not_estimated() {
    let (report, tried) = computed_again(&step(400, 4096, 2048), Objective::Time);
    assert!(report.rewrites.is_empty() && tried <= 3, "{tried} were tried: {:?}", report.remarks);
}

/// Each layer that is computed again takes a product and spares a value. All of them are offered, and a third of what they spare is asked for.
#[test]
fn no_more_layers_are_computed_again_than_a_budget_asks_for() {
    let source = step(64, 16384, 1024);
    let within = |budget: Option<Bytes>, objective: Objective| {
        let mut module = hlo_ir::text::parse(&source).expect("the test's module is legal");
        let options = Options { advise: false, target: Target::Gpu, budget, objective, ..Options::default() };
        let model = ModelEstimator { target: Target::Gpu };
        let report = run(&mut module, &[Box::new(Rematerialize)], &options, &model).expect("the run is sound");
        assert!(budget.is_none_or(|budget| options.peak(&report.after) <= budget), "{:?}", report.after.total);
        let products = hlo_ir::text::print(&module).matches(" dot(").count();
        (products - source.matches(" dot(").count(), report)
    };
    let (all, smallest) = within(None, Objective::Memory);
    let (before, least) = (smallest.before.total.get(), smallest.after.total.get());
    let (some, enough) = within(Some(Bytes(before - (before - least) / 3)), Objective::Balanced);
    assert!(0 < some && some <= all / 2, "{some} of {all}");
    let slowdown = |report: &RunReport| report.slowdown.expect("all kernels have a price") - 1.0;
    assert!(slowdown(&enough) < 0.6 * slowdown(&smallest), "{:?} {:?}", enough.slowdown, smallest.slowdown);
}
