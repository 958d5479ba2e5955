//! What XLA:CPU does to an unscheduled module before it assigns buffers: the stages in order, each its own file or folder.
//!
//! | stage | what it does |
//! |---|---|
//! | simplify ([`front`]) | flattening, inlining, expanders, algebraic simplification, loops, merging of equal instructions |
//! | layout ([`front`]) | order of dimensions in memory, copies between orders, decomposition of reshapes and dots |
//! | library ([`ynn`]) | dots, convolutions and reductions that a library computes |
//! | fusion ([`fusion`]), wrapper ([`wrapper`]) | loops over several instructions at once |
//! | combine ([`combine`]) | sums over devices of one kind become one |
//! | tuples ([`tuples`]), cleanup ([`front`]) | what the stages before left behind |
//! | donors ([`donors`]), copies ([`copies`]) | who may share a buffer with whom |
//! | hoist ([`hoist`]), schedule ([`mod@schedule`]) | the order of execution |
//!
//! All of them work on a [`graph`] that keeps the order of its lists as XLA does, because that order decides ties.
//!
//! Source: `CpuCompiler::RunHloPasses` (xla/service/cpu/cpu_compiler.cc).

// Tests: `memory/tests/predict.rs`.

mod combine;
mod copies;
mod copy_fusion;
mod dce;
mod donors;
mod front;
mod fusion;
pub(crate) mod graph;
mod h100;
mod hoist;
mod host_memory;
mod in_place;
mod schedule;
mod tiles;
mod traffic;
mod traits;
mod triton;
mod tuples;
mod wrapper;
mod ynn;

use std::time::Duration;

use hlo_ir::{InstructionId, Module};

pub(crate) use front::Doubts;
use front::doubts;

use crate::{EstimateError, Target};
pub use front::tree_reduction::REDUCED_WINDOW;
pub use fusion::duplication::MOST_COPIES;
pub use fusion::fits_registers;
use graph::{Graph, Origin};
pub use tiles::{LANES, LONGEST_TILE};
pub use ynn::support::FEWEST_ELEMENTS;

/// Takes an unscheduled module through the model of the compiler; the result is scheduled.
pub fn compile(module: &Module) -> Result<Module, EstimateError> {
    run_from(STAGES[0].0, module).ok_or_else(|| EstimateError::Unsupported(module.name.to_string()))
}

/// The same for any target, with what the model does not know about the module, in words for the report. Without `named`, instructions carry
/// the names they wanted, of which one may stand for several.
pub(crate) fn compile_for(module: &Module, target: Target, named: bool) -> (Traced, Doubts) {
    let graph = compile_graph(module, target);
    let doubts = doubts(module, graph.partitioned);
    let schedule = schedule::schedule(&graph, target);
    (graph.into_scheduled_module(&schedule, named), doubts)
}

fn compile_graph(module: &Module, target: Target) -> Graph {
    if target == Target::Cpu {
        return compile_from(0, module);
    }
    let mut graph = Graph::from_module(module, Origin::Program);
    for run in DEVICE_STAGES {
        run(&mut graph, target);
    }
    graph
}

/// A scheduled module and how it goes back to the module it was compiled from.
#[derive(Debug)]
pub(crate) struct Traced {
    /// The module.
    pub(crate) module: Module,
    /// The instruction of the given module whose work each instruction does, as far as known.
    pub(crate) origins: Vec<Option<InstructionId>>,
    /// Instructions of the given module and equal ones whose work they do too, in the order in which they were merged.
    pub(crate) merged: Vec<(InstructionId, InstructionId)>,
}

/// Compiles a module and follows its instructions.
pub(crate) fn compile_traced(module: &Module, target: Target) -> Traced {
    let graph = compile_graph(module, target);
    let snapshot = graph.to_bare_scheduled_module(&schedule::schedule(&graph, target));
    let origins = snapshot.to_graph.into_iter().map(|id| graph.origin(id)).collect();
    Traced { module: snapshot.module, origins, merged: graph.merged().to_vec() }
}

/// A stage of the model before the last, which is the schedule.
type Stage = fn(&mut Graph);

/// A rough model of other compilers: the stages of XLA:CPU that they share with it, in the same order, with their own fusion.
const DEVICE_STAGES: &[fn(&mut Graph, Target)] = &[
    front::simplify_for,
    front::assign_layouts_for,
    |graph, _| host_memory::run(graph),
    front::split_products,
    fusion::run_for,
    |graph, _| _ = tuples::run(graph),
    // Before the clean-up, which would let convolutions pad by their windows.
    front::call_libraries,
    |graph, _| front::clean_up(graph),
    |graph, _| donors::run(graph),
    |graph, _| copies::run(graph),
    copy_fusion::run_for,
    |graph, _| hoist::run(graph),
    tiles::run,
];

/// The stages by name, in the order in which they run.
const STAGES: &[(&str, Stage)] = &[
    ("simplify", front::simplify),
    ("layout", front::assign_layouts),
    ("library", ynn::run),
    ("fusion", fusion::run),
    ("wrapper", wrapper::run),
    ("combine", combine::run),
    ("tuples", |graph| _ = tuples::run(graph)),
    ("cleanup", front::clean_up),
    ("donors", donors::run),
    ("copies", copies::run),
    ("hoist", hoist::run),
];

/// Name of the last stage.
const SCHEDULE: &str = "schedule";

/// Names of the stages, in the order in which they run.
pub fn stage_names() -> impl Iterator<Item = &'static str> {
    STAGES.iter().map(|stage| stage.0).chain([SCHEDULE])
}

/// Runs one stage alone, for comparison with what XLA's own pass dumps show. `None` if there is no stage of that name.
pub fn run_stage(name: &str, module: &Module) -> Option<Module> {
    if name == SCHEDULE {
        return Some(scheduled(Graph::from_module(module, Origin::Dump)));
    }
    let (_, run) = STAGES.iter().find(|stage| stage.0 == name)?;
    let mut graph = Graph::from_module(module, Origin::Dump);
    run(&mut graph);
    Some(graph.to_module())
}

/// Runs a stage and all that follow it; the result is scheduled. `None` if there is no stage of that name.
pub fn run_from(name: &str, module: &Module) -> Option<Module> {
    let first = stage_names().position(|stage| stage == name)?;
    Some(scheduled(compile_from(first, module)))
}

/// What all stages but the schedule make of a module, from stage number `first` on.
fn compile_from(first: usize, module: &Module) -> Graph {
    let origin = if first == 0 { Origin::Program } else { Origin::Dump };
    let mut graph = Graph::from_module(module, origin);
    for (_, run) in &STAGES[first.min(STAGES.len())..] {
        run(&mut graph);
    }
    graph
}

/// Runs the stages from the first up to this one, for comparison with what XLA's own pass dumps show. `None` if there is no stage of that
/// name.
pub fn run_until(name: &str, module: &Module) -> Option<Module> {
    let last = STAGES.iter().position(|stage| stage.0 == name)?;
    let mut graph = Graph::from_module(module, Origin::Program);
    for (_, run) in &STAGES[..=last] {
        run(&mut graph);
    }
    Some(graph.to_module())
}

/// How long each stage takes on a module, by a clock that only moves forward.
pub fn time_stages(module: &Module, clock: &dyn Fn() -> Duration) -> Vec<(&'static str, Duration)> {
    let mut times = Vec::new();
    let mut start = clock();
    let mut lap = |name| {
        let now = clock();
        times.push((name, now.saturating_sub(std::mem::replace(&mut start, now))));
    };
    let mut graph = Graph::from_module(module, Origin::Program);
    lap("read");
    for (name, run) in STAGES {
        run(&mut graph);
        lap(name);
    }
    scheduled(graph);
    lap(SCHEDULE);
    times
}

fn scheduled(graph: Graph) -> Module {
    let schedule = schedule::schedule(&graph, Target::Cpu);
    graph.into_scheduled_module(&schedule, true).module
}
