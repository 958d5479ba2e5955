//! XLA:CPU's buffer assignment, reproduced to the byte for scheduled modules.

use hlo_ir::Module;

use crate::{Estimate, EstimateError};

/// The allocations of a scheduled module.
#[derive(Clone, Debug)]
pub struct Assignment {}

impl Assignment {
    /// The figures of the assignment.
    pub fn estimate(&self) -> Estimate {
        unreachable!("not written yet")
    }
}

/// Assigns the buffers of a scheduled module.
pub fn assign(module: &Module) -> Result<Assignment, EstimateError> {
    Err(EstimateError::Unsupported(module.name.to_string()))
}
