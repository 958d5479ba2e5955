//! The clean-up after fusion: what layout assignment left behind.
//!
//! Source: the pipeline "simplification after layout assignment" (xla/service/cpu/cpu_compiler.cc).

use super::dce;
use super::graph::Graph;

/// Removes dead code.
pub(crate) fn run(graph: &mut Graph) {
    dce::run(graph);
}
