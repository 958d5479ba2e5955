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
        let is_called = |id: ComputationId| id == module.entry() || !callers[id].is_empty();
        let ids = module.computation_ids().iter();
        ids.filter_map(|&id| if is_called(id) { dead_instructions(module, id) } else { Some(uncalled(module, id)) })
            .collect()
    }
}

fn dead_instructions(module: &Module, computation: ComputationId) -> Option<Finding> {
    let fixed = module.instructions_of(computation).map(|(id, _)| id).filter(|&id| !edit::removable(module, id));
    let live = graph::cone(module, fixed.chain([module.computation(computation).root]));
    let dead: Vec<InstructionId> =
        module.instructions_of(computation).map(|(id, _)| id).filter(|&id| !live[id]).collect();
    let mut patch = Patch::new(module);
    for &id in &dead {
        patch.remove(id);
    }
    let wasted = dead.iter().filter_map(|&id| size::shape_size(module.shape(id))).sum();
    let note = format!("{} unused instruction{}", dead.len(), if dead.len() == 1 { "" } else { "s" });
    Some(finding(*dead.first()?, wasted, patch, note))
}

/// A computation without callers goes, and with it every computation that only it calls.
fn uncalled(module: &Module, computation: ComputationId) -> Finding {
    let mut patch = Patch::new(module);
    patch.remove_computation(computation);
    let entry = module.computation(computation);
    finding(entry.root, Bytes::ZERO, patch, format!("computation `{}` is never called", entry.name))
}

fn finding(instruction: InstructionId, wasted: Bytes, patch: Patch, note: String) -> Finding {
    let outcome = Outcome::Rewrite { patch, note, conditions: Vec::new() };
    Finding { instruction, grade: Grade::Bitwise, wasted, outcome }
}
