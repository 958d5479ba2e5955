//! Which instructions compute each result element from the operand elements at the same position, fusions included.
//!
//! Source: `HloInstruction::IsElementwiseImpl` (xla/hlo/ir/hlo_instruction.cc, xla/hlo/ir/hlo_instructions.cc).

use hlo_ir::arena::{Id, SideTable};
use hlo_ir::{AttrKey, ComputationId, Instruction, Module, Opcode};
use smallvec::SmallVec;

/// What all paths from a fusion parameter to the root consist of.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Paths {
    /// Elementwise instructions only.
    elementwise: bool,
    /// Elementwise instructions and tuples.
    or_tuple: bool,
}

impl Paths {
    /// No path yet.
    pub(crate) const ALL: Self = Self { elementwise: true, or_tuple: true };

    /// These paths, with one more instruction in front of them.
    pub(crate) fn through(self, elementwise: bool, tuple: bool) -> Self {
        Self { elementwise: self.elementwise && elementwise, or_tuple: self.or_tuple && (elementwise || tuple) }
    }
    /// Takes in other paths.
    pub(crate) fn meet(&mut self, other: Self) {
        self.elementwise &= other.elementwise;
        self.or_tuple &= other.or_tuple;
    }
}

/// The paths from the parameters of one body, by number.
pub(crate) type BodyPaths = SmallVec<[Paths; 8]>;
/// The same for bodies that a module leaves out, by computation.
pub(crate) type KnownPaths = SideTable<ComputationId, Option<BodyPaths>>;

/// The paths from every parameter of every fusion body.
#[derive(Clone, Debug)]
pub(crate) struct FusionPaths {
    /// By computation; empty for a computation that is no fusion body.
    bodies: Vec<BodyPaths>,
}

impl FusionPaths {
    /// Looks at every fusion body once, backwards; callees come first in a module, so nested bodies are known when they are met. Bodies that the
    /// module leaves out are those with `known` paths.
    pub(crate) fn of(module: &Module, known: &KnownPaths) -> Self {
        let mut is_body = vec![false; module.computation_count()];
        for (_, inst) in module.live_instructions().filter(|(_, inst)| inst.opcode == Opcode::Fusion) {
            if let Some(body) = inst.computation(&AttrKey::Calls) {
                is_body[body.index()] = true;
            }
        }
        let mut paths = Self { bodies: vec![BodyPaths::new(); module.computation_count()] };
        let mut state = vec![Paths::ALL; module.instruction_count()];
        for &body in module.computation_ids().iter().filter(|id| is_body[id.index()]) {
            match &known[body] {
                Some(known) => paths.bodies[body.index()].clone_from(known),
                None => paths.scan(module, body, &mut state),
            }
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
                state[operand.index()].meet(after.through(elementwise, inst.opcode == Opcode::Tuple));
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
