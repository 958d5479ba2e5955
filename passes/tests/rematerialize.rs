//! `rematerialize`: what of a step is computed again, and what is kept: layers that widen and narrow again, and one thing different at a time.
//!
//! Pins `passes/src/rematerialize.rs`, `passes/src/recompute.rs`, `passes/src/recompute/layers.rs`,
//! `passes/src/recompute/tie.rs`, `passes/src/rematerialize/row_statistics.rs`.

use std::fmt::Write as _;

use crate::common::estimate;
use hlo_ir::edit::Patch;
use hlo_ir::graph::Users;
use hlo_ir::{AttrKey, Instruction, Module, Opcode, text, verify};
use hlo_memory::{Bytes, ModelEstimator, Target};
use hlo_passes::manager::{default_pipeline, run};
use hlo_passes::rematerialize::Rematerialize;
use hlo_passes::{Context, Grade, Machine, Options, Outcome, Pass};

const LAYERS: usize = 6;

/// The layer that uses `mask`.
const MASKED: usize = 3;

/// A step of layers `narrow(abs(wide(x) * mask))`, in which a value of one layer is multiplied by `mask`, and `rest` stands behind all gradients.
///
/// A wide product takes 1.6 times the 256 bytes of its row on the machine that the tests are for, and less than keeping it does.
fn step(mask: &str, rest: &str) -> String {
    let wide = |name: &str, op: &str| format!("  {name} = f32[4096,64] {op}\n");
    let by = "lhs_contracting_dims={1}, rhs_contracting_dims";
    let mut lines = String::from(mask);
    let mut write = |line: String| lines.push_str(&line);
    for i in 0..LAYERS {
        let x = if i == 0 { "x".to_owned() } else { format!("n{}", i - 1) };
        write(format!("  w{i} = f32[8,64] parameter({})\n  v{i} = f32[64,8] parameter({})\n", 2 + 2 * i, 3 + 2 * i));
        write(wide(&format!("h{i}"), &format!("dot({x}, w{i}), {by}={{0}}")));
        let of = if i == MASKED && !mask.is_empty() { "mask" } else { "ones" };
        write(wide(&format!("m{i}"), &format!("multiply(h{i}, {of})")));
        write(wide(&format!("t{i}"), &format!("abs(m{i})")));
        write(format!("  n{i} = f32[4096,8] dot(t{i}, v{i}), {by}={{0}}\n"));
    }
    for i in (0..LAYERS).rev() {
        let (x, d) = if i == 0 { ("x".to_owned(), i) } else { (format!("n{}", i - 1), i) };
        let from = if i == LAYERS - 1 { format!("n{i}") } else { format!("dx{}", i + 1) };
        let turned = "lhs_contracting_dims={0}, rhs_contracting_dims={0}";
        write(format!("  dv{d} = f32[64,8] dot(t{i}, {from}), {turned}\n"));
        write(wide(&format!("dt{d}"), &format!("dot({from}, v{i}), {by}={{1}}")));
        write(wide(&format!("slope{d}"), &format!("multiply(dt{d}, t{i})")));
        write(wide(&format!("dm{d}"), &format!("subtract(dt{d}, slope{d})")));
        let of = if i == MASKED && !mask.is_empty() { "mask" } else { "ones" };
        write(wide(&format!("dh{d}"), &format!("multiply(dm{d}, {of})")));
        write(format!("  dw{d} = f32[8,64] dot({x}, dh{d}), {turned}\n"));
        write(format!("  dx{d} = f32[4096,8] dot(dh{d}, w{i}), {by}={{1}}\n"));
    }
    let results = (0..LAYERS).map(|i| format!("dv{i}, dw{i}")).collect::<Vec<_>>().join(", ");
    let shapes = ["f32[64,8], f32[8,64]"; LAYERS].join(", ");
    let mut module = String::from(
        "HloModule m\n\nENTRY main {\n  x = f32[4096,8] parameter(0)\n  noise = f32[4096,64] parameter(1)\n",
    );
    module.push_str("  one = f32[] constant(1)\n  ones = f32[4096,64] broadcast(one), dimensions={}\n");
    let _ = write!(
        module,
        "{lines}{rest}  ROOT all = ({shapes}, f32[4096,8]) tuple({results}, {})\n}}\n",
        if rest.is_empty() { "dx0" } else { "rest" }
    );
    module
}

/// What is computed again, with a budget or without.
fn again(source: &str, budget: Option<Bytes>) -> Vec<(Grade, Vec<Instruction>)> {
    let module = text::parse(source).unwrap_or_else(|errors| panic!("{errors:?}\n{source}"));
    assert_eq!(verify::verify(&module), [], "{source}");
    let users = Users::of(&module);
    let options = Options {
        min_saving: Bytes(1),
        machine: Some(Machine::without_malloc_cache()),
        exactness: Grade::HloExact,
        budget,
        ..Options::default()
    };
    let estimate = estimate(Bytes(1 << 24), Vec::new());
    let findings = Rematerialize.find(&Context::of_input(&module, &users, &estimate, &options));
    let made = findings.into_iter().map(|finding| {
        let Outcome::Rewrite { patch, .. } = finding.outcome else { panic!("a rewrite") };
        (finding.grade, patch.added().map(|id| patch.instruction(&module, id).clone()).collect())
    });
    made.collect()
}

fn count(made: &[Instruction], opcode: Opcode) -> usize {
    made.iter().filter(|inst| inst.opcode == opcode).count()
}

/// How often a run multiplies more than the input does, and whether it lowers the peak.
fn more_products(source: &str, budget: Option<Bytes>) -> (usize, bool) {
    more_products_by(&["rematerialize"], source, budget)
}

/// The same of a run of some passes of the default pipeline.
fn more_products_by(passes: &[&str], source: &str, budget: Option<Bytes>) -> (usize, bool) {
    let mut module = text::parse(source).unwrap_or_else(|errors| panic!("{errors:?}\n{source}"));
    let products = |module: &hlo_ir::Module| text::print(module).matches(" dot(").count();
    let before = products(&module);
    let options =
        Options { min_saving: Bytes(1), machine: Some(Machine::without_malloc_cache()), budget, ..Options::default() };
    let passes: Vec<Box<dyn Pass>> =
        default_pipeline().into_iter().filter(|pass| passes.contains(&pass.name())).collect();
    let report = run(&mut module, &passes, &options, &ModelEstimator::default()).expect("it has an estimate");
    (products(&module) - before, report.after.total < report.before.total)
}

#[test]
fn many_products_are_computed_again_for_a_budget() {
    let source = step("", "");
    let (few, _) = more_products(&source, None);
    let (many, lowers) = more_products(&source, Some(Bytes(1)));
    assert!(few <= many && many >= LAYERS - 1 && lowers, "{few}, {many}");
    assert!(again(&source, Some(Bytes(1))).iter().all(|(grade, _)| *grade == Grade::HloExact));
}

/// What each of several devices runs is a program of one only once its annotations are gone.
#[test]
fn what_each_device_runs_is_computed_again_too() {
    let exchange = "  rest = f32[4096,8] all-reduce(dx0), channel_id=1, replica_groups={{0,1}}, use_global_device_ids=true, to_apply=sum\n";
    let sum = "sum {\n  a = f32[] parameter(0)\n  b = f32[] parameter(1)\n  ROOT c = f32[] add(a, b)\n}\n";
    let source = step("", exchange).replacen("HloModule m\n", &format!("HloModule m, num_partitions=2\n\n{sum}"), 1);
    let (products, lowers) = more_products_by(&["sharding-remover", "rematerialize"], &source, Some(Bytes(1)));
    assert!(products >= LAYERS - 1 && lowers, "{products}");
}

#[test]
fn few_products_are_computed_again_without_one() {
    // Each of these takes as much as 64 of the products of a layer.
    let rest = "  large = f32[4096,4096] parameter(14)
  r0 = f32[4096,8] dot(large, dx0), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  r1 = f32[4096,8] dot(large, r0), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  rest = f32[4096,8] dot(large, r1), lhs_contracting_dims={1}, rhs_contracting_dims={0}\n";
    let (products, lowers) = more_products(&step("", rest), None);
    assert!(products > 1 && lowers, "{products}");
}

#[test]
fn what_follows_from_parameters_belongs_to_the_layer_that_uses_it() {
    // An exponential and a sum: more than reading takes, less than keeping does.
    let mask = "  e = f32[4096,64] exponential(noise)\n  mask = f32[4096,64] add(e, ones)\n";
    let [without, with] = ["", mask].map(|mask| again(&step(mask, ""), Some(Bytes(1))).pop().expect("a plan").1);
    let made = |name: &str| with.iter().any(|inst| inst.name == name);
    assert!(made("e") && made("mask") && made("m3"));
    // Each segment compares what it waits for. Were the mask a value of the first segment, it would pass all places where others could begin; so it passes
    // none but those inside its layer.
    assert!(count(&with, Opcode::Compare) + 1 >= count(&without, Opcode::Compare));
}

#[test]
fn what_is_too_slow_is_left_on_devices_too() {
    let source = include_str!("../../corpus/rematerialize/keeps-products.before.hlo");
    let slower = |target| {
        let mut module = text::parse(source).unwrap();
        let options = Options { target, ..Options::default() };
        let passes: Vec<Box<dyn Pass>> = vec![Box::new(Rematerialize)];
        let report = run(&mut module, &passes, &options, &ModelEstimator { target }).expect("it has an estimate");
        report.remarks.iter().any(|remark| remark.code == "slower")
    };
    assert_eq!([Target::Cpu, Target::Tpu].map(slower), [true, true]);
}

#[test]
fn on_gpu_what_is_made_where_it_is_read_anyway_does_not_count_as_saved() {
    let file = concat!(env!("CARGO_MANIFEST_DIR"), "/../corpus/rematerialize/fires-gelu-layers.before.hlo");
    let module = text::parse(&std::fs::read_to_string(file).expect("it is in the corpus")).expect("it is legal");
    let options = Options { target: Target::Gpu, ..Options::default() };
    let (users, known) = (Users::of(&module), hlo_memory::estimate(&module, Target::Gpu).expect("it has an estimate"));
    let found = Rematerialize.find(&Context::of_input(&module, &users, &known, &options));
    let saved: Vec<Bytes> = found.iter().map(|finding| finding.wasted).collect();
    // A plan is offered in a quarter and in half of its segments first, then in all.
    assert!(saved[2] < known.temporaries, "of what stands in memory: {saved:?}");
    assert!(saved.iter().any(|&saved| saved > known.temporaries), "of all that waits, too: {saved:?}");
}

/// Two layers of attention and of a perceptron, and their gradients.
const ATTENTION: &str = include_str!("budget_programs/attention_layers.hlo");

/// The attention layers, and the change of them by which most is saved.
fn most_is_saved(target: Target) -> (Module, Patch) {
    let module = text::parse(ATTENTION).expect("it is legal");
    let options = Options { target, ..Options::default() };
    let (users, known) = (Users::of(&module), hlo_memory::estimate(&module, target).expect("it has an estimate"));
    let found = Rematerialize.find(&Context::of_input(&module, &users, &known, &options));
    let most = found.into_iter().max_by_key(|finding| finding.wasted).expect("something waits");
    let Outcome::Rewrite { patch, .. } = most.outcome else { panic!("a rewrite") };
    (module, patch)
}

/// How many sums and maxima of one layer are computed again where most is saved; the other is the last, and its values wait for nothing.
fn reductions_again(target: Target) -> usize {
    let (module, patch) = most_is_saved(target);
    patch.added().filter(|&id| patch.instruction(&module, id).opcode == Opcode::Reduce).count()
}

/// What is waited for is read behind the barriers, so that no simplification takes it out of them.
#[test]
fn what_is_waited_for_is_read_behind_the_barriers_on_devices() {
    for target in [Target::Gpu, Target::Tpu] {
        let (mut module, patch) = most_is_saved(target);
        let _ = patch.apply(&mut module).expect("it is legal");
        let users = Users::of(&module);
        let barriers: Vec<_> = module
            .live_instructions()
            .filter(|(_, inst)| inst.opcode == Opcode::OptBarrier)
            .map(|(id, _)| id)
            .collect();
        assert!(!barriers.is_empty());
        for barrier in barriers {
            let elements = users.get(barrier).iter().map(|&id| (module.instruction(id).int(&AttrKey::Index), id));
            let read: Vec<_> = elements.filter(|&(_, id)| !users.get(id).is_empty()).map(|(index, _)| index).collect();
            assert!(
                read.contains(&Some(0)) && read.contains(&Some(1)),
                "{}: {read:?}",
                module.instruction(barrier).name
            );
        }
    }
}

/// The kernel that computes the exponentials of a row again finds its largest number and its sum on the way.
#[test]
fn statistics_of_rows_are_computed_again_with_them_on_gpu() {
    assert_eq!((reductions_again(Target::Gpu), reductions_again(Target::Tpu)), (2, 0));
}
