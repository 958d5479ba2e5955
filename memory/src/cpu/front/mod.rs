//! From an unscheduled module to the graph that fusion sees: what XLA:CPU does before it fuses.
//!
//! [`simplify`] and [`assign_layouts`] apply the modelled passes in XLA's order. Library fusions, instruction fusion and everything behind
//! them is elsewhere.
//!
//! Not modelled: exchange of borders between devices, dynamic shapes, the expansion of random-number opcodes and of matrix decompositions, layouts
//! around column-major custom calls. [`mod@caveats`] names those a module contains.

#![allow(
    clippy::many_single_char_names,
    clippy::similar_names,
    reason = "rules name operands like the equations they state: a, b, c, x, y"
)]
#![allow(clippy::float_cmp, reason = "rules ask for exactly one, exactly a half, exactly infinity, as XLA does")]
#![allow(clippy::unnecessary_wraps, reason = "rules share one signature, so that they can be tried in a row")]

mod algsimp;
mod arrival;
mod build;
mod calls;
mod caveats;
mod conditional;
mod constant_folding;
mod copies_to_users;
mod cse;
mod cx;
pub(super) mod dims;
mod expand;
mod float;
mod float_conversions;
mod gemv_and_transpose_folding;
mod index;
mod layout;
mod loops;
mod narrow;
mod reshape_decomposer;
mod reshape_mover;
mod spmd;
pub(crate) mod tree_reduction;
mod untuple;
mod value;
mod visit;

pub(crate) use caveats::{Doubts, doubts};
pub(crate) use cx::Cx;
pub(crate) use loops::hoist_invariants;

use crate::Target;
use crate::cpu::graph::Graph;
use crate::cpu::{dce, tuples};
use hlo_ir::host::HostMove;
use hlo_ir::{Instruction, Opcode, row_major};

/// Rounds after which a pipeline stops even if it still changes something.
const MOST_ROUNDS: usize = 25;

/// Stages D and E: layouts, and what depends on them.
pub(crate) fn assign_layouts(graph: &mut Graph) {
    assign_layouts_for(graph, Target::Cpu);
}

/// The same for any target.
pub(crate) fn assign_layouts_for(graph: &mut Graph, target: Target) {
    graph.move_to_prefaulted_lists();
    graph.make_room();
    let mut cx = Cx::new(graph);
    layout::run(&mut cx, target);
    reshape_decomposer::run(&mut cx);
    if target == Target::Gpu {
        copies_to_users::run(&mut cx);
        if layout::normalize(&mut cx) {
            (cx.layout_sensitive, cx.calls_convolutions) = (true, true);
            repeat(&mut cx, &CLEAN_UP, &mut [None; 3]);
        }
    }
}

/// Stages A to C: everything before layouts.
pub(crate) fn simplify(graph: &mut Graph) {
    simplify_for(graph, Target::Cpu);
}

/// The same without what only a CPU needs: it has no arithmetic on halves.
pub(crate) fn simplify_for(graph: &mut Graph, target: Target) {
    let cpu = target == Target::Cpu;
    // Device and host have one memory on CPU, and where such calls stand, this model gives every value the layout that they fix.
    drop_annotations(graph, |inst| cpu && HostMove::of(inst).is_some() || row_major::is_constraint(inst));
    let mut cx = Cx::new(graph);
    calls::flatten(&mut cx);
    untuple::run(&mut cx);
    arrival::run(&mut cx);
    spmd::run(&mut cx);
    dce::run(&mut cx);
    if target == Target::Tpu {
        expand::one_hot_scatters(&mut cx);
    }
    index::normalize_batches(&mut cx);
    expand::decompose_dots(&mut cx);
    expand::inline_maps(&mut cx);
    expand::decompose_top_k(&mut cx);
    expand::total_order_compares(&mut cx);
    expand::exchange_in_pieces(&mut cx);
    if cpu {
        expand::random_bits(&mut cx);
    }
    calls::inline(&mut cx);
    expand::drop_unit_batches(&mut cx);
    expand::decompose_dots(&mut cx);
    if cpu {
        float::run(&mut cx);
    }
    expand::drop_unit_batches(&mut cx);
    expand::logistics(&mut cx);
    conditional::canonicalize(&mut cx);
    expand::running_reductions(&mut cx);
    if target == Target::Gpu {
        expand::library_convolutions(&mut cx);
    } else if cpu {
        expand::canonical_convolutions(&mut cx);
    }
    if cpu {
        float::widen_half_dots(&mut cx);
    }
    let (passes, mut idle) = (simplification(target), [None; 14]);
    repeat(&mut cx, &passes, &mut idle);
    expand::select_and_scatters(&mut cx);
    index::expand_single_scatters(&mut cx);
    index::simplify_scatters(&mut cx);
    repeat(&mut cx, &passes, &mut idle);
    gemv_and_transpose_folding::widen_vectors(&mut cx);
    if cpu {
        expand::bitcasts_of_other_sizes(&mut cx);
    }
    expand::call_top_k(&mut cx, target);
    gemv_and_transpose_folding::fold_transposes(&mut cx);
    if target == Target::Gpu {
        expand::pad_for_library(&mut cx);
    }
    if target == Target::Tpu {
        narrow::run(&mut cx);
    }
    cse::run(&mut cx);
    if cpu {
        gemv_and_transpose_folding::drop_barriers(&mut cx);
    }
    tuples::run(&mut cx);
    calls::flatten(&mut cx);
}

/// Takes calls away that change no value and nothing else that is modelled.
fn drop_annotations(graph: &mut Graph, is_one: impl Fn(&Instruction) -> bool) {
    if !graph.has_seen(Opcode::CustomCall) {
        return;
    }
    let computations = graph.computation_order();
    let ids = computations.iter().flat_map(|&computation| graph.list(computation));
    for id in ids.filter(|&id| is_one(graph.inst(id))).collect::<Vec<_>>() {
        let operand = graph.operand(id, 0);
        graph.replace(id, operand);
    }
}

/// A pass of a pipeline: whether it changed anything.
type Pass = fn(&mut Cx<'_>) -> bool;

/// The simplification pipeline, in order. Compilers for devices split long reductions otherwise, and hold no windows of them in memory.
///
/// Source: `CreateSimplificationPipeline` (xla/service/cpu/cpu_compiler.cc).
fn simplification(target: Target) -> [Pass; 14] {
    let cpu = target == Target::Cpu;
    [
        if target == Target::Gpu { expand::write_out_vector_dots } else { |_| false },
        algsimp::run,
        |cx| dce::run(cx),
        index::expand_single_gathers,
        index::simplify_gathers,
        if cpu { tree_reduction::run } else { |_| false },
        loops::hoist_invariants,
        |cx| tuples::run(cx),
        loops::sink_constants,
        loops::simplify,
        |cx| dce::run(cx),
        reshape_mover::run,
        constant_folding::run,
        conditional::simplify,
    ]
}

/// The passes of stage H, in order.
///
/// Source: the pipeline "simplification after layout assignment" (xla/service/cpu/cpu_compiler.cc).
const CLEAN_UP: [Pass; 3] = [algsimp::run, |cx| dce::run(cx), cse::run];

/// Runs passes until nothing changes. `idle` holds the version of the graph that each pass last left as it was: on that version it would do
/// nothing again.
fn repeat<const COUNT: usize>(cx: &mut Cx<'_>, passes: &[Pass; COUNT], idle: &mut [Option<u64>; COUNT]) {
    for _ in 0..MOST_ROUNDS {
        let mut changed = false;
        for (pass, idle) in passes.iter().zip(&mut *idle) {
            let version = cx.version();
            if *idle == Some(version) {
                continue;
            }
            let did = pass(cx);
            changed |= did;
            *idle = (!did && cx.version() == version).then_some(version);
        }
        if !changed {
            return;
        }
    }
}

/// XLA:GPU cuts products of which the result alone does not keep it busy, converts floats once, and merges what is equal before it fuses.
///
/// Source: `GpuCompiler::OptimizeHloPostLayoutAssignment` (xla/service/gpu/gpu_compiler.cc).
pub(crate) fn split_products(graph: &mut Graph, target: Target) {
    if target == Target::Gpu {
        let mut cx = Cx::new(graph);
        cx.layout_sensitive = true;
        expand::split_products(&mut cx);
        float_conversions::run(&mut cx);
        cse::run(&mut cx);
    }
}

/// What XLA:GPU computes by calls of libraries becomes calls.
pub(crate) fn call_libraries(graph: &mut Graph, target: Target) {
    if target == Target::Gpu {
        expand::call_library(&mut Cx::new(graph));
    }
}

/// Stage H: what layout assignment and fusion left behind, until nothing changes; layouts count.
pub(crate) fn clean_up(graph: &mut Graph) {
    let mut cx = Cx::new(graph);
    cx.layout_sensitive = true;
    repeat(&mut cx, &CLEAN_UP, &mut [None; 3]);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cpu::graph::Origin;

    #[test]
    fn operands_of_several_products_in_parts_are_padded_once() {
        let product = |name: &str, rows: &str| {
            format!("  {name} = f32[64,256] dot(x, {rows}), lhs_contracting_dims={{0}}, rhs_contracting_dims={{0}}\n")
        };
        let text = format!(
            "HloModule m\n\nENTRY e {{\n  x = f32[50000,64] parameter(0)\n  p = f32[50000,256] parameter(1)\n  q = f32[50000,256] parameter(2)\n\
             {}{}  ROOT t = (f32[64,256], f32[64,256]) tuple(a, b)\n}}\n",
            product("a", "p"),
            product("b", "q")
        );
        let module = hlo_ir::text::parse(&text).expect("legal");
        let mut graph = Graph::from_module(&module, Origin::Program);
        simplify_for(&mut graph, Target::Gpu);
        assign_layouts(&mut graph);
        split_products(&mut graph, Target::Gpu);
        let split = graph.to_module();
        let pads = split.live_instructions().filter(|(_, inst)| inst.opcode == Opcode::Pad).count();
        assert_eq!(pads, 3, "of the operand of both, and of two others");
    }
}
