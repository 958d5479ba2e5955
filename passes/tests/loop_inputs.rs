//! `loop-inputs`: when rows of a loop's input are computed in the loop, and when they stay: one loop that reads rows, and one thing wrong at a time.
//!
//! Pins `passes/src/loop_inputs.rs`, `passes/src/loops.rs`.

use crate::common::{diff, estimate, parse, peaks, replaced};
use hlo_ir::graph::Users;
use hlo_ir::{Module, text, verify};
use hlo_memory::{Bytes, ModelEstimator, Target};
use hlo_passes::loop_inputs::LoopInputs;
use hlo_passes::manager::{default_pipeline, run};
use hlo_passes::{Context, Finding, Grade, Machine, Options, Outcome, Pass};

/// The loop adds up rows of `%wide`, numbers of type `t`, which is computed from `%a` as `given`.
fn looped(t: &str, given: &str, wide: &str) -> String {
    let step = format!("%flat = {t}[8] reshape(%row)\n  %more = {t}[8] add(%sum, %flat)");
    looping(t, given, wide, "", &step)
}

/// The same where `step` makes `%more` of a row, with more computations.
fn looping(t: &str, given: &str, wide: &str, computations: &str, step: &str) -> String {
    let state = format!("(s32[], {t}[8], {t}[4,8])");
    format!(
        "HloModule m

{computations}%body (p: {state}) -> {state} {{
  %p = {state} parameter(0)
  %i = s32[] get-tuple-element(%p), index=0
  %one = s32[] constant(1)
  %next = s32[] add(%i, %one)
  %sum = {t}[8] get-tuple-element(%p), index=1
  %rows = {t}[4,8] get-tuple-element(%p), index=2
  %zero = s32[] constant(0)
  %row = {t}[1,8] dynamic-slice(%rows, %i, %zero), dynamic_slice_sizes={{1,8}}
  {step}
  ROOT %r = {state} tuple(%next, %more, %rows)
}}

%less (q: {state}) -> pred[] {{
  %q = {state} parameter(0)
  %k = s32[] get-tuple-element(%q), index=0
  %bound = s32[] constant(4)
  ROOT %c = pred[] compare(%k, %bound), direction=LT
}}

ENTRY %main (a: {given}, b: {t}[8], d: {t}[4,8]) -> {t}[8] {{
  %a = {given} parameter(0)
  %b = {t}[8] parameter(1)
  %d = {t}[4,8] parameter(2)
  %start = s32[] constant(0)
  {wide}
  %state = {state} tuple(%start, %b, %wide)
  %loop = {state} while(%state), condition=%less, body=%body
  ROOT %sums = {t}[8] get-tuple-element(%loop), index=1
}}
"
    )
}

fn find(module: &Module) -> Vec<Finding> {
    let options =
        Options { min_saving: Bytes(1), machine: Some(Machine::without_malloc_cache()), ..Options::default() };
    let (users, estimate) = (Users::of(module), estimate(Bytes(0), vec![]));
    LoopInputs.find(&Context::of_input(module, &users, &estimate, &options))
}

/// The program with one text in the place of another.
fn with(changes: &[(&str, &str)]) -> Module {
    replaced(&looped("s32", "s8[4,8]", "%wide = s32[4,8] convert(%a)"), changes)
}

/// What the pass makes of it, as a diff; legal, settled, and taken back without a trace.
fn rewritten(mut module: Module) -> String {
    let before = text::print(&module);
    let [finding] = &find(&module)[..] else { panic!("one value is read by rows") };
    let Outcome::Rewrite { patch, .. } = finding.outcome.clone() else { panic!("its rows can be computed") };
    let undo = patch.apply(&mut module).expect("the patch fits");
    assert_eq!(verify::verify(&module), [], "{}", text::print(&module));
    let after = text::print(&module);
    assert!(find(&module).is_empty(), "nothing is left to move: {after}");
    undo.revert(&mut module);
    assert_eq!(text::print(&module), before);
    diff(&before, &after)
}

#[test]
fn rows_are_computed_where_they_are_read() {
    let module = with(&[]);
    let finding = &find(&module)[0];
    assert_eq!((finding.grade, finding.wasted), (Grade::Bitwise, Bytes(4 * 8 * 4)));
    insta::assert_snapshot!(rewritten(module));
}

#[test]
fn what_the_loop_forwards_already_is_not_carried_twice() {
    // The value is a part of the state's other array: nothing takes its place, and a number fills it.
    let diff = rewritten(with(&[
        ("s32[8], s32[4,8])", "s32[8], s32[4,8], s32[4,8])"),
        ("tuple(%start, %b, %wide)", "tuple(%start, %b, %wide, %d)"),
        ("tuple(%next, %more, %rows)", "tuple(%next, %more, %rows, %kept)"),
        ("%zero = s32[] constant(0)", "%kept = s32[4,8] get-tuple-element(%p), index=3\n  %zero = s32[] constant(0)"),
        ("convert(%a)", "negate(%d)"),
    ]));
    assert!(diff.contains("(s32[], s32[8], s32[], s32[4,8])"), "{diff}");
}

#[test]
fn all_inputs_of_a_loop_are_one_change() {
    // Another array of rows, negated, which the loop multiplies with the first.
    let source = with(&[
        ("s32[8], s32[4,8])", "s32[8], s32[4,8], s32[4,8])"),
        ("tuple(%start, %b, %wide)", "tuple(%start, %b, %wide, %minus)"),
        ("tuple(%next, %more, %rows)", "tuple(%next, %more, %rows, %others)"),
        ("%zero = s32[] constant(0)", "%others = s32[4,8] get-tuple-element(%p), index=3\n  %zero = s32[] constant(0)"),
        (
            "%flat = s32[8] reshape(%row)",
            "%other = s32[1,8] dynamic-slice(%others, %i, %zero), dynamic_slice_sizes={1,8}\n  %both = s32[1,8] multiply(%row, %other)\n  %flat = s32[8] reshape(%both)",
        ),
        ("%start =", "%minus = s32[4,8] negate(%d)\n  %start ="),
    ]);
    let found = find(&source);
    let wasted: Vec<u64> = found.iter().map(|finding| finding.wasted.get()).collect();
    assert_eq!(wasted, [128, 128, 256], "each of them, and both");
    let mut module = source;
    let Outcome::Rewrite { patch, note, .. } = found[2].outcome.clone() else { panic!("both can be computed") };
    assert!(note.contains("`wide` and 1 more input"), "{note}");
    patch.apply(&mut module).expect("the patch fits");
    assert_eq!(verify::verify(&module), [], "{}", text::print(&module));
    let after = text::print(&module);
    assert!(find(&module).is_empty() && after.contains("(s32[], s32[8], s8[4,8], s32[4,8])"), "{after}");
}

#[test]
fn numbers_of_rows_follow_from_the_start() {
    let diff = rewritten(with(&[("convert(%a)", "iota(), iota_dimension=0")]));
    assert!(diff.contains("wide.block.2 = s32[1,8] add("), "{diff}");
    // Rows that begin later in the array they are read from.
    let diff = rewritten(with(&[
        ("convert(%a)", "slice(%longer), slice={[2:6], [0:8]}"),
        ("d: s32[4,8])", "d: s32[4,8], longer: s32[6,8])"),
        ("%start =", "%longer = s32[6,8] parameter(3)\n  %start ="),
    ]));
    assert!(diff.contains("s32[] add(%first_row"), "{diff}");
}

#[test]
fn floats_that_a_compiler_may_join_are_only_nearly_the_same() {
    let floats = |work: &str| {
        let module = parse(&looped("f32", "s8[4,8]", &format!("%wide = f32[4,8] {work}")));
        assert_eq!(verify::verify(&module), [], "{work}");
        find(&module).first().map(|finding| finding.grade)
    };
    assert_eq!(floats("negate(%d)"), Some(Grade::Bitwise));
    assert_eq!(floats("multiply(%d, %d)"), Some(Grade::HloExact));
    assert_eq!(floats("exponential(%d)"), None, "a polynomial is not computed again");
    assert_eq!(floats("sqrt(%d)"), None, "nor is a root");
}

#[test]
fn floats_that_a_compiler_looks_through_are_only_nearly_the_same() {
    // What the step does with a row, and how it forwards `%more`.
    let added = "%flat = f32[8] reshape(%row)\n  %more = f32[8] add(%sum, %flat)";
    let reduced = "%flat = f32[8] reshape(%row)\n  %nought = f32[] constant(0)\n  %total = f32[] reduce(%flat, %nought), dimensions={0}, to_apply=%plus\n  %all = f32[8] broadcast(%total), dimensions={}\n  %more = f32[8] maximum(%sum, %all)";
    let plus = "%plus (u: f32[], v: f32[]) -> f32[] {\n  %u = f32[] parameter(0)\n  %v = f32[] parameter(1)\n  ROOT %w = f32[] add(%u, %v)\n}\n\n";
    let grade = |work: &str, of: &str, reduces: bool| {
        let (computations, step) = if reduces { (plus, reduced) } else { ("", added) };
        let source = looping("f32", of, work, computations, step);
        let module = parse(&source);
        assert_eq!(verify::verify(&module), [], "{source}");
        find(&module).first().map(|finding| finding.grade)
    };
    let spread = "%wide = f32[4,8] broadcast(%a), dimensions={0}";
    let padded = "%nil = f32[] constant(0)\n  %wide = f32[4,8] pad(%a, %nil), padding=0_0x1_1";
    let split = "%wide = f32[4,8] reshape(%a)";
    let masked = "%flags = pred[4,8] compare(%d, %d), direction=EQ\n  %wide = f32[4,8] select(%flags, %d, %d)";
    for (work, of, plain, reduced) in [
        // A quotient by spread-out numbers becomes a product with a reciprocal, their sum a product.
        (spread, "f32[4]", Grade::HloExact, Grade::HloExact),
        // Zeros are left out of a sum, and with them the rounding of what is too small to a zero.
        (padded, "f32[4,6]", Grade::HloExact, Grade::HloExact),
        (split, "f32[4,2,4]", Grade::HloExact, Grade::HloExact),
        (split, "f32[4,1,8]", Grade::Bitwise, Grade::Bitwise),
        ("%wide = f32[4,8] copy(%d)", "f32[4]", Grade::Bitwise, Grade::Bitwise),
        // A large reduction goes to a library together with what is computed before it.
        ("%wide = f32[4,8] maximum(%d, %d)", "f32[4]", Grade::Bitwise, Grade::HloExact),
        (masked, "f32[4]", Grade::Bitwise, Grade::HloExact),
    ] {
        let found = [false, true].map(|reduces| grade(work, of, reduces));
        assert_eq!(found, [Some(plain), Some(reduced)], "{work} of {of}");
    }
}

#[test]
fn rows_stay_when_a_condition_fails() {
    let result = "ROOT %sums = s32[8] get-tuple-element(%loop), index=1";
    let changes: [(&str, &[(&str, &str)]); 10] = [
        (
            "the loop carries it twice",
            &[
                ("s32[8], s32[4,8])", "s32[8], s32[4,8], s32[4,8])"),
                ("tuple(%start, %b, %wide)", "tuple(%start, %b, %wide, %wide)"),
                ("tuple(%next, %more, %rows)", "tuple(%next, %more, %rows, %kept)"),
                (
                    "%zero = s32[] constant(0)",
                    "%kept = s32[4,8] get-tuple-element(%p), index=3\n  %zero = s32[] constant(0)",
                ),
            ],
        ),
        (
            "the step changes the value",
            &[("%more, %rows)", "%more, %changed)"), ("%flat =", "%changed = s32[4,8] negate(%rows)\n  %flat =")],
        ),
        ("the step reads all rows", &[("%flat =", "%all = s32[4,8] negate(%rows)\n  %flat =")]),
        (
            "the step reads a part of a row",
            &[
                ("dynamic_slice_sizes={1,8}", "dynamic_slice_sizes={1,4}"),
                ("%row = s32[1,8]", "%row = s32[1,4]"),
                (
                    "%flat = s32[8] reshape(%row)",
                    "%half = s32[4] reshape(%row)\n  %flat = s32[8] concatenate(%half, %half), dimensions={0}",
                ),
            ],
        ),
        (
            "the result is read behind the loop",
            &[(
                result,
                "%seen = s32[4,8] get-tuple-element(%loop), index=2\n  %one.row = s32[1,8] slice(%seen), slice={[0:1], [0:8]}\n  ROOT %sums = s32[8] reshape(%one.row)",
            )],
        ),
        (
            "the condition reads it, if only for nothing: the bound stays a number, so each row is read once",
            &[(
                "%bound =",
                "%seen = s32[4,8] get-tuple-element(%q), index=2\n  %corner = s32[1,1] slice(%seen), slice={[0:1], [0:1]}\n  %bound =",
            )],
        ),
        ("it stands in memory", &[("%b, %wide)", "%b, %d)")]),
        (
            "its rows begin where no start of 32 bits reaches",
            &[
                ("convert(%a)", "slice(%longer), slice={[4000000000:4000000004], [0:8]}"),
                ("d: s32[4,8])", "d: s32[4,8], longer: s32[5000000000,8])"),
                ("%start =", "%longer = s32[5000000000,8] parameter(3)\n  %start ="),
            ],
        ),
        ("its rows come from all rows", &[("convert(%a)", "reverse(%d), dimensions={0}")]),
        (
            "its rows read twice their bytes",
            &[
                ("convert(%a)", "add(%d, %second)"),
                ("d: s32[4,8])", "d: s32[4,8], second: s32[4,8])"),
                ("%start =", "%second = s32[4,8] parameter(3)\n  %start ="),
            ],
        ),
    ];
    for (why, change) in changes {
        assert!(find(&with(change)).is_empty(), "{why}");
    }
}

/// XLA:GPU (H100) and XLA:TPU (v5e) both need 328 MiB for it, and 72 MiB, the floor, for the result.
#[test]
fn devices_compute_rows_in_the_loop_too() {
    let source = include_str!("../../corpus/loop-inputs/fires-widened.before.hlo");
    for target in [Target::Gpu, Target::Tpu] {
        assert_eq!(peaks(source, target), [328, 72], "{target:?}");
    }
}

#[test]
fn short_floats_stay() {
    let scaled = |work: &str| {
        let source = looped("f32", "bf16[4,8]", work);
        let module = parse(&source);
        assert_eq!(verify::verify(&module), [], "{source}");
        find(&module).len()
    };
    assert_eq!(scaled("%wide = f32[4,8] convert(%a)"), 1, "an argument is as it is");
    let product = "%twice = bf16[4,8] multiply(%a, %a)\n  %wide = f32[4,8] convert(%twice)";
    assert_eq!(scaled(product), 0, "memory would round the product");
    let narrowed = "%narrow = bf16[4,8] convert(%d)\n  %wide = f32[4,8] convert(%narrow)";
    assert_eq!(scaled(narrowed), 0, "memory would round the conversion");
}

#[test]
fn scattered_rows_are_not_read_again_and_again() {
    // Columns of an argument, in a loop that runs once, and in a loop that reads each of them twice.
    let once = [
        ("convert(%a)", "transpose(%t), dimensions={1,0}"),
        ("d: s32[4,8])", "d: s32[4,8], t: s32[8,4])"),
        ("%start =", "%t = s32[8,4] parameter(3)\n  %start ="),
    ];
    assert_eq!(find(&with(&once)).len(), 1);
    let twice: Vec<_> =
        once.into_iter().chain([("%bound = s32[] constant(4)", "%bound = s32[] constant(8)")]).collect();
    assert!(find(&with(&twice)).is_empty());
}

/// Kind: passes that cost small programs run time; here one that computes 28 or 64 MiB of rows where they are read.
#[test]
fn small_programs_keep_their_inputs_unless_memory_is_asked_for() {
    let passes = |rows: usize, options: &Options| {
        let (shape, bound) = (format!("[{rows},1024]"), format!("constant({rows})"));
        let mut module = with(&[
            ("[4,8]", &shape),
            ("s32[8]", "s32[1024]"),
            ("s32[1,8]", "s32[1,1024]"),
            ("={1,8}", "={1,1024}"),
            ("constant(4)", &bound),
        ]);
        let options = Options { advise: false, ..options.clone() };
        let report = run(&mut module, &default_pipeline(), &options, &ModelEstimator::default()).expect("it is sound");
        let made = report.rewrites.iter().map(|rewrite| rewrite.pass).collect::<Vec<_>>();
        (made, report.remarks.iter().any(|remark| remark.pass == "loop-inputs" && remark.code == "small-gain"))
    };
    let (plain, made) = (Options::default(), vec!["loop-inputs"]);
    assert_eq!(passes(7168, &plain), (Vec::new(), true), "the system's allocator keeps so much from run to run");
    assert_eq!(passes(16384, &plain), (made.clone(), false));
    assert_eq!(
        passes(
            7168,
            &Options { min_saving: Bytes(1), machine: Some(Machine::without_malloc_cache()), ..plain.clone() }
        ),
        (made.clone(), false)
    );
    assert_eq!(passes(7168, &Options { budget: Some(Bytes(8 << 20)), ..plain }), (made, false));
}
