//! Writes the expressions of dropped rows into the loops that read them.

use std::collections::BTreeMap;

use hlo_ir::edit::Patch;
use hlo_ir::{ArrayShape, AttrKey, Attribute, Instruction, InstructionId, Module, Opcode, Shape};
use hlo_memory::Target;

use super::cone::{self, Cone, Node, ValueAtStep};
use super::grow::{self, Stackable};
use super::indices;
use super::rows::Rows;
use super::slots::Slots;
use crate::Options;
use crate::flow::add_anew;
use crate::loops::{Read, Reader, Readers, Stacks};
use crate::recompute::emit::Emit;
use crate::recompute::insertion_point::shaped;

/// The change that drops as many of `dropped` as can be computed in every loop that reads them, and which these are.
pub(super) fn patch(
    module: &Module,
    stacks: &mut Stacks,
    readers: &Readers,
    stackable: &Stackable,
    mut dropped: Vec<usize>,
    options: &Options,
) -> Option<(Patch, Vec<usize>)> {
    loop {
        let is_read =
            |index: &usize| readers.list.iter().any(|reader| reader.reads.iter().any(|read| read.stack == *index));
        dropped.retain(is_read);
        if dropped.is_empty() {
            return None;
        }
        match attempt(module, stacks, readers, stackable, &dropped, options) {
            Ok(patch) => return Some((patch, dropped)),
            Err(stack) => dropped.retain(|&index| index != stack),
        }
    }
}

/// The change, or a stack that cannot be dropped.
fn attempt(
    module: &Module,
    stacks: &mut Stacks,
    readers: &Readers,
    stackable: &Stackable,
    dropped: &[usize],
    options: &Options,
) -> Result<Patch, usize> {
    let mut patch = Patch::new(module);
    let results = results(stacks);
    let added = grow::patch(module, &mut patch, stacks, stackable).ok_or(dropped[0])?;
    for reader in &readers.list {
        // Rows with the same number share their values.
        let mut writers: BTreeMap<InstructionId, Writer<'_>> = BTreeMap::new();
        let mut slots = Slots::of(module, reader, |initial| {
            let index = results.iter().position(|result| is_result(module, initial, *result));
            index.is_some_and(|index| dropped.contains(&index))
        });
        for read in reader.reads.iter().filter(|read| dropped.contains(&read.stack)) {
            let cone = cone::cone(module, stacks, read.stack, dropped).ok_or(read.stack)?;
            let fresh = || Writer {
                module,
                reader,
                target: options.target,
                results: results.clone(),
                added: added.clone(),
                rows: Rows::new(module, reader.body, read.row, stacks),
                made: BTreeMap::new(),
            };
            let writer = writers.entry(read.row).or_insert_with(fresh);
            let root = ValueAtStep { value: stacks.list[read.stack].row, steps: 0 };
            let (patch, slots) = (&mut patch, &mut slots);
            let mut writing = Writing { writer, patch, slots, cone: &cone };
            let value = writing.emit(root).ok_or(read.stack)?;
            let Writing { writer, patch, .. } = writing;
            let shape = module.instruction(read.site).array().ok_or(read.stack)?;
            let value = writer.shaped(patch, value, shape).ok_or(read.stack)?;
            patch.set_origin(value, read.site);
            patch.replace(read.site, value);
        }
        slots.refill(module, &mut patch).ok_or(dropped[0])?;
    }
    indices::keep(module, &mut patch, stacks, dropped, options);
    Ok(patch)
}

/// For each stack: the loop, and the stack's index in its state.
fn results(stacks: &Stacks) -> Vec<(InstructionId, i64)> {
    stacks.list.iter().map(|stack| (stacks.site, stack.element as i64)).collect()
}

/// Whether an instruction takes this element out of this loop's final state.
fn is_result(module: &Module, id: InstructionId, (site, element): (InstructionId, i64)) -> bool {
    let inst = module.instruction(id);
    inst.opcode == Opcode::GetTupleElement && inst.operands[0] == site && inst.int(&AttrKey::Index) == Some(element)
}

/// Writes values of one step of the first loop into the body of a reader.
struct Writer<'a> {
    module: &'a Module,
    reader: &'a Reader,
    target: Target,
    /// Where each stack is found behind the first loop: the loop and an index.
    results: Vec<(InstructionId, i64)>,
    /// The last of the stacks, those that are added, behind the first loop.
    added: Vec<InstructionId>,
    rows: Rows,
    made: BTreeMap<ValueAtStep, InstructionId>,
}

/// The same with what it writes into.
struct Writing<'a, 'm> {
    writer: &'a mut Writer<'m>,
    patch: &'a mut Patch,
    slots: &'a mut Slots<'m>,
    cone: &'a Cone,
}

impl Emit for Writing<'_, '_> {
    type Key = ValueAtStep;

    fn emitted(&mut self) -> &mut BTreeMap<ValueAtStep, InstructionId> {
        &mut self.writer.made
    }
    fn needs(&self, at: ValueAtStep) -> Option<Vec<ValueAtStep>> {
        self.cone.get(&at).map(|node| node.needs(at))
    }
    fn emit_one(&mut self, at: ValueAtStep, operands: &[InstructionId]) -> Option<InstructionId> {
        self.writer.one(self.patch, self.slots, (at, self.cone.get(&at)?), operands)
    }
}

impl Writer<'_> {
    /// Writes one value; `None` if the reader does not carry what it needs.
    fn one(
        &mut self,
        patch: &mut Patch,
        slots: &mut Slots<'_>,
        (at, node): (ValueAtStep, &Node),
        operands: &[InstructionId],
    ) -> Option<InstructionId> {
        let (module, body) = (self.module, self.reader.body);
        let inst = module.instruction(at.value.inst);
        match node {
            Node::Row(stack) => {
                let row = self.kept_row(patch, slots, *stack, at.steps)?;
                self.shaped(patch, row, inst.array()?)
            }
            Node::Given(initial) => self.element(patch, slots, *initial),
            Node::GivenRow(initial) => {
                let whole = self.element(patch, slots, *initial)?;
                self.slice(patch, whole, at.steps)
            }
            Node::Counter => self.rows.counter(patch, at.steps, inst.array()?.element_type),
            Node::Before(initial, _) => {
                let first = self.element(patch, slots, *initial)?;
                let is_first = self.rows.is_first(patch, at.steps, inst.array()?)?;
                let later = self.shaped(patch, *operands.first()?, inst.array()?)?;
                let operands = [is_first, first, later];
                Some(patch.add(body, Instruction::new("residual.before", inst.shape.clone(), Opcode::Select, operands)))
            }
            Node::Operation(_) => {
                let copy = Instruction { operands: operands.iter().copied().collect(), ..inst.clone() };
                let for_cpu = self.target == Target::Cpu;
                Some(if for_cpu { add_anew(module, patch, body, copy) } else { patch.add(body, copy) })
            }
        }
    }

    /// The row of a stack that stays: as it is read already, or read anew.
    fn kept_row(
        &mut self,
        patch: &mut Patch,
        slots: &mut Slots<'_>,
        stack: usize,
        steps: i64,
    ) -> Option<InstructionId> {
        let same = |read: &&Read| steps == 0 && read.stack == stack && self.rows.is(read.row);
        if let Some(read) = self.reader.reads.iter().find(same) {
            return Some(read.site);
        }
        if let Some(new) = stack.checked_sub(self.results.len() - self.added.len()) {
            let whole = self.element(patch, slots, self.added[new])?;
            return self.slice(patch, whole, steps);
        }
        let given = self.reader.given.iter().find(|given| is_result(self.module, given.1, self.results[stack]))?;
        let whole = self.taken(patch, given.0, self.module.shape(given.1))?;
        self.slice(patch, whole, steps)
    }

    /// What the reader carries that began as `initial`; an element whose stack is dropped takes it in if no other holds it.
    fn element(&self, patch: &mut Patch, slots: &mut Slots<'_>, initial: InstructionId) -> Option<InstructionId> {
        let given = self.reader.given.iter().find(|&&(_, other)| other == initial);
        let shape = patch.instruction(self.module, initial).shape.clone();
        let element = given.map(|given| given.0).or_else(|| slots.take_in(initial, shape.clone()))?;
        self.taken(patch, element, &shape)
    }

    fn taken(&self, patch: &mut Patch, element: usize, shape: &Shape) -> Option<InstructionId> {
        let index = Attribute::int(AttrKey::Index, i64::try_from(element).ok()?);
        let shape = shape.clone().into();
        let taken = Instruction::new("residual.carried", shape, Opcode::GetTupleElement, [self.reader.parameter]);
        Some(patch.add(self.reader.body, taken.with(index)))
    }

    /// The row of an array that belongs to a step so many before the one whose row is read, `[1, ...]`.
    fn slice(&mut self, patch: &mut Patch, whole: InstructionId, steps: i64) -> Option<InstructionId> {
        let row = self.rows.start(patch, steps)?;
        let shape = patch.instruction(self.module, whole).array()?.clone();
        Some(self.rows.point.rows(patch, "residual.row", (whole, &shape), (0, row, 1)))
    }

    /// The value under another shape of as many elements.
    fn shaped(&self, patch: &mut Patch, value: InstructionId, wanted: &ArrayShape) -> Option<InstructionId> {
        shaped(self.module, patch, (self.reader.body, "residual.shaped"), value, wanted)
    }
}
