//! The rules of buffer assignment one by one, on modules small enough to work out by hand.
//!
//! Pins `memory/src/assignment/mod.rs`, `memory/src/assignment/classes.rs`, `memory/src/assignment/sharing.rs`, `memory/src/assignment/greedy.rs`,
//! `memory/src/assignment/in_place.rs`, `memory/src/assignment/aliases.rs`, `memory/src/assignment/combine.rs`, `memory/src/assignment/timeline.rs`,
//! `memory/src/assignment/allocation.rs`.

use hlo_ir::Module;
use hlo_memory::assignment::{Allocation, AllocationKind, assign};
use hlo_memory::{Bytes, Estimate, EstimateError};

fn parse(text: &str) -> Module {
    let text = format!("HloModule m, is_scheduled=true{text}");
    hlo_ir::text::parse(&text).unwrap_or_else(|errors| panic!("{errors:?}\n{text}"))
}

fn estimate(text: &str) -> Estimate {
    assign(&parse(text)).expect("the module can be assigned").estimate()
}

/// Bytes of each allocation, in order.
fn sizes(text: &str) -> Vec<u64> {
    let module = parse(text);
    let assignment = assign(&module).expect("the module can be assigned");
    assignment.allocations().map(|allocation| allocation.size.get()).collect()
}

/// Names of the values in the allocation that holds `name`, each with its offset.
fn stored_with(text: &str, name: &str) -> Vec<(String, u64)> {
    let module = parse(text);
    let assignment = assign(&module).expect("the module can be assigned");
    let names = |allocation: &Allocation| {
        let named = |stored: &hlo_memory::assignment::StoredValue| {
            (module.instruction(stored.value.instruction).name.to_string(), stored.offset.get())
        };
        allocation.values.iter().map(named).collect::<Vec<_>>()
    };
    let mut all = assignment.allocations().map(|allocation| names(&allocation));
    all.find(|names| names.iter().any(|(other, _)| other == name)).unwrap_or_else(|| panic!("{name} is nowhere"))
}

/// Start and end of the live range of `name{index}`.
fn range(text: &str, name: &str, index: &[i64]) -> Option<(u32, u32)> {
    let module = parse(text);
    let assignment = assign(&module).expect("the module can be assigned");
    let wanted = |value: &hlo_memory::assignment::ValueRef| {
        module.instruction(value.instruction).name == name && value.index[..] == *index
    };
    assignment.live_ranges().find(|range| wanted(&range.value)).map(|range| (range.start, range.end))
}

const ADD: &str = "

%add (a: f32[], b: f32[]) -> f32[] {
  %a = f32[] parameter(0)
  %b = f32[] parameter(1)
  ROOT %sum = f32[] add(%a, %b)
}
";

#[test]
fn every_value_of_an_applied_computation_has_its_own_scratch() {
    let text = format!(
        "{ADD}
ENTRY %main (x: f32[100]) -> f32[] {{
  %x = f32[100]{{0}} parameter(0)
  %zero = f32[] constant(0)
  ROOT %r = f32[] reduce(%x, %zero), dimensions={{0}}, to_apply=%add
}}"
    );
    let figures = estimate(&text);
    assert_eq!(figures.thread_local, Bytes(12));
    assert_eq!((figures.arguments, figures.outputs, figures.constants), (Bytes(400), Bytes(4), Bytes(4)));
    assert_eq!(figures.total, Bytes(420));
    assert_eq!(figures.floor, Bytes(404));
}

#[test]
fn a_reducer_inside_a_fusion_counts_and_the_fusion_body_does_not() {
    let text = format!(
        "{ADD}
%body (p: f32[100]) -> f32[] {{
  %p = f32[100]{{0}} parameter(0)
  %n = f32[100]{{0}} negate(%p)
  %z = f32[] constant(0)
  ROOT %q = f32[] reduce(%n, %z), dimensions={{0}}, to_apply=%add
}}

ENTRY %main (x: f32[100]) -> f32[] {{
  %x = f32[100]{{0}} parameter(0)
  ROOT %f = f32[] fusion(%x), kind=kLoop, calls=%body
}}"
    );
    assert_eq!(estimate(&text).total, Bytes(400 + 4 + 12));
}

#[test]
fn a_dying_operand_gives_its_memory_to_an_elementwise_result() {
    // The chain lives in the output: %a begins there, every later value takes over from the one before.
    let chain = "

ENTRY %main (x: f32[64]) -> f32[64] {
  %x = f32[64]{0} parameter(0)
  %a = f32[64]{0} negate(%x)
  %b = f32[64]{0} sine(%a)
  ROOT %c = f32[64]{0} cosine(%b)
}";
    assert_eq!(sizes(chain), [256, 256]);
    assert_eq!(stored_with(chain, "a").len(), 3);
    // A reverse reads other positions than it writes, so both ends of it need memory; the output is free while %a is alive.
    let reversed = chain.replace("sine(%a)", "reverse(%a), dimensions={0}");
    assert_eq!(estimate(&reversed).temporaries, Bytes(256));
}

#[test]
fn a_copy_never_takes_over_its_operand() {
    let text = "

ENTRY %main (x: f32[64]) -> f32[64] {
  %x = f32[64]{0} parameter(0)
  %a = f32[64]{0} negate(%x)
  ROOT %c = f32[64]{0} copy(%a)
}";
    assert_eq!(estimate(text).temporaries, Bytes(256));
    assert_eq!(estimate(&text.replace("copy(%a)", "abs(%a)")).temporaries, Bytes(0));
}

#[test]
fn temporaries_wait_in_outputs_and_donated_parameters_but_not_in_other_parameters() {
    let text = |alias: &str| {
        format!(
            "{alias}

ENTRY %main (x: f32[64], y: f32[64]) -> f32[64] {{
  %x = f32[64]{{0}} parameter(0)
  %y = f32[64]{{0}} parameter(1)
  %a = f32[64]{{0}} reverse(%x), dimensions={{0}}
  %b = f32[64]{{0}} reverse(%a), dimensions={{0}}
  %c = f32[64]{{0}} reverse(%b), dimensions={{0}}
  %d = f32[64]{{0}} reverse(%c), dimensions={{0}}
  ROOT %e = f32[64]{{0}} reverse(%d), dimensions={{0}}
}}"
        )
    };
    // The output is free for %a and %c, which touch neither each other nor %e; %b and %d take turns in one temporary.
    let kept = estimate(&text(""));
    assert_eq!((kept.total, kept.temporaries, kept.aliased), (Bytes(4 * 256), Bytes(256), Bytes(0)));
    // The output takes over %x, which %a reads, so %a must stand elsewhere; now only %b and %e have a place in it. Two places are left
    // for %a, %c and %d: the total stays, the floor sinks.
    let donated = estimate(&text(", input_output_alias={ {}: (0, {}, may-alias) }"));
    assert_eq!((donated.total, donated.aliased, donated.floor), (Bytes(4 * 256), Bytes(256), Bytes(512)));
}

#[test]
fn an_update_in_a_fusion_is_in_place_through_a_bitcast() {
    let text = |root: &str| {
        format!(
            "

%body (p: f32[64], u: f32[4], i: s32[]) -> f32[8,8] {{
  %p = f32[64]{{0}} parameter(0)
  %u = f32[4]{{0}} parameter(1)
  %i = s32[] parameter(2)
  {root}
  ROOT %bc = f32[8,8]{{1,0}} bitcast(%dus)
}}

ENTRY %main (x: f32[64], u: f32[4], i: s32[]) -> f32[8,8] {{
  %x = f32[64]{{0}} parameter(0)
  %u.1 = f32[4]{{0}} parameter(1)
  %i.1 = s32[] parameter(2)
  %c = f32[64]{{0}} copy(%x)
  ROOT %f = f32[8,8]{{1,0}} fusion(%c, %u.1, %i.1), kind=kLoop, calls=%body
}}"
        )
    };
    let in_place = text("%dus = f32[64]{0} dynamic-update-slice(%p, %u, %i)");
    assert_eq!(stored_with(&in_place, "f"), [("c".to_owned(), 0), ("f".to_owned(), 0)]);
    // With an instruction between parameter and update there is nothing to update in place, and the shapes differ.
    let other = text("%n = f32[64]{0} negate(%p)\n  %dus = f32[64]{0} dynamic-update-slice(%n, %u, %i)");
    assert_eq!(stored_with(&other, "f"), [("f".to_owned(), 0)]);
}

/// A loop over (counter, carried, invariant).
fn looping(invariant: &str) -> String {
    format!(
        "

%body (p: (s32[], f32[64], f32[64])) -> (s32[], f32[64], f32[64]) {{
  %p = (s32[], f32[64]{{0}}, f32[64]{{0}}) parameter(0)
  %i = s32[] get-tuple-element(%p), index=0
  %v = f32[64]{{0}} get-tuple-element(%p), index=1
  %w = f32[64]{{0}} get-tuple-element(%p), index=2
  %one = s32[] constant(1)
  %j = s32[] add(%i, %one)
  %s = f32[64]{{0}} add(%v, %w)
  ROOT %t = (s32[], f32[64]{{0}}, f32[64]{{0}}) tuple(%j, %s, {invariant})
}}

%cond (q: (s32[], f32[64], f32[64])) -> pred[] {{
  %q = (s32[], f32[64]{{0}}, f32[64]{{0}}) parameter(0)
  %k = s32[] get-tuple-element(%q), index=0
  %n = s32[] constant(5)
  ROOT %lt = pred[] compare(%k, %n), direction=LT
}}

ENTRY %main (x: f32[64]) -> f32[64] {{
  %x = f32[64]{{0}} parameter(0)
  %zero = s32[] constant(0)
  %i.0 = s32[] copy(%zero)
  %v.0 = f32[64]{{0}} negate(%x)
  %w.0 = f32[64]{{0}} reverse(%x), dimensions={{0}}
  %init = (s32[], f32[64]{{0}}, f32[64]{{0}}) tuple(%i.0, %v.0, %w.0)
  %loop = (s32[], f32[64]{{0}}, f32[64]{{0}}) while(%init), condition=%cond, body=%body
  ROOT %out = f32[64]{{0}} get-tuple-element(%loop), index=1
}}"
    )
}

#[test]
fn what_a_loop_hands_on_unchanged_is_its_initial_value() {
    let text = looping("%w");
    // Nobody defines anything at index 2 of the loop; the initial value is alive until the body has read it last.
    assert_eq!(range(&text, "loop", &[2]), None);
    assert_eq!(range(&text, "p", &[2]), None);
    // Times: x 0, zero 1, i.0 2, v.0 3, w.0 4, init 5, condition 6..9, body 10..17, loop 18, out 19. It also stands in the loop's result.
    assert_eq!(range(&text, "w.0", &[]), Some((4, 18)));
    // The carried value stays in the output all along; its initial value ends where the condition's parameter takes over.
    assert_eq!(range(&text, "v.0", &[]), Some((3, 6)));
    assert_eq!(range(&text, "q", &[1]), Some((6, 10)));
    let output: Vec<String> = stored_with(&text, "s").into_iter().map(|(name, _)| name).collect();
    assert_eq!(output, ["s", "v.0", "q", "p", "loop"]);
    // Table of three pointers for the loop, condition's predicate, counter: the invariant array and these share one block.
    let figures = estimate(&text);
    assert_eq!((figures.outputs, figures.constants), (Bytes(256), Bytes(12)));
    assert_eq!(figures.total, figures.arguments + figures.outputs + figures.constants + figures.temporaries);
}

#[test]
fn what_a_loop_replaces_is_a_buffer_of_the_loop() {
    let text = looping("%s.2").replace("  ROOT %t", "  %s.2 = f32[64]{0} multiply(%v, %w)\n  ROOT %t");
    assert!(range(&text, "loop", &[2]).is_some());
    let names: Vec<String> = stored_with(&text, "s.2").into_iter().map(|(name, _)| name).collect();
    assert!(["w.0", "p", "q", "loop"].iter().all(|name| names.contains(&(*name).to_owned())), "{names:?}");
}

#[test]
fn branches_write_into_one_result_and_a_call_adds_nothing() {
    let text = "

%left (a: f32[64]) -> f32[64] {
  %a = f32[64]{0} parameter(0)
  ROOT %l = f32[64]{0} reverse(%a), dimensions={0}
}

%inner (c: f32[64]) -> f32[64] {
  %c = f32[64]{0} parameter(0)
  ROOT %m = f32[64]{0} reverse(%c), dimensions={0}
}

%right (b: f32[64]) -> f32[64] {
  %b = f32[64]{0} parameter(0)
  ROOT %r = f32[64]{0} call(%b), to_apply=%inner
}

ENTRY %main (p: pred[], x: f32[64]) -> f32[64] {
  %p = pred[] parameter(0)
  %x = f32[64]{0} parameter(1)
  ROOT %out = f32[64]{0} conditional(%p, %x, %x), true_computation=%left, false_computation=%right
}";
    assert_eq!(sizes(text), [256, 256, 1]);
    let names: Vec<String> = stored_with(text, "out").into_iter().map(|(name, _)| name).collect();
    assert_eq!(names, ["l", "m", "out"]);
}

#[test]
fn temporaries_are_joined_at_aligned_offsets_and_the_last_is_not_padded() {
    // The argument tuple of the branch has a table of 16 bytes that lives in a block of its own, before the heap.
    let text = r#"

%branch (t: (f32[3], f32[3])) -> f32[3] {
  %t = (f32[3]{0}, f32[3]{0}) parameter(0)
  %g = f32[3]{0} get-tuple-element(%t), index=0
  %h = f32[3]{0} get-tuple-element(%t), index=1
  ROOT %s = f32[3]{0} custom-call(%g, %h), custom_call_target="f"
}

ENTRY %main (x: f32[3]) -> f32[3] {
  %x = f32[3]{0} parameter(0)
  %a = f32[3]{0} reverse(%x), dimensions={0}
  %b = f32[3]{0} reverse(%a), dimensions={0}
  %args = (f32[3]{0}, f32[3]{0}) tuple(%a, %b)
  ROOT %out = f32[3]{0} call(%args), to_apply=%branch
}"#;
    // %s reads %a and %b, so neither can wait in the output. Heap: two arrays, 0..12 and 64..76. It begins at 64, behind the table.
    assert_eq!(estimate(text).temporaries, Bytes(64 + 64 + 12));
    let mut offsets = stored_with(text, "args");
    offsets.sort();
    assert_eq!(offsets[1], ("args".to_owned(), 0));
    assert_eq!([offsets[0].1 + offsets[2].1, offsets[0].1.abs_diff(offsets[2].1)], [64 + 128, 64]);
}

#[test]
fn equal_constants_pay_twice_and_an_empty_array_nothing() {
    let text = "

ENTRY %main () -> (f32[], f32[], f32[0]) {
  %one = f32[] constant(1)
  %uno = f32[] constant(1)
  %none = f32[0]{0} constant({})
  %a = f32[] copy(%one)
  %b = f32[] copy(%uno)
  %c = f32[0]{0} copy(%none)
  ROOT %t = (f32[], f32[], f32[0]{0}) tuple(%a, %b, %c)
}";
    let figures = estimate(text);
    assert_eq!((figures.constants, figures.outputs), (Bytes(8), Bytes(24 + 8)));
    assert_eq!(figures.total, Bytes(40));
}

#[test]
fn the_timeline_counts_shared_memory_once() {
    let text = "

ENTRY %main (x: f32[64]) -> f32[16] {
  %x = f32[64]{0} parameter(0)
  %a = f32[64]{0} negate(%x)
  %b = f32[64]{0} sine(%a)
  %c = f32[64]{0} reverse(%b), dimensions={0}
  ROOT %d = f32[16]{0} slice(%c), slice={[0:16]}
}";
    let figures = estimate(text);
    let bytes: Vec<u64> = figures.timeline.iter().map(|bytes| bytes.get()).collect();
    // %a hands over to %b in place; %b and %c are alive together while %c is made.
    assert_eq!(bytes, [256, 512, 512, 768, 576]);
    assert_eq!(figures.area(), 256 + 512 + 512 + 768 + 576);
    assert_eq!((figures.peak.instruction.as_str(), figures.peak.computation.as_str()), ("c", "main"));
    assert_eq!(figures.peak.bytes, Bytes(768));
    let alive: Vec<(&str, u64)> = figures.largest.iter().map(|b| (b.instruction.as_str(), b.bytes.get())).collect();
    assert_eq!(alive, [("x", 256), ("b", 256), ("c", 256)]);
    assert_eq!(figures.largest[0].shape, "f32[64]{0}");
}

#[test]
fn the_kind_of_each_allocation_is_told() {
    let text = ", input_output_alias={ {1}: (1, {}, must-alias) }

ENTRY %main (x: f32[64], y: f32[64]) -> (f32[64], f32[64]) {
  %x = f32[64]{0} parameter(0)
  %y = f32[64]{0} parameter(1)
  %one = f32[] constant(1)
  %a = f32[64]{0} negate(%x)
  %b = f32[64]{0} sine(%y)
  ROOT %t = (f32[64]{0}, f32[64]{0}) tuple(%a, %b)
}";
    let module = parse(text);
    let assignment = assign(&module).expect("the module can be assigned");
    let kinds: Vec<(AllocationKind, bool)> = assignment.allocations().map(|a| (a.kind, a.live_out)).collect();
    let parameter = |number, aliased| AllocationKind::Parameter { number, index: [].into_iter().collect(), aliased };
    // Equal sizes: what lives out first, then in post-order, which is one, x, a, y, b, t.
    let expected = [
        (AllocationKind::Output, true),
        (parameter(1, true), true),
        (parameter(0, false), false),
        (AllocationKind::Output, true),
        (AllocationKind::Constant, false),
    ];
    assert_eq!(kinds, expected);
}

#[test]
fn sizes_that_do_not_fit_are_an_error() {
    let text = "

ENTRY %main (x: f32[]) -> f32[9223372036854775807,9223372036854775807] {
  %x = f32[] parameter(0)
  ROOT %huge = f32[9223372036854775807,9223372036854775807]{1,0} broadcast(%x), dimensions={}
}";
    assert_eq!(assign(&parse(text)).err(), Some(EstimateError::Unsized("huge".into())));
}

#[test]
fn what_the_rules_do_not_cover_is_said() {
    let text = "

%same (a: f32[4]) -> f32[4] {
  %a = f32[4]{0} parameter(0)
  ROOT %n = f32[4]{0} negate(%a)
}

ENTRY %main (x: f32[4]) -> f32[4] {
  %x = f32[4]{0} parameter(0)
  %one = f32[4]{0} call(%x), to_apply=%same
  %two = f32[4]{0} call(%one), to_apply=%same
  ROOT %new = f32[4]{0} brand-new-opcode(%two)
}";
    let caveats = estimate(text).caveats;
    assert_eq!(caveats.len(), 2, "{caveats:?}");
    assert!(caveats[0].contains("`new`") && caveats[1].contains("`same`"), "{caveats:?}");
}
