//! Kernels of XLA:GPU that keep rows in registers, by its own reports (H100): softmaxes and other normalizations, and what they take in.
//!
//! Pins `memory/src/cpu/fusion/priority/diamonds.rs`, `memory/src/cpu/fusion/priority/rows.rs`.

use hlo_memory::Target;

use crate::devices::{stored, temporaries, text_of};

/// Rows of scores, their shares of the sum of their row, and a sum of values by those; 64 MiB of scores in all tests.
fn softmax(rows: u32, length: u32) -> String {
    shares(rows, length, "", "%e")
}

/// The same of another array, which these lines make.
fn shares(rows: u32, length: u32, lines: &str, other: &str) -> String {
    format!(
        "  %q = f32[{rows},64]{{1,0}} parameter(0)
  %k = f32[64,{length}]{{1,0}} parameter(1)
  %s = f32[{rows},{length}]{{1,0}} dot(%q, %k), lhs_contracting_dims={{1}}, rhs_contracting_dims={{0}}
  %e = f32[{rows},{length}]{{1,0}} exponential(%s)
  %zero = f32[] constant(0)
  %sum = f32[{rows}]{{0}} reduce(%e, %zero), dimensions={{1}}, to_apply=%add
  %sums = f32[{rows},{length}]{{1,0}} broadcast(%sum), dimensions={{0}}
{lines}  %p = f32[{rows},{length}]{{1,0}} divide({other}, %sums)
  %v = f32[{length},64]{{1,0}} parameter(2)
  ROOT %y = f32[{rows},64]{{1,0}} dot(%p, %v), lhs_contracting_dims={{1}}, rhs_contracting_dims={{0}}"
    )
}

#[test]
fn rows_that_fit_into_registers_are_reduced_and_read_by_one_kernel_on_gpu() {
    assert_eq!(temporaries(&softmax(4096, 4096), Target::Gpu), 128, "scores and probabilities: XLA:GPU says 128");
    assert_eq!(
        temporaries(&softmax(256, 65536), Target::Gpu),
        72,
        "written over the scores, and products of parts of the rows"
    );
}

#[test]
fn a_kernel_does_not_read_rows_only_to_reduce_them_again() {
    let other = "  %l = f32[64,4096]{1,0} parameter(3)
  %t = f32[4096,4096]{1,0} dot(%q, %l), lhs_contracting_dims={1}, rhs_contracting_dims={0}\n";
    let others = shares(4096, 4096, other, "%t");
    assert_eq!(
        temporaries(&others, Target::Gpu),
        72,
        "sums of scores that are gone by then, and products of parts of the rows"
    );
}

/// A softmax and its gradient, as JAX writes them, of 128 MiB of scores. XLA:GPU makes one kernel of each, in which the sums of all rows are computed again; behind a mask
/// of the scores, which takes longer to compute twice, it stores the sums.
#[test]
fn sums_of_rows_are_stored_where_computing_them_twice_takes_longer_on_gpu() {
    let is_stored = |text: &str| stored(text, ["reduce_max.7", "reduce_sum.21", "reduce_sum.22"]);
    assert_eq!(is_stored(include_str!("device_programs/softmax_gradient.hlo")), [false; 3]);
    assert_eq!(is_stored(include_str!("device_programs/masked_softmax_gradient.hlo")), [false, true, false]);
}

/// XLA:GPU makes one kernel that moves 384 MiB where it finds the sum of each row itself, and two that move 640 MiB where it is given.
#[test]
fn a_kernel_that_normalizes_rows_reduces_others_too_on_gpu() {
    let is_stored = |total: &str| {
        let lines = format!(
            "  %x = f32[32768,1024] parameter(0)
  %g = f32[32768,1024] parameter(1)
  %zero = f32[] constant(0)
  %total = f32[32768] {total}
  %totals = f32[32768,1024] broadcast(%total), dimensions={{0}}
  %e = f32[32768,1024] subtract(%x, %totals)
  %p = f32[32768,1024] multiply(%g, %e)
  %sum = f32[32768] reduce(%p, %zero), dimensions={{1}}, to_apply=%add
  %sums = f32[32768,1024] broadcast(%sum), dimensions={{0}}
  %d = f32[32768,1024] subtract(%g, %sums)
  ROOT %y = f32[32768,1024] multiply(%d, %e)"
        );
        stored(&text_of(&lines), ["sum"])
    };
    assert_eq!(is_stored("reduce(%x, %zero), dimensions={1}, to_apply=%add"), [false]);
    assert_eq!(is_stored("parameter(2)"), [true]);
}

/// Rows divided by their sums, behind a mask made of `bits`.
fn masked(bits: &str) -> String {
    format!(
        "  %x = f32[32768,1024] parameter(0)
  %bits = {bits}[32768,1024] parameter(1)
  %zero = f32[] constant(0)
  %zeros = f32[32768,1024] broadcast(%zero), dimensions={{}}
  %few = {bits}[] constant(512)
  %fews = {bits}[32768,1024] broadcast(%few), dimensions={{}}
  %mask = pred[32768,1024] compare(%bits, %fews), direction=LT
  %sum = f32[32768] reduce(%x, %zero), dimensions={{1}}, to_apply=%add
  %sums = f32[32768,1024] broadcast(%sum), dimensions={{0}}
  %n = f32[32768,1024] divide(%x, %sums)
  ROOT %y = f32[32768,1024] select(%mask, %n, %zeros)"
    )
}

#[test]
fn a_kernel_of_rows_holds_no_unsigned_integers_on_gpu() {
    assert_eq!(temporaries(&masked("u32"), Target::Gpu), 32, "the mask, as behind random bits; XLA:GPU says 32");
    assert_eq!(temporaries(&masked("s32"), Target::Gpu), 0, "XLA:GPU says 0");
}

/// What an operation `last` gives of rows `%x`, or of `%r` made from them, and of the sums of the rows `%r`.
fn with_sums(last: &str, of: &str, opcode: &str) -> String {
    format!(
        "  %x = f32[32768,1024] parameter(0)
  %zero = f32[] constant(0)
  %r = f32[32768,1024] {opcode}(%x)
  %sum = f32[32768] reduce(%r, %zero), dimensions={{1}}, to_apply=%add
  %sums = f32[32768,1024] broadcast(%sum), dimensions={{0}}
  ROOT %n = f32[32768,1024] {last}({of}, %sums)"
    )
}

#[test]
fn a_kernel_of_rows_computes_what_triton_does_on_gpu() {
    assert_eq!(temporaries(&with_sums("divide", "%r", "abs"), Target::Gpu), 0, "XLA:GPU says 0");
    assert_eq!(
        temporaries(&with_sums("divide", "%r", "sign"), Target::Gpu),
        128,
        "a kernel of its own; XLA:GPU says 128"
    );
    // Nor is there a normalization with such an operation inside.
    let is_stored = |opcode: &str| stored(&text_of(&with_sums("subtract", "%x", opcode)), ["sum"]);
    assert_eq!((is_stored("abs"), is_stored("sign")), ([false], [true]));
}

/// The gradient of a layer normalization between two products keeps numbers of rows in dimensions of one element. Beside what products write, one array of 128 MiB
/// stands in memory, whose columns are summed, not the numbers less their mean.
#[test]
fn numbers_of_rows_are_computed_in_dimensions_of_one_element_on_gpu() {
    let text = include_str!("device_programs/layer_norm_gradient.hlo");
    assert_eq!(stored(text, ["sub.15", "sub.11", "mul.42"]), [false, false, true]);
}
