//! Forms in which values inside of a loop are needed where rows are cut into blocks, and what becomes of the elements of its state.

// Tests: `passes/tests/chunk_time.rs`, `passes/tests/chunk_loops.rs`.

use crate::hash::IndexMap;
use hlo_ir::{Module, Opcode};

use crate::flow::{Rows, Value, producer};

/// What becomes of an element of the state where rows are cut into blocks.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) enum Role {
    /// It is the same for all blocks.
    Whole,
    /// A block has its rows of this dimension.
    Cut(usize),
    /// Each iteration adds a sum over the rows to it: to all of it, or to a row of its own that held zeros.
    Sum,
}

/// What is needed of a value inside the loop.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub(crate) enum Form {
    /// All of it.
    Whole,
    /// These rows of this dimension.
    Block(usize, Rows),
    /// What the rows of a block add up to.
    Sum,
    /// An element of the state with such sums added to it.
    Total,
}

/// A value as it is needed.
pub(crate) type Node = (Value, Form);

/// Values in the forms in which they are needed, with what they are made from, operands first.
pub(crate) type Nodes = IndexMap<Node, Vec<Node>>;

/// Whether an element of the state may be read in a form.
pub(super) fn is_read_as(role: Role, form: Form) -> bool {
    match (role, form) {
        (Role::Whole, Form::Whole) | (Role::Sum, Form::Total) => true,
        (Role::Cut(dim), Form::Block(at, Rows::IDENTITY)) => dim == at,
        _ => false,
    }
}

/// Whether a value inside the loop may be written again: it has no effect, and nothing says when it is computed.
pub(super) fn is_movable(module: &Module, value: Value) -> bool {
    let inst = module.instruction(value.inst);
    inst.control_predecessors().is_empty() && inst.opcode != Opcode::Parameter && !inst.opcode.has_side_effect()
}

/// The element of the loop's state that a value is.
pub(crate) fn state_element(module: &Module, value: Value) -> Option<usize> {
    let (of, element) = producer(module, value.inst);
    let parameter = module.instruction(of).opcode == Opcode::Parameter && value.frame == 0;
    usize::try_from(element?).ok().filter(|_| parameter)
}
