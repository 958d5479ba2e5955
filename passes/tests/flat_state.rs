//! `flat-state`: the text it makes, what it leaves alone, and what later passes then see.
//!
//! Pins `passes/src/flat_state.rs`, `passes/src/loops.rs`.

use crate::common::{self, LargestArray, parse, replaced};
use hlo_ir::{Module, Opcode, Shape, text, verify};
use hlo_memory::Bytes;
use hlo_passes::flat_state::FlatState;
use hlo_passes::loop_residuals::LoopResiduals;
use hlo_passes::manager::{by_names, run};
use hlo_passes::{Context, Finding, Machine, Options, Outcome, Pass};

/// A loop over a triple that holds a pair; its condition calls with the whole state, and its result is put together and taken apart again.
const TRIPLE: &str = "HloModule m

%below (s: (s32[], (f32[4], (f32[3,4], s32[]), f32[4]))) -> (pred[]) {
  %s = (s32[], (f32[4], (f32[3,4], s32[]), f32[4])) parameter(0)
  %s.i = s32[] get-tuple-element(%s), index=0
  %s.n = s32[] constant(3)
  %s.less = pred[] compare(%s.i, %s.n), direction=LT
  %s.same = pred[] reshape(%s.less)
  ROOT %s.out = (pred[]) tuple(%s.same)
}

%condition (c: (s32[], (f32[4], (f32[3,4], s32[]), f32[4]))) -> pred[] {
  %c = (s32[], (f32[4], (f32[3,4], s32[]), f32[4])) parameter(0)
  %c.call = (pred[]) call(%c), to_apply=%below
  ROOT %c.out = pred[] get-tuple-element(%c.call), index=0
}

%body (b: (s32[], (f32[4], (f32[3,4], s32[]), f32[4]))) -> (s32[], (f32[4], (f32[3,4], s32[]), f32[4])) {
  %b = (s32[], (f32[4], (f32[3,4], s32[]), f32[4])) parameter(0)
  %b.i = s32[] get-tuple-element(%b), index=0
  %b.rest = (f32[4], (f32[3,4], s32[]), f32[4]) get-tuple-element(%b), index=1
  %b.x = f32[4] get-tuple-element(%b.rest), index=0
  %b.list = (f32[3,4], s32[]) get-tuple-element(%b.rest), index=1
  %b.stack = f32[3,4] get-tuple-element(%b.list), index=0
  %b.length = s32[] get-tuple-element(%b.list), index=1
  %b.w = f32[4] get-tuple-element(%b.rest), index=2
  %b.one = s32[] constant(1)
  %b.zero = s32[] constant(0)
  %b.next = s32[] add(%b.i, %b.one)
  %b.same = s32[] reshape(%b.next)
  %b.row = f32[1,4] reshape(%b.x)
  %b.new = f32[3,4] dynamic-update-slice(%b.stack, %b.row, %b.length, %b.zero)
  %b.more = s32[] add(%b.length, %b.one)
  %b.y = f32[4] multiply(%b.x, %b.w)
  %b.pair = (f32[3,4], s32[]) tuple(%b.new, %b.more)
  %b.triple = (f32[4], (f32[3,4], s32[]), f32[4]) tuple(%b.y, %b.pair, %b.w)
  ROOT %b.out = (s32[], (f32[4], (f32[3,4], s32[]), f32[4])) tuple(%b.same, %b.triple)
}

ENTRY %main (x: f32[4], w: f32[4]) -> f32[3,4] {
  %x = f32[4] parameter(0)
  %w = f32[4] parameter(1)
  %zero = s32[] constant(0)
  %nothing = f32[] constant(0)
  %empty = f32[3,4] broadcast(%nothing), dimensions={}
  %list = (f32[3,4], s32[]) tuple(%empty, %zero)
  %triple = (f32[4], (f32[3,4], s32[]), f32[4]) tuple(%x, %list, %w)
  %begin = (s32[], (f32[4], (f32[3,4], s32[]), f32[4])) tuple(%zero, %triple)
  %loop = (s32[], (f32[4], (f32[3,4], s32[]), f32[4])) while(%begin), condition=%condition, body=%body
  %count = s32[] get-tuple-element(%loop), index=0
  %rest = (f32[4], (f32[3,4], s32[]), f32[4]) get-tuple-element(%loop), index=1
  %again = (s32[], (f32[4], (f32[3,4], s32[]), f32[4])) tuple(%count, %rest)
  %again.1 = (f32[4], (f32[3,4], s32[]), f32[4]) get-tuple-element(%again), index=1
  %again.list = (f32[3,4], s32[]) get-tuple-element(%again.1), index=1
  ROOT %stack = f32[3,4] get-tuple-element(%again.list), index=0
}
";

/// The module with flat states, which must be legal, and the number of changes.
fn flatten(mut module: Module) -> (Module, usize) {
    let options =
        Options { min_saving: Bytes(1), machine: Some(Machine::without_malloc_cache()), ..Options::default() };
    let passes = by_names(["flat-state"]).expect("the pass exists");
    let report = run(&mut module, &passes, &options, &LargestArray).expect("the pass is sound");
    assert_eq!(verify::verify(&module), [], "{}", text::print(&module));
    (module, report.rewrites.len())
}

fn is_nested(shape: &Shape) -> bool {
    shape.as_tuple().is_some_and(|elements| elements.iter().any(|element| element.as_tuple().is_some()))
}

fn nested(module: &Module) -> Vec<String> {
    let all = module.live_instructions().filter(|(_, inst)| is_nested(&inst.shape));
    all.map(|(_, inst)| inst.name.to_string()).collect()
}

fn find(module: &Module, pass: &dyn Pass) -> Vec<Finding> {
    let users = hlo_ir::graph::Users::of(module);
    let estimate = common::estimate(Bytes(1 << 20), Vec::new());
    let options =
        Options { min_saving: Bytes(1), machine: Some(Machine::without_malloc_cache()), ..Options::default() };
    pass.find(&Context::of_input(module, &users, &estimate, &options))
}

fn codes(module: &Module) -> Vec<&'static str> {
    let found = find(module, &FlatState).into_iter().map(|finding| match finding.outcome {
        Outcome::Rewrite { .. } => "rewrite",
        Outcome::Missed(reason) | Outcome::Withheld { reason, .. } => reason.code,
    });
    found.collect()
}

#[test]
fn a_pair_in_a_triple_becomes_elements() {
    let (module, changes) = flatten(parse(TRIPLE));
    assert_eq!((changes, nested(&module)), (1, Vec::new()));
    let printed = text::print(&module);
    for line in [
        "%loop = (s32[], f32[4], f32[3,4], s32[], f32[4]) while(%loop.state)",
        "%loop.state = (s32[], f32[4], f32[3,4], s32[], f32[4]) tuple(%zero, %x, %empty, %zero, %w)",
        "ROOT %b.out = (s32[], f32[4], f32[3,4], s32[], /*index=5*/f32[4])",
        "tuple(%b.next, %b.y, %b.new, %b.more, %b.w)",
        "%b.length = s32[] get-tuple-element(%b), index=3",
        "ROOT %s.less.1 = pred[] compare(",
    ] {
        let plain = |text: &str| text.replace("/*index=5*/", "");
        assert!(plain(&printed).contains(&plain(line)), "{line}\n{printed}");
    }
    assert!(module.live_instructions().all(|(_, inst)| inst.opcode != Opcode::Call), "{printed}");
    assert_eq!(module.live_instructions().filter(|(_, inst)| inst.opcode == Opcode::Tuple).count(), 2, "{printed}");
}

#[test]
fn what_is_flat_stays() {
    let (module, _) = flatten(parse(TRIPLE));
    assert_eq!(codes(&module), [""; 0]);
}

#[test]
fn a_loop_that_is_the_result_gives_its_tuples_back() {
    let changes = [
        ("w: f32[4]) -> f32[3,4] {", "w: f32[4]) -> (s32[], (f32[4], (f32[3,4], s32[]), f32[4])) {"),
        ("  %loop = ", "  ROOT %loop = "),
        ("  ROOT %stack = ", "  %stack = "),
    ];
    let (module, changes) = flatten(replaced(TRIPLE, &changes));
    let printed = text::print(&module);
    assert_eq!(changes, 1);
    assert!(printed.contains("%loop = (s32[], f32[4], f32[3,4], s32[], f32[4]) while("), "{printed}");
    assert!(is_nested(module.shape(module.computation(module.entry()).root)), "{printed}");
}

#[test]
fn what_reads_a_tuple_as_a_whole_gets_one() {
    let kept =
        "  %b.kept = (f32[3,4], s32[]) opt-barrier(%b.list)\n  %b.stack = f32[3,4] get-tuple-element(%b.kept), index=0";
    let changes = [("  %b.stack = f32[3,4] get-tuple-element(%b.list), index=0", kept)];
    let (module, changes) = flatten(replaced(TRIPLE, &changes));
    let printed = text::print(&module);
    assert_eq!(changes, 1);
    assert!(printed.contains("%b.kept = (f32[3,4], s32[]) opt-barrier(%whole"), "{printed}");
}

#[test]
fn a_loop_in_a_loop_is_changed_with_it() {
    let outer = "
%outer_condition (p: (s32[], (f32[4], f32[3,4]))) -> pred[] {
  %p = (s32[], (f32[4], f32[3,4])) parameter(0)
  %p.i = s32[] get-tuple-element(%p), index=0
  %p.n = s32[] constant(2)
  ROOT %p.out = pred[] compare(%p.i, %p.n), direction=LT
}

%outer (o: (s32[], (f32[4], f32[3,4]))) -> (s32[], (f32[4], f32[3,4])) {
  %o = (s32[], (f32[4], f32[3,4])) parameter(0)
  %o.i = s32[] get-tuple-element(%o), index=0
  %o.pair = (f32[4], f32[3,4]) get-tuple-element(%o), index=1
  %x = f32[4] get-tuple-element(%o.pair), index=0
  %w = f32[4] negate(%x)
  %zero = s32[] constant(0)
  %o.one = s32[] constant(1)
  %o.next = s32[] add(%o.i, %o.one)
  %empty = f32[3,4] get-tuple-element(%o.pair), index=1
";
    let inner = &TRIPLE[TRIPLE.find("  %list = ").expect("it is there")..TRIPLE.find("  %count = ").expect("too")];
    let end = "  %o.rest = (f32[4], (f32[3,4], s32[]), f32[4]) get-tuple-element(%loop), index=1
  %o.x = f32[4] get-tuple-element(%o.rest), index=0
  %o.list = (f32[3,4], s32[]) get-tuple-element(%o.rest), index=1
  %o.stack = f32[3,4] get-tuple-element(%o.list), index=0
  %o.both = (f32[4], f32[3,4]) tuple(%o.x, %o.stack)
  ROOT %o.out = (s32[], (f32[4], f32[3,4])) tuple(%o.next, %o.both)
}

ENTRY %main (a: f32[4], e: f32[3,4]) -> (f32[4], f32[3,4]) {
  %a = f32[4] parameter(0)
  %e = f32[3,4] parameter(1)
  %first = s32[] constant(0)
  %ae = (f32[4], f32[3,4]) tuple(%a, %e)
  %start = (s32[], (f32[4], f32[3,4])) tuple(%first, %ae)
  %outer_loop = (s32[], (f32[4], f32[3,4])) while(%start), condition=%outer_condition, body=%outer
  ROOT %result = (f32[4], f32[3,4]) get-tuple-element(%outer_loop), index=1
}
";
    let source = format!("{}{outer}{inner}{end}", &TRIPLE[..TRIPLE.find("\nENTRY").expect("it is there")]);
    let (module, changes) = flatten(parse(&source));
    assert_eq!((changes, nested(&module)), (1, Vec::new()));
    assert_eq!(module.parameters(module.entry()).len(), 2);
}

/// The loop of one branch; the other branch gives what it was given. What both take is a tuple in a tuple.
const IN_A_BRANCH: &str = "
%lists (t: ((f32[4], f32[4]), f32[3,4])) -> f32[3,4] {
  %t = ((f32[4], f32[4]), f32[3,4]) parameter(0)
  %t.pair = (f32[4], f32[4]) get-tuple-element(%t), index=0
  %x = f32[4] get-tuple-element(%t.pair), index=0
  %w = f32[4] get-tuple-element(%t.pair), index=1
  %empty = f32[3,4] get-tuple-element(%t), index=1
  %zero = s32[] constant(0)
";

const OTHER_BRANCH: &str = "  %t.rest = (f32[4], (f32[3,4], s32[]), f32[4]) get-tuple-element(%loop), index=1
  %t.list = (f32[3,4], s32[]) get-tuple-element(%t.rest), index=1
  ROOT %t.out = f32[3,4] get-tuple-element(%t.list), index=0
}

%keeps (k: ((f32[4], f32[4]), f32[3,4])) -> f32[3,4] {
  %k = ((f32[4], f32[4]), f32[3,4]) parameter(0)
  ROOT %k.out = f32[3,4] get-tuple-element(%k), index=1
}

ENTRY %main (c: pred[], a: f32[4], e: f32[3,4]) -> f32[3,4] {
  %which = pred[] parameter(0)
  %a = f32[4] parameter(1)
  %e = f32[3,4] parameter(2)
  %twice = (f32[4], f32[4]) tuple(%a, %a)
  %given = ((f32[4], f32[4]), f32[3,4]) tuple(%twice, %e)
  ROOT %result = f32[3,4] conditional(%which, %given, %given), true_computation=%lists, false_computation=%keeps
}
";

/// Kind: stacks in the nested tuples of a state, where the loop is in a branch.
#[test]
fn a_loop_in_a_branch_is_changed_there() {
    let inner = &TRIPLE[TRIPLE.find("  %list = ").expect("it is there")..TRIPLE.find("  %count = ").expect("too")];
    let loops = &TRIPLE[..TRIPLE.find("\nENTRY").expect("it is there")];
    let (module, changes) = flatten(parse(&format!("{loops}{IN_A_BRANCH}{inner}{OTHER_BRANCH}")));
    let printed = text::print(&module);
    assert_eq!(changes, 1);
    assert!(printed.contains("%loop = (s32[], f32[4], f32[3,4], s32[], f32[4]) while("), "{printed}");
    assert_eq!(printed.matches("((f32[4], f32[4]), f32[3,4]) parameter(0)").count(), 2, "branches take what they took");
}

#[test]
fn loops_that_must_stay_say_why() {
    let looping = "while(%begin), condition=%condition, body=%body";
    let with = |attribute: &str| format!("{looping}, {attribute}");
    let sharded = with("sharding={{replicated}, {replicated}, {replicated}, {replicated}, {replicated}}");
    let config = with("backend_config={\"known_induction_variable\":{\"tuple_index\":\"0\"}}");
    let barrier = "  %b.seen = (s32[], (f32[4], (f32[3,4], s32[]), f32[4])) opt-barrier(%b.out)\n}\n\nENTRY";
    let again = "%again = (s32[], (f32[4], (f32[3,4], s32[]), f32[4])) call(%loop), to_apply=%body";
    let cases: [(&str, &str, &str); 5] = [
        (looping, &sharded, "sharded"),
        (looping, &config, "backend-config"),
        ("index=2\n  %b.one", "index=2, control-predecessors={%b.i}\n  %b.one", "control"),
        ("}\n\nENTRY", barrier, "whole-state"),
        ("%again = (s32[], (f32[4], (f32[3,4], s32[]), f32[4])) tuple(%count, %rest)", again, "shared-body"),
    ];
    for (old, new, code) in cases {
        assert_eq!(codes(&replaced(TRIPLE, &[(old, new)])), [code]);
    }
}

#[test]
fn lists_that_count_for_themselves_are_stacks() {
    let text =
        std::fs::read_to_string("../corpus/flat-state-small/fires-lists.before.hlo").expect("it is in the corpus");
    let module = parse(&text);
    assert_eq!(find(&module, &LoopResiduals).len(), 0, "nothing is seen through tuples");
    let (module, _) = flatten(module);
    let [finding] = &find(&module, &LoopResiduals)[..] else { panic!("one loop stacks") };
    let Outcome::Rewrite { note, .. } = &finding.outcome else { panic!("it can be rewritten") };
    assert_eq!(note, "1 of 2 stacks of 5 rows are computed again where they are read");
}
