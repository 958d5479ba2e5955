//! `chunk`: bodies of `shard_map`: their shapes are those of one device, so their rows may be cut.
//!
//! Pins `passes/src/chunk.rs`, `passes/src/chunk/sharding.rs`.

use hlo_memory::{Bytes, ModelEstimator, Target};
use hlo_passes::Options;
use hlo_passes::manager::{default_pipeline, run};

use crate::chunking::{missed, options, rewrite};
use crate::common::parse;

/// A partitioned module whose manual body scatters, under a mesh with these axes, manual along `manual`.
fn body(axes: &str, manual: &str) -> String {
    handing_over(axes, manual, "%local = s32[64] custom-call(%i)", "  ROOT %out = s32[7] call(%x, %local)")
}

/// The same where `handed` is what every device gets its part of, and `call` hands those parts to the body.
fn handing_over(axes: &str, manual: &str, handed: &str, call: &str) -> String {
    format!(
        "HloModule m, num_partitions=4, frontend_attributes={{xla.sdy.meshes={{mesh = #sdy.mesh<[{axes}]>}}}}
%add (a: s32[], b: s32[]) -> s32[] {{
  %a = s32[] parameter(0)
  %b = s32[] parameter(1)
  ROOT %c = s32[] add(%a, %b)
}}
%body (x: s32[7], i: s32[64]) -> s32[7] {{
  %x = s32[7] parameter(0)
  %i = s32[64] parameter(1)
  %one = s32[] constant(1)
  %ones = s32[64] broadcast(%one), dimensions={{}}
  %next = s32[64] add(%i, %ones)
  %index = s32[64,1] reshape(%next)
  ROOT %y = s32[7] scatter(%x, %index, %ones), update_window_dims={{}}, inserted_window_dims={{0}}, scatter_dims_to_operand_dims={{0}}, index_vector_dim=1, to_apply=%add
}}
ENTRY %main {{
  %x = s32[7] parameter(0)
  %i = s32[256] parameter(1)
  {handed}, custom_call_target=\"xla.sdy.GlobalToLocalShape\", custom_call_has_side_effect=true, frontend_attributes={{xla.sdy.manual_axes=\"#sdy<manual_axes{{{manual}}}>\"}}
{call}, to_apply=%body, frontend_attributes={{inlineable=\"false\"}}
}}
"
    )
}

#[test]
fn rows_of_one_device_are_cut() {
    let full = body(r#""d"=4"#, r#"\"d\""#);
    assert_eq!(rewrite(&mut parse(&full), &options(80)).len(), 1);
    assert_eq!(missed(&parse(&full), &options(80)), Vec::<&str>::new());
}

#[test]
fn several_arrays_are_handed_over_together() {
    let handed = "%both = (s32[7], s32[64]) custom-call(%x, %i)";
    let call = "  %table = s32[7] get-tuple-element(%both), index=0
  %local = s32[64] get-tuple-element(%both), index=1
  ROOT %out = s32[7] call(%table, %local)";
    let several = handing_over(r#""d"=4"#, r#"\"d\""#, handed, call);
    assert_eq!(rewrite(&mut parse(&several), &options(80)).len(), 1);
}

#[test]
fn an_axis_left_to_the_compiler_may_cut_the_rows_as_well() {
    assert_eq!(missed(&parse(&body(r#""d"=2, "e"=2"#, r#"\"d\""#)), &options(80)), ["sharded"]);
    let open = body(r#""d"=4"#, r#"\"d\""#).replace(", frontend_attributes={inlineable=\"false\"}", "");
    assert_eq!(missed(&parse(&open), &options(80)), ["sharded"], "such a call is inlined before partitioning");
}

/// Whoever holds memory in a program that is yet to be divided among devices is told why no loop is made.
#[test]
fn values_that_may_lie_across_devices_are_named() {
    let target = Target::Gpu;
    let options = Options { target, ..Options::default() };
    let codes = |header: &str| {
        let mut module = parse(&format!(
            "HloModule m{header}
%sum (a: f32[], b: f32[]) -> f32[] {{
  %a = f32[] parameter(0)
  %b = f32[] parameter(1)
  ROOT %c = f32[] add(%a, %b)
}}
ENTRY %main {{
  %x = f32[4096,4096] parameter(0)
  %zero = f32[] constant(0)
  %powers = f32[4096,4096] exponential(%x)
  %rows = f32[4096] reduce(%powers, %zero), dimensions={{1}}, to_apply=%sum
  %all = f32[4096,4096] broadcast(%rows), dimensions={{0}}
  %shares = f32[4096,4096] divide(%powers, %all)
  %squares = f32[4096,4096] dot(%shares, %shares), lhs_contracting_dims={{1}}, rhs_contracting_dims={{1}}
  ROOT %sums = f32[4096] reduce(%squares, %zero), dimensions={{1}}, to_apply=%sum
}}
"
        ));
        let report = run(&mut module, &default_pipeline(), &options, &ModelEstimator { target });
        let remarks = report.expect("it has an estimate").remarks.into_iter();
        remarks.filter(|remark| remark.bytes >= Bytes(16 << 20)).map(|remark| remark.code).collect::<Vec<_>>()
    };
    assert!(!codes("").contains(&"sharded"));
    assert_eq!(codes(", num_partitions=4"), ["sharded"; 2]);
}
