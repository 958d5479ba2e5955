//! Copy insertion: copies that keep values apart which would otherwise have to live in one buffer at the same time.
//!
//! Copies are first added wherever they could be needed, then removed where the order of execution makes them unnecessary, then added again for
//! read-only buffers and for the results of the entry.
//!
//! Source: `CopyInsertion::RunImpl` (xla/service/copy_insertion.cc).

// Tests: `memory/tests/control.rs`, `memory/tests/stages.rs`.

mod add;
mod deep;
mod lists;
mod ordering;
mod remove;
mod special;
mod uses;

use super::graph::Graph;
use super::{dce, tuples};

/// Inserts the copies that XLA:CPU would insert.
pub(crate) fn run(graph: &mut Graph) {
    add::run(graph);
    tuples::run(graph);
    dce::run(graph);
    let removed = remove::run(graph);
    special::run(graph, removed);
    tuples::run(graph);
    dce::run(graph);
}
