//! Values of constants and how XLA's evaluator computes with them.

mod eval;
mod literal;
mod scalar;

pub(crate) use eval::evaluate;
pub(crate) use literal::{Literal, mix};
pub(crate) use scalar::{Scalar, binary, compare};
