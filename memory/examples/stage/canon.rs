//! Structural fingerprints of instructions that ignore what does not matter: names, metadata, backend settings, the order of commutative
//! operands and the numbering of fusion parameters.

use std::hash::{DefaultHasher, Hasher as _};

use hlo_ir::arena::SideTable;
use hlo_ir::{AttrKey, AttrValue, ComputationId, Instruction, InstructionId, Module, Opcode, Payload};

/// Fingerprints of all instructions of a module outside fusions.
pub(crate) struct Canon<'m> {
    module: &'m Module,
    /// Fingerprint of each instruction: what it computes from the parameters of its computation.
    pub(crate) of: SideTable<InstructionId, u64>,
    computations: SideTable<ComputationId, u64>,
}

impl<'m> Canon<'m> {
    /// Fingerprints of `module`.
    pub(crate) fn new(module: &'m Module) -> Self {
        let mut canon = Self { module, of: SideTable::new(0), computations: SideTable::new(0) };
        for &id in module.computation_ids() {
            let hash = canon.computation(id, None);
            canon.computations.set(id, hash);
        }
        canon
    }

    /// Fingerprint of a computation; `arguments` are the fingerprints of a fusion's operands.
    fn computation(&mut self, id: ComputationId, arguments: Option<&[u64]>) -> u64 {
        let mut all = Vec::new();
        for &inst in &self.module.computation(id).instructions {
            let hash = self.instruction(self.module.instruction(inst), arguments);
            self.of.set(inst, hash);
            all.push(hash);
        }
        all.sort_unstable();
        let root = self.of[self.module.computation(id).root];
        digest(&(root, all))
    }

    fn instruction(&mut self, inst: &Instruction, arguments: Option<&[u64]>) -> u64 {
        if let (Payload::Parameter(number), Some(arguments)) = (&inst.payload, arguments) {
            return digest(&("argument", arguments.get(*number as usize)));
        }
        let mut operands: Vec<u64> = inst.operands.iter().map(|&operand| self.of[operand]).collect();
        let fused = if inst.opcode == Opcode::Fusion { inst.computation(&AttrKey::Calls) } else { None };
        if let Some(fused) = fused {
            let body = self.computation(fused, Some(&operands));
            return digest(&("fusion", inst.word(&AttrKey::Kind), body));
        }
        if is_commutative(inst.opcode) {
            operands.sort_unstable();
        }
        let mut attributes: Vec<u64> =
            inst.attributes.iter().filter_map(|a| self.attribute(&a.key, &a.value)).collect();
        attributes.sort_unstable();
        let payload = if inst.opcode == Opcode::Constant { literal(inst) } else { digest(&inst.payload) };
        digest(&(inst.opcode, inst.shape.to_string(), payload, operands, attributes))
    }

    fn attribute(&self, key: &AttrKey, value: &AttrValue) -> Option<u64> {
        use AttrKey as K;
        match key {
            K::Metadata
            | K::BackendConfig
            | K::FrontendAttributes
            | K::Sharding
            | K::Statistics
            | K::Origin
            | K::ControlPredecessors
            | K::OperandPrecision
            | K::Unknown(_) => None,
            _ => Some(match value {
                AttrValue::Computation(id) => digest(&(key, self.computations[*id])),
                AttrValue::Computations(ids) => {
                    digest(&(key, ids.iter().map(|id| self.computations[*id]).collect::<Vec<_>>()))
                }
                other => digest(&(key, other)),
            }),
        }
    }
}

fn is_commutative(opcode: Opcode) -> bool {
    use Opcode as O;
    matches!(opcode, O::Add | O::Multiply | O::And | O::Or | O::Xor | O::Maximum | O::Minimum)
}

/// Numbers to four digits, other literals verbatim.
fn literal(inst: &Instruction) -> u64 {
    let text = inst.literal().unwrap_or("");
    match text.parse::<f64>() {
        Ok(number) => digest(&format!("{number:.3e}")),
        Err(_) => digest(&text),
    }
}

fn digest(value: &impl std::hash::Hash) -> u64 {
    let mut hasher = DefaultHasher::new();
    value.hash(&mut hasher);
    hasher.finish()
}

/// Computations reachable from the entry that are not bodies of fusions; XLA keeps others until the next clean-up.
pub(crate) fn live_outside_fusions(module: &Module) -> Vec<ComputationId> {
    let mut found = vec![module.entry()];
    let mut next = 0;
    while let Some(&id) = found.get(next) {
        next += 1;
        for (_, inst) in module.instructions_of(id) {
            let mut callees: Vec<ComputationId> = inst.called_computations().collect();
            if inst.opcode == Opcode::Fusion {
                // A fusion's body is part of the fusion's fingerprint; what the body calls stands for itself.
                let inside = |id| module.instructions_of(id).flat_map(|(_, inner)| inner.called_computations());
                callees = callees.into_iter().flat_map(inside).collect();
            }
            for callee in callees {
                if !found.contains(&callee) {
                    found.push(callee);
                }
            }
        }
    }
    found
}
