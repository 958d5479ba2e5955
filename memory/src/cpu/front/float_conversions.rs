//! Floats that are converted several times in a row are converted once, which skips roundings: XLA:GPU computes with more precision than it is asked for.
//!
//! Source: `SimplifyFPConversions` (xla/hlo/transforms/simplifiers/simplify_fp_conversions.cc), `GpuCompiler::OptimizeHloPostLayoutAssignment`
//! (xla/service/gpu/gpu_compiler.cc).

// Tests: `memory/tests/not_stored.rs`.

use hlo_ir::Opcode;

use super::cx::{Cx, Id};

/// Converts in one step what is converted in several.
pub(crate) fn run(cx: &mut Cx<'_>) {
    if !cx.has_seen(Opcode::Convert) {
        return;
    }
    for computation in cx.computation_order() {
        for id in cx.post_order(computation) {
            let Some(source) = source(cx, id) else { continue };
            let to = cx.element_type(id);
            let converted = if cx.element_type(source) == to { source } else { cx.convert(id, source, to) };
            cx.replace(id, converted);
        }
    }
}

/// What a conversion begins with, if there is another one in between.
fn source(cx: &Cx<'_>, id: Id) -> Option<Id> {
    let converts = |id: Id| cx.opcode(id) == Opcode::Convert && cx.element_type(id).is_float();
    let (mut from, mut conversions) = (id, 0);
    while converts(from) {
        (from, conversions) = (cx.operand(from, 0), conversions + 1);
    }
    (conversions > 1).then_some(from)
}
