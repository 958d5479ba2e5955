//! Arrays that XLA does not store although the text has them: what is converted back at once, what loops carry unchanged, what stands behind a transpose. The bytes are
//! those that XLA:GPU reports for an H100, and XLA:CPU.
//!
//! Pins `memory/src/cpu/front/arrival.rs`, `memory/src/cpu/front/float_conversions.rs`, `memory/src/cpu/fusion/multi_output/mod.rs`, `memory/src/cpu/schedule.rs`.

use hlo_memory::{Bytes, Estimate, Target, estimate};

fn found(text: &str, target: Target) -> Estimate {
    let module = hlo_ir::text::parse(text).unwrap_or_else(|errors| panic!("{errors:?}"));
    estimate(&module, target).expect("the model knows all of it")
}

/// By XLA:GPU 513 bytes: a loop reads the argument, without the rounding to 16 bits in between.
#[test]
fn what_is_converted_back_is_not_converted_on_gpu() {
    let text = include_str!("device_programs/converted_twice.hlo");
    assert!(found(text, Target::Gpu).temporaries < Bytes(1024));
    // To the byte what XLA:CPU says, which rounds.
    assert_eq!(found(text, Target::Cpu).total, Bytes(545_259_664));
}

/// By XLA:GPU 33,552 bytes; to the byte what XLA:CPU says, which stores the array once inside of the inner loop.
#[test]
fn loops_make_broadcasts_of_constants_themselves() {
    let text = include_str!("device_programs/broadcast_constant.hlo");
    assert!(found(text, Target::Gpu).temporaries < Bytes(40_000));
    assert_eq!(found(text, Target::Cpu).total, Bytes(268_501_236));
}

/// By XLA:GPU 16 bytes: both moments are made by a kernel that transposes the gradient, and the update by another.
#[test]
fn moments_of_a_transposed_gradient_are_results_alone_on_gpu() {
    let text = include_str!("device_programs/transposed_gradient.hlo");
    assert_eq!(found(text, Target::Gpu).temporaries, Bytes(16));
}
