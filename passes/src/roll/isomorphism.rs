//! When two instructions do the same work: hashes to find candidates in linear time, and an exact comparison to be sure.

use std::hash::{Hash, Hasher};

use crate::hash::IndexMap;
use hlo_ir::arena::SideTable;
use hlo_ir::{AttrKey, AttrValue, Attribute, ComputationId, Instruction, InstructionId, Module, Opcode, literal};
use rustc_hash::FxHasher;

/// What is known about equal work in a module.
pub(crate) struct Isomorphism {
    /// Hash of what each instruction does, whatever its operands are and wherever a slice or a scalar constant lies.
    locals: SideTable<InstructionId, u64>,
    /// Hash of each computation, names left out.
    computations: SideTable<ComputationId, u64>,
    /// Answers of the exact comparison.
    same: IndexMap<(ComputationId, ComputationId), bool>,
    /// Computations that hold a side effect.
    effects: SideTable<ComputationId, bool>,
}

impl Isomorphism {
    pub(crate) fn new(module: &Module) -> Self {
        let mut new = Self {
            locals: SideTable::new(0),
            computations: SideTable::new(0),
            same: IndexMap::default(),
            effects: SideTable::new(false),
        };
        let mut number = SideTable::new(u32::MAX);
        // Callees stand before their callers.
        for &id in module.computation_ids() {
            let hash = new.computation_hash(module, id, &mut number);
            new.computations.set(id, hash);
            let effect = module.instructions_of(id).any(|(_, inst)| new.has_effect(inst));
            new.effects.set(id, effect);
        }
        new
    }

    /// Hashes the instructions of a computation and `number`s them.
    fn computation_hash(
        &mut self,
        module: &Module,
        id: ComputationId,
        number: &mut SideTable<InstructionId, u32>,
    ) -> u64 {
        let mut hasher = FxHasher::default();
        for (position, (id, inst)) in module.instructions_of(id).enumerate() {
            number.set(id, position as u32);
            let local = self.hash_alone(inst);
            self.locals.set(id, local);
            local.hash(&mut hasher);
            inst.payload.hash(&mut hasher);
            inst.operands.iter().for_each(|&operand| number[operand].hash(&mut hasher));
        }
        number[module.computation(id).root].hash(&mut hasher);
        hasher.finish()
    }

    /// Hash of what an instruction does; those of its callees are known.
    fn hash_alone(&self, inst: &Instruction) -> u64 {
        let mut hasher = FxHasher::default();
        (inst.opcode, &inst.shape).hash(&mut hasher);
        if inst.opcode == Opcode::Unknown || (inst.opcode == Opcode::Constant && !is_scalar(inst)) {
            inst.payload.hash(&mut hasher);
        }
        for attribute in compared(inst) {
            attribute.key.hash(&mut hasher);
            match &attribute.value {
                AttrValue::Computation(callee) => self.computations[*callee].hash(&mut hasher),
                AttrValue::Computations(callees) => {
                    for &callee in callees {
                        self.computations[callee].hash(&mut hasher);
                    }
                }
                AttrValue::Slice(_) | AttrValue::Instructions(_) => {}
                value => value.hash(&mut hasher),
            }
        }
        hasher.finish()
    }

    /// Hash of all that a value is computed from, for every instruction of a computation.
    pub(super) fn cones(&self, module: &Module, id: ComputationId) -> SideTable<InstructionId, u64> {
        let mut cones = SideTable::new(0);
        for (id, inst) in module.instructions_of(id) {
            let operands = inst.operands.iter().map(|&operand| cones[operand]).collect::<Vec<u64>>();
            cones.set(id, combine(self.locals[id], operands));
        }
        cones
    }

    /// Hash of all that a value is computed from, places of slices and constants included: XLA computes values of equal hashes once.
    pub(super) fn hashes(&self, module: &Module, id: ComputationId) -> SideTable<InstructionId, u64> {
        let mut known = SideTable::new(0);
        for (id, inst) in module.instructions_of(id) {
            let mut hasher = FxHasher::default();
            let own = inst.parameter_number().is_some() || literal::is_elided(inst);
            (own.then_some(id), self.locals[id], &inst.payload).hash(&mut hasher);
            inst.attribute(&AttrKey::Slice).hash(&mut hasher);
            let mut operands: Vec<u64> = inst.operands.iter().map(|&operand| known[operand]).collect();
            if commutes(inst.opcode) {
                operands.sort_unstable();
            }
            known.set(id, combine(hasher.finish(), operands));
        }
        known
    }

    /// Hash of what a value is computed from through at most `depth` instructions.
    pub(super) fn neighbours(&self, module: &Module, id: ComputationId, depth: usize) -> SideTable<InstructionId, u64> {
        let mut hashes = SideTable::new(0);
        let locals: Vec<(InstructionId, u64)> =
            module.instructions_of(id).map(|(id, _)| (id, self.locals[id])).collect();
        for &(id, local) in &locals {
            hashes.set(id, local);
        }
        for _ in 1..depth {
            let mut next = SideTable::new(0);
            for &(id, local) in &locals {
                let operands = module.instruction(id).operands.iter().map(|&operand| hashes[operand]);
                next.set(id, combine(local, operands.collect()));
            }
            hashes = next;
        }
        hashes
    }

    /// Whether two instructions do the same to operands that may differ: equal but for names, slice positions and scalar values.
    pub(super) fn alike(&mut self, module: &Module, a: InstructionId, b: InstructionId) -> bool {
        let (one, other) = (module.instruction(a), module.instruction(b));
        let constant = one.opcode == Opcode::Constant;
        // Values that the dump left out may be any.
        let elided = || constant && [one, other].into_iter().any(literal::is_elided);
        one.opcode == other.opcode
            && one.shape == other.shape
            && one.operands.len() == other.operands.len()
            && !elided()
            && (constant && is_scalar(one) || one.payload == other.payload)
            && self.same_attributes(module, one, other)
    }

    fn same_attributes(&mut self, module: &Module, one: &Instruction, other: &Instruction) -> bool {
        compared(one).count() == compared(other).count()
            && compared(one).zip(compared(other)).all(|(a, b)| a.key == b.key && self.same_value(module, a, b))
    }

    fn same_value(&mut self, module: &Module, a: &Attribute, b: &Attribute) -> bool {
        match (&a.value, &b.value) {
            (AttrValue::Computation(a), AttrValue::Computation(b)) => self.same_computation(module, *a, *b),
            (AttrValue::Computations(a), AttrValue::Computations(b)) => {
                a.len() == b.len() && a.iter().zip(b).all(|(&a, &b)| self.same_computation(module, a, b))
            }
            (AttrValue::Slice(a), AttrValue::Slice(b)) => {
                a.len() == b.len() && a.iter().chain(b).all(|dim| dim.stride == 1) || a == b
            }
            (a, b) => a == b,
        }
    }

    /// Whether two computations are equal but for names.
    fn same_computation(&mut self, module: &Module, a: ComputationId, b: ComputationId) -> bool {
        if a == b {
            return true;
        }
        if let Some(&known) = self.same.get(&(a, b)) {
            return known;
        }
        let same = self.compare(module, a, b);
        self.same.insert((a, b), same);
        same
    }

    fn compare(&mut self, module: &Module, a: ComputationId, b: ComputationId) -> bool {
        let (one, other) = (module.computation(a), module.computation(b));
        if self.computations[a] != self.computations[b]
            || one.instructions.len() != other.instructions.len()
            || one.attributes != other.attributes
        {
            return false;
        }
        let mut partner = SideTable::<InstructionId, Option<InstructionId>>::new(None);
        one.instructions.iter().zip(&other.instructions).for_each(|(&id, &other)| partner.set(id, Some(other)));
        let pairs: Vec<_> = one.instructions.iter().copied().zip(other.instructions.iter().copied()).collect();
        partner[one.root] == Some(other.root)
            && pairs.into_iter().all(|(a, b)| {
                let (one, other) = (module.instruction(a), module.instruction(b));
                let operands = one.operands.iter().zip(&other.operands).all(|(&a, &b)| partner[a] == Some(b));
                let slices = one.attribute(&AttrKey::Slice) == other.attribute(&AttrKey::Slice);
                operands && slices && one.payload == other.payload && self.alike(module, a, b)
            })
    }

    /// Whether an instruction, or anything it calls, has a side effect.
    fn has_effect(&self, inst: &Instruction) -> bool {
        inst.opcode.has_side_effect()
            || inst.flag(&AttrKey::CustomCallHasSideEffect)
            || inst.called_computations().any(|callee| self.effects[callee])
    }

    /// Whether an instruction may run in another computation than its own, any number of times.
    pub(super) fn movable(&self, inst: &Instruction) -> bool {
        let asynchronous = matches!(
            inst.opcode,
            Opcode::AsyncStart | Opcode::AsyncUpdate | Opcode::AsyncDone | Opcode::CopyStart | Opcode::CopyDone
        );
        let dynamic = inst.array().is_some_and(hlo_ir::ArrayShape::is_dynamic);
        !self.has_effect(inst)
            && !asynchronous
            && !dynamic
            && inst.parameter_number().is_none()
            && inst.control_predecessors().is_empty()
    }
}

/// Attributes that decide what an instruction computes.
fn compared(inst: &Instruction) -> impl Iterator<Item = &Attribute> {
    inst.attributes.iter().filter(|attribute| attribute.key != AttrKey::Metadata)
}

/// Whether XLA takes both orders of the operands for the same.
const fn commutes(opcode: Opcode) -> bool {
    use Opcode as O;
    matches!(opcode, O::Add | O::Multiply | O::Maximum | O::Minimum | O::And | O::Or | O::Xor)
}

fn is_scalar(inst: &Instruction) -> bool {
    inst.array().is_some_and(hlo_ir::ArrayShape::is_scalar)
}

fn combine(local: u64, operands: Vec<u64>) -> u64 {
    let mut hasher = FxHasher::default();
    (local, operands).hash(&mut hasher);
    hasher.finish()
}
