//! Operations that XLA:CPU writes out in terms of simpler ones before it simplifies.

mod compare;
mod logistic;

pub(crate) use compare::run as total_order_compares;
pub(crate) use logistic::run as logistics;
