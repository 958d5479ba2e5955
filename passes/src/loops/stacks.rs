//! The stacks of a loop: arrays of which step `t` writes row `t`.

use hlo_ir::{ArrayShape, InstructionId, Module, Opcode};

use super::body::{Body, LARGEST_COUNT, Order};
use super::counters::Counted;
use crate::flow::Value;

/// An element of a loop's state that is written row by row.
pub(crate) struct Stack {
    /// Its index in the state.
    pub(crate) element: usize,
    /// The whole array, `[rows, ...]`.
    pub(crate) array: ArrayShape,
    /// What one step writes, without reshapes.
    pub(crate) row: Value,
    /// The number of the row that a step writes.
    pub(crate) number: Value,
}

/// A counting loop with its stacks.
pub(crate) struct Stacks {
    /// The `while`.
    pub(crate) site: InstructionId,
    /// The initial value of each element of the state.
    pub(crate) initial: Vec<InstructionId>,
    /// Number of steps, and of rows of every stack.
    pub(crate) rows: i64,
    /// The order in which all of them are written.
    pub(crate) order: Order,
    /// The stacks, in the order of the state, and behind them those that are to be added.
    pub(crate) list: Vec<Stack>,
    /// How many of them the loop has.
    pub(crate) known: usize,
    /// Whether what a step begins with may be taken from the step before.
    pub(crate) looks_back: bool,
    /// The body, with the calls in it.
    pub(crate) body: Body,
}

impl Stack {
    /// Whether kernels that read its rows compute with floats.
    pub(crate) fn is_rounded(&self) -> bool {
        self.array.element_type.is_float() || self.array.element_type.is_complex()
    }
}

impl Stacks {
    /// Forgets the stacks that were added, for another choice.
    pub(crate) fn begin(&mut self, looks_back: bool) {
        self.list.truncate(self.known);
        self.looks_back = looks_back;
    }
    /// The stacks of a loop that counts from 0 in steps of one; `None` if it does not, or has no stack.
    pub(crate) fn of(module: &Module, site: InstructionId) -> Option<Self> {
        let Counted { mut body, steps } = Counted::of(module, site)?;
        let rows = steps?;
        let initial = module.instruction(module.instruction(site).operands[0]).operands.to_vec();
        let found: Vec<(Stack, Order)> =
            (0..initial.len()).filter_map(|element| stack(module, &mut body, element, rows)).collect();
        let order = found.first()?.1;
        let list: Vec<Stack> = found.into_iter().filter(|found| found.1 == order).map(|found| found.0).collect();
        let known = list.len();
        Some(Self { site, initial, rows, order, list, known, looks_back: false, body })
    }
}

/// The element as a stack, if a step writes a whole row and nothing else, and all steps together write all rows.
fn stack(module: &Module, body: &mut Body, element: usize, rows: i64) -> Option<(Stack, Order)> {
    let written = body.top(module, body.results[element]);
    let update = module.instruction(written.inst);
    let array = update.array()?.clone();
    if update.opcode != Opcode::DynamicUpdateSlice || array.is_dynamic() || array.dims.first() != Some(&rows) {
        return None;
    }
    let before = body.resolve(module, update.operands[0], written);
    let start = body.row_start(module, written, 2)?;
    let row = body.resolve(module, update.operands[1], written);
    let one_row = module.instruction(row.inst).array()?.elements()?.checked_mul(u64::try_from(rows).ok()?)?;
    let update_shape = module.instruction(update.operands[1]).array()?;
    let whole = update_shape.dims.first() == Some(&1) && one_row == array.elements()?;
    let own = body.element(module, before) == Some(element);
    let order = body.order(module, start, rows).filter(|_| rows <= LARGEST_COUNT)?;
    let row = body.strip(module, row);
    (whole && own).then_some((Stack { element, array, row, number: start }, order))
}
