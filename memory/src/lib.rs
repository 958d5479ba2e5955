//! `hlo-memory`: how many bytes XLA will need for an HLO module, and which buffers are alive at the peak.
//!
//! [`estimate()`] is the entry point. A scheduled module is assigned exactly as XLA:CPU assigns it ([`assignment`]); an unscheduled one is
//! first taken through a model of the compiler ([`cpu`]), which yields a scheduled module, and then assigned the same way.

pub mod assignment;
pub mod bytes;
pub mod cpu;
pub mod estimate;
pub mod size;

pub use bytes::Bytes;
pub use estimate::{Estimate, EstimateError, Estimator, LiveBuffer, Model, ModelEstimator, Peak, Target, estimate};
