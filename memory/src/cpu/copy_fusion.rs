//! Copies of what a kernel of the entry computation makes become further results of that kernel on XLA:GPU: they then take memory from there on.
//!
//! Loops that start from equal zeros are the case that counts: XLA makes one array of both, copies it for each loop, and holds all copies from the first on.
//!
//! Source: `CopyFusion` (xla/service/gpu/transforms/copy_fusion.cc).

// Tests: `memory/tests/devices.rs`.

use hlo_ir::{InstructionId, Opcode};
use smol_str::format_smolstr;

use super::graph::Graph;
use super::traits;
use crate::Target;

/// Lets kernels of the entry make the copies of their results.
pub(crate) fn run_for(graph: &mut Graph, target: Target) {
    if target != Target::Gpu {
        return;
    }
    for kernel in graph.post_order(graph.entry()) {
        if !makes_copies(graph, kernel) {
            continue;
        }
        let copies: Vec<InstructionId> =
            graph.users(kernel).iter().copied().filter(|&user| is_copy(graph, user)).collect();
        if copies.is_empty() {
            continue;
        }
        let kernel = if graph.opcode(kernel) == Opcode::Fusion {
            kernel
        } else {
            let name = format_smolstr!("{}_fusion", graph.inst(kernel).opcode_name());
            graph.fuse_alone(kernel, "kLoop", name)
        };
        for copy in copies {
            graph.copy_beside(kernel, copy);
        }
    }
}

/// Whether an instruction is a kernel of one result that can write it twice: one that goes through its inputs in the order of the result.
fn makes_copies(graph: &Graph, id: InstructionId) -> bool {
    if graph.array(id).is_none() || graph.user_count(id) < 2 {
        return false;
    }
    let repeats = |inner| graph.opcode(inner) == Opcode::Broadcast;
    // A constant that is repeated stands inside of XLA's kernel.
    let reads_constants = graph.operands(id).iter().all(|&operand| graph.opcode(operand) == Opcode::Constant);
    let Some(body) = graph.fused(id) else { return repeats(id) && reads_constants };
    let root = graph.root(body);
    let is_last = matches!(graph.opcode(root), Opcode::Reduce | Opcode::Scatter | Opcode::DynamicUpdateSlice);
    repeats(root) && reads_constants || !is_last && reads_in_order(graph, body)
}

/// Whether a fusion does nothing but elementwise work on what it reads.
fn reads_in_order(graph: &Graph, body: hlo_ir::ComputationId) -> bool {
    let mut seen: Vec<InstructionId> = graph.parameters(body);
    let mut next = 0;
    while let Some(&id) = seen.get(next) {
        next += 1;
        for user in graph.each_user(id) {
            let is_fine = matches!(graph.opcode(user), Opcode::Bitcast | Opcode::Tuple)
                || traits::is_elementwise(graph, user) && graph.opcode(user) != Opcode::Copy;
            if !is_fine {
                return false;
            }
            if !seen.contains(&user) {
                seen.push(user);
            }
        }
    }
    true
}

/// Whether an instruction copies an array as it lies in memory.
fn is_copy(graph: &Graph, id: InstructionId) -> bool {
    let same = |from, to| traits::same_dims_and_layout(from, to);
    let operand = || graph.array(graph.operand(id, 0));
    graph.opcode(id) == Opcode::Copy
        && !graph.has_control(id)
        && operand().zip(graph.array(id)).is_some_and(|(from, to)| same(from, to))
}
