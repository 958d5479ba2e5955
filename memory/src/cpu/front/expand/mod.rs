//! Operations that XLA:CPU writes out in terms of simpler ones before it simplifies.

mod compare;
mod convolution;
mod dot;
mod logistic;

pub(crate) use compare::run as total_order_compares;
pub(crate) use convolution::run as canonical_convolutions;
pub(crate) use dot::{decompose as decompose_dots, drop_unit_batches};
pub(crate) use logistic::run as logistics;
