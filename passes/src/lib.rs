//! `hlo-passes`: findings about wasted memory and the rewrites that remove the waste.
//!
//! A [`Pass`] looks at a module and returns [`Finding`]s; it never changes, prints or reads anything. The [`manager`] applies the patches of
//! findings, keeps those that lower the estimated peak and undoes the others. One file or folder per pass; its header is its manual.

// Tests: `passes/tests/registry.rs`.

mod bounds;
pub mod chunk;
pub mod column_slices;
mod cost;
pub mod dead_code;
pub mod degenerate_dims;
pub mod direct_index;
pub mod dot_operands;
pub mod flat_state;
pub mod flow;
mod fusion_barrier;
mod hash;
#[doc(hidden)]
pub mod header;
pub mod host_offload;
pub mod in_place_stacks;
pub mod inline_calls;
mod kernel_functions;
pub mod layout_constraints;
pub mod loop_checkpoints;
pub mod loop_inputs;
pub mod loop_residuals;
pub mod loop_starts;
mod loops;
pub mod machine;
pub mod manager;
pub mod materialize_gathers;
pub mod materialize_slices;
pub mod materialize_trig;
mod objective;
mod origins;
pub mod own_slice;
pub mod parallel_updates;
pub mod pass;
pub mod range;
mod recompute;
pub mod rematerialize;
pub mod replication;
pub mod roll;
pub mod row_index;
pub mod run_time;
pub mod sharding_remover;
mod small_programs;
mod speed;
pub mod swap_dot_operands;
mod swapped_dot;
pub mod tie;
pub mod unfuse;
pub mod weighted_sums;

pub use loops::RowLoops;
pub use machine::Machine;
pub use objective::{MAX_SLOWDOWN, Objective};
pub use origins::Origins;
pub use pass::{Assumption, Condition, Context, Finding, Grade, Options, Outcome, Pass, PassKind, Reason};
pub use run_time::{RunTime, estimate_and_time, run_time};

/// Every pass, in the order of the default pipeline. The manager takes the best rewrite wherever it stands, so the order decides only between equals, and
/// which change for speed comes first.
fn registry() -> Vec<Box<dyn Pass>> {
    vec![
        // The smallest change to the text: of two rewrites with the same gain it should win.
        Box::new(direct_index::DirectIndex),
        Box::new(chunk::Chunk),
        Box::new(loop_residuals::LoopResiduals),
        // Behind the loops: where blocks gain as much, no value is computed twice.
        Box::new(rematerialize::Rematerialize),
        // Behind those that compute only parts of a step again.
        Box::new(loop_checkpoints::LoopCheckpoints),
        Box::new(loop_inputs::LoopInputs),
        Box::new(in_place_stacks::InPlaceStacks),
        // After the block loops: where both gain the same, no loop around all copies is needed.
        Box::new(roll::Roll),
        // Behind roll: a loop also makes the module smaller.
        Box::new(tie::Tie),
        Box::new(loop_starts::LoopStarts),
        // Behind what saves device memory without any of the host's.
        Box::new(host_offload::HostOffload),
        // Behind the loops: where those gain as much, the values stay as the program has them.
        Box::new(own_slice::OwnSlice),
        // Changes nothing: it only speaks.
        Box::new(replication::Replication),
        // Elements of tuples inside a loop's state are seen by no pass that looks at loops. Before the next one: where this is enough, calls stay calls.
        Box::new(flat_state::FlatState),
        // Annotations hide producers as calls do, and cost nothing to take away.
        Box::new(sharding_remover::ShardingRemover),
        // Calls hide producers from the rewrites above. A call is inlined only where a rewrite then gains; others stay calls.
        Box::new(inline_calls::InlineCalls::default()),
        // Rows that are batches can be cut into blocks.
        Box::new(row_index::RowIndex),
        // What loops write once is copied all the same where a product wants it transposed.
        Box::new(dot_operands::DotOperands),
        // Nothing can be rewritten in what the compiler made of a program; its plain form is taken where a rewrite of that gains.
        Box::new(unfuse::Unfuse),
        // A dead user can hold a value that a rewrite wants to drop. Last, because inlining may leave dead code behind.
        Box::new(dead_code::DeadCode),
        // For speed, once the others have ended. Columns first: what is read so takes no memory, and the search may go on behind it.
        Box::new(column_slices::ColumnSlices),
        Box::new(materialize_trig::MaterializeTrig),
        Box::new(parallel_updates::ParallelUpdates),
        Box::new(degenerate_dims::DegenerateDims),
        Box::new(weighted_sums::WeightedSums),
        Box::new(swap_dot_operands::SwapDotOperands),
        Box::new(materialize_gathers::MaterializeGathers),
        // Blocks that are still read at several places behind all of these.
        Box::new(materialize_slices::MaterializeSlices),
        // Last: rows of all loops that the others made.
        Box::new(layout_constraints::LayoutConstraints),
    ]
}

/// Every pass, in alphabetical order; the folder and this list are compared by a test.
pub fn all() -> Vec<Box<dyn Pass>> {
    let mut passes = registry();
    passes.sort_by_key(|pass| pass.name());
    passes
}
