//! `hlo-memory`: how many bytes XLA will need for an HLO module, and which buffers are alive at the peak.
//!
//! [`estimate()`] is the entry point. A scheduled module is assigned exactly as XLA:CPU assigns it ([`assignment`]); an unscheduled one is
//! first taken through a model of the compiler ([`cpu`]; a rough one for GPU and TPU), which yields a scheduled module, and then assigned the same way. [`details()`] says
//! also who holds the memory at the peak and why ([`attribution`]).

pub mod assignment;
pub mod attribution;
pub mod bytes;
pub mod cpu;
pub mod estimate;
pub mod excess;
pub mod guard;
mod hash;
pub mod holder;
mod names;
mod opcode_set;
mod parallel;
mod reachability;
pub mod saving_bound;
pub mod size;
pub mod target;

pub use attribution::{Attribution, Details};
pub use bytes::Bytes;
pub use estimate::{
    Compiled, Estimate, EstimateError, Estimator, LiveBuffer, Model, ModelEstimator, Peak, Stored, Target, details,
    details_given, estimate, estimate_and,
};
pub use parallel::side_by_side;
pub use saving_bound::SavingBound;
pub use target::target_of;
