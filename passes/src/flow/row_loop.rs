//! Loops that treat their rows independently, such as a binary search for every row: such a `while` computes a block of rows from
//! a block of its state, by the same iterations.

// Tests: `passes/tests/chunk_time.rs`.

use crate::hash::IndexMap;
use hlo_ir::shape::ShapeRef;
use hlo_ir::{AttrKey, ComputationId, InstructionId, Module, Opcode};

use super::value::{Frames, Value, producer};
use super::{OperandFlow, Rows, pull};

/// What is needed of a value inside the loop.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub(crate) enum Form {
    /// All of it.
    Whole,
    /// These rows of this dimension.
    Block(usize, Rows),
}

/// A value as it is needed.
pub(crate) type Node = (Value, Form);

/// A `while` whose state can be cut: some elements, all in one dimension, while the others are the same for all blocks.
#[derive(Clone, Debug)]
pub struct RowLoop {
    pub(crate) looping: InstructionId,
    pub(crate) dim: usize,
    /// Which elements of the state are cut.
    cut: Vec<bool>,
    /// The values that the loop starts from.
    pub starts: Vec<InstructionId>,
    pub(crate) body: Trace,
    pub(crate) condition: Trace,
}

impl RowLoop {
    /// Looks at a `while` of which blocks of dimension `dim` of element `element` are wanted. `None` if they need more than blocks, if the
    /// number of iterations depends on the rows, or if the loop counts along them.
    pub fn of(module: &Module, looping: InstructionId, element: usize, dim: usize) -> Option<Self> {
        let inst = module.instruction(looping);
        let start = module.instruction(*inst.operands.first()?);
        let elements = inst.shape.as_tuple()?;
        if inst.opcode != Opcode::While || start.opcode != Opcode::Tuple || !inst.control_predecessors().is_empty() {
            return None;
        }
        let extent = *elements.get(element)?.as_array()?.dims.get(dim)?;
        let mut cut = vec![false; elements.len()];
        cut[element] = true;
        let body = inst.computation(&AttrKey::Body)?;
        // Each round cuts one more element at least.
        for _ in 0..=elements.len() {
            let trace = Trace::of(module, body, &cut, dim)?;
            let reached: Vec<usize> = trace.cut_elements(module, dim)?;
            if reached.iter().all(|&element| cut[element]) {
                let condition = inst.computation(&AttrKey::Condition)?;
                let condition = Trace::of(module, condition, &[], dim)?;
                let fits = |(&cut, shape): (&bool, &ShapeRef)| {
                    !cut || shape.as_array().is_some_and(|array| array.dims.get(dim) == Some(&extent))
                };
                let sound = !trace.reads_whole(module, &cut) && !condition.reads_whole(module, &cut);
                let starts = start.operands.to_vec();
                let fits = cut.iter().zip(elements).all(fits);
                return (sound && fits).then_some(Self { looping, dim, cut, starts, body: trace, condition });
            }
            for element in reached {
                *cut.get_mut(element)? = true;
            }
        }
        None
    }
    /// What a block needs of each value the loop starts from.
    pub fn flows(&self) -> Vec<OperandFlow> {
        self.cut.iter().map(|&cut| if cut { OperandFlow::same(self.dim) } else { OperandFlow::Whole }).collect()
    }
    /// Which elements of the state are cut.
    pub fn cut(&self) -> &[bool] {
        &self.cut
    }
    /// What an iteration computes in blocks: the instruction, the dimension that is cut, and its rows.
    pub fn blocks(&self) -> impl Iterator<Item = (InstructionId, usize, Rows)> {
        self.body.nodes.keys().filter_map(|&(value, form)| match form {
            Form::Block(dim, rows) => Some((value.inst, dim, rows)),
            Form::Whole => None,
        })
    }
    /// Whether an element of the state is cut.
    pub fn cuts(&self, element: usize) -> bool {
        self.cut.get(element) == Some(&true)
    }
}

/// Everything that the results of a computation need, operands first.
#[derive(Clone, Debug)]
pub(crate) struct Trace {
    pub(crate) computation: ComputationId,
    /// Each value in each form, with what it is made from.
    pub(crate) nodes: IndexMap<Node, Vec<Node>>,
    /// The result, or the elements of the result.
    pub(crate) roots: Vec<Node>,
}

impl Trace {
    /// Follows the results of `computation`, of which the elements in `cut` are needed in blocks of `dim`.
    fn of(module: &Module, computation: ComputationId, cut: &[bool], dim: usize) -> Option<Self> {
        let mut frames = Frames::new(Vec::new());
        let root = module.computation(computation).root;
        let root = if module.instruction(root).array().is_some() {
            vec![frames.resolve(module, root, 0)]
        } else {
            elements(module, &mut frames, root, cut.len())?
        };
        let form = |(index, value): (usize, &Value)| match cut.get(index) {
            Some(true) => (*value, Form::Block(dim, Rows::IDENTITY)),
            _ => (*value, Form::Whole),
        };
        let roots: Vec<Node> = root.iter().enumerate().map(form).collect();
        let mut trace = Self { computation, nodes: IndexMap::default(), roots: roots.clone() };
        let mut stack: Vec<(Node, Option<Vec<Node>>)> = roots.into_iter().map(|node| (node, None)).collect();
        while let Some((node, parts)) = stack.pop() {
            if trace.nodes.contains_key(&node) {
                continue;
            }
            if let Some(parts) = parts {
                trace.nodes.insert(node, parts);
                continue;
            }
            let parts = parts_of(module, &mut frames, node)?;
            stack.push((node, Some(parts.clone())));
            stack.extend(parts.into_iter().map(|part| (part, None)));
        }
        Some(trace)
    }

    /// Elements of the state of which blocks are needed; `None` if one is needed in another dimension or in other rows.
    fn cut_elements(&self, module: &Module, dim: usize) -> Option<Vec<usize>> {
        let mut found = Vec::new();
        for (value, form) in self.nodes.keys() {
            let (Form::Block(at, rows), Some(element)) = (form, state_element(module, *value)) else { continue };
            if *at != dim || *rows != Rows::IDENTITY {
                return None;
            }
            found.push(element);
        }
        Some(found)
    }
    /// Whether an element that is cut is needed whole.
    fn reads_whole(&self, module: &Module, cut: &[bool]) -> bool {
        self.nodes.keys().any(|(value, form)| {
            let element = state_element(module, *value);
            *form == Form::Whole && element.is_some_and(|element| cut.get(element) == Some(&true))
        })
    }
}

/// The elements of a tuple-shaped result, seen through calls and tuples.
fn elements(module: &Module, frames: &mut Frames, root: InstructionId, count: usize) -> Option<Vec<Value>> {
    let value = frames.resolve(module, root, 0);
    let inst = module.instruction(value.inst);
    let plain = inst.opcode == Opcode::Tuple && inst.operands.len() == count && value.frame == 0;
    plain.then(|| inst.operands.iter().map(|&operand| frames.resolve(module, operand, 0)).collect())
}

/// The element of the loop's state that a value is.
pub(crate) fn state_element(module: &Module, value: Value) -> Option<usize> {
    let (of, element) = producer(module, value.inst);
    let parameter = module.instruction(of).opcode == Opcode::Parameter && value.frame == 0;
    usize::try_from(element?).ok().filter(|_| parameter)
}

/// What a value in a form is made from; `None` if it cannot be made in that form.
fn parts_of(module: &Module, frames: &mut Frames, (value, form): Node) -> Option<Vec<Node>> {
    if state_element(module, value).is_some() {
        return Some(Vec::new());
    }
    let inst = module.instruction(value.inst);
    if !inst.control_predecessors().is_empty() || inst.opcode == Opcode::Parameter || inst.opcode.has_side_effect() {
        return None;
    }
    if inst.opcode == Opcode::GetTupleElement {
        let below = Value { inst: inst.operands[0], frame: value.frame };
        return (module.instruction(below.inst).opcode != Opcode::Tuple).then(|| vec![(below, form)]);
    }
    let flows = match form {
        Form::Whole => vec![OperandFlow::Whole; inst.operands.len()],
        Form::Block(dim, _) if inst.opcode == Opcode::Iota && inst.int(&AttrKey::IotaDimension) == Some(dim as i64) => {
            return None;
        }
        Form::Block(dim, _) => pull(module, value.inst, dim).ok()?,
    };
    let part = |(&operand, flow): (&InstructionId, &OperandFlow)| {
        let operand = frames.resolve(module, operand, value.frame);
        match (form, flow) {
            (Form::Block(_, rows), OperandFlow::Block { dim, step }) => {
                let rows = rows.then(*step)?;
                (rows.granule() == 1).then_some((operand, Form::Block(*dim, rows)))
            }
            _ => Some((operand, Form::Whole)),
        }
    };
    inst.operands.iter().zip(&flows).map(part).collect()
}
