//! Which row a reader reads: its number, and those of the rows that belong to the steps before.

use std::collections::BTreeMap;

use hlo_ir::edit::Patch;
use hlo_ir::module::Payload;
use hlo_ir::{ArrayShape, AttrKey, Attribute, ComputationId, ElementType, Instruction, InstructionId, Module};
use hlo_ir::{Opcode, Shape};

use crate::loops::{Order, Stacks};

/// The row of one step, as the body of a reader numbers it.
pub(super) struct Rows {
    body: ComputationId,
    /// The number that stands there.
    number: InstructionId,
    element: ElementType,
    /// How many rows there are.
    count: i64,
    /// In which order the first loop made them.
    order: Order,
    /// The numbers that are written already, by steps.
    known: BTreeMap<i64, InstructionId>,
}

impl Rows {
    /// The row with a number that stands in the body of a reader.
    pub(super) fn new(module: &Module, body: ComputationId, number: InstructionId, stacks: &Stacks) -> Self {
        let element = module.instruction(number).array().map_or(ElementType::S32, |array| array.element_type);
        Self { body, number, element, count: stacks.rows, order: stacks.order, known: BTreeMap::new() }
    }

    /// Whether this is the row that `number` stands for.
    pub(super) fn is(&self, number: InstructionId) -> bool {
        self.number == number
    }

    /// Where a slice of the row of so many steps before begins; without such a row it may begin anywhere. `None` if the number is of another type
    /// than counters of rows are.
    pub(super) fn start(&mut self, patch: &mut Patch, steps: i64) -> Option<InstructionId> {
        if steps == 0 { Some(self.number) } else { self.before(patch, steps) }
    }

    /// What a loop counted in the step so many before, as an `element`.
    pub(super) fn counter(&mut self, patch: &mut Patch, steps: i64, element: ElementType) -> Option<InstructionId> {
        let number = self.before(patch, steps)?;
        let counter = match self.order {
            Order::Forward => number,
            Order::Backward => {
                let last = self.constant(patch, "residual.last", self.count - 1);
                self.scalar(patch, Opcode::Subtract, [last, number])
            }
        };
        let converted = Instruction::new("residual.step", Shape::array(element, []), Opcode::Convert, [counter]);
        Some(if element == self.element { counter } else { patch.add(self.body, converted) })
    }

    /// For each element of an array, whether the step so many before was the first one.
    pub(super) fn is_first(&mut self, patch: &mut Patch, steps: i64, array: &ArrayShape) -> Option<InstructionId> {
        let number = self.before(patch, steps)?;
        let first = match self.order {
            Order::Forward => 0,
            Order::Backward => self.count - 1,
        };
        let first = self.constant(patch, "residual.number", first);
        let shape = Shape::array(ElementType::Pred, []);
        let same = Instruction::new("residual.first", shape, Opcode::Compare, [number, first]);
        let same = patch.add(self.body, same.with(Attribute::word(AttrKey::Direction, "EQ")));
        let shape = Shape::array(ElementType::Pred, array.dims.iter().copied());
        let everywhere = Instruction::new("residual.first", shape, Opcode::Broadcast, [same]);
        Some(patch.add(self.body, everywhere.with(Attribute::ints(AttrKey::Dimensions, []))))
    }

    /// Zero, as a number of rows.
    pub(super) fn zero(&self, patch: &mut Patch) -> InstructionId {
        self.constant(patch, "residual.zero", 0)
    }

    /// The number of the row that a step so many before made. A number beyond all rows stands for the nearest one, as in a slice.
    fn before(&mut self, patch: &mut Patch, steps: i64) -> Option<InstructionId> {
        if !matches!(self.element, ElementType::S32 | ElementType::S64) {
            return None;
        }
        if let Some(&known) = self.known.get(&steps) {
            return Some(known);
        }
        let made = if steps == 0 {
            let ends = [0, self.count - 1].map(|end| self.constant(patch, "residual.end", end));
            self.scalar(patch, Opcode::Clamp, [ends[0], self.number, ends[1]])
        } else {
            let (number, steps) = (self.before(patch, 0)?, self.constant(patch, "residual.steps", steps));
            let opcode = match self.order {
                Order::Forward => Opcode::Subtract,
                Order::Backward => Opcode::Add,
            };
            self.scalar(patch, opcode, [number, steps])
        };
        self.known.insert(steps, made);
        Some(made)
    }

    fn scalar<const N: usize>(&self, patch: &mut Patch, opcode: Opcode, operands: [InstructionId; N]) -> InstructionId {
        let shape = Shape::array(self.element, []);
        patch.add(self.body, Instruction::new("residual.number", shape, opcode, operands))
    }

    fn constant(&self, patch: &mut Patch, name: &str, value: i64) -> InstructionId {
        let constant = Instruction::new(name, Shape::array(self.element, []), Opcode::Constant, [])
            .with_payload(Payload::Literal(value.to_string().into()));
        patch.add(self.body, constant)
    }
}
