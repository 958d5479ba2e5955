//! Which part of each value a kernel needs, from its result backwards: of what is sliced or gathered it computes and reads the slice.

// Tests: `passes/src/run_time.rs`.

use hlo_ir::{InstructionId, Module, Opcode};

use super::elements;
use crate::hash::IndexMap;

/// The parts that a kernel needs, between 0 and 1.
#[derive(Default)]
pub(super) struct Parts {
    /// What is read element by element, which readers share.
    shared: IndexMap<InstructionId, f64>,
    /// What slices take, each for itself.
    taken: IndexMap<InstructionId, f64>,
    /// What the kernel writes, which may be an update of an array where it stands.
    results: Vec<InstructionId>,
}

impl Parts {
    /// Those of a kernel of these instructions, in the order in which they run, that writes `root`.
    pub(super) fn of(module: &Module, inside: &[InstructionId], root: InstructionId) -> Self {
        let mut parts = Self { results: results(module, root), ..Self::default() };
        parts.share(root, 1.0);
        for &id in inside.iter().rev() {
            let part = parts.of_value(id);
            if part > 0.0 {
                parts.pass_on(module, id, part);
            }
        }
        parts
    }

    /// The part that is needed of a value, or of an array that the kernel reads.
    pub(super) fn of_value(&self, id: InstructionId) -> f64 {
        let of = |map: &IndexMap<InstructionId, f64>| map.get(&id).copied().unwrap_or(0.0);
        (of(&self.shared) + of(&self.taken)).min(1.0)
    }

    fn share(&mut self, id: InstructionId, part: f64) {
        let shared = self.shared.entry(id).or_insert(0.0);
        *shared = shared.max(part);
    }

    fn pass_on(&mut self, module: &Module, id: InstructionId, part: f64) {
        use Opcode as O;
        let inst = module.instruction(id);
        for (number, &operand) in inst.operands.iter().enumerate() {
            match (inst.opcode, number) {
                (O::Slice | O::DynamicSlice | O::Gather, 0) => {
                    let all = elements(module.shape(operand)).max(1.0);
                    *self.taken.entry(operand).or_insert(0.0) += part * elements(&inst.shape) / all;
                }
                // Made where the array stands.
                (O::DynamicUpdateSlice | O::Scatter, 0) if self.results.contains(&id) => {}
                (O::Broadcast, _) => self.share(operand, 1.0),
                _ => self.share(operand, part),
            }
        }
    }
}

/// What a kernel with this root writes.
fn results(module: &Module, root: InstructionId) -> Vec<InstructionId> {
    let inst = module.instruction(root);
    match inst.opcode {
        Opcode::Tuple | Opcode::Bitcast => inst.operands.iter().flat_map(|&part| results(module, part)).collect(),
        _ => vec![root],
    }
}
