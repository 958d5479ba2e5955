//! `chunk`: loops of programs that are yet to be divided: what lies across devices would take collectives for each block.
//!
//! Pins `passes/src/chunk.rs`, `passes/src/chunk/sharding.rs`.

use crate::chunking::{missed, options};
use crate::common::parse;

/// A scatter of products of rows `%a` with a value `%b` that is needed whole; the braces are their shardings.
fn program(rows: &str, whole: &str) -> String {
    format!(
        "HloModule m, num_partitions=4

add {{
  d = f32[] parameter(0)
  e = f32[] parameter(1)
  ROOT f = f32[] add(d, e)
}}

ENTRY main {{
  x = f32[7] parameter(0), sharding={{replicated}}
  i = s32[64] parameter(1), sharding={{replicated}}
  a = f32[64,5] parameter(2), sharding={{{rows}}}
  b = f32[5] parameter(3), sharding={{{whole}}}
  index = s32[64,1] reshape(i)
  u = f32[64] dot(a, b), lhs_contracting_dims={{1}}, rhs_contracting_dims={{0}}
  ROOT y = f32[7] scatter(x, index, u), update_window_dims={{}}, inserted_window_dims={{0}}, scatter_dims_to_operand_dims={{0}}, index_vector_dim=1, to_apply=add
}}
"
    )
}

#[test]
fn what_lies_across_devices_takes_no_collectives_for_each_block() {
    let code = |rows: &str, whole: &str| missed(&parse(&program(rows, whole)), &options(80));
    assert_eq!(code("replicated", "replicated"), Vec::<&str>::new());
    assert_eq!(code("replicated", "devices=[4]<=[4]"), ["sharded"], "needed whole");
    assert_eq!(code("devices=[1,4]<=[4]", "replicated"), ["sharded"], "cut along another dimension");
}
