//! `chunk`: which loops keep every bit: a product of floats must not be parted from a sum that a compiler could join it with.
//!
//! Pins `passes/src/chunk.rs`, `passes/src/chunk/fp_contraction.rs`, `passes/src/chunk/wide_epilogue.rs`, `passes/src/chunk/sum.rs`,
//! `passes/src/flow/exactness.rs`, `passes/src/flow/fused.rs`, `passes/src/flow/scatter_sum.rs`, `passes/src/flow/selection.rs`,
//! `passes/src/flow/sources.rs`.

use hlo_ir::Opcode;
use hlo_passes::{Grade, Options, Outcome};
use indexmap::IndexSet;

use crate::chunking::seeded_planner::offers;
use crate::chunking::{find, options, rewrite};
use crate::common::parse;

const HEAD: &str = "HloModule m
%add_f32 (a: f32[], b: f32[]) -> f32[] {
  %a = f32[] parameter(0)
  %b = f32[] parameter(1)
  ROOT %c = f32[] add(%a, %b)
}
%most_f32 (a: f32[], b: f32[]) -> f32[] {
  %a = f32[] parameter(0)
  %b = f32[] parameter(1)
  ROOT %c = f32[] maximum(%a, %b)
}
%plus (p: f32[7], q: f32[7]) -> f32[7] {
  %p = f32[7] parameter(0)
  %q = f32[7] parameter(1)
  ROOT %c = f32[7] add(%p, %q)
}
%most (p: f32[7], q: f32[7]) -> f32[7] {
  %p = f32[7] parameter(0)
  %q = f32[7] parameter(1)
  ROOT %c = f32[7] maximum(%p, %q)
}
%goes_on (s: (s32[], f32[7])) -> pred[] {
  %s = (s32[], f32[7]) parameter(0)
  %k = s32[] get-tuple-element(%s), index=0
  %end = s32[] constant(10)
  ROOT %c = pred[] compare(%k, %end), direction=LT
}
%keep (s: (s32[], f32[7])) -> (s32[], f32[7]) {
  %s = (s32[], f32[7]) parameter(0)
  %k = s32[] get-tuple-element(%s), index=0
  %one = s32[] constant(1)
  %next = s32[] add(%k, %one)
  %t = f32[7] get-tuple-element(%s), index=1
  ROOT %r = (s32[], f32[7]) tuple(%next, %t)
}
%change (s: (s32[], f32[7])) -> (s32[], f32[7]) {
  %s = (s32[], f32[7]) parameter(0)
  %k = s32[] get-tuple-element(%s), index=0
  %one = s32[] constant(1)
  %next = s32[] add(%k, %one)
  %t = f32[7] get-tuple-element(%s), index=1
  %u = f32[7] negate(%t)
  ROOT %r = (s32[], f32[7]) tuple(%next, %u)
}
";

/// The grade of the loop around a scatter of the updates `%u`, `f32[64]`, made by `lines`; `root` is what the program gives back.
fn grade(lines: &str, root: &str) -> Grade {
    grade_of("f32", lines, root)
}

/// The same where all floats are of type `t`.
fn grade_of(t: &str, lines: &str, root: &str) -> Grade {
    grade_of_first(&source(t, lines, root))
}

fn grade_of_first(source: &str) -> Grade {
    let found = find(&parse(source), &options(80));
    let rewrite = found.into_iter().find(|finding| matches!(finding.outcome, Outcome::Rewrite { .. }));
    rewrite.expect("the scatter is cut into blocks").grade
}

fn source(t: &str, lines: &str, root: &str) -> String {
    source_with("", t, lines, root)
}

/// The same with computations that the lines call.
fn source_with(computations: &str, t: &str, lines: &str, root: &str) -> String {
    let source = format!(
        "{HEAD}{computations}\nENTRY %main {{
  %x = f32[7] parameter(0)
  %i = s32[64] parameter(1)
  %v = f32[64] parameter(2)
  %w = f32[64] parameter(3)
  %one = s32[] constant(1)
  %ones = s32[64] broadcast(%one), dimensions={{}}
  %next = s32[64] add(%i, %ones)
  %index = s32[64,1] reshape(%next)
{lines}
  %y = f32[7] scatter(%x, %index, %u), update_window_dims={{}}, inserted_window_dims={{0}}, scatter_dims_to_operand_dims={{0}}, index_vector_dim=1, to_apply=%add_f32
  {root}\n}}\n"
    );
    source.replace("f32", t)
}

const ALONE: &str = "ROOT %r = (f32[7]) tuple(%y)";

/// Divides by numbers that are picked from a table.
fn picked(table: &str) -> Grade {
    let gather = "offset_dims={}, collapsed_slice_dims={0}, start_index_map={0}, index_vector_dim=1, slice_sizes={1}";
    grade(&format!("{table}\n  %g = f32[64] gather(%t, %index), {gather}\n  %u = f32[64] divide(%v, %g)"), ALONE)
}

#[test]
fn what_a_compiler_knows_of_a_table_of_one_number_it_does_not_know_in_a_loop() {
    // A quotient by a constant becomes a product, and a product of complex numbers is another one; seed 7,007,792.
    assert_eq!(picked("  %t = f32[7] copy(%x)"), Grade::Bitwise);
    let full = "  %n = f32[] constant(3)\n  %t = f32[7] broadcast(%n), dimensions={}";
    assert_eq!(picked(full), Grade::HloExact);
    let counted = "  %n = f32[7] iota(), iota_dimension=0\n  %t = f32[7] negate(%n)";
    assert_eq!(picked(counted), Grade::Bitwise);
    let computed = "  %n = f32[] constant(3)\n  %b = f32[7] broadcast(%n), dimensions={}\n  %o = f32[7] constant({2, 2, 2, 2, 2, 2, 2})\n  %t = f32[7] multiply(%b, %o)";
    assert_eq!(picked(computed), Grade::HloExact);
    assert_eq!(picked(&computed.replace("2})", "3})")), Grade::Bitwise, "not one number");
    let carried = |after: &str| {
        picked(&format!("  %n = f32[] constant(3)\n  %b = f32[7] broadcast(%n), dimensions={{}}\n  %none = s32[] constant(0)
  %state = (s32[], f32[7]) tuple(%none, %b)\n  %looping = (s32[], f32[7]) while(%state), condition=%goes_on, body=%{after}\n  %t = f32[7] get-tuple-element(%looping), index=1"))
    };
    assert_eq!(carried("keep"), Grade::HloExact);
    assert_eq!(carried("change"), Grade::Bitwise);
}

#[test]
fn products_with_the_only_row_of_a_table_are_computed_in_another_order() {
    let of = |rows: usize, last: &str| {
        let gather =
            "offset_dims={}, collapsed_slice_dims={0}, start_index_map={0}, index_vector_dim=1, slice_sizes={1}";
        grade(
            &format!(
                "  %t = f32[{rows}] slice(%x), slice={{[0:{rows}]}}\n  %g = f32[64] gather(%t, %index), {gather}\n  %u = f32[64] {last}(%v, %g)"
            ),
            ALONE,
        )
    };
    assert_eq!(of(1, "multiply"), Grade::HloExact);
    assert_eq!(of(2, "multiply"), Grade::Bitwise);
    assert_eq!(of(1, "maximum"), Grade::Bitwise);
}

#[test]
fn a_sum_with_what_becomes_a_scatter_is_taken_in_otherwise() {
    // XLA takes `%a` into the first scatter, and then two scatters meet; seed 7,109,005.
    let scatter = "index_vector_dim=1, update_window_dims={}, inserted_window_dims={0}, scatter_dims_to_operand_dims={0}, to_apply=%add_f32";
    // Where bits may differ the sum would stay behind a loop that the scatters share.
    let exact = Options { exactness: Grade::Bitwise, ..options(80) };
    let second = |sum: &str| {
        let source = format!(
            "{HEAD}
ENTRY %main {{
  %x = f32[7] parameter(0)
  %i = s32[64] parameter(1)
  %v = f32[64] parameter(2)
  %w = f32[64] parameter(3)
  %one = s32[] constant(1)
  %ones = s32[64] broadcast(%one), dimensions={{}}
  %next = s32[64] add(%i, %ones)
  %index = s32[64,1] reshape(%next)
  %n = f32[] constant(0)
  %zeros = f32[7] broadcast(%n), dimensions={{}}
  %other = s32[64,1] reshape(%i)
  %first = f32[7] scatter(%zeros, %other, %w), {scatter}
  %u = f32[64] negate(%v)
  %y = f32[7] scatter(%zeros, %index, %u), {scatter}
  %a = f32[7] {sum}
  ROOT %r = f32[7] add(%y, %a)\n}}\n"
        );
        let found = find(&parse(&source), &exact);
        let grades = found.into_iter().filter(|finding| matches!(finding.outcome, Outcome::Rewrite { .. }));
        grades.map(|finding| finding.grade).max()
    };
    assert_eq!(second("add(%first, %x)"), None);
    assert_eq!(second("maximum(%first, %x)"), Some(Grade::Bitwise));
    // The same behind a call, which XLA inlines first.
    assert_eq!(second("call(%first, %x), to_apply=%plus"), None);
    assert_eq!(second("call(%first, %x), to_apply=%most"), Some(Grade::Bitwise));
}

#[test]
fn a_sum_behind_a_loop_is_taken_into_the_other_scatter() {
    // XLA takes `%x` into `%y`, and leaves the sum of two scatters; it takes a loop into `%other`; seed 11,015,244.
    let scatter = "index_vector_dim=1, update_window_dims={}, inserted_window_dims={0}, scatter_dims_to_operand_dims={0}, to_apply=%add_f32";
    let lines = format!(
        "  %flat = s32[64,1] reshape(%i)\n  %other = f32[7] scatter(%x, %flat, %w), {scatter}\n  %u = f32[64] negate(%v)"
    );
    let outer = |sum: &str| grade(&lines, &format!("%a = f32[7] add(%y, %x)\n  {sum}"));
    assert_eq!(outer("ROOT %r = f32[7] add(%a, %other)"), Grade::HloExact);
    assert_eq!(outer("ROOT %r = f32[7] maximum(%a, %other)"), Grade::Bitwise);
    assert_eq!(outer("ROOT %r = f32[7] call(%other, %a), to_apply=%plus"), Grade::HloExact);
    assert_eq!(outer("ROOT %r = f32[7] call(%other, %a), to_apply=%most"), Grade::Bitwise);
    // And it would take in sum after sum.
    assert_eq!(outer("ROOT %r = f32[7] add(%a, %a)"), Grade::HloExact);
    assert_eq!(outer("%b = f32[7] negate(%other)\n  ROOT %r = f32[7] add(%a, %b)"), Grade::HloExact);
    let handed = "%t = (f32[7], f32[7]) tuple(%a, %x)\n  %g = f32[7] get-tuple-element(%t), index=0\n  ";
    assert_eq!(outer(&format!("{handed}ROOT %r = f32[7] add(%g, %x)")), Grade::HloExact);
    assert_eq!(outer(&format!("{handed}ROOT %r = f32[7] maximum(%g, %x)")), Grade::Bitwise);
}

#[test]
fn a_table_of_one_number_is_known_in_a_call_too() {
    let called = "HloModule m
%add_f32 (a: f32[], b: f32[]) -> f32[] {
  %a = f32[] parameter(0)
  %b = f32[] parameter(1)
  ROOT %c = f32[] add(%a, %b)
}
%update {
  %t = f32[7] parameter(0)
  %i = s32[64] parameter(1)
  %v = f32[64] parameter(2)
  %one = s32[] constant(1)
  %ones = s32[64] broadcast(%one), dimensions={}
  %next = s32[64] add(%i, %ones)
  %index = s32[64,1] reshape(%next)
  %g = f32[64] gather(%t, %index), offset_dims={}, collapsed_slice_dims={0}, start_index_map={0}, index_vector_dim=1, slice_sizes={1}
  %u = f32[64] divide(%v, %g)
  ROOT %y = f32[7] scatter(%t, %index, %u), update_window_dims={}, inserted_window_dims={0}, scatter_dims_to_operand_dims={0}, index_vector_dim=1, to_apply=%add_f32
}
ENTRY %main {
  %x = f32[7] parameter(0)
  %i = s32[64] parameter(1)
  %v = f32[64] parameter(2)
  %n = f32[] constant(3)
  %full = f32[7] broadcast(%n), dimensions={}
  ROOT %r = f32[7] call(%full, %i, %v), to_apply=%update
}
";
    assert_eq!(grade_of_first(called), Grade::HloExact);
    assert_eq!(grade_of_first(&called.replace("call(%full", "call(%x")), Grade::Bitwise);
    let twice = |other: &str| {
        let root =
            format!("  %q = f32[7] call({other}, %i, %v), to_apply=%update\n  ROOT %r = f32[7] call(%q, %i, %v)");
        called.replace("  ROOT %r = f32[7] call(%full, %i, %v)", &root)
    };
    assert_eq!(grade_of_first(&twice("%full")), Grade::HloExact, "one caller suffices");
    assert_eq!(grade_of_first(&twice("%x")), Grade::Bitwise);
}

#[test]
fn products_and_sums_that_stay_together_keep_every_bit() {
    assert_eq!(grade("  %u = f32[64] multiply(%v, %w)", ALONE), Grade::Bitwise, "a scatter shares no kernel");
    assert_eq!(grade("  %p = f32[64] multiply(%v, %w)\n  %u = f32[64] add(%p, %v)", ALONE), Grade::Bitwise);
    assert_eq!(
        grade("  %s = f32[64] sine(%v)\n  %u = f32[64] add(%s, %v)", "ROOT %r = (f32[7], f32[64]) tuple(%y, %s)"),
        Grade::Bitwise
    );
}

#[test]
fn short_floats_are_rounded_where_a_loop_ends() {
    let updates = "  %u = f32[64] negate(%v)";
    let read = "%n = f32[7] negate(%y)\n  ROOT %r = (f32[7]) tuple(%n)";
    for (t, expected) in [("f32", Grade::Bitwise), ("bf16", Grade::HloExact), ("f16", Grade::HloExact)] {
        assert_eq!(grade_of(t, updates, ALONE), Grade::Bitwise, "{t} is rounded for the result in any case");
        assert_eq!(grade_of(t, updates, read), expected, "{t}");
    }
}

#[test]
fn a_sum_of_two_products_is_joined_with_one_of_them() {
    let lines = "  %p = f32[64] multiply(%v, %w)\n  %q = f32[64] multiply(%v, %v)\n  %u = f32[64] subtract(%p, %q)";
    assert_eq!(grade(lines, ALONE), Grade::HloExact);
}

#[test]
fn a_sum_of_two_products_outside_may_be_joined_otherwise_where_its_kernel_changes() {
    // The loop reads the sum, which the scatter's updates repeat; before, it was computed where it is repeated; seed 8,003,750.
    let repeated = |sum: &str| {
        let text = format!(
            "{HEAD}
ENTRY %main {{
  %x = f32[2,7] parameter(0)
  %i = s32[64,1] parameter(1)
  %v = f32[64] parameter(2)
  %w = f32[64] parameter(3)
  %p = f32[64] multiply(%v, %w)
  %q = f32[64] multiply(%v, %v)
  %s = f32[64] {sum}(%p, %q)
  %u = f32[2,64] broadcast(%s), dimensions={{1}}
  %one = s32[] constant(1)
  %ones = s32[64,1] broadcast(%one), dimensions={{}}
  %index = s32[64,1] add(%i, %ones)
  ROOT %y = f32[2,7] scatter(%x, %index, %u), update_window_dims={{0}}, inserted_window_dims={{1}}, scatter_dims_to_operand_dims={{1}}, index_vector_dim=1, to_apply=%most\n}}\n"
        );
        let found = offers(&parse(&text), 256, Grade::HloExact);
        assert!(!found.is_empty());
        found.into_iter().map(|finding| finding.grade).collect::<IndexSet<_>>()
    };
    assert_eq!(repeated("add"), IndexSet::from([Grade::HloExact]));
    assert_eq!(repeated("maximum"), IndexSet::from([Grade::Bitwise]));
    // Two dimensions that a scatter makes one and a loop does not: the sum is written in another shape; seed 8,005,203.
    let reshaped = |sum: &str| {
        let text = format!(
            "{HEAD}
ENTRY %main {{
  %x = f32[7,3] parameter(0)
  %i = f32[2,64,3,2] parameter(1)
  %v = f32[2,64,3] parameter(2)
  %w = f32[2,64,3] parameter(3)
  %p = f32[2,64,3] multiply(%v, %w)
  %q = f32[2,64,3] multiply(%v, %v)
  %s = f32[2,64,3] {sum}(%p, %q)
  %n = s32[2,64,3,2] convert(%i)
  %l = s32[2,64,3,1] slice(%n), slice={{[0:2], [0:64], [0:3], [0:1]}}
  %k = s32[2,64,3,1] slice(%n), slice={{[0:2], [0:64], [0:3], [1:2]}}
  %index = s32[2,64,3,2] concatenate(%l, %k), dimensions={{3}}
  ROOT %y = f32[7,3] scatter(%x, %index, %s), update_window_dims={{}}, inserted_window_dims={{0,1}}, scatter_dims_to_operand_dims={{0,1}}, index_vector_dim=3, to_apply=%most\n}}\n"
        );
        let found = offers(&parse(&text), 512, Grade::Bitwise);
        found.into_iter().filter(|finding| finding.grade == Grade::Bitwise).count()
    };
    assert_eq!(reshaped("add"), 0);
    assert_ne!(reshaped("maximum"), 0);
}

#[test]
fn columns_of_few_are_multiplied_together() {
    // The product is computed for all columns at once, and then not joined with the sum; seed 11,012,437.
    let graded = |columns: usize, inside: usize, sum: &str| {
        let (window, dims) =
            if inside > 0 { (format!("{columns},{inside}"), "1,2") } else { (columns.to_string(), "1") };
        let text = format!(
            "{HEAD}
ENTRY %main {{
  %x = f32[7,{window}] parameter(0)
  %i = s32[64,1] parameter(1)
  %v = f32[64,{window}] parameter(2)
  %p = f32[64,{window}] multiply(%v, %v)
  %s = f32[64,{window}] {sum}(%p, %v)
  %u = f32[64,{window}] sine(%s)
  ROOT %y = f32[7,{window}] scatter(%x, %i, %u), update_window_dims={{{dims}}}, inserted_window_dims={{0}}, scatter_dims_to_operand_dims={{0}}, index_vector_dim=1, to_apply=%most_f32\n}}\n"
        );
        let found = offers(&parse(&text), 256, Grade::HloExact).into_iter();
        let note = format!("{columns} blocks of 1 rows");
        let by_columns =
            found.filter(|finding| matches!(&finding.outcome, Outcome::Rewrite { note: own, .. } if *own == note));
        by_columns.map(|finding| finding.grade).collect::<Vec<_>>()
    };
    assert_eq!(graded(8, 0, "add"), [Grade::HloExact]);
    assert_eq!(graded(8, 0, "maximum"), [Grade::Bitwise]);
    assert_eq!(graded(9, 0, "add"), [Grade::Bitwise]);
    assert_eq!(graded(8, 1, "add"), [Grade::HloExact], "the same places in memory");
    assert_eq!(graded(4, 2, "add"), [Grade::HloExact]);
    assert_eq!(graded(5, 2, "add"), [Grade::Bitwise]);
}

#[test]
fn a_product_that_others_sum_up_outside_may_be_joined_there() {
    let product = "  %p = f32[64] multiply(%v, %w)\n  %u = f32[64] sine(%p)\n  %z = f32[64] ";
    let root = "ROOT %r = (f32[7], f32[64]) tuple(%y, %z)";
    assert_eq!(grade(&format!("{product}add(%p, %v)"), root), Grade::HloExact);
    assert_eq!(grade(&format!("{product}maximum(%p, %v)"), root), Grade::Bitwise);
}

#[test]
fn equal_products_count_as_one() {
    let lines = "  %p = f32[64] multiply(%v, %w)\n  %u = f32[64] add(%p, %v)\n  %q = f32[64] multiply(%v, %w)";
    assert_eq!(grade(lines, "ROOT %r = (f32[7], f32[64]) tuple(%y, %q)"), Grade::HloExact);
    let other = lines.replace("multiply(%v, %w)\n  %u", "multiply(%w, %w)\n  %u");
    assert_eq!(grade(&other, "ROOT %r = (f32[7], f32[64]) tuple(%y, %q)"), Grade::Bitwise);
}

#[test]
fn a_reduction_outside_of_what_no_longer_stands_may_sum_in_another_order() {
    let reduced = |what: &str| {
        format!(
            "  %t = f32[64] tanh(%v)\n  %u = f32[64] maximum(%t, %w)\n  %zero = f32[] constant(0)
  %z = f32[] reduce({what}, %zero), dimensions={{0}}, to_apply=%add_f32"
        )
    };
    let root = "ROOT %r = (f32[7], f32[]) tuple(%y, %z)";
    assert_eq!(grade(&reduced("%t"), root), Grade::HloExact);
    assert_eq!(grade(&reduced("%v"), root), Grade::Bitwise, "an argument stands before and after");
}

/// What is given back is written by the loop; before, XLA wrote it and computed it again where it was summed, if one array made it.
#[test]
fn a_sum_of_a_result_may_have_been_computed_on_the_fly() {
    let graded = |rows: usize, made: &str| {
        let text = format!(
            "{HEAD}
%less (l: f32[], m: f32[]) -> pred[] {{
  %l = f32[] parameter(0)
  %m = f32[] parameter(1)
  ROOT %n = pred[] compare(%l, %m), direction=LT\n}}
ENTRY %main {{
  %v = f32[{rows},8] parameter(0)
  %w = f32[{rows}] parameter(1)
  %s = f32[{rows},8] sort(%v), dimensions={{1}}, to_apply=%less
  %f = f32[{rows},1] slice(%s), slice={{[0:{rows}], [0:1]}}
  %o = f32[{rows}] reshape(%f)
  %p = f32[{rows}] {made}
  %zero = f32[] constant(0)
  %z = f32[] reduce(%p, %zero), dimensions={{0}}, to_apply=%add_f32
  ROOT %r = (f32[{rows}], f32[]) tuple(%p, %z)\n}}\n"
        );
        let found = offers(&parse(&text), 256, Grade::HloExact);
        found.into_iter().map(|finding| finding.grade).max().expect("the sort is cut into blocks")
    };
    assert_eq!(graded(64, "negate(%o)"), Grade::HloExact);
    assert_eq!(graded(64, "maximum(%o, %w)"), Grade::Bitwise, "made of two: summed from memory");
    assert_eq!(graded(4096, "negate(%o)"), Grade::Bitwise, "a library sums so many");
}

#[test]
fn functions_may_leave_the_library_that_sums_what_they_are_made_of() {
    let weighed = |function: &str, summed: &str, last: &str| {
        format!(
            "  %e = f32[64] {function}(%v)\n  %zero = f32[] constant(0)
  %s = f32[] reduce({summed}, %zero), dimensions={{0}}, to_apply=%add_f32
  %d = f32[64] broadcast(%s), dimensions={{}}\n  %u = f32[64] {last}(%e, %d)"
        )
    };
    assert_eq!(
        grade(&weighed("exponential", "%e", "divide"), ALONE),
        Grade::HloExact,
        "the exponentials are summed outside, the quotient divides by that"
    );
    assert_eq!(grade("  %e = f32[64] tanh(%v)\n  %u = f32[64] divide(%e, %w)", ALONE), Grade::Bitwise);
    let shifted = weighed("tanh", "%w", "subtract");
    assert_eq!(grade(&shifted, ALONE), Grade::Bitwise, "no function is made of the sum or summed");
    let behind = weighed("tanh", "%w", "divide");
    assert_eq!(grade(&behind, ALONE), Grade::HloExact, "a quotient by a sum");
}

/// XLA:CPU's code for some functions, and for products of complex numbers, rounds by how many numbers a kernel has.
#[test]
fn functions_whose_last_bits_follow_the_size_of_a_kernel_are_no_bitwise_work() {
    for function in ["erf", "tan", "cbrt", "exponential", "log", "log-plus-one"] {
        assert_eq!(grade(&format!("  %u = f32[64] {function}(%v)"), ALONE), Grade::HloExact, "{function}");
    }
    let strict = Options { exactness: Grade::Bitwise, ..options(80) };
    let found = find(&parse(&source("f32", "  %u = f32[64] erf(%v)", ALONE)), &strict);
    let said = |finding: &hlo_passes::Finding| matches!(&finding.outcome, Outcome::Missed(reason) if reason.code == "exactness" && reason.message.contains("`u`"));
    assert_eq!(found.iter().filter(|finding| said(finding)).count(), 1, "{found:?}");
    for function in ["sine", "tanh", "logistic", "sqrt", "rsqrt", "negate"] {
        assert_eq!(grade(&format!("  %u = f32[64] {function}(%v)"), ALONE), Grade::Bitwise, "{function}");
    }
    assert_eq!(grade_of("f16", "  %u = f16[64] rsqrt(%v)", ALONE), Grade::HloExact);
    assert_eq!(grade_of("c64", "  %u = c64[64] multiply(%v, %w)", ALONE), Grade::HloExact);
    assert_eq!(grade_of("c64", "  %u = c64[64] add(%v, %w)", ALONE), Grade::Bitwise);
}

/// A library that sums floats and is to round the sums does not where they are widened again; in the loop they are rounded.
#[test]
fn a_sum_may_be_rounded_once_it_leaves_the_library() {
    let rounded = |of: &str| {
        format!(
            "  %zero = f32[] constant(0)\n  %s = f32[] reduce(%w, %zero), dimensions={{0}}, to_apply=%add_f32
  %d = f32[64] broadcast(%s), dimensions={{}}\n  %b = bf16[64] convert({of})\n  %e = f32[64] convert(%b)
  %u = f32[64] maximum(%e, %d)"
        )
    };
    assert_eq!(grade(&rounded("%d"), ALONE), Grade::HloExact);
    assert_eq!(grade(&rounded("%v"), ALONE), Grade::Bitwise, "what comes from memory is rounded wherever that is");
}

/// XLA:CPU widens a scatter of `bf16` before it looks at sums: updates are rounded one by one, and then the sum.
#[test]
fn a_sum_of_short_floats_stays_behind_the_loop_as_xla_leaves_it() {
    let rooted = |element: &str| {
        let mut module = parse(&source(element, "  %u = f32[64] negate(%v)", "ROOT %r = f32[7] add(%y, %x)"));
        assert_eq!(rewrite(&mut module, &options(40)).len(), 1);
        module.instruction(module.computation(module.entry()).root).opcode
    };
    assert_eq!(rooted("bf16"), Opcode::Add);
    assert_eq!(rooted("f16"), Opcode::GetTupleElement, "the loop starts from the sum");
}

/// LLVM makes a maximum of such a selection where it computes several numbers at a time, which takes subnormal numbers for zeros.
#[test]
fn a_selection_of_the_larger_short_float_may_flush_subnormals() {
    let picks = |element: &str, left: &str, right: &str| {
        let lines =
            format!("  %m = pred[64] compare({left}, {right}), direction=GT\n  %u = {element}[64] select(%m, %v, %w)");
        grade_of(element, &lines, ALONE)
    };
    for element in ["bf16", "f16"] {
        assert_eq!(picks(element, "%v", "%w"), Grade::HloExact, "{element}");
        assert_eq!(picks(element, "%w", "%v"), Grade::HloExact, "{element}");
        assert_eq!(picks(element, "%v", "%v"), Grade::Bitwise, "{element}");
    }
    assert_eq!(picks("f32", "%v", "%w"), Grade::Bitwise, "a maximum however many are computed");
    let lines = "  %m = pred[64] compare(%v, %w), direction=GT\n  %u = bf16[64] call(%m, %v, %w), to_apply=%pick";
    let pick = "%pick {\n  %m = pred[64] parameter(0)\n  %a = bf16[64] parameter(1)\n  %b = bf16[64] parameter(2)
  ROOT %s = bf16[64] select(%m, %a, %b)\n}\n";
    assert_eq!(grade_of_first(&source_with(pick, "bf16", lines, ALONE)), Grade::HloExact, "jnp.where is a call");
}

/// XLA sums up the last column alone where it sees that no other one is needed, and by other means.
#[test]
fn a_part_of_sums_may_be_summed_otherwise() {
    let cut = |columns: usize, sums: &str, part: &str| {
        let lines = format!(
            "  %b = f32[64,2] broadcast(%v), dimensions={{0}}\n  %zero = f32[] constant(0)\n  %s = f32[64,{columns}] {sums}
  %p = f32[64,1] {part}\n  %u = f32[64] reshape(%p)"
        );
        let options = Options { exactness: Grade::Bitwise, ..options(80) };
        let found = find(&parse(&source("f32", &lines, ALONE)), &options);
        let rewrite = found.into_iter().find(|finding| matches!(finding.outcome, Outcome::Rewrite { .. }));
        rewrite.expect("the scatter is cut into blocks").grade
    };
    let summed = |pad: &str| format!("reduce-window(%b, %zero), window={{size=1x2{pad}}}, to_apply=%add_f32");
    let sums = summed(" pad=0_0x1_0");
    assert_eq!(cut(2, &sums, "slice(%s), slice={[0:64], [1:2]}"), Grade::HloExact);
    let started = format!("{sums}\n  %at = s32[] constant(1)\n  %none = s32[] constant(0)");
    assert_eq!(cut(2, &started, "dynamic-slice(%s, %none, %at), dynamic_slice_sizes={64,1}"), Grade::HloExact);
    assert_eq!(cut(1, &summed(""), "negate(%s)"), Grade::Bitwise, "all of them");
    let of = |text: &str| {
        let found = find(&parse(text), &Options { exactness: Grade::Bitwise, ..options(80) });
        let made = found.into_iter().filter(|finding| matches!(finding.outcome, Outcome::Rewrite { .. }));
        made.map(|finding| finding.grade).collect::<Vec<_>>()
    };
    let lines = "  %b = f32[64,2] broadcast(%v), dimensions={0}\n  %s = f32[64,2] call(%b), to_apply=%sums
  %p = f32[64,1] slice(%s), slice={[0:64], [1:2]}\n  %u = f32[64] reshape(%p)";
    let sums = format!(
        "%sums {{\n  %b = f32[64,2] parameter(0)\n  %zero = f32[] constant(0)\n  ROOT %s = f32[64,2] {sums}\n}}\n"
    );
    let called = source_with(&sums, "f32", lines, ALONE);
    assert_eq!(of(&called), [Grade::HloExact], "jnp.cumsum is a call");
    let lines = "  %b = f32[64,2] broadcast(%v), dimensions={0}\n  %s = f32[64,2] call(%b), to_apply=%sums
  %u = f32[64] call(%s), to_apply=%last";
    let last = "%last {\n  %s = f32[64,2] parameter(0)\n  %p = f32[64,1] slice(%s), slice={[0:64], [1:2]}
  ROOT %u = f32[64] reshape(%p)\n}\n";
    let called = source_with(&format!("{sums}{last}"), "f32", lines, ALONE);
    assert_eq!(of(&called), [Grade::HloExact], "so is what takes the column");
}
