//! What a reading loop takes into its state: in the place of a stack that is dropped, or behind all others.

use hlo_ir::edit::Patch;
use hlo_ir::shape::ShapeRef;
use hlo_ir::{AttrKey, Attribute, Instruction, InstructionId, Module, Opcode, Shape};

use super::grow;
use crate::loops::{Reader, is_free};

/// An element of the state with a new beginning.
struct Filled {
    element: usize,
    initial: InstructionId,
    shape: ShapeRef,
}

/// The free elements of one reader.
pub(super) struct Slots<'a> {
    reader: &'a Reader,
    free: Vec<usize>,
    filled: Vec<Filled>,
    /// Number of elements before.
    elements: usize,
    is_free: bool,
}

impl<'a> Slots<'a> {
    /// The elements that begin as something `is_dropped`; none where a sharding speaks of the whole state.
    pub(super) fn of(module: &Module, reader: &'a Reader, is_dropped: impl Fn(InstructionId) -> bool) -> Self {
        let dropped = reader.given.iter().filter(|given| is_dropped(given.1)).map(|given| given.0);
        let changed = reader.state(module);
        let sharded = changed.iter().any(|&id| module.instruction(id).attribute(&AttrKey::Sharding).is_some());
        let free = if sharded { Vec::new() } else { dropped.collect() };
        let elements = module.instruction(reader.initial).operands.len();
        Self { reader, free, filled: Vec::new(), elements, is_free: is_free(module, reader.site) }
    }
    /// The element that begins as `initial`; `None` if there is no place for it.
    pub(super) fn take_in(&mut self, initial: InstructionId, shape: ShapeRef) -> Option<usize> {
        if let Some(filled) = self.filled.iter().find(|filled| filled.initial == initial) {
            return Some(filled.element);
        }
        let behind = || self.filled.iter().map(|filled| filled.element + 1).max().unwrap_or(0).max(self.elements);
        let element = self.free.pop().or_else(|| self.is_free.then(behind))?;
        self.filled.push(Filled { element, initial, shape });
        Some(element)
    }
    /// Gives the filled elements their new beginnings and shapes, everywhere the state stands.
    pub(super) fn refill(&self, module: &Module, patch: &mut Patch) -> Option<()> {
        if self.filled.is_empty() {
            return Some(());
        }
        let root = module.computation(self.reader.body).root;
        for id in self.reader.state(module) {
            let behind = self.filled.iter().filter(|filled| filled.element >= self.elements);
            let mut changed = grow::longer(module, id, behind.map(|filled| filled.shape.clone()))?;
            changed.shape = self.reshaped(&changed.shape);
            for filled in &self.filled {
                let is_new = filled.element >= self.elements;
                if id == self.reader.initial && is_new {
                    changed.operands.push(filled.initial);
                } else if id == self.reader.initial {
                    changed.operands[filled.element] = filled.initial;
                } else if id == root && is_new {
                    let index = Attribute::int(AttrKey::Index, i64::try_from(filled.element).ok()?);
                    let parameter = [self.reader.parameter];
                    let taken = Instruction::new("carried", filled.shape.clone(), Opcode::GetTupleElement, parameter);
                    changed.operands.push(patch.add(self.reader.body, taken.with(index)));
                }
            }
            patch.rewrite(id, changed);
        }
        let states = self.reader.state(module).into_iter().filter(|&id| id != self.reader.initial);
        for state in states {
            self.refill_elements(module, patch, state);
        }
        Some(())
    }
    /// What is taken out of the state gets the new shape too, also where nothing reads it.
    fn refill_elements(&self, module: &Module, patch: &mut Patch, state: InstructionId) {
        for (id, inst) in module.instructions_of(module.instruction(state).parent) {
            let index = inst.int(&AttrKey::Index).and_then(|index| usize::try_from(index).ok());
            let new = self.filled.iter().find(|filled| index == Some(filled.element));
            let taken = inst.opcode == Opcode::GetTupleElement && inst.operands[0] == state;
            if let Some(filled) = new.filter(|_| taken) {
                patch.rewrite(id, Instruction { shape: filled.shape.clone(), ..inst.clone() });
            }
        }
    }
    fn reshaped(&self, state: &ShapeRef) -> ShapeRef {
        let Some(elements) = state.as_tuple() else { return state.clone() };
        let mut elements = elements.to_vec();
        for filled in &self.filled {
            elements[filled.element] = filled.shape.clone();
        }
        Shape::tuple(elements)
    }
}
