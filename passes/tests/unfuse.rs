//! `unfuse`: the text it makes, what it refuses, and its part in the default pipeline.
//!
//! Pins `passes/src/unfuse.rs`.

use crate::common::{LargestArray, parse};
use hlo_ir::{text, verify};
use hlo_memory::{Bytes, ModelEstimator};
use hlo_passes::manager::{RunReport, by_names, default_pipeline, run};
use hlo_passes::{Grade, Machine, Options, Pass};

/// What `--passes=unfuse` makes of a module.
fn unfused(source: &str) -> (String, RunReport) {
    with(&by_names(["unfuse"]).expect("it exists"), &Options::default(), source)
}

fn with(passes: &[Box<dyn Pass>], options: &Options, source: &str) -> (String, RunReport) {
    let mut module = parse(source);
    assert_eq!(verify::verify(&module), [], "the test is wrong");
    let report = run(&mut module, passes, options, &LargestArray).expect("the pass is sound");
    assert_eq!(verify::verify(&module), []);
    (text::print(&module), report)
}

/// A scheduled module with these computations before its entry.
fn scheduled(computations: &str, entry: &str) -> String {
    format!("HloModule m, is_scheduled=true\n\n{computations}\nENTRY %main {{\n{entry}\n}}\n")
}

/// The code of the one refusal.
fn refusal(source: &str) -> &'static str {
    let (printed, report) = unfused(source);
    assert_eq!(printed, text::print(&parse(source)), "a module that is refused stays as it is");
    assert!(report.rewrites.is_empty());
    report.remarks.iter().find(|remark| remark.pass == "unfuse").expect("the reason is said").code
}

#[test]
fn the_example_of_the_page() {
    let (printed, report) = unfused(&scheduled(
        "%fused (p: f32[4,6]) -> f32[24] {
  %p = f32[4,6]{0,1} parameter(0)
  %e = f32[4,6]{0,1} exponential(%p)
  ROOT %b = f32[24]{0} bitcast(%e)
}
",
        "  %x = f32[4,6]{0,1} parameter(0)
  ROOT %r = f32[24]{0} fusion(%x), kind=kLoop, calls=%fused, backend_config={\"outer_dimension_partitions\":[\"2\"]}",
    ));
    insta::assert_snapshot!(printed, @r"
    HloModule m

    ENTRY %main (x: f32[4,6]) -> f32[24] {
      %x = f32[4,6]{1,0} parameter(0)
      %e.1 = f32[4,6]{1,0} exponential(%x)
      %b.1 = f32[6,4]{1,0} transpose(%e.1), dimensions={1,0}
      ROOT %b.2 = f32[24]{0} reshape(%b.1)
    }
    ");
    let [rewrite] = &report.rewrites[..] else { panic!("{report:?}") };
    assert_eq!((rewrite.grade, rewrite.note.as_str()), (Grade::Bitwise, "1 fusion, 1 bitcast taken apart"));
}

#[test]
fn fusions_in_fusions_tuples_calls_and_loops_come_apart() {
    let (printed, report) = unfused(&scheduled(
        "%inner (a: s32[8]) -> s32[8] {
  %a = s32[8]{0} parameter(0)
  ROOT %n = s32[8]{0} negate(%a)
}

%outer (b: s32[8]) -> (s32[8], s32[8]) {
  %b = s32[8]{0} parameter(0)
  %f = s32[8]{0} fusion(%b), kind=kLoop, calls=%inner
  %s = s32[8]{0} add(%f, %b)
  ROOT %t = (s32[8]{0}, s32[8]{0}) tuple(%s, %f)
}

%parallel (c: s32[8]) -> (s32[8], s32[8]) {
  %c = s32[8]{0} parameter(0)
  ROOT %g = (s32[8]{0}, s32[8]{0}) fusion(%c), kind=kLoop, calls=%outer
}

%body (state: (s32[8], s32[])) -> (s32[8], s32[]) {
  %state = (s32[8]{0}, s32[]) parameter(0)
  %x = s32[8]{0} get-tuple-element(%state), index=0
  %i = s32[] get-tuple-element(%state), index=1
  %pair = (s32[8]{0}, s32[8]{0}) call(%x), to_apply=%parallel
  %first = s32[8]{0} get-tuple-element(%pair), index=0
  %kept = s32[8]{0} copy(%first), control-predecessors={%i}
  ROOT %next = (s32[8]{0}, s32[]) tuple(%kept, %i)
}

%more (state.1: (s32[8], s32[])) -> pred[] {
  %state.1 = (s32[8]{0}, s32[]) parameter(0)
  %i.1 = s32[] get-tuple-element(%state.1), index=1
  ROOT %less = pred[] compare(%i.1, %i.1), direction=LT
}
",
        "  %start = s32[8]{0} parameter(0)
  %zero = s32[] constant(0)
  %begin = (s32[8]{0}, s32[]) tuple(%start, %zero)
  %loop = (s32[8]{0}, s32[]) while(%begin), condition=%more, body=%body, backend_config={\"known_trip_count\":{\"n\":\"0\"}}
  %done = s32[8]{0} get-tuple-element(%loop), index=0
  ROOT %both = (s32[8]{0}, s32[8]{0}) fusion(%done), kind=kLoop, calls=%outer",
    ));
    insta::assert_snapshot!(printed);
    assert_eq!(report.rewrites[0].note, "4 fusions, 1 call, 1 copy taken apart");
}

/// What a fusion tells the host, it tells once: the fusion goes, and the module has none to take apart any more.
#[test]
fn side_effects_of_a_fusion_move_out_of_it() {
    let inner = "%tell (p: u32[3]) -> token[] {
  %p = u32[3]{0} parameter(0)
  %t = token[] after-all()
  ROOT %o = token[] outfeed(%p, %t), outfeed_shape=u32[3]{0}
}

%both (q: u32[3]) -> u32[3] {
  %q = u32[3]{0} parameter(0)
  %u = token[] after-all()
  %w = token[] outfeed(%q, %u), outfeed_shape=u32[3]{0}
  ROOT %n = u32[3]{0} negate(%q)
}
";
    let source = format!(
        "HloModule m\n\n{inner}\nENTRY %main {{\n  %x = u32[3]{{0}} parameter(0)\n  %f = token[] fusion(%x), kind=kLoop, calls=%tell\n  \
         ROOT %g = u32[3]{{0}} fusion(%x), kind=kLoop, calls=%both\n}}\n"
    );
    let (printed, report) = unfused(&source);
    assert_eq!(
        report.rewrites.iter().map(|rewrite| rewrite.note.as_str()).collect::<Vec<_>>(),
        ["2 fusions taken apart"]
    );
    assert_eq!((printed.matches(" outfeed(").count(), printed.matches(" fusion(").count()), (2, 0), "{printed}");
}

/// A loop that tells the host a number in each step; the token of the fusion is one of the state.
const TELLS_IN_A_LOOP: &str = "HloModule m, is_scheduled=true

tell {
  p = f32[3]{0} parameter(0)
  t = token[] parameter(1)
  n = f32[3]{0} negate(p)
  ROOT o = token[] outfeed(n, t), outfeed_shape=f32[3]{0}
}

body {
  s = (s32[], f32[3]{0}, token[]) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  x = f32[3]{0} get-tuple-element(s), index=1
  t = token[] get-tuple-element(s), index=2
  f = token[] fusion(x, t), kind=kLoop, calls=tell
  one = s32[] constant(1)
  j = s32[] add(i, one)
  ROOT next = (s32[], f32[3]{0}, token[]) tuple(j, x, f)
}

more {
  s = (s32[], f32[3]{0}, token[]) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  n = s32[] constant(4)
  ROOT l = pred[] compare(i, n), direction=LT
}

ENTRY main {
  x = f32[3]{0} parameter(0)
  zero = s32[] constant(0)
  t = token[] after-all()
  begin = (s32[], f32[3]{0}, token[]) tuple(zero, x, t)
  w = (s32[], f32[3]{0}, token[]) while(begin), condition=more, body=body
  ROOT r = f32[3]{0} get-tuple-element(w), index=1
}
";

/// Fusions in each other, without a reader, that ask the host and draw random numbers.
const ASKS_AND_DRAWS: &str = "HloModule m, is_scheduled=true

draw {
  t = token[] after-all()
  i = (f32[4]{0}, token[]) infeed(t)
  v = f32[4]{0} get-tuple-element(i), index=0
  lo = f32[] constant(0)
  hi = f32[] constant(1)
  r = f32[4]{0} rng(lo, hi), distribution=rng_uniform
  ROOT s = f32[4]{0} add(r, v)
}

nested {
  q = f32[4]{0} parameter(0)
  d = f32[4]{0} fusion(), kind=kLoop, calls=draw
  ROOT m = f32[4]{0} multiply(q, d)
}

ENTRY main {
  x = f32[4]{0} parameter(0)
  f = f32[4]{0} fusion(x), kind=kLoop, calls=nested
  ROOT r = f32[4]{0} negate(x)
}
";

/// Kind: side effects of a fusion that would be doubled or lost: in a loop, and where nobody reads the result.
#[test]
fn side_effects_in_loops_and_of_unread_fusions_happen_as_often() {
    let (told, report) = unfused(TELLS_IN_A_LOOP);
    assert_eq!((report.rewrites.len(), told.matches(" outfeed(").count(), told.matches(" fusion(").count()), (1, 1, 0));
    let state = told.find("ROOT next").expect("the loop has a state");
    assert!(told[..state].contains(" outfeed("), "it is told in the body: {told}");
    let (asked, report) = unfused(ASKS_AND_DRAWS);
    let count = |opcode| asked.matches(opcode).count();
    assert_eq!((report.rewrites.len(), count(" infeed("), count(" rng("), count(" fusion(")), (1, 1, 1, 0), "{asked}");
}

#[test]
fn the_contract_with_the_caller_stays() {
    let header = "HloModule m, is_scheduled=true, input_output_alias={ {}: (0, {}, may-alias) }, \
                  entry_computation_layout={(f32[4,6]{0,1:T(8,128)})->f32[4,6]{0,1:T(8,128)}}";
    let source = format!(
        "{header}\n\nENTRY %main {{\n  %x = f32[4,6]{{0,1:T(8,128)}} parameter(0)\n  ROOT %n = f32[4,6]{{0,1:T(8,128)}} negate(%x)\n}}\n"
    );
    let (printed, report) = unfused(&source);
    insta::assert_snapshot!(printed, @r"
    HloModule m, input_output_alias={ {}: (0, {}, may-alias) }, entry_computation_layout={(f32[4,6]{0,1})->f32[4,6]{0,1}}

    ENTRY %main {
      %x = f32[4,6]{1,0} parameter(0)
      ROOT %n = f32[4,6]{1,0} negate(%x)
    }
    ");
    assert_eq!(report.rewrites[0].note, "schedule dropped");
}

#[test]
fn a_foreign_call_keeps_what_it_asks_for() {
    let call = "%c = f32[4,6]{0,1} custom-call(%t), custom_call_target=\"f\", operand_layout_constraints={f32[4,6]{0,1}}, \
                api_version=API_VERSION_TYPED_FFI, backend_config={k = 3}";
    let entry = format!(
        "  %x = f32[4,6]{{1,0}} parameter(0)\n  %t = f32[4,6]{{0,1}} copy(%x)\n  {call}\n  ROOT %r = f32[4,6]{{1,0}} copy(%c)"
    );
    let (printed, _) = unfused(&scheduled("", &entry));
    assert!(printed.contains(&format!("ROOT {}", call.replace("%t", "%x"))), "{printed}");
}

#[test]
fn what_has_no_plain_form_is_refused_with_a_reason() {
    let one = |line: &str| scheduled("", &format!("  %x = f32[8]{{0}} parameter(0)\n  ROOT %r = {line}"));
    assert_eq!(refusal(&one("f32[8]{0} custom-call(%x), custom_call_target=\"TopK\"")), "custom-call");
    assert_eq!(refusal(&one("f32[8]{0} melt(%x)")), "unknown-opcode");
    assert_eq!(refusal(&one("(f32[8]{0}, f32[8]{0}, u32[]) copy-start(%x)")), "async");
    assert_eq!(
        refusal(
            &one("f32[<=8]{0} set-dimension-size(%x, %n), dimensions={0}")
                .replace("  ROOT", "  %n = s32[] constant(3)\n  ROOT")
        ),
        "dynamic-shape"
    );
    let nibbles = scheduled("", "  %x = s4[8]{0:E(4)} parameter(0)\n  ROOT %r = u8[4]{0} bitcast(%x)");
    assert_eq!(refusal(&nibbles), "sub-byte");
    // Tiles count as memory where they are not full, so that a bitcast may have other elements.
    let tiles = scheduled("", "  %x = u32[10]{0:T(128)} parameter(0)\n  ROOT %r = u32[5]{0:T(128)} bitcast(%x)");
    assert_eq!(refusal(&tiles), "padded-bitcast");
    let pairs =
        scheduled("", "  %x = bf16[6,8]{1,0:T(8,128)(2,1)} parameter(0)\n  ROOT %r = f32[5]{0:T(256)} bitcast(%x)");
    assert_eq!(refusal(&pairs), "padded-bitcast");
    let divided = one("f32[8]{0} negate(%x)").replace("is_scheduled", "num_partitions=4, is_scheduled");
    assert_eq!(refusal(&divided), "partitioned");
    let thread = scheduled(
        "%other (p: f32[8]) -> f32[8] {\n  %p = f32[8]{0} parameter(0)\n  ROOT %m = f32[8]{0} negate(%p)\n}, execution_thread=\"side\"\n",
        "  %x = f32[8]{0} parameter(0)\n  ROOT %r = f32[8]{0} call(%x), to_apply=%other",
    );
    assert_eq!(refusal(&thread), "async");
    let ordered = scheduled(
        "",
        "  %a = token[] after-all()\n  %x = f32[8]{0} parameter(0)\n  %o = token[] outfeed(%x, %a)\n  ROOT %p = token[] outfeed(%x, %a), control-predecessors={%o}",
    );
    assert_eq!(refusal(&ordered), "control");
}

/// A fusion that takes the memory of a padded array of two dimensions for a larger one.
const PADDED_IN_A_FUSION: &str = "HloModule m, is_scheduled=true

f {
  p = f32[3,130]{1,0:T(8,128)} parameter(0)
  n = f32[3,130]{1,0:T(8,128)} negate(p)
  ROOT b = f32[8,256]{1,0:T(8,128)} bitcast(n)
}

ENTRY main {
  x = f32[3,130]{1,0:T(8,128)} parameter(0)
  ROOT r = f32[8,256]{1,0:T(8,128)} fusion(x), kind=kLoop, calls=f
}
";

/// A loop that takes the memory of bytes for more of them, and takes it back.
const PADDED_IN_A_LOOP: &str = "HloModule m, is_scheduled=true

body {
  s = (s32[]{:T(128)}, s8[40]{0:T(512)(128)(4,1)}) parameter(0)
  i = s32[]{:T(128)} get-tuple-element(s), index=0
  x = s8[40]{0:T(512)(128)(4,1)} get-tuple-element(s), index=1
  b = s8[80]{0:T(512)(128)(4,1)} bitcast(x)
  c = s8[40]{0:T(512)(128)(4,1)} bitcast(b)
  one = s32[]{:T(128)} constant(1)
  j = s32[]{:T(128)} add(i, one)
  ROOT next = (s32[]{:T(128)}, s8[40]{0:T(512)(128)(4,1)}) tuple(j, c)
}

more {
  s = (s32[]{:T(128)}, s8[40]{0:T(512)(128)(4,1)}) parameter(0)
  i = s32[]{:T(128)} get-tuple-element(s), index=0
  n = s32[]{:T(128)} constant(4)
  ROOT l = pred[]{:T(512)} compare(i, n), direction=LT
}

ENTRY main {
  x = s8[40]{0:T(512)(128)(4,1)} parameter(0)
  zero = s32[]{:T(128)} constant(0)
  begin = (s32[]{:T(128)}, s8[40]{0:T(512)(128)(4,1)}) tuple(zero, x)
  w = (s32[]{:T(128)}, s8[40]{0:T(512)(128)(4,1)}) while(begin), condition=more, body=body
  ROOT r = s8[40]{0:T(512)(128)(4,1)} get-tuple-element(w), index=1
}
";

/// Kind: bitcasts between tiled arrays of different sizes, inside of what is taken apart and in a loop.
#[test]
fn bitcasts_of_padded_arrays_are_refused_wherever_they_stand() {
    assert_eq!(refusal(PADDED_IN_A_FUSION), "padded-bitcast");
    assert_eq!(refusal(PADDED_IN_A_LOOP), "padded-bitcast");
}

#[test]
fn bodies_that_double_end_at_the_bound() {
    let mut computations = "%level.0 (a.0: s32[8]) -> s32[8] {\n  %a.0 = s32[8]{0} parameter(0)\n  ROOT %n.0 = s32[8]{0} negate(%a.0)\n}\n".to_owned();
    for level in 1..30 {
        let below = level - 1;
        let body = format!(
            "\n%level.{level} (a.{level}: s32[8]) -> s32[8] {{\n  %a.{level} = s32[8]{{0}} parameter(0)\n  \
             %f.{level} = s32[8]{{0}} fusion(%a.{level}), kind=kLoop, calls=%level.{below}\n  \
             ROOT %g.{level} = s32[8]{{0}} fusion(%f.{level}), kind=kLoop, calls=%level.{below}\n}}\n"
        );
        computations.push_str(&body);
    }
    let entry = "  %x = s32[8]{0} parameter(0)\n  ROOT %r = s32[8]{0} fusion(%x), kind=kLoop, calls=%level.29";
    assert_eq!(refusal(&scheduled(&computations, entry)), "too-large");
}

#[test]
fn products_of_floats_ask_for_hlo_exact() {
    let source = scheduled("", "  %x = f32[8]{0} parameter(0)\n  ROOT %r = f32[8]{0} multiply(%x, %x)");
    assert_eq!(unfused(&source).1.rewrites[0].grade, Grade::HloExact);
    let strict = Options {
        exactness: Grade::Bitwise,
        min_saving: Bytes(1),
        machine: Some(Machine::without_malloc_cache()),
        ..Options::default()
    };
    let (printed, report) = with(&by_names(["unfuse"]).expect("it exists"), &strict, &source);
    assert!(report.rewrites.is_empty() && printed.contains("is_scheduled=true"));
    assert_eq!(report.remarks.iter().map(|remark| remark.code).collect::<Vec<_>>(), ["grade"]);
}

#[test]
fn plain_modules_are_left_alone_in_silence() {
    let (printed, report) =
        unfused("HloModule m\n\nENTRY %main {\n  %x = f32[8]{0} parameter(0)\n  ROOT %c = f32[8]{0} copy(%x)\n}\n");
    assert!(
        printed.contains("copy")
            && report.rewrites.is_empty()
            && report.remarks.iter().all(|remark| remark.pass != "unfuse")
    );
}

#[test]
fn by_default_a_module_is_unfused_only_where_a_rewrite_gains() {
    let founding = include_str!("../../corpus/founding/s32.after.hlo");
    let run = |source: &str| {
        let mut module = parse(source);
        let report = run(&mut module, &default_pipeline(), &Options::default(), &ModelEstimator::default());
        (text::print(&module), report.expect("the passes are sound"))
    };
    let (_, report) = run(founding);
    assert_eq!(
        report.rewrites.iter().map(|rewrite| rewrite.pass).collect::<Vec<_>>(),
        ["unfuse", "chunk", "column-slices"]
    );
    let (_, direct) = run(include_str!("../../corpus/founding/s32.before.hlo"));
    assert_eq!(report.after.total, direct.after.total);

    let idle = scheduled("", "  %x = f32[8]{0} parameter(0)\n  ROOT %r = f32[8]{0} negate(%x)");
    let (printed, report) = run(&idle);
    assert_eq!(printed, text::print(&parse(&idle)));
    assert_eq!(report.remarks.iter().map(|remark| remark.code).collect::<Vec<_>>(), ["scheduled"]);
}
