//! `inline-calls`: the text it makes, what it leaves alone, and its part in the default pipeline.
//!
//! Pins `passes/src/inline_calls.rs`, `passes/src/bounds.rs`.

use crate::common::{self, Fake, LargestArray, diff, parse};
use hlo_ir::{Opcode, text};
use hlo_memory::{Bytes, ModelEstimator};
use hlo_passes::inline_calls::InlineCalls;
use hlo_passes::manager::{RunReport, by_names, default_pipeline, run};
use hlo_passes::{Context, Finding, Machine, Options, Pass};

/// Three calls, one of them in another, and the usual scatter.
fn nested() -> String {
    nested_with("", SCATTER)
}

const SCATTER: &str = "scatter(%t, %rows, %u), update_window_dims={}, inserted_window_dims={0}, \
                       scatter_dims_to_operand_dims={0}, index_vector_dim=1, to_apply=%add";

/// The same with more computations, where `scatter` is what scatters.
fn nested_with(computations: &str, scatter: &str) -> String {
    format!(
        "HloModule m

%add (a.1: f32[], b.1: f32[]) -> f32[] {{
  %a.1 = f32[] parameter(0)
  %b.1 = f32[] parameter(1)
  ROOT %sum = f32[] add(%a.1, %b.1)
}}

%where (p.1: pred[8], a.2: s32[8], b.2: s32[8]) -> s32[8] {{
  %p.1 = pred[8]{{0}} parameter(0)
  %a.2 = s32[8]{{0}} parameter(1)
  %b.2 = s32[8]{{0}} parameter(2)
  ROOT %select = s32[8]{{0}} select(%p.1, %a.2, %b.2)
}}

%wrap (i.1: s32[8]) -> s32[8] {{
  %i.1 = s32[8]{{0}} parameter(0)
  %zero = s32[] constant(0)
  %zeros = s32[8]{{0}} broadcast(%zero), dimensions={{}}
  %size = s32[] constant(4)
  %sizes = s32[8]{{0}} broadcast(%size), dimensions={{}}
  %below = pred[8]{{0}} compare(%i.1, %zeros), direction=LT
  %wrapped = s32[8]{{0}} add(%i.1, %sizes)
  ROOT %chosen = s32[8]{{0}} call(%below, %wrapped, %i.1), to_apply=%where
}}

%same (x.1: f32[8]) -> f32[8] {{
  ROOT %x.1 = f32[8]{{0}} parameter(0)
}}

{computations}ENTRY %main (t: f32[4], i: s32[8], u: f32[8]) -> (f32[4], f32[8]) {{
  %t = f32[4]{{0}} parameter(0)
  %i = s32[8]{{0}} parameter(1)
  %u = f32[8]{{0}} parameter(2)
  %w = s32[8]{{0}} call(%i), to_apply=%wrap
  %rows = s32[8,1]{{1,0}} reshape(%w)
  %s = f32[4]{{0}} {scatter}
  %v = f32[8]{{0}} call(%u), to_apply=%same
  ROOT %out = (f32[4]{{0}}, f32[8]{{0}}) tuple(%s, %v)
}}
"
    )
}

fn run_on(source: &str, passes: &[Box<dyn Pass>]) -> (String, RunReport) {
    let mut module = parse(source);
    let before = text::print(&module);
    let options =
        Options { min_saving: Bytes(1), machine: Some(Machine::without_malloc_cache()), ..Options::default() };
    let report = run(&mut module, passes, &options, &LargestArray).expect("the passes are sound");
    (diff(&before, &text::print(&module)), report)
}

/// What the pass inlines where needed, in a program with so many bytes of temporaries.
fn inlined(source: &str, temporaries: u64) -> Vec<String> {
    let module = parse(source);
    let users = hlo_ir::graph::Users::of(&module);
    let estimate = common::estimate(Bytes(temporaries), Vec::new());
    let options =
        Options { min_saving: Bytes(1), machine: Some(Machine::without_malloc_cache()), ..Options::default() };
    let context = Context::of_input(&module, &users, &estimate, &options);
    let notes = InlineCalls::where_needed().find(&context).into_iter().map(|finding| match finding.outcome {
        hlo_passes::Outcome::Rewrite { note, .. } => note,
        hlo_passes::Outcome::Missed(reason) | hlo_passes::Outcome::Withheld { reason, .. } => reason.code.to_owned(),
    });
    notes.collect()
}

#[test]
fn every_call_is_inlined_with_the_calls_inside() {
    let (diff, report) = run_on(&nested(), &by_names(["inline-calls"]).expect("the pass exists"));
    let notes: Vec<&str> = report.rewrites.iter().map(|rewrite| rewrite.note.as_str()).collect();
    assert_eq!(notes, ["inlined where", "inlined wrap", "inlined same"]);
    insta::assert_snapshot!(diff);
}

#[test]
fn protected_calls_stay_with_a_remark() {
    for (attribute, code) in [
        ("frontend_attributes={inlineable=\"false\"}", "not-inlineable"),
        ("is_composite=true", "composite"),
        ("sharding={replicated}", "sharded"),
        ("control-predecessors={%i}", "control"),
    ] {
        let source = nested().replace("to_apply=%wrap", &format!("to_apply=%wrap, {attribute}"));
        let (diff, report) = run_on(&source, &by_names(["inline-calls"]).expect("the pass exists"));
        assert!(!diff.contains("-  %w = "), "{code}: {diff}");
        assert_eq!(report.remarks.iter().map(|remark| remark.code).collect::<Vec<_>>(), [code]);
    }
}

#[test]
fn without_a_gain_calls_stay_calls() {
    let (diff, report) = run_on(&nested(), &default_pipeline());
    assert_eq!(diff, "");
    assert!(report.rewrites.is_empty());
}

/// A rewrite that needs the select in the entry: it then pretends that the scatter is not needed.
fn wants_select(context: &Context<'_>) -> Vec<Finding> {
    let module = context.module;
    let in_entry = |opcode| module.instructions_of(module.entry()).find(|(_, inst)| inst.opcode == opcode);
    let (Some(_), Some((tuple, inst))) = (in_entry(Opcode::Select), in_entry(Opcode::Tuple)) else { return Vec::new() };
    let mut patch = hlo_ir::edit::Patch::new(module);
    let mut small = inst.clone();
    small.operands[0] = module.parameters(module.entry())[0];
    if small == *inst {
        return Vec::new();
    }
    patch.rewrite(tuple, small);
    let outcome = hlo_passes::Outcome::Rewrite { patch, note: "dropped".to_owned(), conditions: Vec::new() };
    vec![Finding { instruction: tuple, grade: hlo_passes::Grade::Bitwise, wasted: Bytes(16), outcome }]
}

#[test]
fn only_calls_in_the_operands_of_the_scatter_are_inlined() {
    // All arrays count, so that dropping the scatter is a gain.
    struct Sum;
    impl hlo_memory::Estimator for Sum {
        fn estimate(&self, module: &hlo_ir::Module) -> Result<hlo_memory::Estimate, hlo_memory::EstimateError> {
            let all = module.live_instructions().filter(|(_, inst)| inst.opcode == Opcode::Scatter).count();
            Ok(common::estimate(Bytes(100 * all as u64), Vec::new()))
        }
    }
    let enabling = default_pipeline().into_iter().find(|pass| pass.name() == "inline-calls").expect("it is there");
    let rewrite: Box<dyn Pass> = Box::new(Fake("wants", hlo_passes::PassKind::Rewrite, wants_select));
    let mut module = parse(&nested());
    let options =
        Options { min_saving: Bytes(1), machine: Some(Machine::without_malloc_cache()), ..Options::default() };
    let report = run(&mut module, &[enabling, rewrite], &options, &Sum).expect("the passes are sound");
    let notes: Vec<&str> = report.rewrites.iter().map(|rewrite| rewrite.note.as_str()).collect();
    assert_eq!(notes, ["inlined wrap", "dropped"]);
    let after = text::print(&module);
    assert!(after.contains("to_apply=%same") && !after.contains("to_apply=%wrap"), "{after}");
}

/// The scatter stands in a called computation and the call's operand is made by another call.
#[test]
fn calls_around_a_scatter_are_inlined_with_it() {
    let update = format!(
        "%update (t: f32[4], rows: s32[8,1], u: f32[8]) -> f32[4] {{
  %t = f32[4]{{0}} parameter(0)
  %rows = s32[8,1]{{1,0}} parameter(1)
  %u = f32[8]{{0}} parameter(2)
  ROOT %inside = f32[4]{{0}} {SCATTER}
}}

"
    );
    let source = nested_with(&update, "call(%t, %rows, %u), to_apply=%update");
    assert_eq!(inlined(&source, 0), ["inlined wrap, update"]);
}

/// Each call makes a twenty-fifth of the temporaries.
#[test]
fn calls_that_are_large_together_are_inlined() {
    let source = |calls: usize| {
        let call = |k: usize| format!("  %c{k} = f32[1000] call(%x), to_apply=%turn\n");
        let calls: String = (0..calls).map(call).collect();
        format!(
            "HloModule m
%turn (t: f32[1000]) -> f32[1000] {{
  %t = f32[1000] parameter(0)
  ROOT %r = f32[1000] reverse(%t), dimensions={{0}}
}}
ENTRY %main {{
  %x = f32[1000] parameter(0)
{calls}  ROOT %r = f32[1000] negate(%c0)
}}
"
        )
    };
    let found = |calls: usize| inlined(&source(calls), 100_000).len();
    assert_eq!([1, 2].map(found), [0, 1]);
}

const SUM: &str = "HloModule m
%sum (a: f32[], b: f32[]) -> f32[] {
  %a = f32[] parameter(0)
  %b = f32[] parameter(1)
  ROOT %c = f32[] add(%a, %b)
}
";

/// Small computations.
const CALLEES: &str = "%between (t: f32[1000]) -> f32[1000] {
  %t = f32[1000] parameter(0)
  ROOT %r = f32[1000] negate(%t)
}
%before (s: f32[1000]) -> f32[1000] {
  %s = f32[1000] parameter(0)
  ROOT %q = f32[1000] abs(%s)
}
%behind (u: f32[1000]) -> f32[1000] {
  %u = f32[1000] parameter(0)
  ROOT %p = f32[1000] sine(%u)
}
";

/// Large values on both sides of a call that holds nothing large: `between` makes `turned` of `%sums`.
fn layer(name: &str, between: &str, turned: &str) -> String {
    format!(
        "{name} {{
  %x = f32[1000,100] parameter(0)
  %y = f32[1000] parameter(1)
  %zero = f32[] constant(0)
  %scale = f32[1000] call(%y), to_apply=%before
  %sums = f32[1000] reduce(%x, %zero), dimensions={{1}}, to_apply=%sum
{between}
  %scaled = f32[1000] multiply({turned}, %scale)
  %wide = f32[1000,100] broadcast(%scaled), dimensions={{0}}
  %large = f32[1000,100] exponential(%wide)
  %again = f32[1000] reduce(%large, %zero), dimensions={{1}}, to_apply=%sum
  ROOT %last = f32[1000] call(%again), to_apply=%behind
}}
"
    )
}

const BETWEEN: &str = "  %turned = f32[1000] call(%sums), to_apply=%between";

/// The rest of a module with a loop around what a layer does.
const LOOP: &str = "%step (p: (f32[1000,100], f32[1000])) -> (f32[1000,100], f32[1000]) {
  %p = (f32[1000,100], f32[1000]) parameter(0)
  %x = f32[1000,100] get-tuple-element(%p), index=0
  %y = f32[1000] get-tuple-element(%p), index=1
  %z = f32[] constant(0)
  %first = f32[1000] reduce(%x, %z), dimensions={1}, to_apply=%sum
  %l = f32[1000] call(%first), to_apply=%before
  %scaled = f32[1000,100] broadcast(%l), dimensions={0}
  %next = f32[1000,100] add(%x, %scaled)
  %zero = f32[] constant(0)
  %sums = f32[1000] reduce(%next, %zero), dimensions={1}, to_apply=%sum
  ROOT %q = (f32[1000,100], f32[1000]) tuple(%next, %sums)
}
%more (p: (f32[1000,100], f32[1000])) -> pred[] {
  %p = (f32[1000,100], f32[1000]) parameter(0)
  ROOT %yes = pred[] constant(true)
}
ENTRY %main {
  %x = f32[1000,100] parameter(0)
  %y = f32[1000] parameter(1)
  %start = (f32[1000,100], f32[1000]) tuple(%x, %y)
  ROOT %w = (f32[1000,100], f32[1000]) while(%start), condition=%more, body=%step
}
";

#[test]
fn small_calls_between_large_values_are_inlined() {
    let none: [&str; 0] = [];
    let program = |between: &str, turned: &str| format!("{SUM}{CALLEES}{}", layer("ENTRY %main", between, turned));
    assert_eq!(
        inlined(&program(BETWEEN, "%turned"), 1 << 24),
        ["inlined between"],
        "neither what is before nor what is behind"
    );
    let composite = format!("{BETWEEN}, is_composite=true");
    assert_eq!(inlined(&program(&composite, "%turned"), 1 << 24), none);
    let twice = format!("{BETWEEN}\n  %twice = f32[1000] call(%turned), to_apply=%between");
    assert_eq!(inlined(&program(&twice, "%twice"), 1 << 24), ["inlined between (2 times)"]);
}

#[test]
fn small_calls_are_inlined_in_loops_and_with_the_calls_around() {
    assert_eq!(inlined(&format!("{SUM}{CALLEES}{LOOP}"), 1 << 24), ["inlined before"]);
    let called = "ENTRY %main {
  %x = f32[1000,100] parameter(0)
  %y = f32[1000] parameter(1)
  ROOT %out = f32[1000] call(%x, %y), to_apply=%layer
}
";
    let layer = layer("%layer (x: f32[1000,100], y: f32[1000]) -> f32[1000]", BETWEEN, "%turned");
    let large = format!("{SUM}{CALLEES}{layer}{called}");
    let none: [&str; 0] = [];
    assert_eq!(
        inlined(&large, 1 << 24),
        none,
        "its largest array is a fortieth of the temporaries, and calls inside go with it"
    );
}

#[test]
fn many_names_are_counted() {
    let calls = |count: usize| {
        let callee = |k: usize| format!("%f{k} (t{k}: f32[8]) -> f32[8] {{\n  ROOT %t{k} = f32[8] parameter(0)\n}}\n");
        let call = |k: usize| format!("  %c{k} = f32[1000,100] call(%x), to_apply=%f{k}\n");
        let callees: String = (0..count).map(callee).collect::<String>().replace("f32[8]", "f32[1000,100]");
        let calls: String = (0..count).map(call).collect();
        let operands: Vec<String> = (0..count).map(|k| format!("%c{k}")).collect();
        let shapes = vec!["f32[1000,100]"; count].join(", ");
        let root = format!("  ROOT %all = ({shapes}) tuple({})\n", operands.join(", "));
        format!("HloModule m\n{callees}ENTRY %main {{\n  %x = f32[1000,100] parameter(0)\n{calls}{root}}}\n")
    };
    let note = |count: usize| inlined(&calls(count), 1 << 24).join("; ");
    assert!(note(16).ends_with("f14, f15"), "{}", note(16));
    assert!(note(18).ends_with("f14, f15 and 2 others"), "{}", note(18));
}

/// With 40 levels there are a million million ways through the bodies, which would never end.
#[test]
fn bodies_that_share_what_they_call_are_looked_at_once() {
    let level = |k: usize| {
        format!(
            "%f{k} (t: f32[1000]) -> f32[1000] {{
  %t = f32[1000] parameter(0)
  %r = f32[1000] call(%t), to_apply=%f{below}
  ROOT %q = f32[1000] call(%r), to_apply=%f{below}
}}
",
            below = k - 1
        )
    };
    let levels: String = (1..=40).map(level).collect();
    let entry = "ENTRY %main {
  %x = f32[1000,100] parameter(0)
  %zero = f32[] constant(0)
  %sums = f32[1000] reduce(%x, %zero), dimensions={1}, to_apply=%sum
  %turned = f32[1000] call(%sums), to_apply=%f40
  ROOT %wide = f32[1000,100] broadcast(%turned), dimensions={0}
}
";
    let last =
        "%f0 (t: f32[1000]) -> f32[1000] {\n  %t = f32[1000] parameter(0)\n  ROOT %r = f32[1000] negate(%t)\n}\n";
    let none: [&str; 0] = [];
    assert_eq!(inlined(&format!("{SUM}{last}{levels}{entry}"), 1 << 24), none, "the result would be too large");
}

/// A call that takes and makes little, and holds a large value.
const LARGE_INSIDE: &str = "HloModule m

%add (a.1: f32[], b.1: f32[]) -> f32[] {
  %a.1 = f32[] parameter(0)
  %b.1 = f32[] parameter(1)
  ROOT %sum = f32[] add(%a.1, %b.1)
}

%inner (x.1: f32[64]) -> f32[64] {
  %x.1 = f32[64]{0} parameter(0)
  %rows = f32[64,64]{1,0} broadcast(%x.1), dimensions={0}
  %columns = f32[64,64]{1,0} broadcast(%x.1), dimensions={1}
  %pairs = f32[64,64]{1,0} multiply(%rows, %columns)
  %zero = f32[] constant(0)
  ROOT %sums = f32[64]{0} reduce(%pairs, %zero), dimensions={1}, to_apply=%add
}

%outer (y.1: f32[64]) -> f32[64] {
  %y.1 = f32[64]{0} parameter(0)
  ROOT %called = f32[64]{0} call(%y.1), to_apply=%inner
}

ENTRY %main (z.1: f32[64]) -> f32[64] {
  %z.1 = f32[64]{0} parameter(0)
  ROOT %all = f32[64]{0} call(%z.1), to_apply=%outer
}
";

#[test]
fn what_stands_inside_a_call_counts() {
    let pairs = 64 * 64 * 4;
    assert_eq!(inlined(LARGE_INSIDE, pairs), ["inlined outer"]);
    // Against temporaries of which the pairs are no twentieth, the call hides nothing that matters.
    assert!(inlined(LARGE_INSIDE, 21 * pairs).is_empty());
}

/// What lies behind a call: the smallest number of each row of all pairs.
const PAIRS: &str = "HloModule m

%sum {
  %a = f32[] parameter(0)
  %b = f32[] parameter(1)
  ROOT %s = f32[] add(%a, %b)
}

%less {
  %a = f32[] parameter(0)
  %b = f32[] parameter(1)
  ROOT %l = pred[] compare(%a, %b), direction=LT
}

%pairs {
  %x = f32[8192] parameter(0)
  %xs = f32[8192,8192] broadcast(%x), dimensions={0}
  %ys = f32[8192,8192] broadcast(%x), dimensions={1}
  %p = f32[8192,8192] multiply(%xs, %ys)
  %c = f32[8192,8192] cosine(%p)
  %s = f32[8192,8192] sort(%c), dimensions={1}, to_apply=%less
  %first = f32[8192,1] slice(%s), slice={[0:8192], [0:1]}
  ROOT %r = f32[8192] reshape(%first)
}
";

/// The call is in one of two branches, with the call of another computation around it.
const IN_A_BRANCH: &str = "
%wrap {
  %x = f32[8192] parameter(0)
  %y = f32[8192] call(%x), to_apply=%pairs
  ROOT %n = f32[8192] negate(%y)
}

%yes {
  %x = f32[8192] parameter(0)
  ROOT %y = f32[8192] call(%x), to_apply=%wrap
}

%no {
  ROOT %x = f32[8192] parameter(0)
}

ENTRY %main {
  %c = pred[] parameter(0)
  %x = f32[8192] parameter(1)
  ROOT %r = f32[8192] conditional(%c, %x, %x), true_computation=%yes, false_computation=%no
}
";

/// The call decides whether a loop goes on.
const IN_A_CONDITION: &str = "
%more {
  %x = f32[8192] parameter(0)
  %y = f32[8192] call(%x), to_apply=%pairs
  %z = f32[] constant(0)
  %s = f32[] reduce(%y, %z), dimensions={0}, to_apply=%sum
  ROOT %l = pred[] compare(%s, %z), direction=LT
}

%body {
  %x = f32[8192] parameter(0)
  ROOT %y = f32[8192] sine(%x)
}

ENTRY %main {
  %x = f32[8192] parameter(0)
  ROOT %w = f32[8192] while(%x), condition=%more, body=%body
}
";

/// The call takes a tuple and gives one.
const WITH_A_TUPLE: &str = "
%both {
  %t = (f32[8192], f32[8192]) parameter(0)
  %a = f32[8192] get-tuple-element(%t), index=0
  %b = f32[8192] get-tuple-element(%t), index=1
  %x = f32[8192] call(%a), to_apply=%pairs
  ROOT %r = (f32[8192], f32[8192]) tuple(%x, %b)
}

ENTRY %main {
  %x = f32[8192] parameter(0)
  %y = f32[8192] parameter(1)
  %t = (f32[8192], f32[8192]) tuple(%x, %y)
  %r = (f32[8192], f32[8192]) call(%t), to_apply=%both
  %a = f32[8192] get-tuple-element(%r), index=0
  %b = f32[8192] get-tuple-element(%r), index=1
  ROOT %s = f32[8192] add(%a, %b)
}
";

/// Kind: large values inside of calls, as nested `jax.jit` makes them, where the caller is a branch or a condition, or passes a tuple.
#[test]
fn large_values_in_calls_are_computed_in_blocks_wherever_they_are_called() {
    for caller in [IN_A_BRANCH, IN_A_CONDITION, WITH_A_TUPLE] {
        let mut module = parse(&format!("{PAIRS}{caller}"));
        assert_eq!(hlo_ir::verify::verify(&module), []);
        let options = Options { advise: false, ..Options::default() };
        let report = run(&mut module, &default_pipeline(), &options, &ModelEstimator::default()).expect("it is sound");
        assert!(report.before.total > Bytes(256 << 20), "{}", report.before.total);
        assert!(report.after.total < Bytes(4 << 20), "{} after {:?}", report.after.total, report.rewrites);
    }
}

/// In a module of more than 2,000 instructions there is no time to look behind each change.
#[test]
fn calls_of_a_large_module_are_inlined_at_once() {
    let small = nested();
    let others = (0..2000).map(|k| format!("  %other.{k} = f32[] constant({k})\n")).collect::<Vec<_>>().concat();
    let large = small.replacen("  %t = ", &(others + "  %t = "), 1);
    let [few, all] = [&small, &large].map(|source| inlined(source, 1 << 20));
    assert_eq!(few, ["inlined wrap"]);
    assert_eq!(all, ["inlined wrap, same"]);
    let [few, all] = [&small, &large].map(|source| InlineCalls::where_needed().comes_first(&parse(source)));
    assert!(!few && all);
}
