//! The buffer assignment of a dump: what XLA itself allocated.

use std::collections::BTreeMap;

use super::message::{buffers as pb, module};

/// XLA's allocation of a module's buffers.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct BufferAssignment {
    /// The values that need memory.
    pub logical_buffers: Vec<LogicalBuffer>,
    /// The blocks of memory they are placed in.
    pub allocations: Vec<Allocation>,
}

/// One value that needs memory.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct LogicalBuffer {
    /// Number by which allocations name it.
    pub id: i64,
    /// Size in bytes.
    pub size: i64,
    /// Name of the computation in which it is defined; empty if no instruction of the module defines it.
    pub computation: String,
    /// Name of the instruction that defines it.
    pub instruction: String,
    /// Tuple index inside that instruction's result.
    pub shape_index: Vec<i64>,
    /// Memory space.
    pub color: i64,
}

/// One block of memory.
#[derive(Clone, PartialEq, Eq, Debug)]
#[allow(clippy::struct_excessive_bools, reason = "one flag per flag of the message")]
pub struct Allocation {
    /// Number.
    pub index: i64,
    /// Size in bytes.
    pub size: i64,
    /// Whether every thread has its own.
    pub is_thread_local: bool,
    /// Whether it holds a table of pointers.
    pub is_tuple: bool,
    /// Number and tuple index of the entry parameter it holds, if it does.
    pub parameter: Option<(i64, Vec<i64>)>,
    /// Whether it holds a constant.
    pub is_constant: bool,
    /// Whether the parameter it holds is aliased with an output.
    pub is_parameter_aliased_with_output: bool,
    /// Whether it may hold an output.
    pub maybe_live_out: bool,
    /// Memory space.
    pub color: i64,
    /// What is placed where inside it.
    pub assigned: Vec<Assigned>,
}

/// A value's place in an allocation.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Assigned {
    /// Which logical buffer.
    pub logical_buffer: i64,
    /// First byte.
    pub offset: i64,
    /// Size in bytes.
    pub size: i64,
}

impl BufferAssignment {
    /// Sum of all allocations, in bytes, as XLA's memory-usage report totals them.
    pub fn total_bytes(&self) -> i128 {
        self.allocations.iter().map(|allocation| i128::from(allocation.size)).sum()
    }

    pub(super) fn from_message(message: pb::BufferAssignment, module: &module::HloModule) -> Self {
        let places = Places::of(module);
        let buffer = |buffer: pb::LogicalBuffer| {
            let defined = buffer.defined_at.unwrap_or_default();
            let (computation, instruction) = places.of_buffer(&defined);
            LogicalBuffer {
                id: buffer.id,
                size: buffer.size,
                computation: computation.to_owned(),
                instruction: instruction.to_owned(),
                shape_index: defined.shape_index,
                color: buffer.color,
            }
        };
        Self {
            logical_buffers: message.logical_buffers.into_iter().map(buffer).collect(),
            allocations: message.buffer_allocations.into_iter().map(Allocation::from_message).collect(),
        }
    }
}

/// Where the instructions of a message stand. Newer dumps name them by id, older ones by name; both are unique in the module.
struct Places<'m> {
    by_id: BTreeMap<i64, (&'m str, &'m str)>,
    by_name: BTreeMap<&'m str, &'m str>,
}

impl<'m> Places<'m> {
    fn of(module: &'m module::HloModule) -> Self {
        let (mut by_id, mut by_name) = (BTreeMap::new(), BTreeMap::new());
        for computation in &module.computations {
            for inst in &computation.instructions {
                by_id.insert(inst.id, (computation.name.as_str(), inst.name.as_str()));
                by_name.insert(inst.name.as_str(), computation.name.as_str());
            }
        }
        Self { by_id, by_name }
    }
    /// Names of the computation and the instruction; empty if there is none.
    fn of_buffer(&self, defined: &pb::LogicalBufferLocation) -> (&'m str, &'m str) {
        if defined.instruction_name.is_empty() {
            return self.by_id.get(&defined.instruction_id).copied().unwrap_or_default();
        }
        let found = self.by_name.get_key_value(defined.instruction_name.as_str());
        found.map(|(&instruction, &computation)| (computation, instruction)).unwrap_or_default()
    }
}

impl Allocation {
    fn from_message(message: pb::BufferAllocation) -> Self {
        let assigned = message.assigned.iter().map(|assigned| Assigned {
            logical_buffer: assigned.logical_buffer_id,
            offset: assigned.offset,
            size: assigned.size,
        });
        Self {
            index: message.index,
            size: message.size,
            is_thread_local: message.is_thread_local,
            is_tuple: message.is_tuple,
            assigned: assigned.collect(),
            parameter: message
                .is_entry_computation_parameter
                .then_some((message.parameter_number, message.parameter_shape_index)),
            is_constant: message.is_constant,
            is_parameter_aliased_with_output: message.is_parameter_aliased_with_output,
            maybe_live_out: message.maybe_live_out,
            color: message.color,
        }
    }
}
