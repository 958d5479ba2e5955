//! The buffer assignment of a dump, as `hlo.proto` numbers its fields.

/// `xla.LogicalBufferProto`.
#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct LogicalBuffer {
    #[prost(int64, tag = "1")]
    pub(crate) id: i64,
    #[prost(int64, tag = "2")]
    pub(crate) size: i64,
    #[prost(message, optional, tag = "3")]
    pub(crate) defined_at: Option<LogicalBufferLocation>,
    #[prost(int64, tag = "4")]
    pub(crate) color: i64,
}

/// `xla.LogicalBufferProto.Location`.
#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct LogicalBufferLocation {
    #[prost(string, tag = "2")]
    pub(crate) instruction_name: String,
    #[prost(int64, tag = "4")]
    pub(crate) instruction_id: i64,
    #[prost(int64, repeated, tag = "3")]
    pub(crate) shape_index: Vec<i64>,
}

/// `xla.BufferAllocationProto`.
#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct BufferAllocation {
    #[prost(int64, tag = "1")]
    pub(crate) index: i64,
    #[prost(int64, tag = "2")]
    pub(crate) size: i64,
    #[prost(bool, tag = "3")]
    pub(crate) is_thread_local: bool,
    #[prost(bool, tag = "11")]
    pub(crate) is_tuple: bool,
    #[prost(bool, tag = "5")]
    pub(crate) is_entry_computation_parameter: bool,
    #[prost(bool, tag = "12")]
    pub(crate) is_constant: bool,
    #[prost(int64, tag = "6")]
    pub(crate) parameter_number: i64,
    #[prost(int64, repeated, tag = "10")]
    pub(crate) parameter_shape_index: Vec<i64>,
    #[prost(bool, tag = "13")]
    pub(crate) is_parameter_aliased_with_output: bool,
    #[prost(bool, tag = "7")]
    pub(crate) maybe_live_out: bool,
    #[prost(int64, tag = "8")]
    pub(crate) color: i64,
    #[prost(message, repeated, tag = "9")]
    pub(crate) assigned: Vec<BufferAllocationAssigned>,
}

/// `xla.BufferAllocationProto.Assigned`.
#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct BufferAllocationAssigned {
    #[prost(int64, tag = "1")]
    pub(crate) logical_buffer_id: i64,
    #[prost(int64, tag = "2")]
    pub(crate) offset: i64,
    #[prost(int64, tag = "3")]
    pub(crate) size: i64,
    #[prost(int32, tag = "4")]
    pub(crate) element_type: i32,
}

/// `xla.BufferAssignmentProto`.
#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct BufferAssignment {
    #[prost(message, repeated, tag = "1")]
    pub(crate) logical_buffers: Vec<LogicalBuffer>,
    #[prost(message, repeated, tag = "2")]
    pub(crate) buffer_aliases: Vec<BufferAssignmentBufferAlias>,
    #[prost(message, repeated, tag = "3")]
    pub(crate) buffer_allocations: Vec<BufferAllocation>,
    #[prost(message, repeated, tag = "4")]
    pub(crate) heap_simulator_traces: Vec<HeapSimulatorTrace>,
    #[prost(message, repeated, tag = "5")]
    pub(crate) peak_buffers: Vec<BufferAssignmentPeakBuffers>,
}

/// `xla.BufferAssignmentProto.BufferAlias`.
#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct BufferAssignmentBufferAlias {
    #[prost(int64, tag = "1")]
    pub(crate) source_buffer_id: i64,
    #[prost(message, optional, tag = "2")]
    pub(crate) location: Option<LogicalBufferLocation>,
}

/// `xla.BufferAssignmentProto.PeakBuffers`.
#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct BufferAssignmentPeakBuffers {
    #[prost(int64, tag = "1")]
    pub(crate) index: i64,
    #[prost(int64, repeated, tag = "2")]
    pub(crate) logical_buffer_ids: Vec<i64>,
}

/// `xla.HeapSimulatorTrace`: how the simulated heap came to its places, of which only the places matter here.
#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct HeapSimulatorTrace {
    #[prost(message, repeated, tag = "1")]
    pub(crate) events: Vec<HeapSimulatorEvent>,
    #[prost(bool, tag = "2")]
    pub(crate) whole_module_simulation: bool,
    #[prost(int64, tag = "3")]
    pub(crate) buffer_allocation_index: i64,
}

/// `xla.HeapSimulatorTrace.Event`.
#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct HeapSimulatorEvent {
    #[prost(int32, tag = "1")]
    pub(crate) kind: i32,
    #[prost(int64, tag = "2")]
    pub(crate) buffer_id: i64,
    #[prost(string, tag = "3")]
    pub(crate) computation_name: String,
    #[prost(string, tag = "4")]
    pub(crate) instruction_name: String,
    #[prost(int64, tag = "5")]
    pub(crate) share_with_canonical_id: i64,
}
