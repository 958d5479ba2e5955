//! What is said about buffers that stand at the peak after all passes, by the memory model, one rule each.
//!
//! Pins `passes/src/manager/peak_remarks.rs`.

use crate::common::{module, parse};
use crate::manager::options;
use hlo_memory::{Bytes, ModelEstimator, Target};
use hlo_passes::Options;
use hlo_passes::manager::run;

/// The memory model, so that buffers have holders.
const MODEL: ModelEstimator = ModelEstimator { target: Target::Cpu };

/// Instruction and code of what the manager says about the buffers of a module that no pass runs on.
fn held(lines: &str, min_saving: u64) -> Vec<(String, &'static str)> {
    let report = run(&mut module(lines), &[], &options(min_saving), &MODEL).expect("the model knows these opcodes");
    let remarks = report.remarks.into_iter().inspect(|remark| assert_eq!(remark.pass, "manager"));
    remarks.map(|remark| (remark.instruction.to_string(), remark.code)).collect()
}

#[test]
fn buffers_that_hold_the_peak_are_accounted_for() {
    let table = "  %p = f32[256,256]{1,0} parameter(0)
  %i = s32[16,2]{1,0} parameter(1)
  %c = f32[256,256]{1,0} dot(%p, %p), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  ROOT %r = f32[16]{0} gather(%c, %i), offset_dims={}, collapsed_slice_dims={0,1}, start_index_map={0,1}, index_vector_dim=1, slice_sizes={1,1}";
    assert_eq!(held(table, 1), [("c".to_owned(), "needed-whole")]);
    assert_eq!(held(table, 1 << 30), [("c".to_owned(), "small")]);
}

/// XLA inlines the call: what reads the argument inside of it decides.
#[test]
fn calls_need_all_of_an_argument_only_if_something_inside_does() {
    let called = |inside: &str| {
        let source = format!(
            "HloModule m

%called (x: f32[256,256]) -> f32[256,256] {{
  %x = f32[256,256]{{1,0}} parameter(0)
  ROOT %y = f32[256,256]{{1,0}} {inside}
}}

ENTRY %main (p: f32[256,256]) -> f32[256,256] {{
  %p = f32[256,256]{{1,0}} parameter(0)
  %c = f32[256,256]{{1,0}} dot(%p, %p), lhs_contracting_dims={{1}}, rhs_contracting_dims={{0}}
  ROOT %r = f32[256,256]{{1,0}} call(%c), to_apply=%called
}}
"
        );
        let report = run(&mut parse(&source), &[], &options(1), &MODEL).expect("the model knows these opcodes");
        report.remarks.into_iter().find(|remark| remark.instruction == "c").map(|remark| remark.code)
    };
    assert_eq!(called("cholesky(%x)"), Some("needed-whole"));
    assert_eq!(called("reverse(%x), dimensions={0}"), Some("no-rewrite"));
}

#[test]
fn products_that_stay_are_said_to_be_affordable_for_a_budget() {
    let said = |lines: &str, budget| {
        let options = Options { budget, ..options(1) };
        let report = run(&mut module(lines), &[], &options, &MODEL).expect("the model knows these opcodes");
        let remark = report.remarks.into_iter().find(|remark| remark.code == "no-rewrite");
        remark.expect("the array is spoken of").message.contains("--budget")
    };
    let product = "  %p = f32[256,256]{1,0} parameter(0)
  %c = f32[256,256]{1,0} dot(%p, %p), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  %rows = f32[16,256]{1,0} slice(%c), slice={[0:16], [0:256]}
  %more = f32[16,256]{1,0} slice(%c), slice={[100:116], [0:256]}
  %s = f32[16,16]{1,0} dot(%rows, %more), lhs_contracting_dims={1}, rhs_contracting_dims={1}
  ROOT %t = f32[16,16]{1,0} negate(%s)";
    assert!(said(product, None));
    assert!(!said(product, Some(Bytes(1))), "it was computed again where that helps");
    assert!(!said(&product.replace("f32", "s32"), None), "products of integers are made again as it is");
}
