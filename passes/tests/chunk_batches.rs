//! `chunk`: batches of scatters whose indices are too narrow to count them.
//!
//! Pins `passes/src/chunk.rs`, `passes/src/chunk/sink.rs`, `passes/src/flow/indexed.rs`.

use crate::chunking::{missed, options, rewrite};
use crate::common::parse;

#[test]
fn batches_that_their_indices_cannot_count_are_not_cut() {
    let of = |element: &str| {
        parse(&format!(
            "HloModule m\n\n%sum (a: s32[], b: s32[]) -> s32[] {{\n  %a = s32[] parameter(0)\n  %b = s32[] parameter(1)\n  ROOT %s = s32[] add(%a, %b)\n}}\n
ENTRY %main {{\n  %x = s32[300,5] parameter(0)\n  %i = {element}[300,1] parameter(1)\n  %u = s32[300] parameter(2)\n  %twice = s32[300] add(%u, %u)
  ROOT %y = s32[300,5] scatter(%x, %i, %twice), update_window_dims={{}}, inserted_window_dims={{1}}, scatter_dims_to_operand_dims={{1}}, input_batching_dims={{0}}, scatter_indices_batching_dims={{0}}, index_vector_dim=1, to_apply=%sum\n}}\n"
        ))
    };
    assert_eq!(rewrite(&mut of("s32"), &options(64)).len(), 1);
    let mut narrow = of("s8");
    assert_eq!(missed(&narrow, &options(64)), ["narrow-batch"]);
    assert!(rewrite(&mut narrow, &options(64)).is_empty());
}
