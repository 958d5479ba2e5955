//! Values of constants and how XLA's evaluator computes with them.

mod eval;
mod literal;
mod raw;
mod scalar;
mod window;

pub(crate) use eval::evaluate;
pub(crate) use literal::{Literal, mix};
pub(crate) use scalar::{Scalar, binary, compare};
