//! Facts about loops: what they count, which arrays they write row by row, and who reads these.

// Tests: `passes/tests/chunk_loops.rs`, `passes/tests/flat_state.rs`, `passes/tests/in_place_stacks.rs`, `passes/tests/loop_checkpoints.rs`, `passes/tests/loop_inputs.rs`, `passes/tests/loop_residuals.rs`.

mod body;
mod counters;
mod readers;
pub(crate) mod row_form;
mod row_loop;
mod row_roles;
pub(crate) mod row_slices;
mod row_sums;
mod row_trace;
mod stacks;
mod state;

pub(crate) use body::Order;
pub(crate) use counters::{Counted, bound};
pub(crate) use readers::{Read, Reader, Readers, readers};
pub(crate) use row_form::{Role, RowLoop};
pub(crate) use row_loop::RowLoopCache;
pub use row_loop::RowLoops;
pub(crate) use stacks::{Stack, Stacks};
pub(crate) use state::{is_free, is_sharded, is_taken_apart, replace_state, state};
