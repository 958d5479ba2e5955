//! Maps of a single operation become that operation.
//!
//! Source: `MapInliner` (xla/service/map_inliner.cc).

use hlo_ir::Opcode;

use super::super::algsimp::map;
use super::super::cx::Cx;
use super::super::visit::each;

/// Inlines every map of one operation; returns whether there was one.
pub(crate) fn run(cx: &mut Cx<'_>) -> bool {
    each(cx, Opcode::Map, map)
}
