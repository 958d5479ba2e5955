//! Writes a loop that makes a known number of steps.

use hlo_ir::edit::Patch;
use hlo_ir::module::Payload;
use hlo_ir::shape::ShapeRef;
use hlo_ir::{
    AttrKey, AttrValue, Attribute, ComputationId, ElementType, Instruction, InstructionId, Module, Opcode, Shape,
};

use super::insertion_point::InsertionPoint;

/// An element of a loop's state: its first value, where the loop stands, and its shape.
pub(crate) type Part = (InstructionId, ShapeRef);

/// One step of a loop: where it is written, its number, and the state that it begins with.
pub(crate) struct Step<'a> {
    pub(crate) computation: ComputationId,
    pub(crate) number: InstructionId,
    pub(crate) state: &'a [InstructionId],
}

/// A loop in the place of another.
pub(crate) struct CountedLoop<'a> {
    pub(crate) module: &'a Module,
    /// The computation it stands in.
    pub(crate) parent: ComputationId,
    /// The loop whose work it does.
    pub(crate) of: InstructionId,
    pub(crate) steps: i64,
}

impl CountedLoop<'_> {
    /// Writes the loop; `body` writes a step and gives the state behind it. Returns the state behind the last one. A single step is written without a loop.
    pub(crate) fn write(
        &self,
        patch: &mut Patch,
        parts: &[Part],
        body: impl FnOnce(&mut Patch, &Step<'_>) -> Option<Vec<InstructionId>>,
    ) -> Option<Vec<InstructionId>> {
        let first: Vec<InstructionId> = parts.iter().map(|part| part.0).collect();
        let zero = steps(self.parent).constant(patch, 0);
        if self.steps == 1 {
            return body(patch, &Step { computation: self.parent, number: zero, state: &first });
        }
        let number = Shape::array(ElementType::S32, []);
        let shapes = || [number.clone()].into_iter().chain(parts.iter().map(|part| part.1.clone()));
        let whole = Shape::tuple(shapes());
        let inside = self.body(patch, &whole, shapes(), body)?;
        let condition = self.condition(patch, &whole);
        let start = [zero].into_iter().chain(first);
        let start = self.add(patch, self.parent, Instruction::new("start", whole.clone(), Opcode::Tuple, start));
        let call = |key, computation| Attribute::new(key, AttrValue::Computation(computation));
        let whole = Instruction::new("while", whole.clone(), Opcode::While, [start])
            .with(call(AttrKey::Condition, condition))
            .with(call(AttrKey::Body, inside));
        let whole = self.add(patch, self.parent, whole);
        let results = shapes().enumerate().skip(1);
        Some(results.map(|(index, shape)| self.element(patch, self.parent, whole, index, shape)).collect())
    }

    fn body(
        &self,
        patch: &mut Patch,
        whole: &ShapeRef,
        shapes: impl Iterator<Item = ShapeRef>,
        body: impl FnOnce(&mut Patch, &Step<'_>) -> Option<Vec<InstructionId>>,
    ) -> Option<ComputationId> {
        let inside = patch.add_computation("step");
        let parameter = parameter(patch, inside, whole);
        let taken: Vec<InstructionId> =
            shapes.enumerate().map(|(index, shape)| self.element(patch, inside, parameter, index, shape)).collect();
        let next = body(patch, &Step { computation: inside, number: taken[0], state: &taken[1..] })?;
        let one = steps(inside).constant(patch, 1);
        let number = steps(inside).scalar(patch, Opcode::Add, [taken[0], one]);
        let root = Instruction::new("next", whole.clone(), Opcode::Tuple, [number].into_iter().chain(next));
        let root = self.add(patch, inside, root);
        patch.set_root(inside, root);
        Some(inside)
    }

    fn condition(&self, patch: &mut Patch, whole: &ShapeRef) -> ComputationId {
        let condition = patch.add_computation("goes_on");
        let parameter = parameter(patch, condition, whole);
        let number = self.element(patch, condition, parameter, 0, Shape::array(ElementType::S32, []));
        let steps = steps(condition).constant(patch, self.steps);
        let goes_on =
            Instruction::new("goes_on", Shape::array(ElementType::Pred, []), Opcode::Compare, [number, steps])
                .with(Attribute::word(AttrKey::Direction, "LT"));
        patch.add(condition, goes_on);
        condition
    }

    fn element(
        &self,
        patch: &mut Patch,
        to: ComputationId,
        tuple: InstructionId,
        index: usize,
        shape: ShapeRef,
    ) -> InstructionId {
        let taken = Instruction::new("carried", shape, Opcode::GetTupleElement, [tuple])
            .with(Attribute::int(AttrKey::Index, i64::try_from(index).unwrap_or(i64::MAX)));
        self.add(patch, to, taken)
    }

    fn add(&self, patch: &mut Patch, to: ComputationId, mut inst: Instruction) -> InstructionId {
        let of = self.module.instruction(self.of);
        inst.attributes.extend(of.attributes.iter().find(|attribute| attribute.key == AttrKey::Metadata).cloned());
        let new = patch.add(to, inst);
        patch.set_origin(new, self.of);
        new
    }
}

fn parameter(patch: &mut Patch, to: ComputationId, shape: &ShapeRef) -> InstructionId {
    let state = Instruction::new("state", shape.clone(), Opcode::Parameter, []);
    patch.add(to, state.with_payload(Payload::Parameter(0)))
}

/// Numbers of steps, as they are written in a computation.
pub(crate) const fn steps(to: ComputationId) -> InsertionPoint {
    InsertionPoint::new(to, ElementType::S32, "number")
}
