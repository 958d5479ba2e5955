//! How a row of a stack follows from rows of other stacks: the expression.

use std::collections::BTreeMap;

use hlo_ir::{InstructionId, Module, Opcode};

use crate::bounds;
use crate::flow::Value;
use crate::loops::Stacks;

/// A value as it was some steps before the one whose row is wanted.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub(super) struct ValueAtStep {
    pub(super) value: Value,
    pub(super) steps: i64,
}

/// Where a value comes from, seen from the end of a step.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum Node {
    /// The row of a stack that stays, by index, under another shape perhaps.
    Row(usize),
    /// An element of the state that is only forwarded: the instruction that made it before the loop.
    Given(InstructionId),
    /// The row that the step reads of an array that is only forwarded.
    GivenRow(InstructionId),
    /// The number of the step.
    Counter,
    /// An element of the state as the step begins: what made it before the loop, and the value that the step before made of it.
    Before(InstructionId, Value),
    /// An operation on these values.
    Operation(Vec<Value>),
}

impl Node {
    /// What must be known for this node of a value.
    pub(super) fn needs(&self, at: ValueAtStep) -> Vec<ValueAtStep> {
        match self {
            Self::Operation(operands) => operands.iter().map(|&value| ValueAtStep { value, ..at }).collect(),
            Self::Before(_, value) => vec![ValueAtStep { value: *value, steps: at.steps + 1 }],
            _ => Vec::new(),
        }
    }
}

/// Every value needed for some rows.
pub(super) type Cone = BTreeMap<ValueAtStep, Node>;

/// The expression of a row of stack `index` without the rows of `dropped`; `None` if there is none, or a costly one.
pub(super) fn cone(module: &Module, stacks: &mut Stacks, index: usize, dropped: &[usize]) -> Option<Cone> {
    let mut cone = Cone::new();
    let mut work = vec![ValueAtStep { value: stacks.list[index].row, steps: 0 }];
    while let Some(at) = work.pop() {
        if cone.contains_key(&at) {
            continue;
        }
        let node = node(module, stacks, at.value, dropped)?;
        work.extend(node.needs(at));
        cone.insert(at, node);
        if cone.len() > bounds::CONE {
            return None;
        }
    }
    Some(cone)
}

/// Where a value comes from; `None` if it cannot be computed again, or only at a price.
pub(super) fn node(module: &Module, stacks: &mut Stacks, value: Value, dropped: &[usize]) -> Option<Node> {
    let Stacks { body, list, initial, rows, order, looks_back, .. } = stacks;
    let inst = module.instruction(value.inst);
    let bare = body.strip(module, value);
    let kept = |(index, stack): (usize, &crate::loops::Stack)| {
        (stack.row == bare && !dropped.contains(&index)).then_some(index)
    };
    if let Some(index) = list.iter().enumerate().find_map(kept) {
        return Some(Node::Row(index));
    }
    if let Some(element) = body.element(module, value) {
        return match (body.forwards(module, element), body.counts(element)) {
            (true, _) => Some(Node::Given(initial[element])),
            (false, true) => Some(Node::Counter),
            (false, false) if *looks_back => Some(Node::Before(initial[element], body.next(module, element)?)),
            (false, false) => None,
        };
    }
    if inst.opcode == Opcode::DynamicSlice {
        let source = body.resolve(module, inst.operands[0], value);
        let element = body.element(module, source)?;
        let start = body.row_start(module, value, 1)?;
        let (whole, part) = (module.instruction(source.inst).array()?, inst.array()?);
        let row = part.dims.first() == Some(&1) && part.dims[1..] == whole.dims[1..] && whole.dims[0] == *rows;
        let same = row && body.order(module, start, *rows) == Some(*order);
        let plain = same && body.forwards(module, element);
        return plain.then(|| Node::GivenRow(initial[element]));
    }
    let cheap = inst.opcode.is_elementwise()
        || matches!(
            inst.opcode,
            Opcode::Constant
                | Opcode::Iota
                | Opcode::Broadcast
                | Opcode::Reshape
                | Opcode::Slice
                | Opcode::Concatenate
                | Opcode::Transpose
                | Opcode::Dot
        );
    let plain = cheap && inst.called_computations().next().is_none() && inst.control_predecessors().is_empty();
    if !plain || inst.array().is_none() {
        return None;
    }
    Some(Node::Operation(inst.operands.iter().map(|&id| body.resolve(module, id, value)).collect()))
}
