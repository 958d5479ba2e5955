//! The allocation that XLA itself wrote into a binary dump, in place of the one that the rules would give.
//!
//! Sizes and places are XLA's; which value stands where and how long it lives comes from the module, so that peak, timeline and holders can
//! be told. Source of the fields: `BufferAssignmentProto` (xla/service/hlo.proto).

// Tests: `tests/dumps.rs`.

use std::collections::BTreeMap;

use hlo_ir::proto::{Allocation, BufferAssignment, LogicalBuffer};
use hlo_ir::{InstructionId, Module};

use super::Assignment;
use super::aliases::Buffers;
use super::allocation::{Block, Kind, Slice};
use super::flow::Flow;
use super::ranges::{Ranges, Schedule};
use super::values::ValueId;
use crate::EstimateError;

/// What is known of an assignment that XLA itself made beside its blocks.
#[derive(Clone, Debug)]
pub(crate) struct ProtoAssignment {
    /// How many of XLA's buffers no instruction with memory of its own defines.
    pub(super) unknown: usize,
    /// XLA's number of each value.
    pub(super) numbers: BTreeMap<ValueId, u64>,
}

/// XLA's own assignment of `module`, as a binary dump holds both. Fails if its numbers contradict the module.
pub fn assigned<'m>(module: &'m Module, given: &BufferAssignment) -> Result<Assignment<'m>, EstimateError> {
    let flow = Flow::of(module);
    let reader = Reader {
        flow: &flow,
        instructions: instructions(module),
        logical: given.logical_buffers.iter().map(|buffer| (buffer.id, buffer)).collect(),
    };
    let blocks = given.allocations.iter().map(|allocation| reader.block(allocation)).collect::<Result<Vec<_>, _>>()?;
    let numbered = given.logical_buffers.iter().filter_map(|buffer| Some((reader.value(buffer)?, buffer.id as u64)));
    let numbers: BTreeMap<ValueId, u64> = numbered.collect();
    let unknown = given.logical_buffers.len() - numbers.len();
    let buffers = Buffers::of(&flow);
    let schedule = Schedule::of(module);
    let ranges = Ranges::of(&flow, &buffers, &schedule);
    Ok(Assignment {
        flow,
        buffers,
        schedule,
        ranges,
        blocks,
        host: 0,
        given: Some(ProtoAssignment { unknown, numbers }),
    })
}

/// Instructions by the names of their computation and their own.
fn instructions(module: &Module) -> BTreeMap<(&str, &str), InstructionId> {
    let name = |id: InstructionId| module.computation(module.instruction(id).parent).name.as_str();
    module.live_instructions().map(|(id, inst)| ((name(id), inst.name.as_str()), id)).collect()
}

struct Reader<'a, 'm> {
    flow: &'a Flow<'m>,
    instructions: BTreeMap<(&'m str, &'m str), InstructionId>,
    logical: BTreeMap<i64, &'a LogicalBuffer>,
}

impl Reader<'_, '_> {
    fn block(&self, allocation: &Allocation) -> Result<Block, EstimateError> {
        let mut block = Block::new(bytes(allocation.size)?, self.kind(allocation)?);
        block.live_out = allocation.maybe_live_out;
        for assigned in &allocation.assigned {
            let Some(buffer) = self.logical.get(&assigned.logical_buffer) else {
                return Err(damaged(&format!("buffer {}, which it does not list", assigned.logical_buffer)));
            };
            if let Some(value) = self.value(buffer) {
                block.slices.push(Slice { value, offset: bytes(assigned.offset)?, size: bytes(assigned.size)? });
            }
        }
        Ok(block)
    }
    fn kind(&self, allocation: &Allocation) -> Result<Kind, EstimateError> {
        Ok(match &allocation.parameter {
            Some((number, index)) => {
                let parameters = self.flow.module.parameters(self.flow.module.entry());
                let id = usize::try_from(*number).ok().and_then(|number| parameters.get(number));
                let place = id.and_then(|&id| self.flow.places.at(id, index));
                let place =
                    place.ok_or_else(|| damaged(&format!("parameter {number}, which the entry does not have")))?;
                Kind::Parameter { place, aliased: allocation.is_parameter_aliased_with_output }
            }
            None if allocation.is_constant => Kind::Constant,
            None if allocation.is_thread_local => Kind::ThreadLocal,
            None if allocation.is_tuple => Kind::Tuple,
            None => Kind::Plain,
        })
    }
    /// The value that stands where XLA defines a buffer; `None` for what lies inside fusions, which has no memory.
    fn value(&self, buffer: &LogicalBuffer) -> Option<ValueId> {
        let &id = self.instructions.get(&(buffer.computation.as_str(), buffer.instruction.as_str()))?;
        self.flow.values.at(self.flow.places.at(id, &buffer.shape_index)?)
    }
}

fn bytes(number: i64) -> Result<u64, EstimateError> {
    u64::try_from(number).map_err(|_| damaged(&format!("{number} bytes")))
}

fn damaged(what: &str) -> EstimateError {
    EstimateError::Unsupported(format!("the buffer assignment of the dump: it speaks of {what}"))
}
