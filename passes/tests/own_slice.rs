//! `own-slice`: which values every device computes only its part of, and how.
//!
//! Pins `passes/src/own_slice.rs`.

#![allow(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]

use crate::common;

use hlo_ir::graph::Users;
use hlo_ir::{Module, text, verify};
use hlo_memory::Bytes;
use hlo_passes::own_slice::OwnSlice;
use hlo_passes::{Context, Finding, Grade, Machine, Options, Outcome, Pass};

const DEVICE: &str = "  %device = u32[] partition-id()
  %number = s32[] convert(%device)
  %two = s32[] constant(2)
  %zero = s32[] constant(0)
  %own = s32[] multiply(%number, %two)
";

fn find_at(module: &Module, exactness: Grade) -> Vec<Finding> {
    let options = Options {
        min_saving: Bytes(1),
        machine: Some(Machine::without_malloc_cache()),
        exactness,
        ..Options::default()
    };
    let (users, estimate) = (Users::of(module), common::estimate(Bytes(0), Vec::new()));
    OwnSlice.find(&Context::of_input(module, &users, &estimate, &options))
}

fn find(lines: &str) -> Vec<Finding> {
    find_at(&common::module(&format!("{DEVICE}{lines}")), Grade::HloExact)
}

/// The text after the one rewrite, and its grade.
fn rewritten(lines: &str) -> (String, Grade) {
    let mut module = common::module(&format!("{DEVICE}{lines}"));
    let mut findings = find_at(&module, Grade::HloExact);
    let Some(Finding { grade, outcome: Outcome::Rewrite { patch, .. }, .. }) = findings.pop() else {
        panic!("{findings:?}")
    };
    assert!(findings.is_empty(), "{findings:?}");
    patch.apply(&mut module).expect("the patch fits");
    assert_eq!(verify::verify(&module), [], "{}", text::print(&module));
    (text::print(&module), grade)
}

#[test]
fn the_slice_moves_up_to_what_stands_in_memory() {
    let (after, grade) = rewritten(
        "  %x = f32[8,64] parameter(0)
  %y = f32[16,64] parameter(1)
  %twice = f32[8,2,64] reshape(%y)
  %even = f32[8,1,64] slice(%twice), slice={[0:8], [0:1], [0:64]}
  %flat = f32[8,64] reshape(%even)
  %all = f32[8,64] maximum(%x, %flat)
  ROOT %mine = f32[2,64] dynamic-slice(%all, %own, %zero), dynamic_slice_sizes={2,64}",
    );
    assert_eq!(grade, Grade::Bitwise);
    // The start is moved as the slice would move it; two rows of `%y` belong to one row of the result.
    assert!(after.contains("clamp(%row_constant, %own, %row_constant.1)") && after.contains("constant(6)"), "{after}");
    assert!(
        after.contains("f32[4,64] dynamic-slice(%y, %own_start.1,") && after.contains("multiply(%own_start, "),
        "{after}"
    );
    assert!(after.contains("f32[2,64] dynamic-slice(%x, %own_start,"), "{after}");
    assert!(!after.contains("f32[8,64] maximum"), "{after}");
}

#[test]
fn rows_at_an_offset_are_found() {
    let (after, _) = rewritten(
        "  %x = s32[20,4] parameter(0)
  %part = s32[8,4] slice(%x), slice={[5:13], [0:4]}
  %all = s32[8,4] negate(%part)
  ROOT %mine = s32[2,4] dynamic-slice(%all, %own, %zero), dynamic_slice_sizes={2,4}",
    );
    assert!(after.contains("s32[2,4] dynamic-slice(%x, %own_start.1,") && after.contains("constant(5)"), "{after}");
}

#[test]
fn several_slices_share_nothing_and_take_less_than_all() {
    let slices = |rows: i64| {
        format!(
            "  %x = f32[8] parameter(0)
  %next = s32[] add(%own, %two)
  %all = f32[8] sine(%x)
  %a = f32[{rows}] dynamic-slice(%all, %own), dynamic_slice_sizes={{{rows}}}
  %b = f32[{rows}] dynamic-slice(%all, %next), dynamic_slice_sizes={{{rows}}}
  ROOT %t = (f32[{rows}], f32[{rows}]) tuple(%a, %b)"
        )
    };
    let (after, _) = rewritten(&slices(2));
    assert_eq!(after.matches("f32[2] sine(").count(), 2, "{after}");
    assert!(find(&slices(4)).is_empty(), "all rows would be computed, only apart");
}

#[test]
fn products_of_matrices_on_fewer_rows_are_hlo_exact() {
    let lines = "  %x = f32[8,64] parameter(0)
  %w = f32[64,64] parameter(1)
  %all = f32[8,64] dot(%x, %w), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  ROOT %mine = f32[2,64] dynamic-slice(%all, %own, %zero), dynamic_slice_sizes={2,64}";
    assert_eq!(rewritten(lines).1, Grade::HloExact);
    let strict = find_at(&common::module(&format!("{DEVICE}{lines}")), Grade::Bitwise);
    assert!(matches!(strict.as_slice(), [Finding { outcome: Outcome::Missed(_), .. }]), "{strict:?}");
}

#[test]
fn functions_whose_last_bits_follow_the_size_of_a_kernel_are_hlo_exact() {
    let lines = "  %x = f32[8,64] parameter(0)
  %all = f32[8,64] erf(%x)
  ROOT %mine = f32[2,64] dynamic-slice(%all, %own, %zero), dynamic_slice_sizes={2,64}";
    assert_eq!(rewritten(lines).1, Grade::HloExact);
    assert_eq!(rewritten(&lines.replace("erf", "tanh")).1, Grade::Bitwise);
    let strict = find_at(&common::module(&format!("{DEVICE}{lines}")), Grade::Bitwise);
    assert!(matches!(strict.as_slice(), [Finding { outcome: Outcome::Missed(_), .. }]), "{strict:?}");
}

#[test]
fn short_floats_may_no_longer_be_rounded() {
    let lines = |element: &str| {
        format!(
            "  %x = {element}[8,64] parameter(0)
  %all = {element}[8,64] tanh(%x)
  %mine = {element}[2,64] dynamic-slice(%all, %own, %zero), dynamic_slice_sizes={{2,64}}
  ROOT %r = {element}[2,64] sine(%mine)"
        )
    };
    assert_eq!((rewritten(&lines("f32")).1, rewritten(&lines("bf16")).1), (Grade::Bitwise, Grade::HloExact));
}

#[test]
fn products_that_meet_a_sum_at_the_border_may_round_anew() {
    let lines = |after: &str| {
        format!(
            "  %x = f32[8] parameter(0)
  %y = f32[2] parameter(1)
  %all = f32[8] multiply(%x, %x)
  %mine = f32[2] dynamic-slice(%all, %own), dynamic_slice_sizes={{2}}
  ROOT %r = f32[2] {after}(%mine, %y)"
        )
    };
    assert_eq!(rewritten(&lines("maximum")).1, Grade::Bitwise);
    assert_eq!(rewritten(&lines("add")).1, Grade::HloExact);
}

#[test]
fn what_needs_all_rows_is_said() {
    let findings = find(
        "  %x = f32[8] parameter(0)
  %all = f32[8] cholesky-like(%x)
  ROOT %mine = f32[2] dynamic-slice(%all, %own), dynamic_slice_sizes={2}"
            .replace("cholesky-like(%x)", "custom-call(%x), custom_call_target=\"Mix\"")
            .as_str(),
    );
    let [Finding { outcome: Outcome::Missed(reason), wasted, .. }] = findings.as_slice() else {
        panic!("{findings:?}")
    };
    assert_eq!((reason.code, *wasted), ("needs-all-rows", Bytes(24)));
    assert!(reason.message.contains("`all`"), "{}", reason.message);
}

#[test]
fn other_slices_and_other_readers_keep_the_whole() {
    let body = |slice: &str, root: &str| {
        format!(
            "  %x = f32[8] parameter(0)\n  %k = s32[] parameter(1)\n  %all = f32[8] sine(%x)\n  %mine = f32[2] dynamic-slice(%all, {slice}), dynamic_slice_sizes={{2}}\n  ROOT %t = (f32[2], f32[8]) tuple(%mine, {root})"
        )
    };
    assert_eq!(find(&body("%own", "%x")).len(), 1);
    assert!(find(&body("%k", "%x")).is_empty(), "the place does not follow from the device");
    assert!(find(&body("%own", "%all")).is_empty(), "something reads all rows");
    let scheduled = format!("HloModule m, is_scheduled=true\n\nENTRY %main {{\n{DEVICE}{}\n}}\n", body("%own", "%x"));
    assert!(find_at(&common::parse(&scheduled), Grade::HloExact).is_empty());
    let across = format!("HloModule m, num_partitions=4\n\nENTRY %main {{\n{DEVICE}{}\n}}\n", body("%own", "%x"));
    assert!(
        find_at(&common::parse(&across), Grade::HloExact).is_empty(),
        "outside of manual code values lie across devices"
    );
}
