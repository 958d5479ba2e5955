//! `loop-inputs`: batches that are gathered, as from shuffled examples, are gathered in the loop that reads them; when they are not.
//!
//! Pins `passes/src/loop_inputs.rs`.

use crate::common::{diff, estimate, parse, replaced};
use hlo_ir::graph::Users;
use hlo_ir::{Module, text, verify};
use hlo_memory::{Bytes, ModelEstimator, Target};
use hlo_passes::loop_inputs::LoopInputs;
use hlo_passes::manager::{default_pipeline, run};
use hlo_passes::{Context, Finding, Grade, Machine, Options, Outcome, Pass};

/// Four batches of two examples, picked from 64 in the order of `%order`, are added up one after the other.
const SHUFFLED: &str = "HloModule m

%body (p: (s32[], s32[2,256], s32[4,2,256])) -> (s32[], s32[2,256], s32[4,2,256]) {
  %p = (s32[], s32[2,256], s32[4,2,256]) parameter(0)
  %i = s32[] get-tuple-element(%p), index=0
  %one = s32[] constant(1)
  %next = s32[] add(%i, %one)
  %sum = s32[2,256] get-tuple-element(%p), index=1
  %batches = s32[4,2,256] get-tuple-element(%p), index=2
  %zero = s32[] constant(0)
  %batch = s32[1,2,256] dynamic-slice(%batches, %i, %zero, %zero), dynamic_slice_sizes={1,2,256}
  %flat = s32[2,256] reshape(%batch)
  %more = s32[2,256] add(%sum, %flat)
  ROOT %r = (s32[], s32[2,256], s32[4,2,256]) tuple(%next, %more, %batches)
}

%less (q: (s32[], s32[2,256], s32[4,2,256])) -> pred[] {
  %q = (s32[], s32[2,256], s32[4,2,256]) parameter(0)
  %k = s32[] get-tuple-element(%q), index=0
  %bound = s32[] constant(4)
  ROOT %c = pred[] compare(%k, %bound), direction=LT
}

ENTRY %main (examples: s32[64,256], order: s32[8,1], b: s32[2,256]) -> s32[2,256] {
  %examples = s32[64,256] parameter(0)
  %order = s32[8,1] parameter(1)
  %b = s32[2,256] parameter(2)
  %start = s32[] constant(0)
  %picked = s32[8,256] gather(%examples, %order), offset_dims={1}, collapsed_slice_dims={0}, start_index_map={0}, index_vector_dim=1, slice_sizes={1,256}
  %shuffled = s32[4,2,256] reshape(%picked)
  %state = (s32[], s32[2,256], s32[4,2,256]) tuple(%start, %b, %shuffled)
  %loop = (s32[], s32[2,256], s32[4,2,256]) while(%state), condition=%less, body=%body
  ROOT %sums = s32[2,256] get-tuple-element(%loop), index=1
}
";

/// The loop reads each batch twice.
const TWICE: (&str, &str) = ("%bound = s32[] constant(4)", "%bound = s32[] constant(8)");

fn with(changes: &[(&str, &str)]) -> Module {
    let module = replaced(SHUFFLED, changes);
    assert_eq!(verify::verify(&module), [], "{}", text::print(&module));
    module
}

fn find(module: &Module) -> Vec<Finding> {
    let options =
        Options { min_saving: Bytes(1), machine: Some(Machine::without_malloc_cache()), ..Options::default() };
    let (users, estimate) = (Users::of(module), estimate(Bytes(0), vec![]));
    LoopInputs.find(&Context::of_input(module, &users, &estimate, &options))
}

#[test]
fn batches_are_gathered_where_they_are_read() {
    let mut module = with(&[]);
    let before = text::print(&module);
    let [finding] = &find(&module)[..] else { panic!("all batches are read one by one") };
    assert_eq!((finding.grade, finding.wasted), (Grade::Bitwise, Bytes(4 * 2 * 256 * 4)));
    let Outcome::Rewrite { patch, .. } = finding.outcome.clone() else { panic!("they can be gathered in the loop") };
    let undo = patch.apply(&mut module).expect("the patch fits");
    let after = text::print(&module);
    assert_eq!(verify::verify(&module), [], "{after}");
    assert!(find(&module).is_empty(), "nothing is left to move: {after}");
    insta::assert_snapshot!(diff(&before, &after));
    undo.revert(&mut module);
    assert_eq!(text::print(&module), before);
}

/// Each batch is gathered as often as it is read, so what lies beside each other has to be as much as in a batch, or four cache lines.
#[test]
fn long_runs_are_gathered_again_and_again() {
    assert_eq!(find(&with(&[TWICE])).len(), 1, "examples of 1 KiB");
    // The same numbers lie 64 apart from each other: rows of the turned array are picked element by element.
    let turned = [
        ("examples: s32[64,256]", "examples: s32[256,64]"),
        ("%examples = s32[64,256] parameter(0)", "%examples = s32[256,64] parameter(0)"),
        (
            "offset_dims={1}, collapsed_slice_dims={0}, start_index_map={0}",
            "offset_dims={1}, collapsed_slice_dims={1}, start_index_map={1}",
        ),
        ("slice_sizes={1,256}", "slice_sizes={256,1}"),
    ];
    assert_eq!(find(&with(&turned)).len(), 1, "each of them once");
    assert!(find(&with(&[&turned[..], &[TWICE]].concat())).is_empty(), "again and again");
    // Or columns of all examples, which the loop cuts instead of the order.
    let columns = [
        ("s32[4,2,256] reshape(%picked)", "s32[4,2,256] transpose(%columns), dimensions={1,0,2}"),
        ("%shuffled =", "%columns = s32[2,4,256] reshape(%all)\n  %shuffled ="),
        ("%picked = s32[8,256] gather(", "%all = s32[2,1024] gather("),
        ("slice_sizes={1,256}", "slice_sizes={1,1024}"),
        ("order: s32[8,1]", "order: s32[2,1]"),
        ("%order = s32[8,1]", "%order = s32[2,1]"),
        ("examples: s32[64,256]", "examples: s32[64,1024]"),
        ("%examples = s32[64,256]", "%examples = s32[64,1024]"),
    ];
    assert_eq!(find(&with(&[&columns[..], &[TWICE]].concat())).len(), 1, "1 KiB of each example");
}

/// Numbers that say what is picked are read with it. Where that is done again and again they may be a hundredth of it; where each batch is written and read only for the loop, they are
/// less than that takes.
#[test]
fn short_examples_stay() {
    let found = |width: i64, changes: &[(&str, &str)]| {
        let source = SHUFFLED.replace("256", &width.to_string());
        let module = replaced(&source, changes);
        assert_eq!(verify::verify(&module), [], "{}", text::print(&module));
        find(&module).len()
    };
    assert_eq!([100, 99].map(|width| found(width, &[TWICE])), [1, 0]);
    assert_eq!([2, 1].map(|width| found(width, &[])), [1, 0]);
}

/// An epoch of several: examples are shuffled in each iteration of an outer loop, by an order that it changes, and XLA moves nothing out of it. What does not change it would move.
#[test]
fn what_changes_from_epoch_to_epoch_is_made_as_often_in_the_inner_loop() {
    let epochs = |order: &str, width: i64| {
        let state = "(s32[], s32[2,256], s32[64,256], s32[8,1])";
        let (inner, entry) = SHUFFLED.split_once("ENTRY").expect("it has an entry");
        let body = entry
            .replace("%main (examples: s32[64,256], order: s32[8,1], b: s32[2,256]) -> s32[2,256] {", &format!("%epoch (e: {state}) -> {state} {{\n  %e = {state} parameter(0)"))
            .replace("%examples = s32[64,256] parameter(0)", "%examples = s32[64,256] get-tuple-element(%e), index=2")
            .replace("%order = s32[8,1] parameter(1)", "%order = s32[8,1] get-tuple-element(%e), index=3\n  %other = s32[8,1] negate(%order)")
            .replace("%b = s32[2,256] parameter(2)", "%b = s32[2,256] get-tuple-element(%e), index=1\n  %number = s32[] get-tuple-element(%e), index=0\n  %one.e = s32[] constant(1)\n  %more.e = s32[] add(%number, %one.e)")
            .replace("ROOT %sums = s32[2,256] get-tuple-element(%loop), index=1", &format!("%sums = s32[2,256] get-tuple-element(%loop), index=1\n  ROOT %after = {state} tuple(%more.e, %sums, %examples, {order})"));
        let source = format!(
            "{inner}{}\n%few (f: {state}) -> pred[] {{\n  %f = {state} parameter(0)\n  %n = s32[] get-tuple-element(%f), index=0\n  %last = s32[] constant(5)\n  ROOT %d = pred[] compare(%n, %last), direction=LT\n}}\n\nENTRY %main (x: s32[64,256], y: s32[8,1], z: s32[2,256]) -> s32[2,256] {{\n  %x = s32[64,256] parameter(0)\n  %y = s32[8,1] parameter(1)\n  %z = s32[2,256] parameter(2)\n  %none = s32[] constant(0)\n  %first = {state} tuple(%none, %z, %x, %y)\n  %all = {state} while(%first), condition=%few, body=%epoch\n  ROOT %done = s32[2,256] get-tuple-element(%all), index=1\n}}\n",
            body.trim_start()
        );
        let module = parse(&source.replace("256", &width.to_string()));
        assert_eq!(verify::verify(&module), [], "{}", text::print(&module));
        find(&module).len()
    };
    // Examples too short to be gathered again and again.
    assert_eq!(epochs("%other", 8), 1);
    assert_eq!(epochs("%order", 8), 0);
    assert_eq!(epochs("%order", 256), 1, "long ones may be");
}

/// For shuffled images of 441 MiB that a loop takes in 16 batches XLA:GPU (H100) needs 883 MiB, and 441 where the loop gathers them; XLA:TPU (v5e) 1,871 and 1,166.
#[test]
fn shuffled_examples_are_not_copied_on_devices() {
    let source = include_str!("../../corpus/loop-inputs/fires-shuffled.before.hlo");
    for target in [Target::Gpu, Target::Tpu] {
        let mut module = parse(source);
        let options = Options { target, ..Options::default() };
        let report =
            run(&mut module, &default_pipeline(), &options, &ModelEstimator { target }).expect("it has an estimate");
        let mib = |bytes: Bytes| bytes.get() >> 20;
        let expected = if target == Target::Gpu { [882, 441] } else { [1870, 1239] };
        assert_eq!([report.before.total, report.after.total].map(mib), expected, "{target:?}");
    }
}
