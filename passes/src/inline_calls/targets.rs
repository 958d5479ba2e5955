//! Which calls hide producers from a scatter or gather.

use hlo_ir::arena::SideTable;
use hlo_ir::{ComputationId, InstructionId, Module, Opcode, graph};
use hlo_memory::{Bytes, size};
use indexmap::IndexSet;

use super::body;
use crate::{Context, Finding, Grade, Outcome};

/// A scatter or gather and the calls to inline for it, in text order.
pub(super) struct Target {
    sink: InstructionId,
    calls: Vec<InstructionId>,
}

impl Target {
    /// The finding that inlines the calls; `None` if the result would be too large.
    pub(super) fn finding(&self, module: &Module) -> Option<Finding> {
        let patch = super::inline(module, &self.calls).ok()?;
        let note = super::note(module, &self.calls);
        let outcome = Outcome::Rewrite { patch, note, conditions: Vec::new() };
        Some(Finding { instruction: self.sink, grade: Grade::Bitwise, wasted: bytes(module, self.sink), outcome })
    }
}

/// For every scatter and gather of at least `min_saving` bytes the calls in its operands and, if it stands in a called computation, the
/// calls around it and in their operands. Sinks that need the same calls share one target.
pub(super) fn around_sinks(context: &Context<'_>) -> Vec<Target> {
    let module = context.module;
    let mut seen = IndexSet::new();
    let mut targets = Vec::new();
    for (sink, inst) in module.live_instructions() {
        let large = || bytes(module, sink) >= context.options.min_saving;
        if matches!(inst.opcode, Opcode::Scatter | Opcode::Gather) && large() {
            let calls = calls_for(module, sink);
            if !calls.is_empty() && seen.insert(calls.clone()) {
                targets.push(Target { sink, calls });
            }
        }
    }
    targets
}

/// Bytes of the largest array the instruction reads or writes.
fn bytes(module: &Module, id: InstructionId) -> Bytes {
    let all = module.instruction(id).operands.iter().copied().chain([id]);
    all.filter_map(|id| size::shape_size(module.shape(id))).max().unwrap_or(Bytes::ZERO)
}

fn calls_for(module: &Module, sink: InstructionId) -> Vec<InstructionId> {
    let around = calls_around(module, module.instruction(sink).parent);
    let starts = if around.is_empty() { vec![sink] } else { around };
    let cone = graph::cone(module, starts);
    let calls = module.live_instructions().filter(|(id, inst)| inst.opcode == Opcode::Call && cone[*id]);
    calls.map(|(id, _)| id).filter(|&id| body::obstacle(module, id).is_none()).collect()
}

/// The outermost calls through which `computation` is reached; their bodies are inlined whole, inner calls included.
fn calls_around(module: &Module, computation: ComputationId) -> Vec<InstructionId> {
    let callers = graph::callers(module);
    let mut seen = SideTable::new(false);
    let mut outermost = IndexSet::new();
    let mut work = vec![computation];
    while let Some(id) = work.pop() {
        if std::mem::replace(&mut seen[id], true) {
            continue;
        }
        for &call in &callers[id] {
            let inst = module.instruction(call);
            if inst.opcode == Opcode::Call && body::obstacle(module, call).is_none() {
                let parent = inst.parent;
                let further = callers[parent].iter().any(|&outer| module.instruction(outer).opcode == Opcode::Call);
                if further {
                    work.push(parent);
                } else {
                    outermost.insert(call);
                }
            }
        }
    }
    outermost.into_iter().collect()
}
