//! Operations that XLA:CPU writes out in terms of simpler ones before it simplifies, and what XLA:GPU makes of convolutions.

// Tests: `memory/tests/device_calls.rs`, `memory/tests/expanded.rs`.

mod all_to_all;
mod bitcast;
mod compare;
mod convolution;
mod cudnn;
mod cudnn_padding;
mod dot;
mod logistic;
mod map;
mod one_hot;
mod philox;
mod scan;
mod select_scatter;
mod split_k;
mod topk;
mod vector_dot;

pub(crate) use all_to_all::run as exchange_in_pieces;
pub(crate) use bitcast::run as bitcasts_of_other_sizes;
pub(crate) use compare::run as total_order_compares;
pub(crate) use convolution::{is_canonical as is_canonical_convolution, run as canonical_convolutions};
pub(crate) use cudnn::{call_library, is_kernel_gradient, run as library_convolutions};
pub(crate) use cudnn_padding::run as pad_for_library;
pub(crate) use dot::{decompose as decompose_dots, drop_unit_batches};
pub(crate) use logistic::run as logistics;
pub(crate) use map::run as inline_maps;
pub(crate) use one_hot::run as one_hot_scatters;
pub(crate) use philox::{is_philox, run as random_bits};
pub(crate) use scan::run as running_reductions;
pub(crate) use select_scatter::run as select_and_scatters;
pub(crate) use split_k::run as split_products;
pub(crate) use topk::{call_runtime as call_top_k, decompose as decompose_top_k};
pub(crate) use vector_dot::run as write_out_vector_dots;
