//! `chunk` on random programs that are run before and after.
//!
//! Pins `passes/src/chunk.rs`, `passes/src/chunk/build.rs`, `passes/src/chunk/emit.rs`.

use std::collections::BTreeMap;

use hlo_ir::{text, verify};

use crate::chunking::{assert_same_results, checked, options, programs, rewrite};
use crate::common::parse;

#[test]
fn random_programs_give_the_same_results() {
    let mut seen: BTreeMap<&str, usize> = BTreeMap::new();
    for seed in 0..120 {
        let before = parse(&programs::program(seed));
        let violations = verify::verify(&before);
        assert!(violations.is_empty(), "{violations:?}\n{}", text::print(&before));
        let mut after = before.clone();
        let notes = rewrite(&mut after, &options([1, 40, 100, 200][seed as usize % 4]));
        assert_same_results(&before, &after, seed);
        *seen.entry("rewritten").or_default() += usize::from(!notes.is_empty());
        *seen.entry("rest").or_default() += usize::from(notes.iter().any(|note| note.contains("then")));
        *seen.entry("several scatters").or_default() +=
            usize::from(notes.iter().any(|note| note.contains("in one loop")));
        *seen.entry("several loops").or_default() += usize::from(notes.len() > 1);
    }
    // A generator that stops to reach the pass would prove nothing.
    assert!(seen.values().all(|&count| count >= 8), "{seen:?}");
}

/// Every row of `%few` stands for two rows of what is added up, of which an odd number is taken.
#[test]
fn half_of_an_odd_number_of_rows_is_no_block() {
    for few in [
        "  %p = s32[41,3] parameter(2)
  %k = s32[] parameter(3)
  %few = s32[41,1] dynamic-slice(%p, %zero, %k), dynamic_slice_sizes={41,1}",
        "  %few = s32[41,1] iota(), iota_dimension=0",
    ] {
        let source = format!(
            "HloModule m
%add (a: s32[], b: s32[]) -> s32[] {{
  %a = s32[] parameter(0)
  %b = s32[] parameter(1)
  ROOT %c = s32[] add(%a, %b)
}}
ENTRY %main {{
  %x = s32[7,1] parameter(0)
  %i = s32[41] parameter(1)
  %zero = s32[] constant(0)
  %size = s32[] constant(7)
  %zeros = s32[41] broadcast(%zero), dimensions={{}}
  %sizes = s32[41] broadcast(%size), dimensions={{}}
  %negative = pred[41] compare(%i, %zeros), direction=LT
  %moved = s32[41] add(%i, %sizes)
  %select = s32[41] select(%negative, %moved, %i)
  %index = s32[41,1] reshape(%select)
{few}
  %two = s32[41,2,1] broadcast(%few), dimensions={{0,2}}
  %all = s32[82,1] reshape(%two)
  %u = s32[41,1] slice(%all), slice={{[0:41], [0:1]}}
  ROOT %y = s32[7,1] scatter(%x, %index, %u), update_window_dims={{1}}, inserted_window_dims={{0}}, \
         scatter_dims_to_operand_dims={{0}}, index_vector_dim=1, to_apply=%add
}}
"
        );
        for bytes in [64, 128, 256] {
            let (_, notes) = checked(&source, bytes);
            assert!(!notes.is_empty(), "{few}");
        }
    }
}
