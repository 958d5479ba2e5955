//! `hlo-passes`: findings about wasted memory and the rewrites that remove the waste.
//!
//! A [`Pass`] looks at a module and returns [`Finding`]s; it never changes, prints or reads anything. The [`manager`] applies the patches of
//! findings, keeps those that lower the estimated peak and undoes the others. One file or folder per pass; its header is its manual.

pub mod chunk;
pub mod dead_code;
pub mod direct_index;
pub mod dot_operands;
pub mod flat_state;
pub mod flow;
#[doc(hidden)]
pub mod header;
pub mod inline_calls;
pub mod loop_inputs;
pub mod loop_residuals;
pub mod machine;
pub mod manager;
pub mod own_slice;
pub mod pass;
mod polish;
pub mod range;
pub mod replication;
pub mod roll;
pub mod row_index;
mod small_programs;
pub mod tie;
pub mod unfuse;

pub use machine::Machine;
pub use pass::{Assumption, Condition, Context, Finding, Grade, Options, Outcome, Pass, PassKind, Reason};

/// Every pass, in alphabetical order; the folder and this list are compared by a test.
pub fn all() -> Vec<Box<dyn Pass>> {
    vec![
        Box::new(chunk::Chunk),
        Box::new(dead_code::DeadCode),
        Box::new(direct_index::DirectIndex),
        Box::new(dot_operands::DotOperands),
        Box::new(flat_state::FlatState),
        Box::new(inline_calls::InlineCalls::default()),
        Box::new(loop_inputs::LoopInputs),
        Box::new(loop_residuals::LoopResiduals),
        Box::new(own_slice::OwnSlice),
        Box::new(replication::Replication),
        Box::new(roll::Roll),
        Box::new(row_index::RowIndex),
        Box::new(tie::Tie),
        Box::new(unfuse::Unfuse),
    ]
}
