//! Who holds memory at a step of the schedule, and what can be said about each: origin, role, next reader, loop, alias.

use std::cmp::Ordering;

use crate::hash::IndexSet;
use hlo_ir::{InstructionId, Module, Opcode, Shape, StackFrame};
use smol_str::SmolStr;

use super::Assignment;
use super::allocation::Kind;
use super::figures::unquoted;
use super::ranges::{Time, use_time};
use super::timeline::{Alive, Timeline};
use super::values::ValueId;
use crate::holder::{Holder, NextUser, Role};
use crate::names::Called;
use crate::{Bytes, size};

/// A buffer alive at the peak.
#[derive(Clone, Copy, Debug)]
pub struct PeakBuffer {
    alive: Alive,
    /// Its size.
    pub bytes: Bytes,
    /// What it is for.
    pub role: Role,
}

/// Where a buffer comes from, in the module and in the user's program.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Origin {
    /// The instruction that defines it.
    pub(crate) instruction: InstructionId,
    /// The operation's name, if the module carries metadata.
    pub(crate) op_name: Option<SmolStr>,
    /// `file:line`, if the module carries it.
    pub(crate) source: Option<String>,
}

impl Assignment<'_> {
    /// The module whose buffers were assigned.
    pub fn module(&self) -> &Module {
        self.flow.module
    }
    /// What the user's program calls the arguments.
    pub(crate) fn argument_names(&self) -> IndexSet<SmolStr> {
        let module = self.flow.module;
        let parameters = module.parameters(module.entry());
        parameters.into_iter().filter_map(|id| module.instruction(id).metadata("op_name").map(unquoted)).collect()
    }
    /// The step of the peak and all buffers alive there, largest first.
    pub fn held_at_peak(&self) -> Option<(u32, Vec<PeakBuffer>)> {
        self.held_at_peak_of(&self.timeline())
    }
    /// The same for the course of memory that is known already.
    pub(crate) fn held_at_peak_of(&self, timeline: &Timeline) -> Option<(u32, Vec<PeakBuffer>)> {
        let (time, _) = timeline.peak()?;
        let held = |alive: Alive| PeakBuffer { alive, bytes: Bytes(alive.size), role: self.role(&alive) };
        Some((time, timeline.alive_at(time).into_iter().map(held).collect()))
    }
    /// The instruction that defines a buffer.
    pub(crate) fn definition(&self, held: &PeakBuffer) -> InstructionId {
        self.flow.places.owner(self.flow.values.place(held.alive.value))
    }
    /// Where a buffer comes from.
    pub(crate) fn origin(&self, held: &PeakBuffer) -> Origin {
        let told = self.told(held.alive.value);
        Origin {
            instruction: self.definition(held),
            op_name: self.flow.module.instruction(told).metadata("op_name").map(unquoted),
            source: self.source(told),
        }
    }
    /// Names of an instruction and of the computation it stands in.
    pub(crate) fn names(&self, id: InstructionId, called: &dyn Called) -> (SmolStr, SmolStr) {
        (called.instruction(id), called.computation(self.flow.module.instruction(id).parent))
    }
    /// Everything about a buffer alive at `time`.
    pub(crate) fn holder(&self, held: &PeakBuffer, time: u32, called: &dyn Called) -> Holder {
        let Alive { value, size, stay, .. } = held.alive;
        let place = self.flow.values.place(value);
        Holder {
            buffer: self.live_buffer(value, size, called),
            owner: self.flow.places.owner(place),
            computation: self.names(self.flow.places.owner(place), called).1,
            role: held.role,
            padding: Bytes(size) - Bytes(data_bytes(self.flow.places.shape(place)).unwrap_or(size)),
            steps: stay,
            next_user: self.next_user(value, time, called),
            aliased_with: self.aliased_with(value, called),
            carried_by: self.carried_by(value, time, called),
            stack: self.stack(value),
        }
    }
    fn stack(&self, value: ValueId) -> Vec<StackFrame> {
        let mut stack = self.flow.module.source_stack(self.told(value));
        stack.retain(|frame| !frame.line.file.is_empty());
        stack
    }
    fn role(&self, alive: &Alive) -> Role {
        let block = &self.blocks[alive.block];
        let owner = self.flow.module.instruction(self.flow.places.owner(self.flow.values.place(alive.value)));
        let is_entry = owner.parent == self.flow.module.entry();
        match block.kind {
            Kind::Parameter { aliased, .. } if is_entry && owner.opcode == Opcode::Parameter => {
                Role::Argument { number: owner.parameter_number().unwrap_or_default(), donated: aliased }
            }
            Kind::Constant => Role::Constant,
            _ if !block.live_out => Role::Temporary,
            _ if self.lives_out(alive.value) => Role::Output,
            _ => Role::InOutput,
        }
    }
    /// Whether the module returns what stands in the buffer of a value.
    fn lives_out(&self, value: ValueId) -> bool {
        let module = self.flow.module;
        let root = module.computation(module.entry()).root;
        let values = self.buffers.values(self.buffers.of_value(value));
        let places = values.flat_map(|value| self.flow.values.positions(value));
        places.into_iter().any(|place| self.flow.places.owner(place) == root)
    }
    /// The first reader at or behind `time`.
    fn next_user(&self, value: ValueId, time: Time, called: &dyn Called) -> Option<NextUser> {
        let module = self.flow.module;
        let uses = self.flow.uses(value);
        let times = uses.iter().filter_map(|read| Some((use_time(module, &self.schedule, read.user)?, read.user)));
        let (step, reader) = times.filter(|&(step, _)| step >= time).min()?;
        let (instruction, computation) = self.names(reader, called);
        Some(NextUser { instruction, computation, step })
    }
    /// Whether the memory of an entry parameter is free by the time the output at `output` is written, so that donating it needs no copy.
    pub(crate) fn could_hand_over(&self, parameter: InstructionId, index: &[i64], output: &[i64]) -> bool {
        let module = self.flow.module;
        let root = module.computation(module.entry()).root;
        let value = |id, index: &[i64]| self.flow.values.at(self.flow.places.at(id, index)?);
        let (Some(argument), Some(result)) = (value(parameter, index), value(root, output)) else { return false };
        let reads = self.flow.uses(argument);
        let times = reads.iter().filter_map(|read| Some((use_time(module, &self.schedule, read.user)?, read.user)));
        let (last, reader) = times.max().unwrap_or((0, parameter));
        let results = || self.buffers.values(self.buffers.of_value(result));
        let written = results().filter_map(|value| self.ranges.get(value)).map(|range| range.start).min();
        written.is_some_and(|written| match last.cmp(&written) {
            Ordering::Less => true,
            Ordering::Equal => results().any(|value| self.overwrites(parameter, index, reader, value)),
            Ordering::Greater => false,
        })
    }
    /// Whether `reader` defines `value` and may write it over its operand `parameter`.
    fn overwrites(&self, parameter: InstructionId, index: &[i64], reader: InstructionId, value: ValueId) -> bool {
        let place = self.flow.values.place(value);
        let operand = self.flow.places.at(parameter, index).filter(|_| index.is_empty());
        let direct = self.flow.module.instruction(reader).operands.contains(&parameter);
        direct
            && self.flow.places.owner(place) == reader
            && operand.is_some_and(|operand| self.flow.can_share(operand, place))
    }
    /// The largest-numbered other instruction of the buffer that is no parameter: what the value turns into.
    fn aliased_with(&self, value: ValueId, called: &dyn Called) -> Option<SmolStr> {
        let owner = |value: ValueId| self.flow.places.owner(self.flow.values.place(value));
        let this = owner(value);
        let others = self.buffers.values(self.buffers.of_value(value)).map(owner).filter(|&id| id != this);
        let found = others.filter(|&id| self.flow.module.instruction(id).opcode != Opcode::Parameter);
        found.last().map(|id| called.instruction(id))
    }
    /// The loop whose state holds the value: one of the buffer's values is a loop's own, and that loop runs at `time` or is entered later.
    fn carried_by(&self, value: ValueId, time: Time, called: &dyn Called) -> Option<SmolStr> {
        let module = self.flow.module;
        let owner = |value: ValueId| self.flow.places.owner(self.flow.values.place(value));
        let loops = self.buffers.values(self.buffers.of_value(value)).map(owner);
        let mut loops = loops.filter(|&id| module.instruction(id).opcode == Opcode::While);
        let runs = |&id: &InstructionId| self.schedule.time(id).is_some_and(|end| end >= time);
        loops.find(runs).map(|id| called.instruction(id))
    }
}

/// Bytes of the elements themselves: packed, without tiles and without the sizes of dynamic dimensions.
fn data_bytes(shape: &Shape) -> Option<u64> {
    match shape {
        Shape::Array(array) => {
            let annotated = array.layout.as_ref().and_then(|layout| layout.suffix_number('E'));
            let bits = annotated.map_or(u64::from(array.element_type.storage_bits()), |bits| bits as u64);
            Some(array.elements()?.checked_mul(bits)?.div_ceil(8))
        }
        _ => size::shape_size(shape).map(Bytes::get),
    }
}
