//! What XLA:CPU does to an unscheduled module before it assigns buffers: the stages in order, each its own file.

#[allow(dead_code, reason = "the stages that use it land one by one")]
pub(crate) mod graph;

use hlo_ir::Module;

use crate::EstimateError;

/// Takes an unscheduled module through the model of the compiler; the result is scheduled.
pub fn compile(module: &Module) -> Result<Module, EstimateError> {
    Err(EstimateError::Unsupported(module.name.to_string()))
}
