//! `in-place-stacks`: a loop that reads rows of one array and writes rows of another, and one thing wrong at a time.
//!
//! Pins `passes/src/in_place_stacks.rs`, `passes/src/loops.rs`.

use crate::common::{diff, estimate, peaks, replaced};
use hlo_ir::graph::Users;
use hlo_ir::{Module, text, verify};
use hlo_memory::{Bytes, Target};
use hlo_passes::in_place_stacks::InPlaceStacks;
use hlo_passes::{Context, Finding, Grade, Options, Outcome, Pass};

/// Each step makes a row of `%filled` from a row of `%old` and adds it to a sum; `%old` is computed.
const SCAN: &str = "HloModule m

%body (p: (s32[], f32[8], f32[4,8], f32[4,8])) -> (s32[], f32[8], f32[4,8], f32[4,8]) {
  %p = (s32[], f32[8], f32[4,8], f32[4,8]) parameter(0)
  %i = s32[] get-tuple-element(%p), index=0
  %one = s32[] constant(1)
  %next = s32[] add(%i, %one)
  %sum = f32[8] get-tuple-element(%p), index=1
  %filled = f32[4,8] get-tuple-element(%p), index=2
  %old = f32[4,8] get-tuple-element(%p), index=3
  %zero = s32[] constant(0)
  %row = f32[1,8] dynamic-slice(%old, %i, %zero), dynamic_slice_sizes={1,8}
  %flat = f32[8] reshape(%row)
  %more = f32[8] add(%sum, %flat)
  %new = f32[1,8] reshape(%more)
  %written = f32[4,8] dynamic-update-slice(%filled, %new, %i, %zero)
  ROOT %r = (s32[], f32[8], f32[4,8], f32[4,8]) tuple(%next, %more, %written, %old)
}

%less (q: (s32[], f32[8], f32[4,8], f32[4,8])) -> pred[] {
  %q = (s32[], f32[8], f32[4,8], f32[4,8]) parameter(0)
  %k = s32[] get-tuple-element(%q), index=0
  %bound = s32[] constant(4)
  ROOT %c = pred[] compare(%k, %bound), direction=LT
}

ENTRY %main (a: f32[4,8], b: f32[8]) -> f32[4,8] {
  %a = f32[4,8] parameter(0)
  %b = f32[8] parameter(1)
  %start = s32[] constant(0)
  %nought = f32[] constant(0)
  %zeros = f32[4,8] broadcast(%nought), dimensions={}
  %computed = f32[4,8] exponential(%a)
  %state = (s32[], f32[8], f32[4,8], f32[4,8]) tuple(%start, %b, %zeros, %computed)
  %loop = (s32[], f32[8], f32[4,8], f32[4,8]) while(%state), condition=%less, body=%body
  ROOT %sums = f32[4,8] get-tuple-element(%loop), index=2
}
";

fn with(changes: &[(&str, &str)]) -> Module {
    replaced(SCAN, changes)
}

fn find(module: &Module) -> Vec<Finding> {
    let options = Options { min_saving: Bytes(1), ..Options::default() };
    let (users, estimate) = (Users::of(module), estimate(Bytes(0), vec![]));
    InPlaceStacks.find(&Context::of_input(module, &users, &estimate, &options))
}

#[test]
fn what_a_loop_fills_is_written_over_what_it_reads() {
    let mut module = with(&[]);
    let before = text::print(&module);
    let [finding] = &find(&module)[..] else { panic!("one array can be written over another") };
    assert_eq!((finding.grade, finding.wasted), (Grade::Bitwise, Bytes(4 * 8 * 4)));
    let Outcome::Rewrite { patch, .. } = finding.outcome.clone() else { panic!("it is a rewrite") };
    let undo = patch.apply(&mut module).expect("the patch fits");
    let after = text::print(&module);
    assert_eq!(verify::verify(&module), [], "{after}");
    assert!(find(&module).is_empty(), "nothing is left to do: {after}");
    insta::assert_snapshot!(diff(&before, &after));
    undo.revert(&mut module);
    assert_eq!(text::print(&module), before);
}

/// The step looks at the row that is `%i` before the last.
const BACKWARD: [(&str, &str); 3] = [
    (
        "%zero = s32[] constant(0)",
        "%zero = s32[] constant(0)\n  %three = s32[] constant(3)\n  %j = s32[] subtract(%three, %i)",
    ),
    ("dynamic-slice(%old, %i, %zero)", "dynamic-slice(%old, %j, %zero)"),
    ("dynamic-update-slice(%filled, %new, %i, %zero)", "dynamic-update-slice(%filled, %new, %j, %zero)"),
];

#[test]
fn rows_may_come_in_either_order_and_be_read_before_the_loop() {
    assert_eq!(find(&with(&BACKWARD)).len(), 1);
    let read_before = [
        (
            "%state =",
            "%first = f32[1,8] slice(%computed), slice={[0:1], [0:8]}\n  %begin = f32[8] reshape(%first)\n  %state =",
        ),
        ("tuple(%start, %b, %zeros", "tuple(%start, %begin, %zeros"),
    ];
    assert_eq!(find(&with(&read_before)).len(), 1);
    // The array that is filled may be taken out of the state behind what reads the other one.
    let later = [
        ("  %filled = f32[4,8] get-tuple-element(%p), index=2\n", ""),
        ("  %flat =", "  %filled = f32[4,8] get-tuple-element(%p), index=2\n  %flat ="),
    ];
    let mut module = with(&later);
    let [finding] = &find(&module)[..] else { panic!("where it is taken does not matter") };
    let Outcome::Rewrite { patch, .. } = finding.outcome.clone() else { panic!("it is a rewrite") };
    patch.apply(&mut module).expect("the patch fits");
    assert_eq!(verify::verify(&module), [], "{}", text::print(&module));
    let argument = [("%zeros, %computed)", "%zeros, %a)"), ("  %computed = f32[4,8] exponential(%a)\n", "")];
    assert!(find(&with(&argument)).is_empty(), "the caller keeps it");
    let donated =
        [argument[0], argument[1], ("HloModule m", "HloModule m, input_output_alias={ {}: (0, {}, may-alias) }")];
    assert_eq!(find(&with(&donated)).len(), 1);
}

/// Why arrays stay apart, and the change to the program.
const APART: [(&str, &[(&str, &str)]); 12] = [
    (
        "a loop in the step reads all rows",
        &[
            (
                "%body (p:",
                "%again (s: (s32[], f32[8], f32[4,8])) -> (s32[], f32[8], f32[4,8]) {
  %s = (s32[], f32[8], f32[4,8]) parameter(0)
  %j = s32[] get-tuple-element(%s), index=0
  %step = s32[] constant(1)
  %following = s32[] add(%j, %step)
  %first = s32[] constant(0)
  %total = f32[8] get-tuple-element(%s), index=1
  %all = f32[4,8] get-tuple-element(%s), index=2
  %each = f32[1,8] dynamic-slice(%all, %j, %first), dynamic_slice_sizes={1,8}
  %number = f32[8] reshape(%each)
  %larger = f32[8] add(%total, %number)
  ROOT %t = (s32[], f32[8], f32[4,8]) tuple(%following, %larger, %all)
}

%few (u: (s32[], f32[8], f32[4,8])) -> pred[] {
  %u = (s32[], f32[8], f32[4,8]) parameter(0)
  %n = s32[] get-tuple-element(%u), index=0
  %end = s32[] constant(4)
  ROOT %d = pred[] compare(%n, %end), direction=LT
}

%body (p:",
            ),
            (
                "%more = f32[8] add(%sum, %flat)",
                "%begin = (s32[], f32[8], f32[4,8]) tuple(%zero, %flat, %old)
  %inner = (s32[], f32[8], f32[4,8]) while(%begin), condition=%few, body=%again
  %added = f32[8] get-tuple-element(%inner), index=1
  %more = f32[8] add(%sum, %added)",
            ),
        ],
    ),
    (
        "the condition reads what is filled",
        &[(
            "%bound =",
            "%seen = f32[4,8] get-tuple-element(%q), index=2\n  %end = f32[1,1] slice(%seen), slice={[3:4], [0:1]}\n  %bound =",
        )],
    ),
    (
        "the step takes two rows",
        &[
            (
                "f32[1,8] dynamic-slice(%old, %i, %zero), dynamic_slice_sizes={1,8}",
                "f32[2,8] dynamic-slice(%old, %i, %zero), dynamic_slice_sizes={2,8}",
            ),
            (
                "%flat = f32[8] reshape(%row)",
                "%upper = f32[1,8] slice(%row), slice={[0:1], [0:8]}\n  %flat = f32[8] reshape(%upper)",
            ),
        ],
    ),
    (
        "both are results",
        &[
            ("tuple(%next, %more, %written, %old)", "tuple(%next, %more, %written, %old, %written)"),
            ("f32[8], f32[4,8], f32[4,8])", "f32[8], f32[4,8], f32[4,8], f32[4,8])"),
            ("%zeros, %computed)", "%zeros, %computed, %zeros)"),
        ],
    ),
    (
        "the row that is written does not follow from the one that is read",
        &[("%new = f32[1,8] reshape(%more)", "%new = f32[1,8] reshape(%sum)")],
    ),
    (
        "the step reads what it fills",
        &[(
            "%more = f32[8] add(%sum, %flat)",
            "%seen = f32[1,8] dynamic-slice(%filled, %i, %zero), dynamic_slice_sizes={1,8}\n  %look = f32[8] reshape(%seen)\n  %more = f32[8] add(%look, %flat)",
        )],
    ),
    (
        "the step reads what it has filled",
        &[
            ("tuple(%next, %more, %written", "tuple(%next, %last, %written"),
            (
                "  ROOT %r",
                "  %end = f32[1,8] slice(%written), slice={[3:4], [0:8]}\n  %last = f32[8] reshape(%end)\n  ROOT %r",
            ),
        ],
    ),
    (
        "the step reads all rows",
        &[(
            "%more = f32[8] add(%sum, %flat)",
            "%all = f32[4,8] negate(%old)\n  %some = f32[1,8] slice(%all), slice={[0:1], [0:8]}\n  %most = f32[8] reshape(%some)\n  %more = f32[8] add(%most, %flat)",
        )],
    ),
    (
        "the step changes what it reads",
        &[("%written, %old)", "%written, %changed)"), ("  ROOT %r", "  %changed = f32[4,8] negate(%old)\n  ROOT %r")],
    ),
    ("some rows are not written", &[("%bound = s32[] constant(4)", "%bound = s32[] constant(3)")]),
    (
        "what it reads is needed behind the loop",
        &[(
            "ROOT %sums = f32[4,8] get-tuple-element(%loop), index=2",
            "%sums = f32[4,8] get-tuple-element(%loop), index=2\n  ROOT %both = f32[4,8] add(%sums, %computed)",
        )],
    ),
    (
        "what it has read is read from the loop's result",
        &[(
            "ROOT %sums = f32[4,8] get-tuple-element(%loop), index=2",
            "%sums = f32[4,8] get-tuple-element(%loop), index=2\n  %kept = f32[4,8] get-tuple-element(%loop), index=3\n  ROOT %both = f32[4,8] add(%sums, %kept)",
        )],
    ),
];

#[test]
fn arrays_stay_apart_when_a_condition_fails() {
    assert!(find(&with(&BACKWARD[..2])).is_empty(), "each step reads another row than it writes");
    for (why, changes) in APART {
        assert!(find(&with(changes)).is_empty(), "{why}");
    }
}

/// Keys and values: each is written over itself, in one change or alone.
#[test]
fn each_array_is_written_over_the_one_that_it_follows_from() {
    let module = with(&[
        ("s32[], f32[8], f32[4,8], f32[4,8])", "s32[], f32[8], f32[4,8], f32[4,8], f32[4,8], f32[4,8])"),
        (
            "%old = f32[4,8] get-tuple-element(%p), index=3",
            "%old = f32[4,8] get-tuple-element(%p), index=3
  %first = f32[4,8] get-tuple-element(%p), index=4
  %values = f32[4,8] get-tuple-element(%p), index=5",
        ),
        (
            "  ROOT %r = ",
            "  %value = f32[1,8] dynamic-slice(%first, %i, %zero), dynamic_slice_sizes={1,8}
  %less.v = f32[1,8] negate(%value)
  %written.v = f32[4,8] dynamic-update-slice(%values, %less.v, %i, %zero)
  ROOT %r = ",
        ),
        ("%written, %old)", "%written, %old, %first, %written.v)"),
        ("%zeros, %computed)", "%zeros, %computed, %others, %zeros)"),
        ("%state =", "%others = f32[4,8] cosine(%a)\n  %state ="),
        (
            "ROOT %sums = f32[4,8] get-tuple-element(%loop), index=2",
            "%sums = f32[4,8] get-tuple-element(%loop), index=2
  %last = f32[4,8] get-tuple-element(%loop), index=5
  ROOT %both = f32[4,8] add(%sums, %last)",
        ),
    ]);
    let of = |mut module: Module, finding: Finding| {
        let Outcome::Rewrite { patch, note, .. } = finding.outcome else { panic!("it is a rewrite") };
        patch.apply(&mut module).expect("the patch fits");
        assert_eq!(verify::verify(&module), [], "{}", text::print(&module));
        let printed = text::print(&module);
        let state = printed.lines().find(|line| line.contains("%state =")).expect("the loop begins").trim().to_owned();
        (note, state)
    };
    let found: Vec<(String, String)> = find(&module).into_iter().map(|finding| of(module.clone(), finding)).collect();
    insta::assert_debug_snapshot!(found);
}

/// Two arrays are filled from one: only one of them can be written over it.
#[test]
fn an_array_is_written_over_once() {
    let module = with(&[
        ("s32[], f32[8], f32[4,8], f32[4,8])", "s32[], f32[8], f32[4,8], f32[4,8], f32[4,8])"),
        (
            "  ROOT %r = ",
            "  %values = f32[4,8] get-tuple-element(%p), index=4
  %less.v = f32[1,8] negate(%row)
  %written.v = f32[4,8] dynamic-update-slice(%values, %less.v, %i, %zero)
  ROOT %r = ",
        ),
        ("%written, %old)", "%written, %old, %written.v)"),
        ("%zeros, %computed)", "%zeros, %computed, %zeros)"),
    ]);
    assert_eq!(find(&module).iter().map(|finding| finding.wasted).collect::<Vec<_>>(), [Bytes(4 * 8 * 4)]);
}

/// A cache that each layer of a network reads and gives back for each token. XLA:GPU (H100) needs 1,553 and 1,072 MiB, XLA:TPU (v5e) 1,560 and 1,048.
#[test]
fn a_cache_stands_in_memory_once() {
    let source = include_str!("../../corpus/in-place-stacks/fires-cache.before.hlo");
    assert_eq!(peaks(source, Target::Gpu), [1553, 1072]);
    assert_eq!(peaks(source, Target::Cpu), [1616, 1104]);
    assert_eq!(peaks(source, Target::Tpu), [1617, 1105]);
}
