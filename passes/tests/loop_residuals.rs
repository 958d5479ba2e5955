//! `loop-residuals`: when rows of a stack are computed again, and when they stay: one loop that stacks, one that reads, and one thing wrong at a time.
//!
//! Pins `passes/src/loop_residuals.rs`, `passes/src/loops.rs`, `passes/src/recompute.rs`.

use crate::common::{diff, estimate, parse, replaced};
use hlo_ir::graph::Users;
use hlo_ir::{Module, text, verify};
use hlo_memory::{Bytes, Target};
use hlo_passes::loop_residuals::LoopResiduals;
use hlo_passes::{Context, Finding, Grade, Machine, Options, Outcome, Pass};

/// The first loop stacks `h = x + w[t]` and a function of it, the second adds up products of their rows.
fn loops(t: &str, h: &str, f: &str) -> String {
    let row = format!(
        "  %w.row = {t}[1,8] dynamic-slice(%w, %i, %zero), dynamic_slice_sizes={{1,8}}
  %w.t = {t}[8] reshape(%w.row)"
    );
    loops_of(t, [&format!("{t}[4,8]"), &row], h, f)
}

/// The same where `w` is of type `rows` and `row` makes `%w.t` of it.
fn loops_of(t: &str, [rows, row]: [&str; 2], h: &str, f: &str) -> String {
    let state = format!("(s32[], {t}[8], {t}[4,8], {t}[4,8], {rows})");
    format!(
        "HloModule m

%first (p: {state}) -> {state} {{
  %p = {state} parameter(0)
  %i = s32[] get-tuple-element(%p), index=0
  %one = s32[] constant(1)
  %next = s32[] add(%i, %one)
  %x = {t}[8] get-tuple-element(%p), index=1
  %h.stack = {t}[4,8] get-tuple-element(%p), index=2
  %f.stack = {t}[4,8] get-tuple-element(%p), index=3
  %w = {rows} get-tuple-element(%p), index=4
  %zero = s32[] constant(0)
{row}
  %s = {t}[8] add(%x, %w.t)
  %h = {t}[8] {h}
  %f = {t}[8] {f}
  %h.row = {t}[1,8] reshape(%h)
  %f.row = {t}[1,8] reshape(%f)
  %h.new = {t}[4,8] dynamic-update-slice(%h.stack, %h.row, %i, %zero)
  %f.new = {t}[4,8] dynamic-update-slice(%f.stack, %f.row, %i, %zero)
  ROOT %r = {state} tuple(%next, %h, %h.new, %f.new, %w)
}}

%less (q: {state}) -> pred[] {{
  %q = {state} parameter(0)
  %k = s32[] get-tuple-element(%q), index=0
  %bound = s32[] constant(4)
  ROOT %c = pred[] compare(%k, %bound), direction=LT
}}

%second (p2: (s32[], {t}[8], {t}[4,8], {t}[4,8])) -> (s32[], {t}[8], {t}[4,8], {t}[4,8]) {{
  %p2 = (s32[], {t}[8], {t}[4,8], {t}[4,8]) parameter(0)
  %i2 = s32[] get-tuple-element(%p2), index=0
  %one2 = s32[] constant(1)
  %next2 = s32[] add(%i2, %one2)
  %three = s32[] constant(3)
  %back = s32[] subtract(%three, %i2)
  %zero2 = s32[] constant(0)
  %sum = {t}[8] get-tuple-element(%p2), index=1
  %h2 = {t}[4,8] get-tuple-element(%p2), index=2
  %f2 = {t}[4,8] get-tuple-element(%p2), index=3
  %h2.row = {t}[1,8] dynamic-slice(%h2, %back, %zero2), dynamic_slice_sizes={{1,8}}
  %f2.row = {t}[1,8] dynamic-slice(%f2, %back, %zero2), dynamic_slice_sizes={{1,8}}
  %product = {t}[1,8] multiply(%h2.row, %f2.row)
  %flat = {t}[8] reshape(%product)
  %sum2 = {t}[8] add(%sum, %flat)
  ROOT %r2 = (s32[], {t}[8], {t}[4,8], {t}[4,8]) tuple(%next2, %sum2, %h2, %f2)
}}

%less2 (q2: (s32[], {t}[8], {t}[4,8], {t}[4,8])) -> pred[] {{
  %q2 = (s32[], {t}[8], {t}[4,8], {t}[4,8]) parameter(0)
  %k2 = s32[] get-tuple-element(%q2), index=0
  %bound2 = s32[] constant(4)
  ROOT %c2 = pred[] compare(%k2, %bound2), direction=LT
}}

ENTRY %main (a: {t}[8], b: {rows}) -> {t}[8] {{
  %a = {t}[8] parameter(0)
  %b = {rows} parameter(1)
  %start = s32[] constant(0)
  %nothing = {t}[] constant(0)
  %empty = {t}[4,8] broadcast(%nothing), dimensions={{}}
  %state = {state} tuple(%start, %a, %empty, %empty, %b)
  %loop = {state} while(%state), condition=%less, body=%first
  %h.all = {t}[4,8] get-tuple-element(%loop), index=2
  %f.all = {t}[4,8] get-tuple-element(%loop), index=3
  %from = s32[] constant(0)
  %state2 = (s32[], {t}[8], {t}[4,8], {t}[4,8]) tuple(%from, %a, %h.all, %f.all)
  %loop2 = (s32[], {t}[8], {t}[4,8], {t}[4,8]) while(%state2), condition=%less2, body=%second
  ROOT %out = {t}[8] get-tuple-element(%loop2), index=1
}}
"
    )
}

fn find(module: &Module) -> Vec<Finding> {
    let (users, estimate) = (Users::of(module), estimate(Bytes(1 << 20), Vec::new()));
    let options =
        Options { min_saving: Bytes(1), machine: Some(Machine::without_malloc_cache()), ..Options::default() };
    LoopResiduals.find(&Context::of_input(module, &users, &estimate, &options))
}

/// The loops with some texts replaced, each of which must be there.
fn with(changes: &[(&str, &str)]) -> Module {
    replaced(&loops("f32", "exponential(%s)", "tanh(%h)"), changes)
}

/// A movement of data that the pass does not repeat, in the place of `h`, so that only `f` follows from something.
const COSTLY: (&str, &str) = ("%h = f32[8] exponential(%s)", "%h = f32[8] reverse(%s), dimensions={0}");

#[test]
fn a_function_of_a_kept_row_is_computed_again() {
    let mut module = with(&[COSTLY]);
    let before = text::print(&module);
    let [finding] = &find(&module)[..] else { panic!("one loop stacks") };
    assert_eq!((finding.grade, finding.wasted), (Grade::HloExact, Bytes(4 * 8 * 4)));
    let Outcome::Rewrite { patch, .. } = finding.outcome.clone() else { panic!("it can be dropped") };
    let undo = patch.apply(&mut module).expect("the patch fits");
    assert_eq!(verify::verify(&module), [], "{}", text::print(&module));
    insta::assert_snapshot!(diff(&before, &text::print(&module)));
    assert!(find(&module).is_empty(), "nothing is left to drop");
    undo.revert(&mut module);
    assert_eq!(text::print(&module), before);
}

#[test]
fn integers_keep_their_bits() {
    let source = loops("s32", "reverse(%s), dimensions={0}", "negate(%h)");
    assert_eq!(find(&parse(&source))[0].grade, Grade::Bitwise);
}

#[test]
fn stacks_stay_when_a_condition_fails() {
    assert_eq!(find(&with(&[COSTLY])).len(), 1, "the program without a change fires");
    let changes: [(&str, &str, &str); 6] = [
        ("the counter starts late", "%start = s32[] constant(0)", "%start = s32[] constant(1)"),
        ("it counts by twos", "%one = s32[] constant(1)", "%one = s32[] constant(2)"),
        ("it ends early", "%bound = s32[] constant(4)", "%bound = s32[] constant(3)"),
        ("rows are written elsewhere", "(%f.stack, %f.row, %i, %zero)", "(%f.stack, %f.row, %next, %zero)"),
        ("the function is costly", "tanh(%h)", "reverse(%h), dimensions={0}"),
        ("the reader looks at all rows", "%h2.row, %f2.row)", "%h2.row, %f2.some)"),
    ];
    for (why, old, new) in &changes[..5] {
        assert!(find(&with(&[COSTLY, (old, new)])).is_empty(), "{why}");
    }
    let all_rows = "%f2.all = f32[4,8] negate(%f2)
  %f2.some = f32[1,8] slice(%f2.all), slice={[0:1], [0:8]}
  %product";
    let (why, old, new) = changes[5];
    assert!(find(&with(&[COSTLY, ("%product =", &format!("{all_rows} =")), (old, new)])).is_empty(), "{why}");
    let also = ("%loop2 = (s32[]", "%kept = f32[4,8] negate(%f.all)\n  %loop2 = (s32[]");
    assert!(find(&with(&[COSTLY, also])).is_empty(), "the stack is used elsewhere");
}

#[test]
fn what_the_reader_does_not_carry_takes_the_place_of_the_stack() {
    // The stack `f` follows from the rows of `w`, which the second loop does not know.
    let mut module = with(&[COSTLY, ("tanh(%h)", "tanh(%w.t)")]);
    let before = text::print(&module);
    let [finding] = &find(&module)[..] else { panic!("one loop stacks") };
    let Outcome::Rewrite { patch, .. } = finding.outcome.clone() else { panic!("it can be dropped") };
    patch.apply(&mut module).expect("the patch fits");
    assert_eq!(verify::verify(&module), [], "{}", text::print(&module));
    insta::assert_snapshot!(diff(&before, &text::print(&module)));
}

#[test]
fn an_element_that_is_taken_out_for_nobody_gets_its_new_shape_too() {
    // As above with rows of one number, and behind the loop stands what takes out the element whose place they get, for nobody.
    let row = "  %w.row = f32[1,1] dynamic-slice(%w, %i, %zero), dynamic_slice_sizes={1,1}
  %w.one = f32[] reshape(%w.row)
  %w.t = f32[8] broadcast(%w.one), dimensions={}";
    let narrow = loops_of("f32", ["f32[4,1]", row], "reverse(%s), dimensions={0}", "tanh(%w.t)");
    let out = "ROOT %out = f32[8] get-tuple-element(%loop2), index=1";
    let unused = format!("%gone = f32[4,8] get-tuple-element(%loop2), index=3\n  {out}");
    let mut module = replaced(&narrow, &[(out, &unused)]);
    let [finding] = &find(&module)[..] else { panic!("one loop stacks") };
    let Outcome::Rewrite { patch, .. } = finding.outcome.clone() else { panic!("it can be dropped") };
    patch.apply(&mut module).expect("the patch fits");
    assert_eq!(verify::verify(&module), [], "{}", text::print(&module));
}

#[test]
fn a_stack_that_becomes_another_element_too_stays() {
    // The second step would read rows of `f` as those of `h`.
    let twice = ("tuple(%next2, %sum2, %h2, %f2)", "tuple(%next2, %sum2, %f2, %f2)");
    assert!(find(&with(&[COSTLY, ("tanh(%h)", "tanh(%w.t)"), twice])).is_empty());
}

/// Three rows, each as large as what a step begins with, are read: they follow from that.
const STATE: [(&str, &str); 3] = [
    ("%h = f32[8] reverse(%s), dimensions={0}", "%h = f32[8] sine(%x)"),
    ("tanh(%h)", "cosine(%x)"),
    ("tuple(%next, %h, ", "tuple(%next, %turned, "),
];

/// [`loops`], changed so that both stacks follow from the state, which is turned around in every step.
fn with_state(changes: &[(&str, &str)]) -> Module {
    let turned = ("%s = f32[8] add(", "%turned = f32[8] reverse(%x), dimensions={0}\n  %s = f32[8] add(");
    let all: Vec<_> = [COSTLY].into_iter().chain(STATE).chain([turned]).chain(changes.iter().copied()).collect();
    with(&all)
}

#[test]
fn what_a_step_begins_with_is_stacked_instead_of_what_follows_from_it() {
    let mut module = with_state(&[]);
    let before = text::print(&module);
    let [finding] = &find(&module)[..] else { panic!("one loop stacks") };
    assert_eq!((finding.grade, finding.wasted), (Grade::HloExact, Bytes(4 * 8 * 4)), "two stacks go, one comes");
    let Outcome::Rewrite { patch, note, .. } = finding.outcome.clone() else { panic!("they can be dropped") };
    assert_eq!(note, "2 of 2 stacks of 4 rows are computed again where they are read, from 1 more");
    patch.apply(&mut module).expect("the patch fits");
    assert_eq!(verify::verify(&module), [], "{}", text::print(&module));
    insta::assert_snapshot!(diff(&before, &text::print(&module)));
    assert!(find(&module).is_empty(), "one stack is the least");
}

/// What makes the last line of [`loops`] add the first element of `%other.state` to the result; `text` makes that state.
fn and_also(text: &str) -> String {
    let state = "(s32[], f32[8], f32[4,8], f32[4,8], f32[4,8])";
    let lines = [
        "%sum.all = f32[8] get-tuple-element(%loop2), index=1",
        &text.replace("STATE", state),
        "%other = f32[8] get-tuple-element(%other.state), index=1",
        "ROOT %out = f32[8] add(%sum.all, %other)",
    ];
    lines.join("\n  ")
}

const LAST: &str = "ROOT %out = f32[8] get-tuple-element(%loop2), index=1";

#[test]
fn loops_that_cannot_take_in_another_stack_keep_theirs() {
    let plain = and_also("%other.state = STATE while(%state3), condition=%less3, body=%first3");
    let bodies = "%less3 (q3: STATE) -> pred[] {
  %q3 = STATE parameter(0)
  ROOT %never = pred[] constant(false)
}

%first3 (p3: STATE) -> STATE {
  ROOT %p3 = STATE parameter(0)
}

ENTRY %main"
        .replace("STATE", "(s32[], f32[8], f32[4,8], f32[4,8], f32[4,8])");
    let state3 = (
        "%loop = (s32[]",
        "%state3 = (s32[], f32[8], f32[4,8], f32[4,8], f32[4,8]) tuple(%start, %a, %empty, %empty, %b)\n  %loop = (s32[]",
    );
    let of = |last: &str| find(&with_state(&[(LAST, last), ("ENTRY %main", &bodies), state3])).len();
    assert_eq!(of(&plain), 1, "another loop does not matter");
    assert_eq!(of(&plain.replace("while(%state3)", "while(%state)")), 0, "another loop begins with the same state");
    assert_eq!(of(&plain.replace("body=%first3", "body=%first")), 0, "another loop runs the same body");
    let whole =
        "%pair = (STATE, f32[8]) tuple(%loop, %sum.all)\n  %other.state = STATE get-tuple-element(%pair), index=0";
    assert_eq!(of(&and_also(whole)), 0, "something looks at the whole state");
}

#[test]
fn a_reader_whose_whole_state_is_read_keeps_its_rows() {
    let whole = "%sum.all = f32[8] get-tuple-element(%loop2), index=1
  %pair = ((s32[], f32[8], f32[4,8], f32[4,8]), f32[8]) tuple(%loop2, %sum.all)
  %state.after = (s32[], f32[8], f32[4,8], f32[4,8]) get-tuple-element(%pair), index=0
  %f.after = f32[4,8] get-tuple-element(%state.after), index=3
  %f.flat = f32[32] reshape(%f.after)
  %f.part = f32[8] slice(%f.flat), slice={[0:8]}
  ROOT %out = f32[8] add(%sum.all, %f.part)";
    assert!(find(&with(&[COSTLY, (LAST, whole)])).is_empty());
    assert!(find(&with(&[COSTLY, ("tanh(%h)", "tanh(%w.t)"), (LAST, whole)])).is_empty());
}

#[test]
fn rows_of_other_steps_are_not_known() {
    let of_w = ("tanh(%h)", "tanh(%w.t)");
    assert_eq!(find(&with(&[COSTLY, of_w])).len(), 1);
    let next = ("dynamic-slice(%w, %i, %zero)", "dynamic-slice(%w, %next, %zero)");
    assert!(find(&with(&[COSTLY, of_w, next])).is_empty());
}

#[test]
fn calls_hand_out_what_is_smaller_if_nothing_else_calls_the_same() {
    let called = [
        COSTLY,
        (
            "%first (p:",
            "%part (v: f32[8]) -> (f32[8]) {
  %v = f32[8] parameter(0)
  %half = f32[4] slice(%v), slice={[0:4]}
  %turned.half = f32[4] reverse(%half), dimensions={0}
  %twice = f32[8] concatenate(%turned.half, %turned.half), dimensions={0}
  ROOT %parts = (f32[8]) tuple(%twice)
}

%first (p:",
        ),
        (
            "%f = f32[8] tanh(%h)",
            "%p1 = (f32[8]) call(%x), to_apply=%part\n  %f = f32[8] get-tuple-element(%p1), index=0",
        ),
    ];
    let mut module = with(&called);
    let [finding] = &find(&module)[..] else { panic!("half a row gives the whole") };
    assert_eq!((finding.grade, finding.wasted), (Grade::HloExact, Bytes(4 * 4 * 4)));
    let Outcome::Rewrite { patch, .. } = finding.outcome.clone() else { panic!("it can be dropped") };
    patch.apply(&mut module).expect("the patch fits");
    assert_eq!(verify::verify(&module), [], "{}", text::print(&module));
    assert!(text::print(&module).contains("(f32[8], f32[4]) tuple(%twice, %turned.half)"));
    let again = (
        "ROOT %r = ",
        "%p2 = (f32[8]) call(%h), to_apply=%part\n  %unused = f32[8] get-tuple-element(%p2), index=0\n  ROOT %r = ",
    );
    let all: Vec<_> = called.into_iter().chain([again]).collect();
    assert!(find(&with(&all)).is_empty(), "the other call would have to hand it out too");
}

#[test]
fn with_bitwise_results_only_what_has_no_floats_is_computed_again() {
    let module = with_state(&[]);
    let (users, estimate) = (Users::of(&module), estimate(Bytes(1 << 20), Vec::new()));
    let options = Options {
        min_saving: Bytes(1),
        machine: Some(Machine::without_malloc_cache()),
        exactness: Grade::Bitwise,
        ..Options::default()
    };
    assert!(LoopResiduals.find(&Context::of_input(&module, &users, &estimate, &options)).is_empty());
    let context = Options { exactness: Grade::HloExact, ..options };
    assert_eq!(LoopResiduals.find(&Context::of_input(&module, &users, &estimate, &context)).len(), 1);
}

/// Changes that let the first loop write its stacks from the last row to the first.
const BACKWARD: [(&str, &str); 3] = [
    (
        "%zero = s32[] constant(0)\n  %w.row",
        "%zero = s32[] constant(0)\n  %all = s32[] constant(4)\n  %left = s32[] subtract(%all, %i)\n  %at = s32[] subtract(%left, %one)\n  %w.row",
    ),
    ("(%h.stack, %h.row, %i, %zero)", "(%h.stack, %h.row, %at, %zero)"),
    ("(%f.stack, %f.row, %i, %zero)", "(%f.stack, %f.row, %at, %zero)"),
];

#[test]
fn rows_may_be_written_from_the_last_to_the_first() {
    let found = find(&with_state(&BACKWARD));
    assert_eq!(found.len(), 1);
    let mut module = with_state(&BACKWARD);
    let Outcome::Rewrite { patch, conditions, .. } = found[0].outcome.clone() else { panic!("they can be dropped") };
    assert!(conditions[0].text.contains("row 3 - t"), "{}", conditions[0].text);
    patch.apply(&mut module).expect("the patch fits");
    assert_eq!(verify::verify(&module), [], "{}", text::print(&module));
    assert!(text::print(&module).contains("dynamic-update-slice(%residual.stack, %residual.row, %at, %residual.zero)"));
    let too_far = ("%all = s32[] constant(4)", "%all = s32[] constant(5)");
    let changes = [BACKWARD[0], too_far, BACKWARD[1], BACKWARD[2]];
    assert!(find(&with_state(&changes)).is_empty(), "row 4 does not exist, row 0 is not written");
    let forward = [BACKWARD[0], BACKWARD[1]];
    assert!(find(&with_state(&forward)).is_empty(), "row t of the stacks comes from different steps");
}

#[test]
fn stacks_of_bf16_are_wide_on_cpu() {
    let narrow = [
        ("%s = f32[8] add(", "%n = bf16[8] convert(%x)\n  %wide = f32[8] convert(%n)\n  %s = f32[8] add("),
        ("sine(%x)", "sine(%wide)"),
        ("cosine(%wide)", "negate(%h)"),
    ];
    let module = with_state(&narrow);
    let (users, estimate) = (Users::of(&module), estimate(Bytes(1 << 20), Vec::new()));
    let saved = |target| {
        let options = Options {
            min_saving: Bytes(1),
            machine: Some(Machine::without_malloc_cache()),
            target,
            ..Options::default()
        };
        LoopResiduals.find(&Context::of_input(&module, &users, &estimate, &options))[0].wasted
    };
    assert_eq!(saved(Target::Cpu), Bytes(4 * 8 * 4), "the sine stays");
    assert_eq!(saved(Target::Tpu), Bytes(4 * 8 * (4 + 4 - 2)), "what the sine is of is half as large");
}

/// A product that sums up so many numbers for each element of `of`.
fn product(name: &str, of: &str, terms: usize) -> String {
    format!(
        "%{name}.a = f32[8,{terms}] broadcast({of}), dimensions={{0}}\n  %{name}.one = f32[] constant(1)
  %{name}.b = f32[{terms}] broadcast(%{name}.one), dimensions={{}}
  %{name} = f32[8] dot(%{name}.a, %{name}.b), lhs_contracting_dims={{1}}, rhs_contracting_dims={{0}}"
    )
}

#[test]
fn products_are_computed_again_in_the_time_that_their_rows_take_or_little_more() {
    let found = |terms: usize, beside: usize, budget| {
        let (first, other) = (product("h", "%x", terms), product("other", "%sum", beside));
        let other = format!("%sum = f32[8] get-tuple-element(%p2), index=1\n  {other}");
        let beside = [
            ("%h = f32[8] sine(%x)", first.as_str()),
            ("%sum = f32[8] get-tuple-element(%p2), index=1", other.as_str()),
            ("add(%sum, %flat)", "add(%other, %flat)"),
        ];
        let module = with_state(&beside);
        let (users, estimate) = (Users::of(&module), estimate(Bytes(1 << 20), Vec::new()));
        let options = Options {
            min_saving: Bytes(1),
            machine: Some(Machine::without_malloc_cache()),
            budget,
            ..Options::default()
        };
        let found = LoopResiduals.find(&Context::of_input(&module, &users, &estimate, &options));
        for finding in &found {
            let mut module = module.clone();
            let Outcome::Rewrite { patch, .. } = finding.outcome.clone() else { panic!("it can be dropped") };
            patch.apply(&mut module).expect("the patch fits");
            assert_eq!(verify::verify(&module), [], "{}", text::print(&module));
            assert_eq!(text::print(&module).matches(" dot(").count(), 3, "each of the two, and one again");
        }
        found.len()
    };
    assert_eq!(found(2, 2, None), 1, "keeping the rows moves as much");
    assert_eq!(found(512, 2, None), 0, "a third of all operations");
    assert_eq!(found(512, 2, Some(Bytes(1))), 1, "memory is asked for");
    assert_eq!(found(512, 1 << 14, None), 1, "less than a twentieth");
}

#[test]
fn layers_are_computed_again_as_far_as_a_budget_asks() {
    let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../corpus/loop-residuals");
    let module = parse(&std::fs::read_to_string(folder.join("keeps-product.before.hlo")).expect("a file"));
    let saved = |budget: Option<u64>| {
        let (users, estimate) = (Users::of(&module), estimate(Bytes(6 << 30), Vec::new()));
        let options = Options { budget: budget.map(Bytes), ..Options::default() };
        LoopResiduals
            .find(&Context::of_input(&module, &users, &estimate, &options))
            .iter()
            .map(|found| found.wasted)
            .sum::<Bytes>()
    };
    assert_eq!(saved(None), Bytes::ZERO, "a product that sums up a thousand numbers is stored");
    assert_eq!(saved(Some(6 << 30)), Bytes::ZERO, "the budget is met");
    assert_eq!(saved(Some(5 << 30)), Bytes(24 * 32768 * 1024 * 4));
}

#[test]
fn rows_of_floats_that_only_move_may_be_rounded_otherwise_behind() {
    // A kernel that adds a product to the row may contract another product than before.
    let moved = [COSTLY, ("tanh(%h)", "reshape(%w.t)")];
    assert_eq!(find(&with(&moved))[0].grade, Grade::HloExact);
    let module = with(&moved);
    let (users, estimate) = (Users::of(&module), estimate(Bytes(1 << 20), Vec::new()));
    let options = Options {
        min_saving: Bytes(1),
        machine: Some(Machine::without_malloc_cache()),
        exactness: Grade::Bitwise,
        ..Options::default()
    };
    assert!(LoopResiduals.find(&Context::of_input(&module, &users, &estimate, &options)).is_empty());
}

/// Both stacks of [`loops`] are states: as a step begins, and as it ends.
const STATES: [(&str, &str); 3] =
    [COSTLY, ("%h.row = f32[1,8] reshape(%h)", "%h.row = f32[1,8] reshape(%x)"), ("reshape(%f)", "reshape(%h)")];

/// The only change to a module, made; its note and what it saves.
fn changed(module: &mut Module) -> (String, Bytes) {
    let found = find(module);
    let [finding] = &found[..] else { panic!("one loop stacks") };
    let Outcome::Rewrite { patch, note, .. } = finding.outcome.clone() else { panic!("it can be changed") };
    patch.apply(module).expect("the patch fits");
    assert_eq!(verify::verify(module), [], "{}", text::print(module));
    (note, finding.wasted)
}

#[test]
fn what_a_step_begins_with_is_read_from_the_row_before() {
    let mut module = with(&STATES);
    let before = text::print(&module);
    let (note, saved) = changed(&mut module);
    assert_eq!(note, "1 of 2 stacks of 4 rows are computed again where they are read");
    assert_eq!(saved, Bytes(4 * 8 * 4));
    insta::assert_snapshot!(diff(&before, &text::print(&module)));
    assert!(find(&module).is_empty(), "one stack is the least");
}

#[test]
fn what_a_step_begins_with_is_the_row_behind_where_rows_go_backward() {
    let backward = [BACKWARD[0], BACKWARD[1], BACKWARD[2]];
    let changes: Vec<_> = STATES.into_iter().chain(backward).collect();
    let mut module = with(&changes);
    let before = text::print(&module);
    assert_eq!(changed(&mut module).1, Bytes(4 * 8 * 4));
    insta::assert_snapshot!(diff(&before, &text::print(&module)));
}

#[test]
fn a_state_that_follows_from_itself_is_stored() {
    // `x' = exp(x + w)` could be followed back to the beginning, step by step; `y' = tanh(x')` follows from it, and is stacked as a step begins.
    let state = "(s32[], f32[8], f32[4,8], f32[4,8], f32[4,8])";
    let changes = [
        (state, "(s32[], f32[8], f32[4,8], f32[4,8], f32[4,8], f32[8])"),
        STATES[1],
        (
            "%f.row = f32[1,8] reshape(%f)",
            "%y = f32[8] get-tuple-element(%p), index=5\n  %f.row = f32[1,8] reshape(%y)",
        ),
        ("%f.new, %w)", "%f.new, %w, %f)"),
        ("%empty, %empty, %b)", "%empty, %empty, %b, %a)"),
    ];
    let mut module = with(&changes);
    let (note, saved) = changed(&mut module);
    assert_eq!(note, "2 of 2 stacks of 4 rows are computed again where they are read, from 1 more");
    assert_eq!(saved, Bytes(128), "`x'` is stacked");
}

#[test]
fn a_row_may_follow_from_its_number() {
    let counted = "%f = f32[8] add(%h, %counted)";
    let number = "%step = f32[] convert(%i)\n  %counted = f32[8] broadcast(%step), dimensions={}\n  ";
    let changes = [COSTLY, ("%f = f32[8] tanh(%h)", &format!("{number}{counted}"))];
    let mut module = with(&changes);
    assert_eq!(changed(&mut module).1, Bytes(128));
    let text = text::print(&module);
    assert!(text.contains("clamp(%row_constant, %back, %row_constant.1)"), "{text}");
    // The number of a row of another type may be out of reach of what it is compared with.
    let narrow = [
        changes[0],
        changes[1],
        ("%back = s32[]", "%wide = s32[]"),
        ("%zero2 =", "%back = s8[] convert(%wide)\n  %zero2 ="),
        ("%zero2 = s32[]", "%zero2 = s8[]"),
    ];
    assert!(find(&with(&narrow)).is_empty());
}

/// The gradient of what is looked up along rays, by indices of three columns that follow from the step.
const RAYS: &str = include_str!("../../corpus/loop-residuals-small/fires-rays.before.hlo");

#[test]
fn indices_that_only_their_stack_kept_in_memory_stay_there() {
    let keeps = |source: &str, target: Target| {
        let mut module = parse(source);
        let (users, estimate) = (Users::of(&module), estimate(Bytes(1 << 20), Vec::new()));
        let options = Options {
            min_saving: Bytes(1),
            machine: Some(Machine::without_malloc_cache()),
            target,
            ..Options::default()
        };
        let found = LoopResiduals.find(&Context::of_input(&module, &users, &estimate, &options));
        let Outcome::Rewrite { patch, .. } = found[0].outcome.clone() else { panic!("the stack can be dropped") };
        patch.apply(&mut module).expect("the patch fits");
        assert_eq!(verify::verify(&module), []);
        text::print(&module).contains("gather(%Arg_0.9, %kept)")
    };
    assert!(keeps(RAYS, Target::Cpu));
    assert!(!keeps(RAYS, Target::Tpu), "measured on CPU");
    assert!(!keeps(&RAYS.replacen("HloModule jit_loss", "HloModule jit_loss, num_partitions=2", 1), Target::Cpu));
    let sum = "%twice = s32[61,3] add(%concatenate.3, %concatenate.3)\n  %column = s32[61,1] slice(%twice), slice={[0:61], [0:1]}
  %flat = s32[61] reshape(%column)\n  %number = f32[61] convert(%flat)\n  %add.11 = f32[61]{0} add(%number, %gather.1)";
    let read = RAYS.replacen("%add.11 = f32[61]{0} add(%Arg_5.1, %gather.1)", sum, 1);
    assert!(!keeps(&read, Target::Cpu), "XLA keeps what two kernels read");
    let joined = "concatenate(%broadcast_in_dim.8, %broadcast_in_dim.9, %broadcast_in_dim.10), dimensions={1}";
    let spread = replaced(RAYS, &[(joined, "broadcast(%select_n.3), dimensions={0}")]);
    assert!(!keeps(&text::print(&spread), Target::Cpu), "one column is no work");
}
