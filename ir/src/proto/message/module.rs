//! Modules, computations and instructions, as `hlo.proto` numbers their fields.

use super::buffers::BufferAssignment;
use super::common::{
    CollectiveDeviceList, DeviceAssignment, FrontendAttributes, IotaReplicaGroupList, MeshAxesReplicaGroupList,
    OpMetadata, OpSharding, OriginalArray, OriginalValue, Payload, ReplicaGroup,
};
use super::dims::{
    CholeskyOptions, ConvolutionDimensionNumbers, DotDimensionNumbers, GatherDimensionNumbers, OutputOperandAliasing,
    PaddingConfig, ParameterReplication, PrecisionConfig, RaggedDotDimensionNumbers, ResultAccuracy,
    ScatterDimensionNumbers, SliceDimensions, SourceTarget, SparsityConfig, StatisticsViz, TriangularSolveOptions,
    Window,
};
use super::shape::{Literal, ProgramShape, Shape};

/// `xla.HloInstructionProto`.
#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct HloInstruction {
    #[prost(string, tag = "1")]
    pub(crate) name: String,
    #[prost(string, tag = "2")]
    pub(crate) opcode: String,
    #[prost(message, optional, tag = "3")]
    pub(crate) shape: Option<Shape>,
    #[prost(message, optional, tag = "7")]
    pub(crate) metadata: Option<OpMetadata>,
    #[prost(message, optional, tag = "8")]
    pub(crate) literal: Option<Literal>,
    #[prost(int64, tag = "9")]
    pub(crate) parameter_number: i64,
    #[prost(string, tag = "11")]
    pub(crate) fusion_kind: String,
    #[prost(int64, tag = "13")]
    pub(crate) tuple_index: i64,
    #[prost(int64, repeated, tag = "14")]
    pub(crate) dimensions: Vec<i64>,
    #[prost(message, optional, tag = "15")]
    pub(crate) window: Option<Window>,
    #[prost(message, optional, tag = "16")]
    pub(crate) convolution_dimension_numbers: Option<ConvolutionDimensionNumbers>,
    #[prost(int64, tag = "50")]
    pub(crate) feature_group_count: i64,
    #[prost(int64, tag = "58")]
    pub(crate) batch_group_count: i64,
    #[prost(message, repeated, tag = "17")]
    pub(crate) slice_dimensions: Vec<SliceDimensions>,
    #[prost(int32, tag = "18")]
    pub(crate) exponent_bits: i32,
    #[prost(int32, tag = "19")]
    pub(crate) mantissa_bits: i32,
    #[prost(int64, repeated, tag = "20")]
    pub(crate) dynamic_slice_sizes: Vec<i64>,
    #[prost(message, optional, tag = "21")]
    pub(crate) padding_config: Option<PaddingConfig>,
    #[prost(bytes = "vec", tag = "22")]
    pub(crate) outfeed_config: Vec<u8>,
    #[prost(int32, tag = "23")]
    pub(crate) distribution: i32,
    #[prost(float, tag = "24")]
    pub(crate) epsilon: f32,
    #[prost(int64, tag = "25")]
    pub(crate) feature_index: i64,
    #[prost(int64, tag = "26")]
    pub(crate) channel_id: i64,
    #[prost(bytes = "vec", tag = "27")]
    pub(crate) infeed_config: Vec<u8>,
    #[prost(string, tag = "28")]
    pub(crate) custom_call_target: String,
    #[prost(message, optional, tag = "29")]
    pub(crate) outfeed_shape: Option<Shape>,
    #[prost(message, optional, tag = "30")]
    pub(crate) dot_dimension_numbers: Option<DotDimensionNumbers>,
    #[prost(message, optional, tag = "90")]
    pub(crate) ragged_dot_dimension_numbers: Option<RaggedDotDimensionNumbers>,
    #[prost(int32, tag = "31")]
    pub(crate) fft_type: i32,
    #[prost(int64, repeated, tag = "32")]
    pub(crate) fft_length: Vec<i64>,
    #[prost(string, tag = "63")]
    pub(crate) comparison_direction: String,
    #[prost(message, optional, tag = "33")]
    pub(crate) gather_dimension_numbers: Option<GatherDimensionNumbers>,
    #[prost(int64, repeated, tag = "34")]
    pub(crate) gather_slice_sizes: Vec<i64>,
    #[prost(int64, tag = "35")]
    pub(crate) id: i64,
    #[prost(int64, repeated, tag = "36")]
    pub(crate) operand_ids: Vec<i64>,
    #[prost(int64, repeated, tag = "37")]
    pub(crate) control_predecessor_ids: Vec<i64>,
    #[prost(int64, repeated, tag = "38")]
    pub(crate) called_computation_ids: Vec<i64>,
    #[prost(message, optional, tag = "40")]
    pub(crate) sharding: Option<OpSharding>,
    #[prost(bytes = "vec", tag = "43")]
    pub(crate) backend_config: Vec<u8>,
    #[prost(message, optional, tag = "99")]
    pub(crate) backend_config_payload: Option<Payload>,
    #[prost(message, repeated, tag = "49")]
    pub(crate) replica_groups: Vec<ReplicaGroup>,
    #[prost(int64, tag = "45")]
    pub(crate) all_reduce_id: i64,
    #[prost(bool, tag = "71")]
    pub(crate) use_global_device_ids: bool,
    #[prost(bool, tag = "47")]
    pub(crate) is_host_transfer: bool,
    #[prost(bool, tag = "60")]
    pub(crate) is_stable: bool,
    #[prost(message, optional, tag = "48")]
    pub(crate) scatter_dimension_numbers: Option<ScatterDimensionNumbers>,
    #[prost(message, optional, tag = "51")]
    pub(crate) precision_config: Option<PrecisionConfig>,
    #[prost(message, repeated, tag = "52")]
    pub(crate) source_target_pairs: Vec<SourceTarget>,
    #[prost(message, optional, tag = "54")]
    pub(crate) domain_entry_sharding: Option<OpSharding>,
    #[prost(message, optional, tag = "55")]
    pub(crate) domain_exit_sharding: Option<OpSharding>,
    #[prost(bool, tag = "56")]
    pub(crate) constrain_layout: bool,
    #[prost(message, repeated, tag = "57")]
    pub(crate) operand_shapes_with_layout: Vec<Shape>,
    #[prost(message, optional, tag = "59")]
    pub(crate) triangular_solve_options: Option<TriangularSolveOptions>,
    #[prost(message, optional, tag = "62")]
    pub(crate) cholesky_options: Option<CholeskyOptions>,
    #[prost(message, optional, tag = "61")]
    pub(crate) parameter_replication: Option<ParameterReplication>,
    #[prost(bool, tag = "65")]
    pub(crate) custom_call_has_side_effect: bool,
    #[prost(message, repeated, tag = "74")]
    pub(crate) output_operand_aliasing: Vec<OutputOperandAliasing>,
    #[prost(int32, tag = "76")]
    pub(crate) custom_call_schedule: i32,
    #[prost(int64, tag = "66")]
    pub(crate) delta: i64,
    #[prost(bool, tag = "67")]
    pub(crate) indices_are_sorted: bool,
    #[prost(message, optional, tag = "68")]
    pub(crate) frontend_attributes: Option<FrontendAttributes>,
    #[prost(bool, tag = "69")]
    pub(crate) unique_indices: bool,
    #[prost(int32, tag = "70")]
    pub(crate) rng_algorithm: i32,
    #[prost(string, tag = "72")]
    pub(crate) comparison_type: String,
    #[prost(bool, tag = "73")]
    pub(crate) is_cross_program_prefetch: bool,
    #[prost(int32, optional, tag = "80")]
    pub(crate) cross_program_prefetch_index: Option<i32>,
    #[prost(int32, tag = "75")]
    pub(crate) padding_type: i32,
    #[prost(int32, tag = "77")]
    pub(crate) custom_call_api_version: i32,
    #[prost(string, tag = "79")]
    pub(crate) async_execution_thread: String,
    #[prost(int64, tag = "81")]
    pub(crate) k: i64,
    #[prost(bool, tag = "85")]
    pub(crate) largest: bool,
    #[prost(message, optional, tag = "82")]
    pub(crate) statistics_viz: Option<StatisticsViz>,
    #[prost(message, optional, tag = "87")]
    pub(crate) collective_device_list: Option<CollectiveDeviceList>,
    #[prost(message, optional, tag = "92")]
    pub(crate) iota_collective_device_list: Option<IotaReplicaGroupList>,
    #[prost(message, optional, tag = "93")]
    pub(crate) mesh_axes_replica_group_list: Option<MeshAxesReplicaGroupList>,
    #[prost(message, optional, tag = "88")]
    pub(crate) original_value: Option<OriginalValue>,
    #[prost(bool, tag = "89")]
    pub(crate) is_composite: bool,
    #[prost(message, optional, tag = "91")]
    pub(crate) result_accuracy: Option<ResultAccuracy>,
    #[prost(bool, tag = "94")]
    pub(crate) is_reverse: bool,
    #[prost(int64, tag = "95")]
    pub(crate) num_carries: i64,
    #[prost(int32, tag = "96")]
    pub(crate) is_associative: i32,
    #[prost(int32, tag = "97")]
    pub(crate) conv_kind: i32,
    #[prost(message, optional, tag = "98")]
    pub(crate) sparsity_config: Option<SparsityConfig>,
}

/// `xla.HloComputationProto`.
#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct HloComputation {
    #[prost(string, tag = "1")]
    pub(crate) name: String,
    #[prost(message, repeated, tag = "2")]
    pub(crate) instructions: Vec<HloInstruction>,
    #[prost(message, optional, tag = "4")]
    pub(crate) program_shape: Option<ProgramShape>,
    #[prost(int64, tag = "5")]
    pub(crate) id: i64,
    #[prost(int64, tag = "6")]
    pub(crate) root_id: i64,
    #[prost(bool, tag = "7")]
    pub(crate) is_fusion_computation: bool,
    #[prost(string, tag = "8")]
    pub(crate) execution_thread: String,
}

/// `xla.HloScheduleProto`.
#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct HloSchedule {
    #[prost(btree_map = "int64, message", tag = "1")]
    pub(crate) sequences: std::collections::BTreeMap<i64, InstructionSequence>,
}

/// `xla.HloScheduleProto.InstructionSequence`.
#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct InstructionSequence {
    #[prost(int64, repeated, tag = "1")]
    pub(crate) instruction_ids: Vec<i64>,
}

/// `xla.HloInputOutputAliasProto`.
#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct InputOutputAlias {
    #[prost(message, repeated, tag = "1")]
    pub(crate) entries: Vec<AliasEntry>,
}

/// `xla.HloInputOutputAliasProto.AliasEntryProto`.
#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct AliasEntry {
    #[prost(int64, repeated, tag = "1")]
    pub(crate) output_shape_index: Vec<i64>,
    #[prost(int64, tag = "2")]
    pub(crate) parameter_number: i64,
    #[prost(int64, repeated, tag = "3")]
    pub(crate) parameter_shape_index: Vec<i64>,
    #[prost(int32, tag = "4")]
    pub(crate) kind: i32,
}

/// `xla.HloBufferDonorProto`.
#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct BufferDonors {
    #[prost(message, repeated, tag = "1")]
    pub(crate) entries: Vec<DonorEntry>,
}

/// `xla.HloBufferDonorProto.BufferDonorEntryProto`.
#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct DonorEntry {
    #[prost(int64, tag = "1")]
    pub(crate) parameter_number: i64,
    #[prost(int64, repeated, tag = "2")]
    pub(crate) parameter_shape_index: Vec<i64>,
}

/// `xla.CrossProgramPrefetch`.
#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct CrossProgramPrefetch {
    #[prost(int64, tag = "1")]
    pub(crate) parameter: i64,
    #[prost(int64, repeated, tag = "2")]
    pub(crate) index: Vec<i64>,
    #[prost(int64, tag = "3")]
    pub(crate) offset: i64,
}

/// `xla.StackFrameIndexProto`.
#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct StackFrameIndex {
    #[prost(string, repeated, tag = "1")]
    pub(crate) file_names: Vec<String>,
    #[prost(string, repeated, tag = "2")]
    pub(crate) function_names: Vec<String>,
    #[prost(message, repeated, tag = "3")]
    pub(crate) file_locations: Vec<FileLocation>,
    #[prost(message, repeated, tag = "4")]
    pub(crate) stack_frames: Vec<StackFrame>,
}

/// `xla.StackFrameIndexProto.FileLocation`.
#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct FileLocation {
    #[prost(int32, tag = "1")]
    pub(crate) file_name_id: i32,
    #[prost(int32, tag = "2")]
    pub(crate) function_name_id: i32,
    #[prost(int32, tag = "3")]
    pub(crate) line: i32,
    #[prost(int32, tag = "5")]
    pub(crate) end_line: i32,
    #[prost(int32, tag = "4")]
    pub(crate) column: i32,
    #[prost(int32, tag = "6")]
    pub(crate) end_column: i32,
}

/// `xla.StackFrameIndexProto.StackFrame`.
#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct StackFrame {
    #[prost(int32, tag = "1")]
    pub(crate) file_location_id: i32,
    #[prost(int32, tag = "2")]
    pub(crate) parent_frame_id: i32,
}

/// `xla.HloModuleProto`.
#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct HloModule {
    #[prost(string, tag = "1")]
    pub(crate) name: String,
    #[prost(string, tag = "2")]
    pub(crate) entry_computation_name: String,
    #[prost(int64, tag = "6")]
    pub(crate) entry_computation_id: i64,
    #[prost(message, repeated, tag = "3")]
    pub(crate) computations: Vec<HloComputation>,
    #[prost(message, optional, tag = "4")]
    pub(crate) host_program_shape: Option<ProgramShape>,
    #[prost(int64, tag = "5")]
    pub(crate) id: i64,
    #[prost(int64, optional, tag = "23")]
    pub(crate) pjrt_id: Option<i64>,
    #[prost(message, optional, tag = "7")]
    pub(crate) schedule: Option<HloSchedule>,
    #[prost(message, optional, tag = "8")]
    pub(crate) input_output_alias: Option<InputOutputAlias>,
    #[prost(bytes = "vec", repeated, tag = "22")]
    pub(crate) payloads: Vec<Vec<u8>>,
    #[prost(message, optional, tag = "18")]
    pub(crate) buffer_donor: Option<BufferDonors>,
    #[prost(message, repeated, tag = "10")]
    pub(crate) cross_program_prefetches: Vec<CrossProgramPrefetch>,
    #[prost(bool, tag = "11")]
    pub(crate) is_dynamic: bool,
    #[prost(message, optional, tag = "12")]
    pub(crate) spmd_output_sharding: Option<OpSharding>,
    #[prost(message, repeated, tag = "14")]
    pub(crate) spmd_parameters_shardings: Vec<OpSharding>,
    #[prost(bool, tag = "16")]
    pub(crate) use_auto_spmd_partitioning: bool,
    #[prost(message, repeated, tag = "13")]
    pub(crate) profile_info: Vec<HloModuleProfileInfo>,
    #[prost(message, optional, tag = "15")]
    pub(crate) device_assignment: Option<DeviceAssignment>,
    #[prost(message, optional, tag = "17")]
    pub(crate) stack_frame_index: Option<StackFrameIndex>,
    #[prost(message, optional, tag = "19")]
    pub(crate) frontend_attributes: Option<FrontendAttributes>,
    #[prost(message, optional, tag = "20")]
    pub(crate) original_value_recovery_table: Option<OriginalValueRecoveryTable>,
    #[prost(string, tag = "21")]
    pub(crate) device_type: String,
}

/// `xla.HloModuleProto.ProfileInfo`.
#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct HloModuleProfileInfo {
    #[prost(int32, tag = "1")]
    pub(crate) profile_type: i32,
    #[prost(double, tag = "2")]
    pub(crate) relative_speedup: f64,
    #[prost(int32, tag = "3")]
    pub(crate) profile_source: i32,
    #[prost(int32, tag = "4")]
    pub(crate) compilation_event: i32,
    #[prost(string, tag = "5")]
    pub(crate) fingerprint: String,
    #[prost(int32, tag = "6")]
    pub(crate) profile_generation_strategy: i32,
    #[prost(int64, tag = "7")]
    pub(crate) original_changelist: i64,
    #[prost(int64, tag = "8")]
    pub(crate) changelist: i64,
}

/// `xla.OriginalValueRecoveryTableProto`.
#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct OriginalValueRecoveryTable {
    #[prost(message, repeated, tag = "1")]
    pub(crate) entries: Vec<RecoveryEntry>,
}

/// `xla.OriginalValueRecoveryTableProto.Entry`.
#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct RecoveryEntry {
    #[prost(message, optional, tag = "1")]
    pub(crate) old_original_array: Option<OriginalArray>,
    #[prost(message, optional, tag = "2")]
    pub(crate) new_original_array: Option<OriginalArray>,
    #[prost(message, optional, tag = "3")]
    pub(crate) recovery_module: Option<HloModule>,
}

/// `xla.HloProto`.
#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct HloProto {
    #[prost(message, optional, tag = "1")]
    pub(crate) hlo_module: Option<HloModule>,
    #[prost(message, optional, tag = "3")]
    pub(crate) buffer_assignment: Option<BufferAssignment>,
}

/// `xla.HloSnapshot`; of its arrays only the number is taken.
#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct HloSnapshot {
    #[prost(message, optional, tag = "1")]
    pub(crate) hlo: Option<HloProto>,
    #[prost(message, repeated, tag = "2")]
    pub(crate) arguments: Vec<()>,
    #[prost(message, optional, tag = "3")]
    pub(crate) result: Option<()>,
    #[prost(string, tag = "4")]
    pub(crate) execution_platform: String,
}
