//! Loops that treat their rows independently: what becomes of the elements of their state where rows are cut into blocks, and in which forms values inside are needed.

// Tests: `passes/tests/chunk_time.rs`, `passes/tests/chunk_loops.rs`.

use std::fmt;
use std::sync::Arc;

use crate::hash::IndexMap;
use hlo_ir::{ComputationId, ElementType, InstructionId, Module, Opcode, edit};

use crate::flow::{OperandFlow, Rows, Value, result_of};

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
    /// A loop inside the loop of which this element of the state is cut in this dimension.
    Loop(usize, usize),
}

/// A value as it is needed.
pub(crate) type Node = (Value, Form);

/// Values in the forms in which they are needed, with what they are made from, operands first.
pub(crate) type Nodes = IndexMap<Node, Vec<Node>>;

/// Everything that the results of a computation need.
#[derive(Clone, Debug)]
pub(crate) struct Trace {
    pub(crate) computation: ComputationId,
    pub(crate) nodes: Nodes,
    /// The result, or the elements of the result.
    pub(crate) roots: Vec<Node>,
    /// The loops inside, by the element of their state that is cut, and its dimension.
    pub(crate) loops: IndexMap<(InstructionId, usize, usize), Arc<RowLoop>>,
}

/// A `while` whose state can be cut: each element that depends on the rows has them in one dimension, or sums them up.
#[derive(Clone, Debug)]
pub(crate) struct RowLoop {
    pub(crate) looping: InstructionId,
    pub(super) roles: Vec<Role>,
    /// The values that the loop starts from.
    pub(crate) starts: Vec<InstructionId>,
    pub(crate) body: Trace,
    pub(crate) condition: Trace,
}

impl RowLoop {
    /// What a block needs of each value the loop starts from.
    pub(crate) fn flows(&self) -> Vec<OperandFlow> {
        let flow = |role: &Role| match role {
            Role::Cut(dim) => OperandFlow::same(*dim),
            Role::Whole | Role::Sum => OperandFlow::Whole,
        };
        self.roles.iter().map(flow).collect()
    }
    /// What becomes of each element of the state.
    pub(crate) fn roles(&self) -> &[Role] {
        &self.roles
    }
    /// The dimension in which a result of the loop is cut.
    pub(crate) fn cut_of(&self, module: &Module, result: InstructionId) -> Option<usize> {
        match self.roles.get(result_of(module, result)?.1)? {
            Role::Cut(dim) => Some(*dim),
            Role::Whole | Role::Sum => None,
        }
    }
    /// The elements that sum up over the rows.
    pub(crate) fn sums(&self) -> impl Iterator<Item = usize> {
        self.elements(|role| role == Role::Sum)
    }
    /// The elements that are the same for all blocks.
    pub(crate) fn wholes(&self) -> impl Iterator<Item = usize> {
        self.elements(|role| role == Role::Whole)
    }
    fn elements(&self, is: impl Fn(Role) -> bool) -> impl Iterator<Item = usize> {
        self.roles.iter().enumerate().filter(move |(_, role)| is(**role)).map(|(element, _)| element)
    }
    /// Whether all rows are in one dimension, and nothing sums over them.
    pub(crate) fn is_plain(&self) -> bool {
        let mut dims = self.roles.iter().filter(|role| matches!(role, Role::Cut(_)));
        let first = dims.next();
        dims.all(|role| Some(role) == first) && self.sums().next().is_none()
    }
    /// Whether iterations read or write an element only row by row.
    pub(crate) fn takes_rows_of(&self, module: &Module, element: usize) -> bool {
        let reads = |(value, _): &Node| state_element(module, *value) == Some(element);
        let mut readers = self.body.nodes.iter().filter(|(_, parts)| parts.iter().any(reads));
        readers.all(|(node, _)| {
            matches!(module.instruction(node.0.inst).opcode, Opcode::DynamicSlice | Opcode::DynamicUpdateSlice)
        })
    }
    /// Whether it sums up over the rows what rounds, so that blocks of them come out otherwise.
    pub(crate) fn rounds_sums(&self, module: &Module) -> bool {
        self.sums().any(|element| {
            let array = module.instruction(self.starts[element]).array();
            array.is_none_or(|array| !array.element_type.is_integer() && array.element_type != ElementType::Pred)
        })
    }
    /// What an iteration computes in blocks, that of loops inside included: the instruction, the dimension that is cut, and its rows.
    pub(crate) fn blocks(&self) -> Vec<(InstructionId, usize, Rows)> {
        let own = self.body.nodes.keys().filter_map(|&(value, form)| match form {
            Form::Block(dim, rows) => Some((value.inst, dim, rows)),
            Form::Whole | Form::Sum | Form::Total | Form::Loop(..) => None,
        });
        own.chain(self.inside().flat_map(Self::blocks)).collect()
    }
    /// The loops inside.
    pub(crate) fn inside(&self) -> impl Iterator<Item = &Self> {
        self.body.loops.values().map(AsRef::as_ref)
    }
}

/// Finds loops over independent rows.
pub(super) trait FindLoops: fmt::Debug {
    /// The loop that cuts an element of a loop's state in a dimension.
    fn find(&self, module: &Module, looping: InstructionId, element: usize, dim: usize) -> Option<Arc<RowLoop>>;
}

/// Whether an element of the state may be read in a form.
pub(super) fn is_read_as(role: Role, form: Form) -> bool {
    match (role, form) {
        (Role::Whole, Form::Whole) | (Role::Sum, Form::Total) => true,
        (Role::Cut(dim), Form::Block(at, Rows::IDENTITY)) => dim == at,
        _ => false,
    }
}

/// Whether a value inside the loop may be written again: neither it nor what it calls has an effect or talks to other devices, and nothing says when it is computed.
pub(super) fn is_movable(module: &Module, value: Value) -> bool {
    let inst = module.instruction(value.inst);
    inst.control_predecessors().is_empty()
        && inst.opcode != Opcode::Parameter
        && !edit::has_side_effect(module, value.inst)
}

/// The element of the loop's state that a value is.
pub(crate) fn state_element(module: &Module, value: Value) -> Option<usize> {
    let (of, element) = result_of(module, value.inst)?;
    let is_parameter = module.instruction(of).opcode == Opcode::Parameter && value.frame == 0;
    is_parameter.then_some(element)
}
