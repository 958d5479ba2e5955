//! Metadata, frontend attributes, sharding and device lists, as `xla_data.proto` numbers their fields.

use super::shape::Shape;

/// `xla.Payload`.
#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct Payload {
    #[prost(bytes = "vec", optional, tag = "1")]
    pub(crate) value: Option<Vec<u8>>,
    #[prost(int64, optional, tag = "2")]
    pub(crate) id: Option<i64>,
}

/// `xla.OpMetadata`.
#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct OpMetadata {
    #[prost(string, tag = "1")]
    pub(crate) op_type: String,
    #[prost(string, tag = "2")]
    pub(crate) op_name: String,
    #[prost(string, tag = "3")]
    pub(crate) source_file: String,
    #[prost(int32, tag = "4")]
    pub(crate) source_line: i32,
    #[prost(int32, tag = "17")]
    pub(crate) source_end_line: i32,
    #[prost(int32, tag = "18")]
    pub(crate) source_column: i32,
    #[prost(int32, tag = "19")]
    pub(crate) source_end_column: i32,
    #[prost(int32, repeated, tag = "5")]
    pub(crate) profile_type: Vec<i32>,
    #[prost(int64, tag = "8")]
    pub(crate) size_of_generated_code_in_bytes: i64,
    #[prost(int64, tag = "9")]
    pub(crate) size_of_memory_working_set_in_bytes: i64,
    #[prost(message, optional, tag = "10")]
    pub(crate) profile_info: Option<OpMetadataProfileInfo>,
    #[prost(string, tag = "12")]
    pub(crate) deduplicated_name: String,
    #[prost(int32, tag = "15")]
    pub(crate) stack_frame_id: i32,
    #[prost(string, tag = "16")]
    pub(crate) scheduling_name: String,
    #[prost(message, optional, tag = "20")]
    pub(crate) metadata_payload: Option<Payload>,
}

/// `xla.OpMetadata.ProfileInfo`.
#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct OpMetadataProfileInfo {
    #[prost(int32, repeated, tag = "1")]
    pub(crate) profile_type: Vec<i32>,
    #[prost(double, tag = "2")]
    pub(crate) relative_speedup: f64,
    #[prost(int32, tag = "3")]
    pub(crate) profile_source: i32,
    #[prost(int32, tag = "4")]
    pub(crate) compilation_event: i32,
    #[prost(int32, tag = "5")]
    pub(crate) profile_generation_strategy: i32,
}

/// `xla.FrontendAttributes`.
#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct FrontendAttributes {
    #[prost(message, repeated, tag = "1")]
    pub(crate) map: Vec<MapEntry>,
}

/// `xla.FrontendAttributes.MapEntry`.
#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct MapEntry {
    #[prost(string, tag = "1")]
    pub(crate) key: String,
    #[prost(string, tag = "2")]
    pub(crate) value: String,
}

/// `xla.MeshProto`.
#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct Mesh {
    #[prost(message, repeated, tag = "1")]
    pub(crate) axes: Vec<MeshMeshAxis>,
    #[prost(int64, repeated, tag = "2")]
    pub(crate) device_ids: Vec<i64>,
    #[prost(message, optional, tag = "3")]
    pub(crate) iota_transform: Option<MeshIotaTransform>,
}

/// `xla.MeshProto.MeshAxis`.
#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct MeshMeshAxis {
    #[prost(string, tag = "1")]
    pub(crate) name: String,
    #[prost(int64, tag = "2")]
    pub(crate) size: i64,
}

/// `xla.MeshProto.IotaTransform`.
#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct MeshIotaTransform {
    #[prost(int64, repeated, tag = "1")]
    pub(crate) reshape_dims: Vec<i64>,
    #[prost(int64, repeated, tag = "2")]
    pub(crate) transpose_perm: Vec<i64>,
}

/// `xla.AxisRefProto`.
#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct AxisRef {
    #[prost(int64, tag = "1")]
    pub(crate) mesh_axis_index: i64,
    #[prost(message, optional, tag = "2")]
    pub(crate) sub_axis_info: Option<AxisRefSubAxis>,
}

/// `xla.AxisRefProto.SubAxis`.
#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct AxisRefSubAxis {
    #[prost(int64, tag = "1")]
    pub(crate) pre_size: i64,
    #[prost(int64, tag = "2")]
    pub(crate) size: i64,
}

/// `xla.NamedShardingProto`.
#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct NamedSharding {
    #[prost(message, optional, tag = "2")]
    pub(crate) mesh: Option<Mesh>,
    #[prost(message, repeated, tag = "3")]
    pub(crate) dim_shardings: Vec<DimensionSharding>,
    #[prost(message, repeated, tag = "4")]
    pub(crate) replicated_axes: Vec<AxisRef>,
    #[prost(message, repeated, tag = "5")]
    pub(crate) unreduced_axes: Vec<AxisRef>,
    #[prost(message, repeated, tag = "7")]
    pub(crate) manual_axes: Vec<AxisRef>,
    #[prost(message, repeated, tag = "6")]
    pub(crate) metadata: Vec<OpMetadata>,
}

/// `xla.NamedShardingProto.DimensionSharding`.
#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct DimensionSharding {
    #[prost(message, repeated, tag = "1")]
    pub(crate) axes: Vec<AxisRef>,
    #[prost(bool, tag = "2")]
    pub(crate) is_closed: bool,
}

/// `xla.OpSharding`.
#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct OpSharding {
    #[prost(int32, tag = "1")]
    pub(crate) r#type: i32,
    #[prost(message, optional, tag = "2")]
    pub(crate) tile_shape: Option<Shape>,
    #[prost(int64, repeated, tag = "3")]
    pub(crate) tile_assignment_dimensions: Vec<i64>,
    #[prost(int64, repeated, tag = "4")]
    pub(crate) tile_assignment_devices: Vec<i64>,
    #[prost(message, repeated, tag = "5")]
    pub(crate) tuple_shardings: Vec<OpSharding>,
    #[prost(bool, tag = "6")]
    pub(crate) replicate_on_last_tile_dim: bool,
    #[prost(message, repeated, tag = "7")]
    pub(crate) metadata: Vec<OpMetadata>,
    #[prost(int32, repeated, tag = "8")]
    pub(crate) last_tile_dims: Vec<i32>,
    #[prost(int64, repeated, tag = "9")]
    pub(crate) iota_reshape_dims: Vec<i64>,
    #[prost(int32, repeated, tag = "10")]
    pub(crate) iota_transpose_perm: Vec<i32>,
    #[prost(bool, tag = "11")]
    pub(crate) is_shard_group: bool,
    #[prost(int64, tag = "12")]
    pub(crate) shard_group_id: i64,
    #[prost(int32, tag = "13")]
    pub(crate) shard_group_type: i32,
    #[prost(message, optional, tag = "14")]
    pub(crate) named_sharding: Option<NamedSharding>,
}

/// `xla.ReplicaGroup`.
#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct ReplicaGroup {
    #[prost(int64, repeated, tag = "1")]
    pub(crate) replica_ids: Vec<i64>,
}

/// `xla.MeshAxesReplicaGroupListProto`.
#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct MeshAxesReplicaGroupList {
    #[prost(message, optional, tag = "1")]
    pub(crate) mesh: Option<Mesh>,
    #[prost(message, repeated, tag = "2")]
    pub(crate) axes: Vec<AxisRef>,
}

/// `xla.IotaReplicaGroupListProto`.
#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct IotaReplicaGroupList {
    #[prost(int64, tag = "1")]
    pub(crate) num_replica_groups: i64,
    #[prost(int64, tag = "2")]
    pub(crate) num_devices_per_group: i64,
    #[prost(int64, repeated, tag = "3")]
    pub(crate) iota_reshape_dims: Vec<i64>,
    #[prost(int32, repeated, tag = "4")]
    pub(crate) iota_transpose_perm: Vec<i32>,
}

/// `xla.CollectiveDeviceListProto`.
#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct CollectiveDeviceList {
    #[prost(message, repeated, tag = "1")]
    pub(crate) replica_groups: Vec<ReplicaGroup>,
    /// Where XLA before jaxlib 0.9 has it.
    #[prost(message, optional, tag = "2")]
    pub(crate) iota_replica_group_list: Option<IotaReplicaGroupList>,
}

/// `xla.DeviceAssignmentProto`.
#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct DeviceAssignment {
    #[prost(int32, tag = "1")]
    pub(crate) replica_count: i32,
    #[prost(int32, tag = "2")]
    pub(crate) computation_count: i32,
    #[prost(message, repeated, tag = "3")]
    pub(crate) computation_devices: Vec<ComputationDevice>,
}

/// `xla.DeviceAssignmentProto.ComputationDevice`.
#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct ComputationDevice {
    #[prost(int64, repeated, tag = "1")]
    pub(crate) replica_device_ids: Vec<i64>,
}

/// `xla.OriginalArrayProto`.
#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct OriginalArray {
    #[prost(string, tag = "1")]
    pub(crate) instruction_name: String,
    #[prost(int64, repeated, tag = "2")]
    pub(crate) shape_index: Vec<i64>,
}

/// `xla.OriginalValueElementProto`.
#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct OriginalValueElement {
    #[prost(int64, repeated, tag = "1")]
    pub(crate) shape_index: Vec<i64>,
    #[prost(message, optional, tag = "2")]
    pub(crate) original_array: Option<OriginalArray>,
}

/// `xla.OriginalValueProto`.
#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct OriginalValue {
    #[prost(message, repeated, tag = "1")]
    pub(crate) elements: Vec<OriginalValueElement>,
    #[prost(bool, tag = "2")]
    pub(crate) is_synthetic_call: bool,
}
