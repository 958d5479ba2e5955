//! Who reads the stacks of a loop behind it: loops that take single rows.

use hlo_ir::{AttrKey, ComputationId, ElementType, InstructionId, Module, Opcode, edit, graph};

use super::body::Body;
use super::counters::Counted;
use super::stacks::Stacks;
use super::state::is_taken_apart;

/// A place that reads one row of a stack.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Read {
    /// The instruction of the body whose value is the row.
    pub(crate) site: InstructionId,
    /// Index of the stack in [`Stacks::list`].
    pub(crate) stack: usize,
    /// The row's number, an instruction of the body.
    pub(crate) row: InstructionId,
}

/// A loop that gets stacks as elements of its state and hands them on.
pub(crate) struct Reader {
    /// The `while`.
    pub(crate) site: InstructionId,
    /// The tuple it begins with.
    pub(crate) initial: InstructionId,
    /// Its condition.
    pub(crate) condition: ComputationId,
    /// Its body.
    pub(crate) body: ComputationId,
    /// The body's parameter.
    pub(crate) parameter: InstructionId,
    /// For each element that it forwards: the instruction that made its initial value.
    pub(crate) given: Vec<(usize, InstructionId)>,
    /// Its reads.
    pub(crate) reads: Vec<Read>,
}

impl Reader {
    /// Every instruction whose shape is that of the state.
    pub(crate) fn state(&self, module: &Module) -> Vec<InstructionId> {
        let mut state = vec![self.initial, self.site, self.parameter, module.computation(self.body).root];
        state.extend(module.parameters(self.condition));
        state
    }
}

/// The readers of each stack.
pub(crate) struct Readers {
    /// All readers.
    pub(crate) list: Vec<Reader>,
    /// For each stack, whether nothing but the reads uses it.
    pub(crate) only_read: Vec<bool>,
}

/// Everything behind the loop that uses its stacks.
pub(crate) fn readers(module: &Module, stacks: &Stacks) -> Readers {
    let mut readers = Readers { list: Vec::new(), only_read: vec![true; stacks.list.len()] };
    let list = &module.computation(module.instruction(stacks.site).parent).instructions;
    let results: Vec<(usize, InstructionId)> = list.iter().filter_map(|&id| result(module, stacks, id)).collect();
    let mut loops: Vec<InstructionId> = Vec::new();
    for (stack, id) in results.iter().copied() {
        for user in users(module, id) {
            match loop_of(module, user) {
                Some(site) if !loops.contains(&site) => loops.push(site),
                Some(_) => {}
                None => readers.only_read[stack] = false,
            }
        }
        readers.only_read[stack] &= module.computation(module.instruction(id).parent).root != id;
    }
    for site in loops {
        reader(module, site, &results, &mut readers);
    }
    readers.list.iter_mut().for_each(|reader| share_numbers(module, reader));
    readers
}

/// Rows whose numbers follow from the step in the same way get the same number: each list of TensorFlow counts for itself.
fn share_numbers(module: &Module, reader: &mut Reader) {
    let Some(Counted { mut body, .. }) = Counted::of(module, reader.site) else { return };
    let mut known: Vec<((i64, i64), ElementType, InstructionId)> = Vec::new();
    for read in &mut reader.reads {
        let value = body.top(module, read.row);
        let Some(element) = module.instruction(read.row).array().map(|array| array.element_type) else { continue };
        let Some(line) = body.affine(module, value) else { continue };
        match known.iter().find(|known| (known.0, known.1) == (line, element)) {
            Some(&(_, _, number)) => read.row = number,
            None => known.push((line, element, read.row)),
        }
    }
}

/// The stack that an instruction takes out of the loop's final state.
fn result(module: &Module, stacks: &Stacks, id: InstructionId) -> Option<(usize, InstructionId)> {
    let inst = module.instruction(id);
    if inst.opcode != Opcode::GetTupleElement || inst.operands[0] != stacks.site {
        return None;
    }
    let element = usize::try_from(inst.int(&AttrKey::Index)?).ok()?;
    Some((stacks.list.iter().position(|stack| stack.element == element)?, id))
}

fn users(module: &Module, id: InstructionId) -> Vec<InstructionId> {
    let list = module.instructions_of(module.instruction(id).parent);
    list.filter(|(_, inst)| inst.operands.contains(&id)).map(|(user, _)| user).collect()
}

/// The loop whose initial state a tuple is, if that is its only use.
fn loop_of(module: &Module, tuple: InstructionId) -> Option<InstructionId> {
    let [user] = users(module, tuple)[..] else { return None };
    let both = module.instruction(tuple).opcode == Opcode::Tuple && module.instruction(user).opcode == Opcode::While;
    both.then_some(user)
}

/// Adds a loop and its reads; stacks that it uses in another way are struck out.
fn reader(module: &Module, site: InstructionId, results: &[(usize, InstructionId)], readers: &mut Readers) {
    let inst = module.instruction(site);
    let tuple = module.instruction(inst.operands[0]);
    let given = |stack: usize, element: usize| results.contains(&(stack, tuple.operands[element]));
    let elements = |stack: usize| (0..tuple.operands.len()).filter(move |&element| given(stack, element));
    let opened = open(module, site);
    for stack in 0..readers.only_read.len() {
        for element in elements(stack) {
            let reads = opened.as_ref().and_then(|opened| reads(module, site, opened, stack, element));
            match (reads, readers.list.iter_mut().find(|reader| Some(reader.body) == inst.computation(&AttrKey::Body)))
            {
                (Some(reads), Some(reader)) => reader.reads.extend(reads),
                (Some(reads), None) => readers.list.extend(opened.as_ref().map(|opened| opened.reader(reads))),
                (None, _) => readers.only_read[stack] = false,
            }
        }
    }
}

/// A loop whose body may be changed.
struct Opened {
    site: InstructionId,
    initial: InstructionId,
    condition: ComputationId,
    body: ComputationId,
    parameter: InstructionId,
    given: Vec<(usize, InstructionId)>,
}

impl Opened {
    fn reader(&self, reads: Vec<Read>) -> Reader {
        let Self { site, initial, condition, body, parameter, .. } = *self;
        Reader { site, initial, condition, body, parameter, given: self.given.clone(), reads }
    }
}

fn open(module: &Module, site: InstructionId) -> Option<Opened> {
    let inst = module.instruction(site);
    let body = inst.computation(&AttrKey::Body)?;
    let [parameter] = module.parameters(body)[..] else { return None };
    let condition = inst.computation(&AttrKey::Condition)?;
    let callers = graph::callers(module);
    let alone = callers[body].len() == 1 && callers[condition].len() == 1;
    if !alone || !is_taken_apart(module, site) {
        return None;
    }
    let mut inner = Body::new(module, body)?;
    let operands = module.instruction(inst.operands[0]).operands.iter().copied().enumerate();
    let given = operands.filter(|&(element, _)| inner.forwards(module, element)).collect();
    Some(Opened { site, initial: inst.operands[0], condition, body, parameter, given })
}

/// The reads of one element of a loop's state; `None` if it is used in another way.
fn reads(module: &Module, site: InstructionId, opened: &Opened, stack: usize, element: usize) -> Option<Vec<Read>> {
    let inst = module.instruction(site);
    opened.given.iter().find(|(other, _)| *other == element)?;
    let condition = inst.computation(&AttrKey::Condition)?;
    let unused = |computation: ComputationId, of: InstructionId| {
        let mut taken = module.instructions_of(computation).filter(|(_, inst)| {
            inst.opcode == Opcode::GetTupleElement
                && inst.operands[0] == of
                && inst.int(&AttrKey::Index) == i64::try_from(element).ok()
        });
        taken.all(|(id, _)| users(module, id).is_empty() && module.computation(computation).root != id)
    };
    let [state] = module.parameters(condition)[..] else { return None };
    if !unused(condition, state) || !unused(inst.parent, site) {
        return None;
    }
    let mut inner = Body::new(module, opened.body)?;
    let root = module.computation(opened.body).root;
    let mut found = Vec::new();
    let taken = module.instructions_of(opened.body).map(|(id, _)| id).filter(|&id| {
        let inst = module.instruction(id);
        inst.opcode == Opcode::GetTupleElement
            && inst.operands[0] == opened.parameter
            && inst.int(&AttrKey::Index) == i64::try_from(element).ok()
    });
    for id in taken {
        let mut results = module.instruction(root).operands.iter().enumerate();
        if results.any(|(other, &result)| result == id && other != element) {
            // What another element becomes keeps its shape.
            return None;
        }
        for user in users(module, id).into_iter().filter(|&user| user != root) {
            found.push(Read { site: user, stack, row: row(module, &mut inner, user, element)? });
        }
    }
    Some(found)
}

/// The number of the row that `user` reads of an element, if that is all it does.
fn row(module: &Module, inner: &mut Body, user: InstructionId, element: usize) -> Option<InstructionId> {
    if edit::has_side_effect(module, user) || module.instruction(user).array().is_none() {
        return None;
    }
    let value = inner.top(module, user);
    let slice = inner.strip(module, value);
    let inst = module.instruction(slice.inst);
    if inst.opcode != Opcode::DynamicSlice {
        return None;
    }
    let source = inner.resolve(module, inst.operands[0], slice);
    let start = inner.row_start(module, slice, 1)?;
    let (whole, part) = (module.instruction(inst.operands[0]).array()?, inst.array()?);
    let one_row = part.dims.first() == Some(&1) && part.dims[1..] == whole.dims[1..];
    (one_row && start.frame == 0 && inner.element(module, source) == Some(element)).then_some(start.inst)
}
