//! A structural hash of a module: equal for equal programs, whatever the names and ids. The pass manager compares it with what a
//! pass claims to have changed.

// Tests: `ir/tests/graph.rs`.

use std::hash::{Hash, Hasher};

use rustc_hash::FxHasher;

use crate::arena::SideTable;
use crate::{AttrKey, AttrValue, ComputationId, InstructionId, Module};

/// Hash of everything that decides what `module` computes; names, metadata and source positions do not count.
pub fn structural_hash(module: &Module) -> u64 {
    hash(module, false)
}

/// Hash of all that a model of the compiler may look at: also names, by which XLA's schedulers break ties, and metadata.
pub fn named_hash(module: &Module) -> u64 {
    hash(module, true)
}

/// Hash of an instruction and of all computations that it calls, with the ids in them: as long as it stays the same, so does everything that follows from them alone.
pub fn instruction_hash(module: &Module, id: InstructionId) -> u64 {
    let mut hasher = FxHasher::default();
    let (mut open, mut seen) = (Vec::new(), SideTable::new(false));
    hash_one(module, id, &mut hasher, &mut open);
    while let Some(computation) = open.pop() {
        if !seen[computation] {
            seen.set(computation, true);
            (computation, module.computation(computation).root).hash(&mut hasher);
            module.instructions_of(computation).for_each(|(id, _)| hash_one(module, id, &mut hasher, &mut open));
        }
    }
    hasher.finish()
}

/// Hashes an instruction with its id and those that it names; adds what it calls to `open`.
fn hash_one(module: &Module, id: InstructionId, hasher: &mut FxHasher, open: &mut Vec<ComputationId>) {
    let inst = module.instruction(id);
    (id, inst.opcode, &inst.shape, &inst.payload, &inst.operands).hash(hasher);
    for attribute in inst.attributes.iter().filter(|attribute| attribute.key != AttrKey::Metadata) {
        attribute.hash(hasher);
        match &attribute.value {
            AttrValue::Computation(callee) => open.push(*callee),
            AttrValue::Computations(callees) => open.extend(callees),
            _ => {}
        }
    }
}

fn hash(module: &Module, named: bool) -> u64 {
    let mut hasher = FxHasher::default();
    for attribute in &module.attributes {
        attribute.hash(&mut hasher);
    }
    let mut known = SideTable::new(0_u64);
    for &id in module.computation_ids() {
        known.set(id, computation_hash(module, id, &known, named));
        known[id].hash(&mut hasher);
    }
    hasher.finish()
}

fn computation_hash(module: &Module, id: ComputationId, known: &SideTable<ComputationId, u64>, named: bool) -> u64 {
    let mut number = SideTable::<InstructionId, u32>::new(u32::MAX);
    for (position, (id, _)) in module.instructions_of(id).enumerate() {
        number.set(id, position as u32);
    }
    let mut hasher = FxHasher::default();
    for (_, inst) in module.instructions_of(id) {
        if named {
            inst.name.hash(&mut hasher);
        }
        (inst.opcode, &inst.shape, &inst.payload).hash(&mut hasher);
        inst.operands.iter().for_each(|&operand| number[operand].hash(&mut hasher));
        for attribute in inst.attributes.iter().filter(|attribute| named || attribute.key != AttrKey::Metadata) {
            attribute.key.hash(&mut hasher);
            match &attribute.value {
                AttrValue::Computation(callee) => known[*callee].hash(&mut hasher),
                AttrValue::Computations(callees) => callees.iter().for_each(|callee| known[*callee].hash(&mut hasher)),
                AttrValue::Instructions(ids) => ids.iter().for_each(|id| number[*id].hash(&mut hasher)),
                value => value.hash(&mut hasher),
            }
        }
    }
    if named {
        module.computation(id).name.hash(&mut hasher);
    }
    number[module.computation(id).root].hash(&mut hasher);
    hasher.finish()
}

/// Hash of a text.
pub(crate) fn text_hash(text: &str) -> u64 {
    let mut hasher = FxHasher::default();
    hasher.write(text.as_bytes());
    hasher.finish()
}
