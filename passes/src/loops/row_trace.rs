//! What the results of a loop's body or condition are made from, where rows of some elements are cut into blocks and others are sums over the rows.

// Tests: `passes/tests/chunk_time.rs`, `passes/tests/chunk_loops.rs`.

use std::sync::Arc;

use crate::bounds;
use crate::hash::{IndexMap, IndexSet};
use hlo_ir::{AttrKey, ComputationId, InstructionId, Module, Opcode};

use super::row_form::{FindLoops, Form, Node, Nodes, Role, RowLoop, Trace, is_movable, is_read_as, state_element};
use super::row_sums::{self, Tracing};
use super::stacks::Stacks;
use crate::flow::{Frames, OperandFlow, Rows, Value, first_array, is_zeros, pull, result_of};

/// Follows results of a computation of a loop. It does not keep the module, of which all that it is asked must be the same.
#[derive(Default, Debug)]
pub(crate) struct Tracer {
    frames: Frames,
    /// Rows of the loop.
    pub(super) extent: i64,
    /// Elements of the state of which each iteration writes another row, over zeros.
    stacks: IndexSet<usize>,
    /// Loops inside.
    inner: Option<Box<dyn FindLoops>>,
}

impl Tracer {
    /// For the body of a loop that writes these elements of its state row by row, over zeros.
    pub(super) fn of(stacks: Vec<usize>, inner: Box<dyn FindLoops>) -> Self {
        Self { stacks: stacks.into_iter().collect(), inner: Some(inner), ..Self::default() }
    }
    /// The result of a computation, or its elements, of which there are so many, seen through calls and tuples.
    pub(super) fn results(&mut self, module: &Module, computation: ComputationId, count: usize) -> Option<Vec<Value>> {
        let root = module.computation(computation).root;
        let value = self.frames.resolve(module, root, 0);
        let inst = module.instruction(value.inst);
        if module.instruction(root).array().is_some() {
            return Some(vec![value]);
        }
        let is_plain = inst.opcode == Opcode::Tuple && inst.operands.len() == count && value.frame == 0;
        is_plain.then(|| inst.operands.iter().map(|&operand| self.frames.resolve(module, operand, 0)).collect())
    }
    /// For each result, the elements of the state that it depends on.
    pub(super) fn needs(&mut self, module: &Module, results: &[Value]) -> Option<Vec<Vec<bool>>> {
        let roots: Vec<Node> = results.iter().map(|&value| (value, Form::Whole)).collect();
        let nodes = self.follow(module, roots.iter().copied(), &[])?;
        let mut found: IndexMap<Node, Vec<bool>> = IndexMap::default();
        for (node, parts) in &nodes {
            let mut needed = vec![false; results.len()];
            if let Some(element) = state_element(module, node.0) {
                *needed.get_mut(element)? = true;
            }
            for part in parts {
                needed.iter_mut().zip(&found[part]).for_each(|(needed, &below)| *needed |= below);
            }
            found.insert(*node, needed);
        }
        Some(roots.iter().map(|root| found[root].clone()).collect())
    }
    /// The results in the forms that their elements' roles ask for, with all that they are made from; `None` if something belongs to rows that must not.
    pub(super) fn trace(
        &mut self,
        module: &Module,
        (computation, results): (ComputationId, &[Value]),
        roles: &[Role],
    ) -> Option<Trace> {
        let is_tuple = module.instruction(module.computation(computation).root).array().is_none();
        let form = |(element, &value): (usize, &Value)| match roles.get(element).filter(|_| is_tuple) {
            Some(Role::Cut(dim)) => (value, Form::Block(*dim, Rows::IDENTITY)),
            Some(Role::Sum) => (value, Form::Total),
            Some(Role::Whole) | None => (value, Form::Whole),
        };
        let roots: Vec<Node> = results.iter().enumerate().map(form).collect();
        let nodes = self.follow(module, roots.iter().copied(), roles)?;
        let goes_on = |(element, root): (usize, &Node)| {
            root.1 != Form::Total || Self::begins(module, &nodes, *root) == Some(element)
        };
        let is_sound = roots.iter().enumerate().all(goes_on) && Self::agree(module, &nodes, roles);
        let inside = |&(value, form): &Node| match form {
            Form::Loop(element, dim) => {
                let inner = self.inner_loop(module, value.inst, element, dim)?;
                Some(((value.inst, element, dim), inner))
            }
            _ => None,
        };
        let loops = nodes.keys().filter_map(inside).collect();
        is_sound.then_some(Trace { computation, nodes, roots, loops })
    }
    /// The element of the state that sums are added to, perhaps by loops inside.
    fn begins(module: &Module, nodes: &Nodes, total: Node) -> Option<usize> {
        let mut at = total;
        loop {
            let parts = nodes.get(&at)?;
            let next = match (parts.as_slice(), result_of(module, at.0.inst)) {
                (&[inside @ (_, Form::Loop(..))], Some((_, element))) => nodes.get(&inside)?.get(element),
                _ => parts.iter().find(|(_, form)| *form == Form::Total),
            };
            match next {
                Some(&next) => at = next,
                None => return state_element(module, at.0).filter(|_| at.1 == Form::Total),
            }
        }
    }
    fn inner_loop(&self, module: &Module, looping: InstructionId, element: usize, dim: usize) -> Option<Arc<RowLoop>> {
        self.inner.as_ref()?.find(module, looping, element, dim)
    }
    /// A loop inside, of which an element of the state is cut in a dimension. It is named by the first element that is cut, so that all who ask for it mean the same.
    fn inner(
        &self,
        module: &Module,
        looping: InstructionId,
        element: usize,
        dim: usize,
    ) -> Option<(Form, Arc<RowLoop>)> {
        let found = self.inner_loop(module, looping, element, dim)?;
        let is_cut = |(at, role): (usize, &Role)| match role {
            Role::Cut(dim) => Some((at, *dim)),
            Role::Whole | Role::Sum => None,
        };
        let (first, at) = found.roles().iter().enumerate().find_map(is_cut)?;
        let inner = self.inner_loop(module, looping, first, at)?;
        let rows = module.instruction(inner.starts[element]).array()?.dims.get(dim).copied();
        let is_meant = inner.roles()[element] == Role::Cut(dim) && rows == Some(self.extent);
        is_meant.then_some((Form::Loop(first, at), inner))
    }
    /// What a loop inside starts from.
    fn starts(&mut self, module: &Module, value: Value, (element, dim): (usize, usize)) -> Option<Vec<Node>> {
        let inner = self.inner_loop(module, value.inst, element, dim)?;
        let starts = inner.starts.iter().zip(inner.roles());
        let start = |(&start, role): (&InstructionId, &Role)| {
            let value = self.frames.resolve(module, start, value.frame);
            let form = match role {
                Role::Cut(dim) => Form::Block(*dim, Rows::IDENTITY),
                Role::Sum if !is_zeros(module, value.inst) => Form::Total,
                Role::Whole | Role::Sum => Form::Whole,
            };
            (value, form)
        };
        Some(starts.map(start).collect())
    }
    /// Everything that these are made from.
    pub(super) fn follow(
        &mut self,
        module: &Module,
        roots: impl IntoIterator<Item = Node>,
        roles: &[Role],
    ) -> Option<Nodes> {
        let mut nodes = Nodes::default();
        let mut stack: Vec<(Node, Option<Vec<Node>>)> = roots.into_iter().map(|node| (node, None)).collect();
        while let Some((node, parts)) = stack.pop() {
            if nodes.contains_key(&node) {
                continue;
            }
            if let Some(parts) = parts {
                nodes.insert(node, parts);
                continue;
            }
            if let (value, Form::Block(dim, rows)) = node
                && !self.covers(module, value, dim, rows)
            {
                return None;
            }
            let parts = match node.1 {
                Form::Sum => row_sums::parts(self, module, node.0, roles)?,
                Form::Total => row_sums::total(self, module, node.0, roles)?,
                Form::Loop(element, dim) => self.starts(module, node.0, (element, dim))?,
                Form::Whole | Form::Block(..) => self.parts(module, node)?,
            };
            stack.push((node, Some(parts.clone())));
            stack.extend(parts.into_iter().map(|part| (part, None)));
        }
        Some(nodes)
    }
    /// Whether every element of the state is read as its role allows. A sum is read only where rows are added to it.
    pub(super) fn agree(module: &Module, nodes: &Nodes, roles: &[Role]) -> bool {
        nodes.keys().all(|&(value, form)| Self::role(module, value, roles).is_none_or(|role| is_read_as(role, form)))
    }
    fn role(module: &Module, value: Value, roles: &[Role]) -> Option<Role> {
        state_element(module, value).and_then(|element| roles.get(element)).copied()
    }
    /// Whether the rows of all blocks together are all rows of a value: a part of them would be summed up, or read, as often as there are blocks.
    fn covers(&self, module: &Module, value: Value, dim: usize, rows: Rows) -> bool {
        let array = first_array(&module.instruction(value.inst).shape);
        array.and_then(|array| array.dims.get(dim)).is_some_and(|&size| rows.covers(self.extent, size))
    }
    /// Whether a value has as many rows in a dimension as the loop.
    pub(super) fn fits(&self, module: &Module, value: Value, dim: usize) -> bool {
        let array = module.instruction(value.inst).array();
        array.is_some_and(|array| !array.is_dynamic() && array.dims.get(dim) == Some(&self.extent))
    }
    /// What a value, or rows of it, are made from; `None` if it cannot be made in that form.
    fn parts(&mut self, module: &Module, (value, form): Node) -> Option<Vec<Node>> {
        if state_element(module, value).is_some() {
            return Some(Vec::new());
        }
        let inst = module.instruction(value.inst);
        if !is_movable(module, value) {
            return None;
        }
        if inst.opcode == Opcode::GetTupleElement {
            let below = Value { inst: inst.operands[0], frame: value.frame };
            if let (Form::Block(dim, rows), Opcode::While) = (form, module.instruction(below.inst).opcode) {
                let element = usize::try_from(inst.int(&AttrKey::Index)?).ok()?;
                let (form, _) = self.inner(module, below.inst, element, dim).filter(|_| rows == Rows::IDENTITY)?;
                return Some(vec![(below, form)]);
            }
            return (module.instruction(below.inst).opcode != Opcode::Tuple).then(|| vec![(below, form)]);
        }
        let flows = match form {
            Form::Block(dim, _)
                if inst.opcode == Opcode::Iota && inst.int(&AttrKey::IotaDimension) == Some(dim as i64) =>
            {
                return None;
            }
            Form::Block(dim, _) => pull(module, value.inst, dim).ok()?,
            _ => vec![OperandFlow::Whole; inst.operands.len()],
        };
        let part = |(&operand, flow): (&InstructionId, &OperandFlow)| {
            let operand = self.frames.resolve(module, operand, value.frame);
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
}

/// Elements of the state of a loop of which each iteration writes another row, over zeros.
pub(super) fn stacks_over_zeros(module: &Module, looping: InstructionId) -> Vec<usize> {
    let found = Stacks::of(module, looping);
    let elements = found.iter().flat_map(|stacks| stacks.list.iter().map(|stack| (stack.element, &stacks.initial)));
    elements.filter(|(element, starts)| is_zeros(module, starts[*element])).map(|(element, _)| element).collect()
}

impl Tracing for Tracer {
    fn is_stack(&self, element: usize) -> bool {
        self.stacks.contains(&element)
    }
    fn makes(&mut self, module: &Module, node: Node, roles: &[Role]) -> bool {
        self.follow(module, [node], roles).is_some_and(|nodes| Self::agree(module, &nodes, roles))
    }
    fn is_total(&mut self, module: &Module, value: Value) -> bool {
        let (mut work, mut seen) = (vec![value], IndexSet::default());
        while let Some(value) = work.pop().filter(|_| seen.len() < bounds::CONE) {
            if state_element(module, value).is_some() {
                return true;
            }
            if module.instruction(value.inst).opcode == Opcode::Add && seen.insert(value) {
                work.extend([0, 1].into_iter().filter_map(|side| self.operand(module, value, side)));
            }
        }
        false
    }
    fn could_make(&mut self, module: &Module, node: Node, roles: &[Role]) -> bool {
        let Some(nodes) = self.follow(module, [node], roles) else { return false };
        let could = |&(value, form): &Node| match (Self::role(module, value, roles), form) {
            (Some(Role::Whole), Form::Block(dim, Rows::IDENTITY)) => self.fits(module, value, dim),
            (role, form) => role.is_none_or(|role| is_read_as(role, form)),
        };
        nodes.keys().all(could)
    }
    fn sum_of_loop(&mut self, module: &Module, value: Value, roles: &[Role]) -> Option<(Node, bool)> {
        let (looping, element) = result_of(module, value.inst)?;
        if module.instruction(looping).opcode != Opcode::While {
            return None;
        }
        let start = module.instruction(*module.instruction(looping).operands.first()?);
        for (at, &operand) in start.operands.iter().enumerate() {
            let rank = module.instruction(operand).array().map_or(0, |array| array.dims.len());
            for dim in 0..rank {
                let Some((form, inner)) = self.inner(module, looping, at, dim) else { continue };
                let begins = self.frames.resolve(module, operand, value.frame);
                let rows = (begins, Form::Block(dim, Rows::IDENTITY));
                if inner.roles()[element] == Role::Sum && self.could_make(module, rows, roles) {
                    let from_zeros = is_zeros(module, inner.starts[element]);
                    return Some(((Value { inst: looping, frame: value.frame }, form), from_zeros));
                }
            }
        }
        None
    }
    fn operand(&mut self, module: &Module, value: Value, number: usize) -> Option<Value> {
        let operand = *module.instruction(value.inst).operands.get(number)?;
        Some(self.frames.resolve(module, operand, value.frame))
    }
}
