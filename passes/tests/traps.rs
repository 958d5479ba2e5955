//! The traps of planning loops over blocks, one test each: what a planner gets wrong when it forgets a condition. T2, T13 and T14 show on
//! floats and in a running process only, so XLA runs them (`tests/traps.rs` of the whole tool).
//!
//! Pins `passes/src/chunk.rs`.

use hlo_ir::{Module, Opcode, text};
use hlo_memory::{Bytes, ModelEstimator};
use hlo_passes::manager::{default_pipeline, run};
use hlo_passes::{Grade, Options};

use crate::chunking::seeded_planner::{
    COMBINERS, LONG_ROWS, NEAREST, apply, first, largest, notes, offers, offers_of, offers_with, program,
};
use crate::chunking::{assert_same_results, checked};
use crate::common::parse;
use crate::interpreter::free;

/// Applies every offer, each to the module as it was, and runs the results; how many there were.
fn all_offers_agree(before: &Module, bytes: u64, grade: Grade, seed: u64) -> usize {
    let found = offers(before, bytes, grade);
    let count = found.len();
    for finding in found {
        let mut after = before.clone();
        apply(&mut after, finding);
        assert_same_results(before, &after, seed);
    }
    count
}

/// The shapes of all instructions with this opcode, without layouts.
fn shapes(module: &Module, opcode: Opcode) -> Vec<String> {
    let found = module.live_instructions().filter(|(_, inst)| inst.opcode == opcode);
    found.map(|(_, inst)| inst.shape.without_layout().to_string()).collect()
}

/// Masks a product, and sums the rows and the columns of what is left: no one loop can do both without writing it down.
fn masked(value: &str, decision: &str) -> String {
    format!(
        "  %x = f32[64,8] parameter(0)
  %y = f32[32,8] parameter(1)
  %v = f32[64] parameter(2)
  %w = f32[32] parameter(3)
  %zero = f32[] constant(0)
  %wide = f32[64,32] broadcast(%v), dimensions={{0}}
  %high = f32[64,32] broadcast(%w), dimensions={{1}}
  %z = f32[64,32] broadcast(%zero), dimensions={{}}
{value}
  %e = f32[64,32] exponential(%p)
{decision}
  %rows = f32[64] reduce(%g, %zero), dimensions={{1}}, to_apply=%sum
  %columns = f32[32] reduce(%g, %zero), dimensions={{0}}, to_apply=%sum
  ROOT %t = (f32[64], f32[32]) tuple(%rows, %columns)"
    )
}

/// Two loops compute a value on other blocks, so its last bits can differ; a decision behind it could fall differently in each.
#[test]
fn t01_a_decision_on_a_rounded_value_is_not_taken_twice() {
    let product = "  %p = f32[64,32] dot(%x, %y), lhs_contracting_dims={1}, rhs_contracting_dims={1}";
    // Compilers join a product and a sum into one rounding where they share a kernel, and loops share other kernels.
    let joined = "  %m = f32[64,32] multiply(%wide, %high)\n  %p = f32[64,32] subtract(%m, %wide)";
    let decisions = [
        "  %c = pred[64,32] compare(%p, %z), direction=GT\n  %g = f32[64,32] select(%c, %e, %z)",
        "  %c = f32[64,32] floor(%p)\n  %g = f32[64,32] multiply(%c, %e)",
        "  %c = s32[64,32] convert(%p)\n  %d = f32[64,32] convert(%c)\n  %g = f32[64,32] multiply(%d, %e)",
        "  %c = f32[64,32] sign(%p)\n  %g = f32[64,32] multiply(%c, %e)",
    ];
    let several = |lines: &str| notes(&program(lines), Grade::HloExact).iter().any(|note| note.contains(';'));
    for value in [product, joined] {
        for decision in decisions {
            assert!(!several(&masked(value, decision)), "two loops would decide\n{value}\n{decision}");
        }
        assert!(several(&masked(value, "  %g = f32[64,32] multiply(%e, %p)")), "rounding alone does no harm\n{value}");
    }
    let exact = "  %p = f32[64,32] maximum(%wide, %high)";
    assert!(several(&masked(exact, decisions[0])), "nothing is rounded, so both loops decide alike");
}

/// The same for scatters: two loops, one after the other, would compute the places from the same product.
#[test]
fn t01_places_that_come_from_rounded_values_are_computed_once() {
    const VECTOR: &str =
        "update_window_dims={}, inserted_window_dims={0}, scatter_dims_to_operand_dims={0}, index_vector_dim=1";
    let source = format!(
        "HloModule m\n{COMBINERS}\nENTRY %main {{
  %t = s32[9] parameter(0)
  %x = f32[64,8] parameter(1)
  %y = f32[8] parameter(2)
  %one = s32[] constant(1)
  %ones = s32[64] broadcast(%one), dimensions={{}}
  %p = f32[64] dot(%x, %y), lhs_contracting_dims={{1}}, rhs_contracting_dims={{0}}
  %f = f32[64] floor(%p)
  %i = s32[64] convert(%f)
  %low = s32[64,1] reshape(%i)
  %next = s32[64] add(%i, %ones)
  %high = s32[64,1] reshape(%next)
  %first = s32[9] scatter(%t, %low, %ones), {VECTOR}, to_apply=%count
  ROOT %second = s32[9] scatter(%first, %high, %i), {VECTOR}, to_apply=%count\n}}\n"
    );
    let (after, notes) = free::with(false, || checked(&source, 100));
    assert!(notes.iter().any(|note| note.contains(';')), "two loops: {notes:?}");
    assert_eq!(shapes(&after, Opcode::Dot), ["f32[64]"], "both loops read the product\n{}", text::print(&after));
}

/// A block that does not divide an extent would be cut off at the end, or reach behind it.
#[test]
fn t03_every_extent_is_made_of_whole_blocks() {
    // Rows, rows times six, rows over two: one row of the loop is six of one value and half of another.
    let lines = |rows: i64| {
        let (six, half) = (rows * 6, rows / 2);
        format!(
            "  %x = s32[{rows},6] parameter(0)
  %y = s32[{rows},5] parameter(1)
  %m = s32[6,6] parameter(2)
  %zero = s32[] constant(0)
  %d = s32[{rows},6] dot(%x, %m), lhs_contracting_dims={{1}}, rhs_contracting_dims={{0}}
  %flat = s32[{six}] reshape(%d)
  %twice = s32[{six}] add(%flat, %flat)
  %same = s32[{rows},6] reshape(%twice)
  %back = s32[{rows},6] dot(%same, %m), lhs_contracting_dims={{1}}, rhs_contracting_dims={{0}}
  %pairs = s32[{half},2,6] reshape(%back)
  %sums = s32[{half},6] reduce(%pairs, %zero), dimensions={{1}}, to_apply=%count
  %p = s32[6,5] dot(%back, %y), lhs_contracting_dims={{0}}, rhs_contracting_dims={{0}}
  ROOT %t = (s32[{half},6], s32[6,5]) tuple(%sums, %p)"
        )
    };
    let mut applied = 0;
    for rows in [6, 10, 14, 22, 26] {
        for bytes in [1, 50, 120, 400] {
            let before = program(&lines(rows));
            for finding in offers(&before, bytes, Grade::HloExact) {
                let mut after = before.clone();
                let note = apply(&mut after, finding);
                assert_same_results(&before, &after, rows as u64);
                let empty = |dims: &[i64]| dims.contains(&0);
                assert!(
                    after.live_instructions().all(|(_, inst)| inst.array().is_none_or(|array| !empty(&array.dims)))
                );
                applied += usize::from(note.contains("blocks"));
            }
        }
    }
    assert!(applied > 20, "{applied} loops");
}

/// One value is needed on blocks and whole, by what becomes a sink of the same loop: the loop would need its own result.
#[test]
fn t04_a_loop_does_not_read_what_it_makes() {
    let attention = "  %x = f32[12,6] parameter(0)
  %zero = f32[] constant(0)
  %h = f32[12,6] multiply(%x, %x)
  %scores = f32[12,12] dot(%h, %h), lhs_contracting_dims={1}, rhs_contracting_dims={1}
  %e = f32[12,12] negate(%scores)
  %total = f32[12] reduce(%e, %zero), dimensions={1}, to_apply=%sum
  %wide = f32[12,12] broadcast(%total), dimensions={0}
  %weights = f32[12,12] subtract(%e, %wide)
  %out = f32[12,6] dot(%weights, %h), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  %again = f32[12,12] dot(%out, %h), lhs_contracting_dims={1}, rhs_contracting_dims={1}
  %turned = f32[12,12] transpose(%again), dimensions={1,0}
  %both = f32[12,12] add(%again, %turned)
  ROOT %s = f32[12] reduce(%both, %zero), dimensions={1}, to_apply=%sum";
    let before = program(attention);
    let mut applied = 0;
    for bytes in [1, 150] {
        applied += all_offers_agree(&before, bytes, Grade::HloExact, bytes);
        // And once more on what the first made.
        for finding in offers(&before, bytes, Grade::HloExact) {
            let mut once = before.clone();
            apply(&mut once, finding);
            applied += all_offers_agree(&once, bytes, Grade::HloExact, bytes);
        }
    }
    assert!(applied > 10, "{applied} loops");
}

/// A loop in a loop in a loop: slices, gathers and their sizes are copied again and again, each time smaller.
#[test]
fn t05_sizes_shrink_in_every_copy() {
    let source = format!(
        "HloModule m\n{COMBINERS}
%less (u: s32[], v: s32[]) -> pred[] {{
  %u = s32[] parameter(0)
  %v = s32[] parameter(1)
  ROOT %uv = pred[] compare(%u, %v), direction=LT
}}
%step (s: (s32[], s32[12,10,8], s32[12])) -> (s32[], s32[12,10,8], s32[12]) {{
  %s = (s32[], s32[12,10,8], s32[12]) parameter(0)
  %k = s32[] get-tuple-element(%s), index=0
  %x = s32[12,10,8] get-tuple-element(%s), index=1
  %o = s32[12] get-tuple-element(%s), index=2
  %one = s32[] constant(1)
  %zero = s32[] constant(0)
  %ordered = s32[12,10,8] sort(%x), dimensions={{1}}, is_stable=true, to_apply=%less
  %row = s32[12,1,8] dynamic-slice(%ordered, %zero, %k, %zero), dynamic_slice_sizes={{12,1,8}}
  %flat = s32[12,8] reshape(%row)
  %half = s32[12,10,4] slice(%x), slice={{[0:12], [0:10], [2:6]}}
  %first = s32[12,10] reduce(%half, %zero), dimensions={{2}}, to_apply=%count
  %i = s32[12,10,1] reshape(%first)
  %g = s32[12,10,8] gather(%flat, %i), offset_dims={{2}}, collapsed_slice_dims={{0}}, start_index_map={{0}}, index_vector_dim=2, slice_sizes={{1,8}}
  %rows = s32[12,10,8] broadcast(%flat), dimensions={{0,2}}
  %gr = s32[12,10,8] add(%g, %rows)
  %m = s32[12,10,8] multiply(%gr, %x)
  %d = s32[12,10,8] sort(%m), dimensions={{1}}, is_stable=true, to_apply=%less
  %pad = s32[12,11,8] pad(%d, %zero), padding=0_0x0_1x0_0
  %turned = s32[11,12,8] transpose(%pad), dimensions={{1,0,2}}
  %z = s32[11,12] reduce(%turned, %zero), dimensions={{2}}, to_apply=%count
  %zz = s32[12] reduce(%z, %zero), dimensions={{0}}, to_apply=%count
  %more = s32[12] add(%o, %zz)
  %next = s32[] add(%k, %one)
  ROOT %r = (s32[], s32[12,10,8], s32[12]) tuple(%next, %x, %more)
}}
%again (t: (s32[], s32[12,10,8], s32[12])) -> pred[] {{
  %t = (s32[], s32[12,10,8], s32[12]) parameter(0)
  %n = s32[] get-tuple-element(%t), index=0
  %three = s32[] constant(3)
  ROOT %l = pred[] compare(%n, %three), direction=LT
}}
ENTRY %main {{
  %p = s32[12,10,8] parameter(0)
  %q = s32[12] parameter(1)
  %start = s32[] constant(0)
  %init = (s32[], s32[12,10,8], s32[12]) tuple(%start, %p, %q)
  %w = (s32[], s32[12,10,8], s32[12]) while(%init), condition=%again, body=%step
  ROOT %res = s32[12] get-tuple-element(%w), index=2\n}}\n"
    );
    let before = parse(&source);
    let mut after = before.clone();
    let mut rounds = 0;
    for bytes in [1500, 400, 60] {
        let Some(found) = offers(&after, bytes, Grade::HloExact).into_iter().next() else { continue };
        apply(&mut after, found);
        assert_same_results(&before, &after, rounds);
        rounds += 1;
    }
    let gathers = shapes(&after, Opcode::Gather);
    assert!(rounds >= 2 && !gathers.contains(&"s32[12,10,8]".to_owned()), "{rounds} loops, {gathers:?}");
}

/// The initial value counts once, not once per block; partial results start from what changes nothing.
#[test]
fn t06_partial_results_start_from_the_neutral_element() {
    let source = |element: &str, combiner: &str, start: &str| {
        parse(&format!(
            "HloModule m
%c (a: {element}[], b: {element}[]) -> {element}[] {{
  %a = {element}[] parameter(0)
  %b = {element}[] parameter(1)
  {combiner}
}}
%less (n: {element}[], o: {element}[]) -> pred[] {{
  %n = {element}[] parameter(0)
  %o = {element}[] parameter(1)
  ROOT %l = pred[] compare(%n, %o), direction=LT
}}
ENTRY %main {{
  %x = {element}[32] parameter(0)
  %start = {element}[] constant({start})
  %wide = {element}[32,24] broadcast(%x), dimensions={{0}}
  %turned = {element}[24,32] transpose(%wide), dimensions={{1,0}}
  %d = {element}[24,32] multiply(%turned, %turned)
  %sorted = {element}[24,32] sort(%d), dimensions={{0}}, to_apply=%less
  ROOT %s = {element}[24] reduce(%sorted, %start), dimensions={{1}}, to_apply=%c
}}"
        ))
    };
    for element in ["s32", "u8", "s64"] {
        for opcode in ["add", "multiply", "minimum", "maximum", "and", "or", "xor"] {
            let before = source(element, &format!("ROOT %r = {element}[] {opcode}(%a, %b)"), "5");
            let found = offers(&before, 400, Grade::Bitwise);
            assert!(found.iter().any(|finding| finding.grade == Grade::Bitwise), "{opcode} of {element}");
            all_offers_agree(&before, 400, Grade::Bitwise, 7);
        }
        // Nobody knows how to join results of these; the first is even associative.
        for unknown in [
            format!("ROOT %r = {element}[] copy(%b)"),
            format!("%t = {element}[] add(%a, %a)\n  ROOT %r = {element}[] add(%t, %b)"),
            format!("ROOT %r = {element}[] subtract(%a, %b)"),
        ] {
            let before = source(element, &unknown, "5");
            for finding in offers(&before, 400, Grade::Reassociate) {
                let mut after = before.clone();
                apply(&mut after, finding);
                assert_eq!(shapes(&after, Opcode::Reduce), [format!("{element}[24]")], "{unknown}");
                assert_same_results(&before, &after, 7);
            }
        }
    }
    let floats = source("f32", "ROOT %r = f32[] add(%a, %b)", "2");
    let after = first(&floats, Grade::Reassociate);
    assert!(after.contains("f32[] constant(-0)"), "+0 would turn a sum of -0 into +0\n{after}");
    assert!(after.contains("f32[24] broadcast(%start)"), "the initial value counts once\n{after}");
}

/// An elementwise operation on two broadcasts is large and costs memory: it must be found, although it has no large operand.
#[test]
fn t07_operations_on_broadcasts_are_not_free() {
    let lines = "  %x = f32[64] parameter(0)
  %y = f32[32] parameter(1)
  %zero = f32[] constant(0)
  %wide = f32[64,32] broadcast(%x), dimensions={0}
  %high = f32[64,32] broadcast(%y), dimensions={1}
  %d = f32[64,32] subtract(%wide, %high)
  %e = f32[64,32] exponential(%d)
  %rows = f32[64] reduce(%e, %zero), dimensions={1}, to_apply=%sum
  %m = f32[64,32] multiply(%d, %d)
  %more = f32[64] reduce(%m, %zero), dimensions={1}, to_apply=%most
  ROOT %t = (f32[64], f32[64]) tuple(%rows, %more)";
    let after = parse(&first(&program(lines), Grade::HloExact));
    let large = |opcode| shapes(&after, opcode).contains(&"f32[64,32]".to_owned());
    assert!(!large(Opcode::Subtract) && !large(Opcode::Exponential), "{}", text::print(&after));
    assert!(!large(Opcode::Broadcast), "and what is free is made again\n{}", text::print(&after));
}

/// A mean of log-sum-exp of a product.
const LOG_SUM: &str = "  %x = f32[64,8] parameter(0)
  %y = f32[32,8] parameter(1)
  %zero = f32[] constant(0)
  %p = f32[64,32] dot(%x, %y), lhs_contracting_dims={1}, rhs_contracting_dims={1}
  %top = f32[64] reduce(%p, %zero), dimensions={1}, to_apply=%most
  %tops = f32[64,32] broadcast(%top), dimensions={0}
  %d = f32[64,32] subtract(%p, %tops)
  %e = f32[64,32] exponential(%d)
  %s = f32[64] reduce(%e, %zero), dimensions={1}, to_apply=%sum
  %l = f32[64] log(%s)
  %q = f32[64] add(%l, %top)
  ROOT %loss = f32[] reduce(%q, %zero), dimensions={0}, to_apply=%sum";

/// The cut belongs at the first small value: one operation before it, something large would be written.
#[test]
fn t08_the_region_ends_at_the_first_small_value() {
    // Rows of four bytes are small, products of 8 KiB are not.
    let mut after = program(LOG_SUM);
    let found = offers_of(&after, 256, Grade::HloExact, Bytes(1 << 10), largest(&after)).into_iter().next();
    apply(&mut after, found.expect("the product is cut"));
    let writes = shapes(&after, Opcode::DynamicUpdateSlice);
    assert!(!writes.is_empty() && writes.iter().all(|shape| shape == "f32[64]"), "{writes:?}");
    assert!(shapes(&after, Opcode::Reduce).contains(&"f32[]".to_owned()), "the sum of all rows stays whole");
}

/// The same value along two dimensions: they are independent, however much they look alike.
#[test]
fn t09_one_value_in_two_dimensions_is_no_single_axis() {
    let lines = "  %x = s32[16,16] parameter(0)
  %y = s32[16,16] multiply(%x, %x)
  %turned = s32[16,16] transpose(%y), dimensions={1,0}
  %both = s32[16,16] add(%y, %turned)
  %square = s32[16,16] dot(%both, %both), lhs_contracting_dims={1}, rhs_contracting_dims={1}
  %zero = s32[] constant(0)
  ROOT %s = s32[16] reduce(%square, %zero), dimensions={1}, to_apply=%count";
    assert!(all_offers_agree(&program(lines), 64, Grade::HloExact, 5) > 0);
}

/// Which of two updates of one element comes last can show; a later row dimension, cut first, would change it.
#[test]
fn t10_updates_keep_their_order() {
    let source = |combiner: &str| {
        format!(
            "HloModule m
%c (a: s32[], b: s32[]) -> s32[] {{
  %a = s32[] parameter(0)
  %b = s32[] parameter(1)
  %three = s32[] constant(3)
  %more = s32[] multiply(%a, %three)
  ROOT %r = s32[] {combiner}
}}
ENTRY %main {{
  %x = s32[5] parameter(0)
  %i = s32[3,40,1] parameter(1)
  %u = s32[3,40] parameter(2)
  %turned = s32[3,40,1] reverse(%i), dimensions={{1}}
  %index = s32[3,40,1] add(%i, %turned)
  ROOT %y = s32[5] scatter(%x, %index, %u), update_window_dims={{}}, inserted_window_dims={{0}}, \
             scatter_dims_to_operand_dims={{0}}, index_vector_dim=2, to_apply=%c\n}}\n"
        )
    };
    for combiner in ["add(%more, %b)", "copy(%b)"] {
        // `checked` runs both forms: indices collide, as there are five places for 120 updates.
        let (_, notes) = checked(&source(combiner), 80);
        assert_eq!(notes[0], "3 blocks of 1 rows", "the first dimension is cut first");
    }
}

/// A row number that does not fit 32 bits would wrap, and slices silently clamp to another block.
#[test]
fn t11_counters_are_as_wide_as_row_numbers() {
    let wide = |lines: &str| first(&program(lines), Grade::HloExact).contains("%block_number = s64[]");
    assert!(wide(&NEAREST.replace("64", "8589934592")));
    assert!(!wide(NEAREST));
    // Few rows in the loop, but each is 2^20 rows of a value that is read in it.
    let reshaped = |width: u64| {
        let rows = 1_u64 << 26;
        format!(
            "  %flat = f32[{}] parameter(0)
  %x = f32[{rows},{width}] reshape(%flat)
  %y = f32[32,{width}] parameter(1)
  %zero = f32[] constant(0)
  %p = f32[{rows},32] dot(%x, %y), lhs_contracting_dims={{1}}, rhs_contracting_dims={{1}}
  %e = f32[{rows},32] exponential(%p)
  ROOT %s = f32[{rows}] reduce(%e, %zero), dimensions={{1}}, to_apply=%sum",
            rows * width
        )
    };
    assert!(!wide(&reshaped(8)));
    assert!(wide(&reshaped(128)));
}

/// What is needed whole is widened before the loop, where it is counted, and not in every block, from where XLA would move it out again
/// unseen; only small constants are copied into a loop.
#[test]
fn t12_whole_operands_are_counted_outside() {
    let lines = "  %x = s8[64,8] parameter(0)
  %y = s8[32,8] parameter(1)
  %zero = s32[] constant(0)
  %xx = s32[64,8] convert(%x)
  %yy = s32[32,8] convert(%y)
  %p = s32[64,32] dot(%xx, %yy), lhs_contracting_dims={1}, rhs_contracting_dims={1}
  %m = s32[64,32] multiply(%p, %p)
  ROOT %s = s32[64] reduce(%m, %zero), dimensions={1}, to_apply=%count";
    let after = parse(&first(&program(lines), Grade::Bitwise));
    let entry = after.entry();
    for (_, inst) in after.live_instructions().filter(|(_, inst)| inst.opcode == Opcode::Convert) {
        let whole = inst.array().expect("an array").dims[..] == [32, 8];
        assert_eq!(whole, inst.parent == entry, "{} widens all of it in a loop", inst.name);
    }
    let many = (0..4096).map(|value| value.to_string()).collect::<Vec<_>>().join(", ");
    let table = format!(
        "  %x = s8[64,8] parameter(0)
  %y = s8[32,8] parameter(1)
  %table = s32[4096] constant({{{many}}})
  %zero = s32[] constant(0)
  %xx = s32[64,8] convert(%x)
  %yy = s32[32,8] convert(%y)
  %p = s32[64,32] dot(%xx, %yy), lhs_contracting_dims={{1}}, rhs_contracting_dims={{1}}
  %q = s32[64,32,1] reshape(%p)
  %m = s32[64,32] gather(%table, %q), offset_dims={{}}, collapsed_slice_dims={{0}}, start_index_map={{0}}, \
         index_vector_dim=2, slice_sizes={{1}}
  ROOT %s = s32[64] reduce(%m, %zero), dimensions={{1}}, to_apply=%count"
    );
    let after = parse(&first(&program(&table), Grade::Bitwise));
    let constants = after.live_instructions().filter(|(_, inst)| {
        inst.opcode == Opcode::Constant && inst.array().is_some_and(|array| array.elements() == Some(4096))
    });
    assert_eq!(
        constants.map(|(_, inst)| inst.parent).collect::<Vec<_>>(),
        [after.entry()],
        "a large table stays outside"
    );
}

/// What has a state, an effect, a partner on another device or an unknown meaning is never repeated or cut.
#[test]
fn t15_states_effects_and_collectives_are_not_moved() {
    for source in [
        "rng-bit-generator(%state), algorithm=rng_default",
        "custom-call(%state), custom_call_target=\"unknown\", custom_call_has_side_effect=true",
        "custom-call(%state), custom_call_target=\"unknown\"",
    ] {
        let lines = format!(
            "  %state = u64[2] parameter(0)
  %zero = f32[] constant(0)
  %both = (u64[2], u32[64,32]) {source}
  %bits = u32[64,32] get-tuple-element(%both), index=1
  %f = f32[64,32] convert(%bits)
  %e = f32[64,32] exponential(%f)
  ROOT %s = f32[64] reduce(%e, %zero), dimensions={{1}}, to_apply=%sum"
        );
        unmoved(&lines, source);
    }
    for source in [
        "all-reduce(%e), replica_groups={{0,1}}, to_apply=%sum",
        "all-to-all(%e), replica_groups={{0,1}}, dimensions={1}",
        "collective-permute(%e), source_target_pairs={{0,1}}",
        "rng(%zero, %zero), distribution=rng_uniform",
    ] {
        let lines = format!(
            "  %x = f32[64] parameter(0)
  %zero = f32[] constant(0)
  %wide = f32[64,32] broadcast(%x), dimensions={{0}}
  %e = f32[64,32] exponential(%wide)
  %over = f32[64,32] {source}
  %g = f32[64,32] exponential(%over)
  ROOT %s = f32[64] reduce(%g, %zero), dimensions={{1}}, to_apply=%sum"
        );
        unmoved(&lines, source);
    }
    let sharded = NEAREST.replace("parameter(0)", "parameter(0), sharding={devices=[2,1]<=[2]}");
    let two = parse(&text::print(&program(&sharded)).replacen("HloModule m", "HloModule m, num_partitions=2", 1));
    assert!(notes(&two, Grade::HloExact).iter().all(|note| !note.starts_with("64 blocks")), "sharded rows");
}

/// Every offer leaves the instruction once, in full size.
fn unmoved(lines: &str, source: &str) {
    let opcode = source.split('(').next().expect("it names an opcode");
    for finding in offers(&program(lines), 256, Grade::HloExact) {
        let mut after = program(lines);
        apply(&mut after, finding);
        let printed = text::print(&after);
        assert_eq!(printed.matches(&format!(" {opcode}(")).count(), 1, "{printed}");
        let kept = after.live_instructions().find(|(_, inst)| inst.opcode_name() == opcode).expect("it is there").1;
        assert_eq!(kept.parent, after.entry(), "{opcode} is in a loop\n{printed}");
    }
}

/// A plan must not be found again and again in what it made.
#[test]
fn t16_rounds_come_to_an_end() {
    let mut module = program(NEAREST);
    for round in 0.. {
        let Some(found) = offers(&module, 256, Grade::HloExact).into_iter().next() else { break };
        apply(&mut module, found);
        assert!(round < 4, "{}", text::print(&module));
    }
}

/// A loop for a twentieth of all memory or less costs more than it saves, and would be followed by ever more of them.
#[test]
fn t16_small_gains_are_not_offered() {
    let module = program(LONG_ROWS);
    let offered = |total: u64| offers_with(&module, &Options::default(), Bytes(total)).len();
    assert!(offered(1 << 29) > 0, "the product is all of it");
    assert_eq!(offered(1 << 36), 0, "the product is less than a hundredth");
}

/// XLA never had in memory what is larger than all memory: doing away with it saves nothing.
#[test]
fn t16_what_is_larger_than_all_memory_is_no_saving() {
    let module = program(
        "  %x = f32[64,4] parameter(0)
  %v = f32[64,64,4] broadcast(%x), dimensions={0,2}
  %w = f32[64,64,4] broadcast(%x), dimensions={1,2}
  %d = f32[64,64,4] subtract(%v, %w)
  %q = f32[64,64,4] multiply(%d, %d)
  %zero = f32[] constant(0)
  %s = f32[64,64] reduce(%q, %zero), dimensions={2}, to_apply=%sum
  ROOT %r = f32[64,64] custom-call(%s), custom_call_target=\"opaque\"",
    );
    let whole = 64 * 64 * 4 * 4;
    let offered = |total: u64| offers_of(&module, 1024, Grade::HloExact, Bytes(1), Bytes(total)).len();
    assert!(offered(whole) > 0, "the differences may stand in memory");
    assert_eq!(offered(whole - 1), 0);
}

/// Nor does a loop write it for the sake of something smaller: XLA computes it on the fly for both of its readers.
#[test]
fn t16_what_is_larger_than_all_memory_is_not_written() {
    let module = program(
        "  %x = f32[64,8] parameter(0)
  %y = f32[32,8] parameter(1)
  %zero = f32[] constant(0)
  %p = f32[64,32] dot(%x, %y), lhs_contracting_dims={1}, rhs_contracting_dims={1}
  %e = f32[64,32] exponential(%p)
  %b = f32[64,32,4] broadcast(%e), dimensions={0,1}
  %g = f32[64,32,4] sine(%b)
  %rows = f32[64] reduce(%g, %zero), dimensions={1,2}, to_apply=%sum
  %columns = f32[32] reduce(%g, %zero), dimensions={0,2}, to_apply=%sum
  ROOT %t = (f32[64], f32[32]) tuple(%rows, %columns)",
    );
    let whole = 64 * 32 * 4 * 4;
    let written = |total: u64| {
        let offered = offers_of(&module, 256, Grade::HloExact, Bytes(1), Bytes(total)).into_iter();
        let notes: Vec<String> = offered.map(|offer| apply(&mut module.clone(), offer)).collect();
        assert!(!notes.is_empty(), "loops for rows and columns apart do without it");
        notes.iter().any(|note| note.contains("2 results in one loop"))
    };
    assert!(written(whole), "one loop sums the rows, and writes what the columns are summed of");
    assert!(!written(whole - 1));
}

/// With the rules of an ordinary run, what was planned once is planned for good.
#[test]
fn t16_a_planned_module_is_left_alone() {
    let mut module = program(LONG_ROWS);
    let passes = default_pipeline();
    let mut again =
        || run(&mut module, &passes, &Options::default(), &ModelEstimator::default()).expect("it has an estimate");
    let report = again();
    assert_eq!(report.rewrites.len(), 1, "one loop does it");
    assert!(report.after.total_with_scratch() < Bytes(report.before.total_with_scratch().get() / 16));
    assert_eq!(again().rewrites, []);
}
