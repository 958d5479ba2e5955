//! Elements of a reading loop's state whose stack is dropped, and what takes their place.

use hlo_ir::edit::Patch;
use hlo_ir::{AttrKey, ComputationId, Instruction, InstructionId, Module, Opcode, Shape};

use super::readers::Reader;

/// The free elements of one reader.
pub(super) struct Slots<'a> {
    reader: &'a Reader,
    free: Vec<usize>,
    /// Element, and the instruction before the loop that it begins with now.
    filled: Vec<(usize, InstructionId)>,
}

impl<'a> Slots<'a> {
    /// The elements that begin as something `is_dropped`; none where a sharding speaks of the whole state.
    pub(super) fn of(module: &Module, reader: &'a Reader, is_dropped: impl Fn(InstructionId) -> bool) -> Self {
        let dropped = reader.given.iter().filter(|given| is_dropped(given.1)).map(|given| given.0);
        let changed = reader.state(module);
        let sharded = changed.iter().any(|&id| module.instruction(id).attribute(&AttrKey::Sharding).is_some());
        let free = if sharded { Vec::new() } else { dropped.collect() };
        Self { reader, free, filled: Vec::new() }
    }
    /// The element that begins as `initial`; `None` if no element is free for it.
    pub(super) fn take_in(&mut self, initial: InstructionId) -> Option<usize> {
        if let Some(&(element, _)) = self.filled.iter().find(|(_, other)| *other == initial) {
            return Some(element);
        }
        let element = self.free.pop()?;
        self.filled.push((element, initial));
        Some(element)
    }
    /// Gives the filled elements their new beginnings and shapes, everywhere the state stands.
    pub(super) fn refill(&self, module: &Module, patch: &mut Patch) {
        if self.filled.is_empty() {
            return;
        }
        for id in self.reader.state(module) {
            let inst = module.instruction(id);
            let mut changed = Instruction { shape: self.reshaped(module, &inst.shape).into(), ..inst.clone() };
            if id == self.reader.initial {
                for &(element, initial) in &self.filled {
                    changed.operands[element] = initial;
                }
            }
            patch.rewrite(id, changed);
        }
        for computation in [self.reader.body, self.reader.condition] {
            self.refill_elements(module, patch, computation);
        }
    }
    /// What is taken out of the state gets the new shape too.
    fn refill_elements(&self, module: &Module, patch: &mut Patch, computation: ComputationId) {
        let parameters = module.parameters(computation);
        for (id, inst) in module.instructions_of(computation) {
            let index = inst.int(&AttrKey::Index).and_then(|index| usize::try_from(index).ok());
            let new = self.filled.iter().find(|(element, _)| index == Some(*element));
            let taken = inst.opcode == Opcode::GetTupleElement && parameters.contains(&inst.operands[0]);
            if let Some((_, initial)) = new.filter(|_| taken) {
                patch.rewrite(id, Instruction { shape: module.instruction(*initial).shape.clone(), ..inst.clone() });
            }
        }
    }
    fn reshaped(&self, module: &Module, state: &Shape) -> Shape {
        let Shape::Tuple(elements) = state else { return state.clone() };
        let mut elements = elements.clone();
        for &(element, initial) in &self.filled {
            elements[element] = module.instruction(initial).shape.clone();
        }
        Shape::Tuple(elements)
    }
}
