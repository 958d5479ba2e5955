//! Which computations may be rolled: those that run as such, and of a partitioned module only the bodies that one device runs by itself.

use crate::hash::IndexMap;
use hlo_ir::{AttrKey, ComputationId, Instruction, Module, Opcode};

/// A computation and whether its values may lie across devices.
#[derive(Clone, Copy, Debug)]
pub(super) struct Scope {
    pub(super) computation: ComputationId,
    pub(super) sharded: bool,
}

/// The entry and what it reaches through calls, loops and branches, but not combiners or fusions.
pub(super) fn running(module: &Module) -> Vec<Scope> {
    let mut found = IndexMap::from_iter([(module.entry(), module.is_partitioned())]);
    let mut next = 0;
    while let Some((&computation, &sharded)) = found.get_index(next) {
        next += 1;
        for (_, inst) in module.instructions_of(computation) {
            if matches!(inst.opcode, Opcode::Call | Opcode::While | Opcode::Conditional) {
                let sharded = sharded && !is_manual(inst);
                inst.called_computations().for_each(|callee| _ = found.entry(callee).or_insert(sharded));
            }
        }
    }
    found.into_iter().map(|(computation, sharded)| Scope { computation, sharded }).collect()
}

/// Whether a call runs a body of manually sharded code: its shapes are those of one device.
fn is_manual(call: &Instruction) -> bool {
    let key = AttrKey::FrontendAttributes;
    call.opcode == Opcode::Call && call.raw(&key).is_some_and(|text| text.contains("inlineable=\"false\""))
}
