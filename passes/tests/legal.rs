//! Legal modules on which the default passes once stopped with an internal error: each is rewritten, in small blocks too.
//!
//! Pins `passes/src/manager.rs`, `passes/src/chunk.rs`.

use hlo_ir::text;
use hlo_memory::{Bytes, ModelEstimator};
use hlo_passes::manager::{default_pipeline, run};
use hlo_passes::{Machine, Options};

/// Whether the peak falls, with blocks of at most so many bytes.
fn falls(source: &str, chunk_bytes: u64) -> bool {
    let mut module = text::parse(source).expect("it is a module");
    let options = Options {
        min_saving: Bytes(1),
        machine: Some(Machine::without_malloc_cache()),
        chunk_bytes: Some(Bytes(chunk_bytes)),
        ..Options::default()
    };
    let report = run(&mut module, &default_pipeline(), &options, &ModelEstimator::default()).expect("it is legal");
    report.after.total < report.before.total
}

/// What waits is forwarded by a selection from zeros, which is not done to complex numbers.
#[test]
fn no_complex_number_is_made_to_wait() {
    assert!(falls(include_str!("legal_programs/complex_scatter.hlo"), 1000));
}

/// All rows are added into one; half of them, which a block needs to be computed as the whole is, are more than a block has otherwise.
#[test]
fn blocks_may_need_more_rows_than_usual() {
    assert!(falls(include_str!("legal_programs/one_row_table.hlo"), 4096));
}

/// What takes a row instead of a dropped stack calls a computation that comes with the rewrite.
#[test]
fn a_body_may_call_what_comes_with_the_rewrite() {
    assert!(falls(include_str!("legal_programs/stack_from_a_call.hlo"), 4096));
}
