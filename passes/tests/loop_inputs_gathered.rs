//! `loop-inputs`: batches that are gathered, as from shuffled examples, are gathered in the loop that reads them; when they are not.
//!
//! Pins `passes/src/loop_inputs.rs`.

use crate::common::{diff, estimate, peaks, replaced};
use hlo_ir::graph::Users;
use hlo_ir::{Module, text, verify};
use hlo_memory::{Bytes, Target};
use hlo_passes::loop_inputs::LoopInputs;
use hlo_passes::{Context, Finding, Grade, Machine, Options, Outcome, Pass};

/// A loop that adds up four batches of two examples, one after the other.
const BATCHES: &str = "HloModule m

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

";

/// The batches are picked from 64 examples in the order of `%order`.
const SHUFFLED: &str = "ENTRY %main (examples: s32[64,256], order: s32[8,1], b: s32[2,256]) -> s32[2,256] {
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
    replaced(&format!("{BATCHES}{SHUFFLED}"), changes)
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
    let short = [("1024", "128"), ("256", "32"), ("s32[2,1]", "s8[2,1]")];
    assert_eq!(find(&with(&[&columns[..], &short].concat())).len(), 1, "128 bytes of each example, once");
    assert!(find(&with(&[&columns[..], &[TWICE], &short].concat())).is_empty(), "again and again");
}

/// Numbers that say what is picked are read with it. Where that is done again and again they may be a hundredth of it; where each batch is written and read only for the loop, they are
/// less than that takes.
#[test]
fn short_examples_stay() {
    let found = |width: &str, more: &[(&str, &str)]| find(&with(&[&[("256", width)], more].concat())).len();
    assert_eq!(["100", "99"].map(|width| found(width, &[TWICE])), [1, 0]);
    assert_eq!(["2", "1"].map(|width| found(width, &[])), [1, 0]);
}

/// Five epochs of such batches, in an order that may change from epoch to epoch (`NEXT` says which comes next).
const EPOCHS: &str = "%epoch (e: (s32[], s32[2,256], s32[64,256], s32[8,1])) -> (s32[], s32[2,256], s32[64,256], s32[8,1]) {
  %e = (s32[], s32[2,256], s32[64,256], s32[8,1]) parameter(0)
  %number = s32[] get-tuple-element(%e), index=0
  %step = s32[] constant(1)
  %following = s32[] add(%number, %step)
  %b = s32[2,256] get-tuple-element(%e), index=1
  %examples = s32[64,256] get-tuple-element(%e), index=2
  %order = s32[8,1] get-tuple-element(%e), index=3
  %other = s32[8,1] negate(%order)
  %start = s32[] constant(0)
  %picked = s32[8,256] gather(%examples, %order), offset_dims={1}, collapsed_slice_dims={0}, start_index_map={0}, index_vector_dim=1, slice_sizes={1,256}
  %shuffled = s32[4,2,256] reshape(%picked)
  %state = (s32[], s32[2,256], s32[4,2,256]) tuple(%start, %b, %shuffled)
  %loop = (s32[], s32[2,256], s32[4,2,256]) while(%state), condition=%less, body=%body
  %sums = s32[2,256] get-tuple-element(%loop), index=1
  ROOT %after = (s32[], s32[2,256], s32[64,256], s32[8,1]) tuple(%following, %sums, %examples, NEXT)
}

%few (f: (s32[], s32[2,256], s32[64,256], s32[8,1])) -> pred[] {
  %f = (s32[], s32[2,256], s32[64,256], s32[8,1]) parameter(0)
  %n = s32[] get-tuple-element(%f), index=0
  %last = s32[] constant(5)
  ROOT %d = pred[] compare(%n, %last), direction=LT
}

ENTRY %main (x: s32[64,256], y: s32[8,1], z: s32[2,256]) -> s32[2,256] {
  %x = s32[64,256] parameter(0)
  %y = s32[8,1] parameter(1)
  %z = s32[2,256] parameter(2)
  %none = s32[] constant(0)
  %first = (s32[], s32[2,256], s32[64,256], s32[8,1]) tuple(%none, %z, %x, %y)
  %all = (s32[], s32[2,256], s32[64,256], s32[8,1]) while(%first), condition=%few, body=%epoch
  ROOT %done = s32[2,256] get-tuple-element(%all), index=1
}
";

fn epochs(changes: &[(&str, &str)]) -> Module {
    replaced(&format!("{BATCHES}{EPOCHS}"), changes)
}

/// What the outer loop changes is made in each epoch wherever it stands; XLA moves the rest out of it.
#[test]
fn what_changes_from_epoch_to_epoch_is_made_as_often_in_the_inner_loop() {
    let found = |next: &str, width: &str| find(&epochs(&[("NEXT", next), ("256", width)])).len();
    assert_eq!(found("%other", "8"), 1);
    assert_eq!(found("%order", "8"), 0, "short examples are not gathered again and again");
    assert_eq!(found("%order", "256"), 1, "long ones are");
}

/// Roots cost more than to read them: they are made in the inner loop where that is as often as before, of examples that are gathered there too, and mirrored.
#[test]
fn what_costs_time_moves_into_the_inner_loop_if_the_outer_one_changes_it() {
    let root = "%turned = s32[8,256] reverse(%picked), dimensions={1}
  %wide = f32[8,256] convert(%turned)
  %root = f32[8,256] sqrt(%wide)
  %whole = s32[8,256] convert(%root)
  %shuffled = s32[4,2,256] reshape(%whole)";
    let beside = "%still = s32[8,256] slice(%examples), slice={[0:8], [0:256]}
  %wide = f32[8,256] convert(%still)
  %root = f32[8,256] sqrt(%wide)
  %whole = s32[8,256] convert(%root)
  %both = s32[8,256] add(%picked, %whole)
  %shuffled = s32[4,2,256] reshape(%both)";
    let made = |root: &str, next: &str| {
        let changes = [("%shuffled = s32[4,2,256] reshape(%picked)", root), ("NEXT", next), ("256", "1048576")];
        let of = |finding: Finding| match finding.outcome {
            Outcome::Rewrite { note, .. } => note,
            Outcome::Withheld { reason, .. } | Outcome::Missed(reason) => reason.message,
        };
        find(&epochs(&changes)).into_iter().map(of).collect::<Vec<_>>()
    };
    // Roots of what no epoch changes stay in front of both loops.
    insta::assert_debug_snapshot!([made(root, "%other"), made(root, "%order"), made(beside, "%other")]);
}

/// For shuffled images of 441 MiB that a loop takes in 16 batches XLA:GPU (H100) needs 883 MiB, and 441 where the loop gathers them; XLA:TPU (v5e) 1,871 and 1,166.
#[test]
fn shuffled_examples_are_not_copied_on_devices() {
    let source = include_str!("../../corpus/loop-inputs/fires-shuffled.before.hlo");
    assert_eq!(peaks(source, Target::Gpu), [882, 441]);
    assert_eq!(peaks(source, Target::Tpu), [1870, 1239]);
}
