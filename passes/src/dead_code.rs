//! Removes instructions that nothing uses and computations that nothing calls.
//!
//! Waste: none by itself, because XLA drops dead code too. But a dead user of a value looks like a second user and keeps other rewrites
//! away, and it clutters every text that people read.
//!
//! ```text
//! %p = f32[8] parameter(0)                     %p = f32[8] parameter(0)
//! %unused = f32[8] sine(%p)             =>
//! ROOT %r = f32[8] cosine(%p)                  ROOT %r = f32[8] cosine(%p)
//! ```
//!
//! Sound because the value of a removed instruction reaches neither the root of its computation nor an instruction with a side effect.
//! Grade: bitwise.
//!
//! Stays away from parameters (they are the computation's interface), from roots, from anything with a side effect (infeed, collectives,
//! random state, custom calls that say so, unknown opcodes, and calls of computations that hold one), and from control predecessors of
//! such instructions.

// Tests: `passes/tests/dead_code.rs`.

use hlo_ir::edit::{self, Patch};
use hlo_ir::{ComputationId, InstructionId, Module, graph};
use hlo_memory::{Bytes, size};

use crate::{Context, Finding, Grade, Outcome, Pass, PassKind};

/// The pass.
#[derive(Clone, Copy, Debug, Default)]
pub struct DeadCode;

impl Pass for DeadCode {
    fn name(&self) -> &'static str {
        "dead-code"
    }
    fn summary(&self) -> &'static str {
        "remove unused instructions and uncalled computations"
    }
    crate::explanation!("dead_code.rs");
    fn kind(&self) -> PassKind {
        PassKind::CleanUp
    }
    fn find(&self, context: &Context<'_>) -> Vec<Finding> {
        let module = context.module;
        let callers = graph::callers(module);
        let is_called = |id: &ComputationId| *id == module.entry() || !callers[*id].is_empty();
        let (called, uncalled): (Vec<_>, Vec<_>) = module.computation_ids().iter().copied().partition(is_called);
        let dead: Vec<InstructionId> = called.into_iter().flat_map(|id| dead_instructions(module, id)).collect();
        finding(module, &dead, &uncalled).into_iter().collect()
    }
}

fn dead_instructions(module: &Module, computation: ComputationId) -> Vec<InstructionId> {
    let fixed = module.instructions_of(computation).map(|(id, _)| id).filter(|&id| !edit::removable(module, id));
    let live = graph::cone(module, fixed.chain([module.computation(computation).root]));
    module.instructions_of(computation).map(|(id, _)| id).filter(|&id| !live[id]).collect()
}

/// All of it is one change: what looks behind a change looks once. A computation without callers goes, and with it every computation that only it calls.
fn finding(module: &Module, dead: &[InstructionId], uncalled: &[ComputationId]) -> Option<Finding> {
    let mut patch = Patch::new(module);
    for &id in dead {
        patch.remove(id);
    }
    for &id in uncalled {
        patch.remove_computation(id);
    }
    let roots = uncalled.iter().map(|&id| module.computation(id).root);
    let instruction = dead.iter().copied().chain(roots).next()?;
    let wasted: Bytes = dead.iter().filter_map(|&id| size::shape_size(module.shape(id))).sum();
    let parts = [
        counted(dead.len(), "unused instruction", "unused instructions"),
        counted(uncalled.len(), "computation that nothing calls", "computations that nothing calls"),
    ];
    let note = parts.into_iter().flatten().collect::<Vec<_>>().join(" and ");
    let outcome = Outcome::Rewrite { patch, note, conditions: Vec::new() };
    Some(Finding { instruction, grade: Grade::Bitwise, wasted, outcome })
}

/// So many of them, in words: `what` for one, `many` for several.
fn counted(count: usize, what: &str, many: &str) -> Option<String> {
    match count {
        0 => None,
        1 => Some(format!("1 {what}")),
        _ => Some(format!("{count} {many}")),
    }
}
