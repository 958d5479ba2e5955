//! Reshapes and transposes move behind the elementwise operations that read them.
//!
//! Source: `ReshapeMover` (xla/hlo/transforms/simplifiers/reshape_mover.cc).

use crate::cpu::traits::is_elementwise;
use crate::hash::IndexSet;
use hlo_ir::shape::Dims;
use hlo_ir::{ComputationId, Opcode};

use super::build::share;
use super::cx::{Cx, Id};
use super::dims::{compose, inverse};

/// Moves what can be moved in every computation; returns whether anything was.
pub(crate) fn run(cx: &mut Cx<'_>) -> bool {
    let mut changed = false;
    for computation in cx.outside_fusions() {
        changed |= run_on(cx, computation);
    }
    changed
}

fn run_on(cx: &mut Cx<'_>, computation: ComputationId) -> bool {
    let mut candidates: IndexSet<Id> = cx.list(computation).filter(|&id| is_candidate(cx, id)).collect();
    drop_shared(cx, &mut candidates);
    for &id in &candidates {
        sink(cx, id);
    }
    !candidates.is_empty()
}

fn is_rearrange(cx: &Cx<'_>, id: Id) -> bool {
    matches!(cx.opcode(id), Opcode::Reshape | Opcode::Transpose)
}

/// Whether both move elements the same way.
fn equivalent(cx: &Cx<'_>, a: Id, b: Id) -> bool {
    cx.opcode(a) == cx.opcode(b)
        && cx.dims(a) == cx.dims(b)
        && match cx.opcode(a) {
            Opcode::Transpose => cx.dimensions(a) == cx.dimensions(b),
            _ => cx.dims(cx.operand(a, 0)) == cx.dims(cx.operand(b, 0)),
        }
}

/// Whether `id` can take the shape before `rearrange` at no cost.
fn is_trivial(cx: &Cx<'_>, id: Id, rearrange: Id) -> bool {
    let transpose = cx.opcode(rearrange) == Opcode::Transpose;
    let moves_nothing = if transpose {
        cx.dimensions(rearrange).is_sorted()
    } else {
        cx.shape(rearrange) == cx.shape(cx.operand(rearrange, 0))
    };
    if moves_nothing || cx.is_constant(id) || (cx.opcode(id) == Opcode::Rng && cx.user_count(id) == 1) {
        return true;
    }
    if cx.opcode(id) != Opcode::Broadcast || !cx.dimensions(id).is_sorted() {
        return false;
    }
    if !transpose {
        return cx.is_scalar(cx.operand(id, 0));
    }
    // The broadcast dimensions must keep their order under the inverse of the transpose.
    let moved: Dims = compose(&cx.dimensions(rearrange), &cx.dimensions(id));
    moved.is_sorted()
}

/// The first operand that really rearranges something.
fn first_rearrange(cx: &Cx<'_>, id: Id) -> Option<Id> {
    let real = |&operand: &Id| is_rearrange(cx, operand) && !is_trivial(cx, cx.operand(operand, 0), operand);
    cx.operands(id).iter().copied().find(real)
}

fn is_candidate(cx: &Cx<'_>, id: Id) -> bool {
    if !is_elementwise(cx, id) || cx.operands(id).is_empty() {
        return false;
    }
    let Some(rearrange) = first_rearrange(cx, id) else { return false };
    cx.operands(id).iter().all(|&operand| {
        if is_rearrange(cx, operand) { equivalent(cx, operand, rearrange) } else { is_trivial(cx, operand, rearrange) }
    })
}

/// Drops candidates that share a rearranged operand with something that is no candidate, until none does.
fn drop_shared(cx: &Cx<'_>, candidates: &mut IndexSet<Id>) {
    let mut removed = true;
    while removed && !candidates.is_empty() {
        removed = false;
        let operands: IndexSet<Id> = candidates
            .iter()
            .flat_map(|&id| cx.operands(id))
            .copied()
            .filter(|&operand| is_rearrange(cx, operand))
            .collect();
        for operand in operands {
            let users = cx.users(operand);
            if users.iter().any(|user| !candidates.contains(user)) {
                for user in users {
                    removed |= candidates.shift_remove(&user);
                }
            }
        }
    }
}

/// Computes one candidate on the shapes before its operands were rearranged, and rearranges the result.
fn sink(cx: &mut Cx<'_>, id: Id) {
    let Some(rearrange) = first_rearrange(cx, id) else { return };
    let operands: Vec<Id> =
        cx.operands(id).to_vec().into_iter().map(|operand| undo(cx, id, rearrange, operand)).collect();
    let before = cx.arr(cx.operand(rearrange, 0));
    let shape = share(before.with_element_type(cx.element_type(id)));
    let new = cx.like(id, shape, &operands);
    let shape = cx.shape(id).clone();
    let result = if cx.opcode(rearrange) == Opcode::Reshape {
        cx.reshape(id, shape, new)
    } else {
        let permutation = cx.dimensions(rearrange);
        cx.transpose_as(id, shape, new, &permutation)
    };
    cx.replace(id, result);
}

/// An operand in the shape before `rearrange`.
fn undo(cx: &mut Cx<'_>, at: Id, rearrange: Id, operand: Id) -> Id {
    let source = cx.operand(rearrange, 0);
    if cx.opcode(rearrange) == Opcode::Transpose {
        let permutation = cx.dimensions(rearrange);
        return if permutation.is_sorted() { operand } else { cx.transpose(at, operand, &inverse(&permutation)) };
    }
    let shape = share(cx.arr(source).with_element_type(cx.element_type(operand)));
    if *cx.shape(operand) == shape {
        return operand;
    }
    match cx.of(operand, Opcode::Reshape) {
        Some(inner) if *cx.shape(inner) == shape => inner,
        _ => cx.reshape(at, shape, operand),
    }
}
