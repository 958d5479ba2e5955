//! What XLA:CPU does to an unscheduled module before it assigns buffers: the stages in order, each its own file.

mod copies;
mod dce;
mod fusion;
#[allow(dead_code, reason = "the stages that use it land one by one")]
pub(crate) mod graph;
mod hoist;
mod in_place;
mod schedule;
mod traffic;
mod traits;
mod tuples;
mod wrapper;
mod ynn;

use hlo_ir::Module;

use crate::EstimateError;
use graph::{Graph, Schedule};

/// Takes an unscheduled module through the model of the compiler; the result is scheduled.
pub fn compile(module: &Module) -> Result<Module, EstimateError> {
    Err(EstimateError::Unsupported(module.name.to_string()))
}

/// A stage of the model: changes the graph, and the last one orders it.
type Run = fn(&mut Graph) -> Result<Option<Schedule>, EstimateError>;

/// The stages by name, in the order in which they run.
const STAGES: &[(&str, Run)] = &[
    ("library", |graph| {
        ynn::run(graph);
        Ok(None)
    }),
    ("fusion", |graph| {
        fusion::run(graph);
        Ok(None)
    }),
    ("wrapper", |graph| {
        wrapper::run(graph);
        Ok(None)
    }),
    ("copies", |graph| {
        copies::run(graph);
        Ok(None)
    }),
    ("hoist", |graph| {
        hoist::run(graph);
        Ok(None)
    }),
    ("schedule", |graph| Ok(Some(schedule::schedule(graph)))),
];

/// Runs one stage alone, for comparison with what XLA's own pass dumps show. `None` if there is no stage of that name.
pub fn run_stage(name: &str, module: &Module) -> Option<Result<Module, EstimateError>> {
    let (_, run) = STAGES.iter().find(|stage| stage.0 == name)?;
    let mut graph = Graph::from_module(module);
    Some(run(&mut graph).map(|schedule| match schedule {
        Some(schedule) => graph.to_scheduled_module(&schedule),
        None => graph.to_module(),
    }))
}

/// Names of the stages, in the order in which they run.
pub fn stage_names() -> impl Iterator<Item = &'static str> {
    STAGES.iter().map(|stage| stage.0)
}
