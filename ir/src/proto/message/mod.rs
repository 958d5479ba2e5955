//! The protocol buffer messages of HLO dumps. Field numbers and types are facts from XLA's `hlo.proto` and `xla_data.proto`; enumerations
//! are kept as numbers, so that one this version does not know is reported and not dropped.

#![allow(clippy::struct_excessive_bools, clippy::struct_field_names, reason = "the fields are those of XLA's messages")]

pub(crate) mod buffers;
pub(crate) mod common;
pub(crate) mod dims;
pub(crate) mod module;
pub(crate) mod shape;
