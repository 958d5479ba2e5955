//! The tests of this crate in one program: what they share is compiled once, and long tests of one file run beside those of another.
//!
//! `cargo test -p hlo-passes --test all flow::` runs those of `flow.rs`. `tests/house/pins.rs` checks that no file is missing here.

mod budget;
mod chunk;
mod chunk_across_devices;
mod chunk_batches;
mod chunk_corpus;
mod chunk_grades;
mod chunk_loops;
mod chunk_manual;
mod chunk_planner;
mod chunk_situations;
mod chunk_targets;
mod chunk_time;
mod chunking;
mod common;
mod dead_code;
mod direct_index;
mod dot_operands;
mod flat_state;
mod flow;
mod flow_cases;
mod inline_calls;
mod interpreter;
mod layers;
mod legal;
mod loop_checkpoints;
mod loop_inputs;
mod loop_inputs_once;
mod loop_residuals;
mod loop_starts;
mod manager;
mod own_slice;
mod pairs;
mod range;
mod range_property;
mod registry;
mod rematerialize;
mod replication;
mod roll;
mod row_index;
mod same_terms;
mod speed;
mod tie;
mod traps;
mod unfuse;
