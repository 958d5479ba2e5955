//! The rough model of XLA:TPU on programs of one rule each; the bytes of temporaries are those that XLA:TPU (v5e, libtpu of jax 0.10.2) reports.
//!
//! Pins `memory/src/cpu/fusion/tpu.rs`, `memory/src/cpu/front/narrow.rs`, `memory/src/cpu/front/expand/one_hot.rs`, `memory/src/cpu/tiles/rows.rs`,
//! `memory/src/cpu/schedule.rs`.

use hlo_ir::Opcode;
use hlo_memory::{Target, estimate, estimate_and};

/// Temporaries in MiB.
fn temporaries(text: &str) -> u64 {
    let module = hlo_ir::text::parse(text).unwrap_or_else(|errors| panic!("{errors:?}"));
    estimate(&module, Target::Tpu).expect("the model knows all of it").temporaries.get() >> 20
}

macro_rules! on_tpu {
    ($file:literal) => {
        temporaries(include_str!(concat!("tpu/", $file, ".hlo")))
    };
}

/// `front/narrow.rs`: also through a slice, and not where the program asks for the highest precision.
#[test]
fn what_only_products_read_is_stored_in_16_bits() {
    assert_eq!(on_tpu!("products_of_products"), 128);
    assert_eq!(on_tpu!("products_in_full_precision"), 256);
}

/// `fusion/tpu.rs`: the scores of a softmax have other readers and stay, their exponentials do not.
#[test]
fn a_kernel_goes_on_behind_its_product() {
    assert_eq!(on_tpu!("sum_behind_a_product"), 0);
    assert_eq!(on_tpu!("softmax_of_a_product"), 256);
}

/// `fusion/tpu.rs`: slow operations too, but not for each element of a larger array.
#[test]
fn every_kernel_computes_for_itself() {
    assert_eq!(on_tpu!("slow_value_of_two_products"), 0);
    assert_eq!(on_tpu!("slow_value_repeated"), 256);
}

/// `fusion/tpu.rs`.
#[test]
fn a_gather_reads_memory_and_writes_it() {
    assert_eq!(on_tpu!("gathered_exponentials"), 512);
    assert_eq!(on_tpu!("sums_of_gathered_rows"), 512);
}

/// `front/expand/one_hot.rs`: the gradient of a loss by labels.
#[test]
fn one_element_of_each_row_is_selected_where_it_is_read() {
    assert_eq!(on_tpu!("one_element_of_each_row"), 0);
    assert!(
        on_tpu!("one_element_of_each_row_flat") >= 128,
        "without a dimension for the one element XLA:TPU scatters and needs 384"
    );
}

/// `tiles/rows.rs`: a table of 64 columns takes twice its bytes in rows; of 32 columns only a scatter wants rows.
#[test]
fn gathers_and_scatters_of_rows_want_rows() {
    assert_eq!(on_tpu!("gather_of_64_columns"), 2048);
    assert_eq!(on_tpu!("gather_of_32_columns"), 0);
    assert_eq!(on_tpu!("scatter_of_32_columns"), 512);
}

/// `tiles/rows.rs`: the table is copied into rows before the loop, and what the loop adds to stays in rows.
#[test]
fn a_loop_copies_no_table() {
    let text = include_str!("tpu/rows_in_a_loop.hlo");
    let found = temporaries(text);
    assert!((64..68).contains(&found), "XLA:TPU says 64, we {found}");
    let module = hlo_ir::text::parse(text).expect("it is legal");
    let is_large =
        |inst: &hlo_ir::Instruction| inst.array().and_then(hlo_ir::ArrayShape::elements) >= Some(131_072 * 64);
    let is_copy = |inst: &hlo_ir::Instruction| inst.opcode == Opcode::Copy && is_large(inst);
    let mut found = None;
    estimate_and(&module, Target::Tpu, &mut |compiled, _| {
        let compiled = compiled.module();
        let copies = |id| compiled.instructions_of(id).filter(|(_, inst)| is_copy(inst)).count();
        let others = compiled.computation_ids().iter().filter(|&&id| id != compiled.entry());
        found = Some((copies(compiled.entry()), others.map(|&id| copies(id)).sum::<usize>()));
    })
    .expect("an estimate");
    let (copies, others) = found.expect("the model knows all of it");
    assert!(copies > 0 && others == 0, "{copies} and {others}");
}

/// `schedule.rs`: one layer after the other; and `fusion/tpu.rs`: the three last sums are no single kernel.
#[test]
fn layers_run_in_the_order_that_needs_least() {
    assert_eq!(on_tpu!("three_layers"), 256);
}

/// `front/mod.rs`: XLA:CPU transposes for its library.
#[test]
fn convolutions_take_dimensions_in_any_order() {
    assert_eq!(on_tpu!("convolution_in_rows"), 0);
}
