//! Which row a reader reads: its number, and those of the rows that belong to the steps before.

use std::collections::BTreeMap;

use hlo_ir::edit::Patch;
use hlo_ir::{ArrayShape, AttrKey, Attribute, ComputationId, ElementType, Instruction, InstructionId, Module};
use hlo_ir::{Opcode, Shape};

use crate::loops::{Order, Stacks};
use crate::recompute::insertion_point::InsertionPoint;

/// The row of one step, as the body of a reader numbers it.
pub(super) struct Rows {
    /// The body, and how numbers are written there.
    pub(super) point: InsertionPoint,
    /// The number that stands there.
    number: InstructionId,
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
        let point = InsertionPoint::new(body, element, "residual.number");
        Self { point, number, count: stacks.rows, order: stacks.order, known: BTreeMap::new() }
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
                let last = self.point.constant(patch, self.count - 1);
                self.point.scalar(patch, Opcode::Subtract, [last, number])
            }
        };
        Some(if element == self.point.element { counter } else { self.point.convert(patch, counter, element) })
    }

    /// For each element of an array, whether the step so many before was the first one.
    pub(super) fn is_first(&mut self, patch: &mut Patch, steps: i64, array: &ArrayShape) -> Option<InstructionId> {
        let number = self.before(patch, steps)?;
        let first = match self.order {
            Order::Forward => 0,
            Order::Backward => self.count - 1,
        };
        let first = self.point.constant(patch, first);
        let shape = Shape::array(ElementType::Pred, []);
        let same = Instruction::new("residual.first", shape, Opcode::Compare, [number, first]);
        let same = patch.add(self.point.to, same.with(Attribute::word(AttrKey::Direction, "EQ")));
        let shape = Shape::array(ElementType::Pred, array.dims.iter().copied());
        let everywhere = Instruction::new("residual.first", shape, Opcode::Broadcast, [same]);
        Some(patch.add(self.point.to, everywhere.with(Attribute::ints(AttrKey::Dimensions, []))))
    }

    /// The number of the row that a step so many before made. A number beyond all rows stands for the nearest one, as in a slice.
    fn before(&mut self, patch: &mut Patch, steps: i64) -> Option<InstructionId> {
        if !matches!(self.point.element, ElementType::S32 | ElementType::S64) {
            return None;
        }
        if let Some(&known) = self.known.get(&steps) {
            return Some(known);
        }
        let made = if steps == 0 {
            self.point.clamped(patch, self.number, self.count - 1)
        } else {
            let (number, steps) = (self.before(patch, 0)?, self.point.constant(patch, steps));
            let opcode = match self.order {
                Order::Forward => Opcode::Subtract,
                Order::Backward => Opcode::Add,
            };
            self.point.scalar(patch, opcode, [number, steps])
        };
        self.known.insert(steps, made);
        Some(made)
    }
}
