//! What passes share that compute values again at another place: which values are kept, how the others are written, and what keeps the computation where it is.

// Tests: `passes/tests/loop_checkpoints.rs`, `passes/tests/loop_residuals.rs`, `passes/tests/rematerialize.rs`, `passes/tests/tie.rs`.

pub(crate) mod bits;
pub(crate) mod body;
pub(crate) mod counted_loop;
pub(crate) mod cut;
pub(crate) mod emit;
pub(crate) mod insertion_point;
pub(crate) mod layers;
pub(crate) mod row_loop;
pub(crate) mod tie;
