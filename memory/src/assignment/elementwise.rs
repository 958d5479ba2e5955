//! Which instructions compute each result element from the operand elements at the same position, fusions included.
//!
//! Source: `HloInstruction::IsElementwiseImpl` (xla/hlo/ir/hlo_instruction.cc, xla/hlo/ir/hlo_instructions.cc).

use hlo_ir::arena::Id;
use hlo_ir::{AttrKey, ComputationId, Instruction, Module, Opcode};

/// What all paths from a fusion parameter to the root consist of.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Paths {
    /// Elementwise instructions only.
    elementwise: bool,
    /// Elementwise instructions and tuples.
    or_tuple: bool,
}

/// The paths from every parameter of every fusion body.
#[derive(Clone, Debug)]
pub(crate) struct FusionPaths {
    /// By computation, then by parameter number; empty for a computation that is no fusion body.
    bodies: Vec<Vec<Paths>>,
}

impl FusionPaths {
    /// Looks at every fusion body once, backwards; callees come first in a module, so nested bodies are known when they are met.
    pub(crate) fn of(module: &Module) -> Self {
        let mut is_body = vec![false; module.computation_count()];
        for (_, inst) in module.live_instructions().filter(|(_, inst)| inst.opcode == Opcode::Fusion) {
            if let Some(body) = inst.computation(&AttrKey::Calls) {
                is_body[body.index()] = true;
            }
        }
        let mut paths = Self { bodies: vec![Vec::new(); module.computation_count()] };
        let mut state = vec![Paths { elementwise: true, or_tuple: true }; module.instruction_count()];
        for &body in module.computation_ids().iter().filter(|id| is_body[id.index()]) {
            paths.scan(module, body, &mut state);
        }
        paths
    }
    fn scan(&mut self, module: &Module, body: ComputationId, state: &mut [Paths]) {
        let mut parameters = Vec::new();
        for &id in module.computation(body).instructions.iter().rev() {
            let inst = module.instruction(id);
            let after = state[id.index()];
            for (k, operand) in inst.operands.iter().enumerate() {
                let elementwise = self.is_elementwise(module, inst, k);
                let before = &mut state[operand.index()];
                before.elementwise &= after.elementwise && elementwise;
                before.or_tuple &= after.or_tuple && (elementwise || inst.opcode == Opcode::Tuple);
            }
            if let Some(number) = inst.parameter_number() {
                parameters.push((number, after));
            }
        }
        parameters.sort_by_key(|&(number, _)| number);
        self.bodies[body.index()] = parameters.into_iter().map(|(_, paths)| paths).collect();
    }
    /// Whether `inst` computes each result element from the element of operand `k` at the same position only.
    pub(crate) fn is_elementwise(&self, module: &Module, inst: &Instruction, k: usize) -> bool {
        match inst.opcode {
            Opcode::Rng => true,
            Opcode::Map => maps_all_dimensions(inst),
            Opcode::BitcastConvert => keeps_width(module, inst),
            Opcode::DynamicUpdateSlice => k == 0,
            Opcode::Fusion => self.of_operand(inst, k).is_some_and(|paths| paths.elementwise),
            opcode => opcode.is_elementwise(),
        }
    }
    /// Whether only elementwise instructions and tuples stand between operand `k` of a fusion and its root.
    pub(crate) fn is_elementwise_or_tuple(&self, fusion: &Instruction, k: usize) -> bool {
        self.of_operand(fusion, k).is_some_and(|paths| paths.or_tuple)
    }
    fn of_operand(&self, fusion: &Instruction, k: usize) -> Option<Paths> {
        self.bodies[fusion.computation(&AttrKey::Calls)?.index()].get(k).copied()
    }
}

/// Whether a bitcast-convert keeps the width of its elements; only then positions correspond.
fn keeps_width(module: &Module, inst: &Instruction) -> bool {
    let from = inst.operands.first().and_then(|&operand| module.shape(operand).as_array());
    match (from, inst.array()) {
        (Some(from), Some(to)) => from.element_type.bits() == to.element_type.bits(),
        _ => false,
    }
}

/// Whether a map is applied to every element; its scalar function then is the only thing that connects positions.
fn maps_all_dimensions(inst: &Instruction) -> bool {
    let rank = inst.array().map_or(0, |array| array.rank() as i64);
    inst.ints(&AttrKey::Dimensions).iter().copied().eq(0..rank)
}
