//! `row-index`: which index components become batches of rows, and what is left of the index.
//!
//! Pins `passes/src/row_index.rs`.

#![allow(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]

use crate::common;

use hlo_ir::graph::Users;
use hlo_ir::{Module, text, verify};
use hlo_memory::Bytes;
use hlo_passes::row_index::RowIndex;
use hlo_passes::{Context, Grade, Machine, Options, Outcome, Pass};

/// The module after the one rewrite; `None` if there is none.
fn batched(mut module: Module) -> Option<String> {
    let options =
        Options { min_saving: Bytes(1), machine: Some(Machine::without_malloc_cache()), ..Options::default() };
    let (users, estimate) = (Users::of(&module), common::estimate(Bytes(0), Vec::new()));
    let found = RowIndex.find(&Context::of_input(&module, &users, &estimate, &options));
    let [finding] = <[_; 1]>::try_from(found).ok()?;
    assert_eq!(finding.grade, Grade::Bitwise);
    let Outcome::Rewrite { patch, .. } = finding.outcome else { panic!("it only rewrites") };
    patch.apply(&mut module).expect("the patch fits");
    assert_eq!(verify::verify(&module), [], "{}", text::print(&module));
    Some(text::print(&module))
}

/// A gather of one element of each row of `f32[rows,10]`; `counter` makes `%n`, `s32[8]`.
fn gather(rows: i64, counter: &str) -> Module {
    common::module(&format!(
        "  %x = f32[{rows},10] parameter(0)
  %labels = s32[8,1] parameter(1)
  {counter}
  %rows = s32[8,1] reshape(%n)
  %i = s32[8,2] concatenate(%rows, %labels), dimensions={{1}}
  ROOT %g = f32[8] gather(%x, %i), offset_dims={{}}, collapsed_slice_dims={{0,1}}, start_index_map={{0,1}}, index_vector_dim=1, slice_sizes={{1,1}}, indices_are_sorted=true"
    ))
}

const COUNTER: &str = "%n = s32[8] iota(), iota_dimension=0";
const WRAPPED: &str = "%c = s32[8] iota(), iota_dimension=0
  %zero = s32[] constant(0)
  %zeros = s32[8] broadcast(%zero), dimensions={}
  %eight = s32[] constant(8)
  %eights = s32[8] broadcast(%eight), dimensions={}
  %negative = pred[8] compare(%c, %zeros), direction=LT
  %around = s32[8] add(%c, %eights)
  %n = s32[8] select(%negative, %around, %c)";

#[test]
fn a_component_that_counts_rows_becomes_a_batch() {
    for counter in [COUNTER, WRAPPED] {
        let after = batched(gather(8, counter)).unwrap();
        let wanted = ["gather(%x, %labels)", "operand_batching_dims={0}", "start_indices_batching_dims={0}"];
        assert!(wanted.iter().all(|part| after.contains(part)), "{after}");
        assert!(after.contains("collapsed_slice_dims={1}") && after.contains("start_index_map={1}"), "{after}");
        assert!(!after.contains("indices_are_sorted=true"), "labels alone need not ascend: {after}");
    }
}

#[test]
fn other_counts_are_no_rows() {
    assert_eq!(batched(gather(9, COUNTER)), None, "the ninth row is never read");
    let next = format!(
        "%one = s32[] constant(1)\n  %ones = s32[8] broadcast(%one), dimensions={{}}\n  {}\n  %n = s32[8] add(%c, %ones)",
        COUNTER.replace("%n ", "%c ")
    );
    assert_eq!(batched(gather(8, &next)), None);
    let backwards = format!("{}\n  %n = s32[8] reverse(%c), dimensions={{0}}", COUNTER.replace("%n ", "%c "));
    assert_eq!(batched(gather(8, &backwards)), None);
    assert_eq!(batched(gather(8, "%n = s32[8] parameter(2)")), None);
    let clipped = "%c = s32[8] iota(), iota_dimension=0
  %zero = s32[] constant(0)
  %zeros = s32[8] broadcast(%zero), dimensions={}
  %eight = s32[] constant(5)
  %eights = s32[8] broadcast(%eight), dimensions={}
  %negative = pred[8] compare(%c, %zeros), direction=LT
  %around = s32[8] minimum(%c, %eights)
  %n = s32[8] select(%negative, %c, %around)";
    assert_eq!(batched(gather(8, clipped)), None, "rows behind the fifth read the fifth");
}

#[test]
fn a_counter_that_begins_anew_is_no_row() {
    let source = |element: &str| {
        format!(
            "  %x = f32[300,10] parameter(0)
  %labels = s32[300,1] parameter(1)
  %c = {element}[300,1] iota(), iota_dimension=0
  %n = s32[300,1] convert(%c)
  %i = s32[300,2] concatenate(%n, %labels), dimensions={{1}}
  ROOT %g = f32[300] gather(%x, %i), offset_dims={{}}, collapsed_slice_dims={{0,1}}, start_index_map={{0,1}}, index_vector_dim=1, slice_sizes={{1,1}}"
        )
    };
    assert!(batched(common::module(&source("u16"))).is_some());
    assert_eq!(batched(common::module(&source("u8"))), None);
}

#[test]
fn batches_ascend_and_other_components_keep_their_order() {
    let lines = "  %x = f32[4,10,8,6] parameter(0)
  %l = s32[8,4,1] parameter(1)
  %r = s32[8,4,1] parameter(2)
  %u = f32[8,4] parameter(3)
  %n = s32[8,4,1] iota(), iota_dimension=0
  %i = s32[8,4,3] concatenate(%l, %n, %r), dimensions={2}
  ROOT %s = f32[4,10,8,6] scatter(%x, %i, %u), update_window_dims={}, inserted_window_dims={1,2,3}, scatter_dims_to_operand_dims={1,2,3}, index_vector_dim=2, input_batching_dims={0}, scatter_indices_batching_dims={1}, to_apply=%add";
    let add = "%add {\n  %a = f32[] parameter(0)\n  %b = f32[] parameter(1)\n  ROOT %c = f32[] add(%a, %b)\n}";
    let source = format!("HloModule m\n\n{add}\n\nENTRY %main {{\n{lines}\n}}\n");
    let after = batched(common::parse(&source)).unwrap();
    assert!(after.contains("input_batching_dims={0,2}, scatter_indices_batching_dims={1,0}"), "{after}");
    assert!(after.contains("inserted_window_dims={1,3}, scatter_dims_to_operand_dims={1,3}"), "{after}");
    assert!(after.contains("concatenate(%l, %r)"), "{after}");
}

#[test]
fn components_in_one_array_are_taken_apart() {
    let lines = "  %x = f32[10,8,6] parameter(0)
  %n = s32[8,3] iota(), iota_dimension=0
  ROOT %g = f32[8] gather(%x, %n), offset_dims={}, collapsed_slice_dims={0,1,2}, start_index_map={0,1,2}, index_vector_dim=1, slice_sizes={1,1,1}";
    let after = batched(common::module(lines)).unwrap();
    assert!(after.contains("operand_batching_dims={1}") && after.contains("start_index_map={0,2}"), "{after}");
    assert!(after.contains("slice={[0:8], [0:1]}") && after.contains("slice={[0:8], [2:3]}"), "{after}");
}
