//! The tests of this crate in one program, which is linked once.
//!
//! `cargo test -p hlo-memory --test all rules::` runs those of `rules.rs`. `tests/house/pins.rs` checks that no file is missing here.

mod attribution;
mod control;
mod corpus;
mod device_calls;
mod devices;
mod expanded;
mod layouts;
mod legal;
mod live_range;
mod not_stored;
mod partitioned;
mod predict;
mod product_kernels;
mod robust;
mod row_kernels;
mod rules;
mod stages;
mod tpu;
