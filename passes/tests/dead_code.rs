//! `dead-code`: what goes and what stays.
//!
//! Pins `passes/src/dead_code.rs`.

use crate::common::{LargestArray, diff, parse};
use hlo_ir::text;
use hlo_passes::Options;
use hlo_passes::manager::{by_names, run};

/// The diff that the pass makes, and its notes.
fn cleaned(source: &str) -> String {
    let mut module = parse(source);
    let before = text::print(&module);
    let passes = by_names(["dead-code"]).expect("the pass exists");
    let report = run(&mut module, &passes, &Options::default(), &LargestArray).expect("it is sound");
    let notes: Vec<String> = report.rewrites.iter().map(|rewrite| format!("{}\n", rewrite.note)).collect();
    notes.concat() + &diff(&before, &text::print(&module))
}

#[test]
fn unused_chains_and_uncalled_computations_go() {
    insta::assert_snapshot!(cleaned(
        "HloModule m

%inner (x.1: f32[]) -> f32[] {
  ROOT %x.1 = f32[] parameter(0)
}

%outer (x.2: f32[]) -> f32[] {
  %x.2 = f32[] parameter(0)
  ROOT %call.1 = f32[] call(%x.2), to_apply=%inner
}

ENTRY %main (p: f32[8], unused: f32[8]) -> f32[8] {
  %p = f32[8]{0} parameter(0)
  %unused = f32[8]{0} parameter(1)
  %one = f32[8]{0} sine(%p)
  %two = f32[8]{0} cosine(%one)
  ROOT %r = f32[8]{0} negate(%p)
}
"
    ));
}

#[test]
fn side_effects_and_their_operands_stay() {
    let source = "HloModule m

%effect (x.1: f32[8]) -> f32[8] {
  %x.1 = f32[8]{0} parameter(0)
  ROOT %custom = f32[8]{0} custom-call(%x.1), custom_call_target=\"print\", custom_call_has_side_effect=true
}

ENTRY %main (p: f32[8]) -> f32[8] {
  %p = f32[8]{0} parameter(0)
  %one = f32[8]{0} sine(%p)
  %called = f32[8]{0} call(%one), to_apply=%effect
  %token = token[] after-all()
  %sent = token[] outfeed(%one, %token)
  %early = f32[8]{0} negate(%p)
  %other = f32[8]{0} custom-call(%p), custom_call_target=\"late\", custom_call_has_side_effect=true, control-predecessors={%early}
  ROOT %r = f32[8]{0} negate(%p)
}
";
    assert_eq!(cleaned(source), "");
}
