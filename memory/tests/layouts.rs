//! Programs whose arrays XLA:GPU keeps in other orders than their dimensions have. The bytes are those that it reports for an H100; the model leaves out a few of
//! constants and tuples.
//!
//! Pins `memory/src/cpu/front/layout/gpu.rs`, `memory/src/cpu/front/layout/normalize.rs`, `memory/src/cpu/front/copies_to_users.rs`.

use hlo_memory::{Target, estimate};

fn total(text: &str) -> u64 {
    let module = hlo_ir::text::parse(text).unwrap_or_else(|errors| panic!("{errors:?}"));
    estimate(&module, Target::Gpu).expect("the model knows all of it").total.get()
}

fn is_total(text: &str, by_xla: u64) {
    let found = total(text);
    assert!(found.abs_diff(by_xla) < 1024, "{found}, {by_xla} by XLA");
}

/// Both sums read one array in one order, which no kernel stores; the matrix is transposed.
#[test]
fn sums_over_different_dimensions_read_one_order() {
    is_total(include_str!("device_programs/sums_of_rows_and_columns.hlo"), 135_266_320);
}

#[test]
fn rows_that_a_loop_stores_are_transposed_once() {
    is_total(include_str!("device_programs/rows_of_a_loop.hlo"), 67_371_288);
}

#[test]
fn windows_are_taken_in_the_order_of_a_convolution() {
    is_total(include_str!("device_programs/pool_of_groups.hlo"), 193_757_200);
}

#[test]
fn heads_of_attention_are_transposed_for_products() {
    is_total(include_str!("device_programs/heads.hlo"), 76_415_008);
}

#[test]
fn what_a_convolution_adds_lies_with_its_channels_last() {
    is_total(include_str!("device_programs/side_input.hlo"), 21_266_944);
}

/// By XLA 20.4 MiB: the activation is written in both orders by one kernel, which takes over no buffer. The model has it take one over.
#[test]
fn images_lie_with_their_channels_last() {
    let found = total(include_str!("device_programs/channels_first.hlo"));
    assert_eq!(found >> 20, 16);
}
