//! What the loop carries: one tuple of parts, with a first value outside, a value at the start of a step, and one at its end.

use hlo_ir::shape::ShapeRef;
use hlo_ir::{
    AttrKey, Attribute, ComputationId, Instruction, InstructionId, Opcode, Shape, edit::Patch, module::Payload,
};
use smol_str::SmolStr;

/// One part.
#[derive(Clone, Debug)]
pub(super) struct Part {
    pub(super) name: SmolStr,
    pub(super) shape: ShapeRef,
    /// First value, in the computation of the loop.
    pub(super) first: InstructionId,
}

/// The parts, in the order of the tuple.
#[derive(Clone, Debug, Default)]
pub(super) struct State {
    pub(super) parts: Vec<Part>,
}

impl State {
    /// Adds a part and returns its number.
    pub(super) fn push(&mut self, name: impl Into<SmolStr>, shape: ShapeRef, first: InstructionId) -> usize {
        self.parts.push(Part { name: name.into(), shape, first });
        self.parts.len() - 1
    }
    pub(super) fn shape(&self) -> ShapeRef {
        Shape::tuple(self.parts.iter().map(|part| part.shape.clone()))
    }
    /// The parameter of a condition or body.
    pub(super) fn parameter(
        &self,
        patch: &mut Patch,
        to: ComputationId,
        metadata: Option<&Attribute>,
    ) -> InstructionId {
        let mut state = Instruction::new("roll_state", self.shape(), Opcode::Parameter, []);
        state.attributes.extend(metadata.cloned());
        patch.add(to, state.with_payload(Payload::Parameter(0)))
    }
    /// Part `index` of a state.
    pub(super) fn get(
        &self,
        patch: &mut Patch,
        to: ComputationId,
        state: InstructionId,
        index: usize,
        metadata: Option<&Attribute>,
    ) -> InstructionId {
        let Part { name, shape, .. } = &self.parts[index];
        let mut element = Instruction::new(name.clone(), shape.clone(), Opcode::GetTupleElement, [state])
            .with(Attribute::int(AttrKey::Index, index as i64));
        element.attributes.extend(metadata.cloned());
        patch.add(to, element)
    }
}
