//! The library's two calls: rewrite a module, or only say how much memory it needs.

// Tests: `tests/corpus.rs`, `tests/referee.rs`.

use hlo_ir::proto::BufferAssignment;
use hlo_ir::{Diagnostic, Module, Span, text, verify};
use hlo_memory::{Bytes, Details, Estimate, EstimateError, ModelEstimator, Target};
use hlo_passes::Options;
use hlo_passes::manager::{self, NoObserver, Observer, RunError, RunReport};

use crate::Pipeline;
use crate::answer::Verdict;
use crate::curve_point::Point;
use crate::foreign::{self, Foreign};
use crate::report::{self, Report, xla_allocations, xla_memory_usage};

/// A rewritten module and what was done to it.
#[derive(Clone, Debug)]
pub struct Optimized {
    /// Name of the module.
    pub module: String,
    /// The input as this tool prints it; equal to `text` when nothing was rewritten.
    pub input: String,
    /// The result.
    pub text: String,
    /// Memory before and after, rewrites and remarks.
    pub report: RunReport,
    /// What the compiler says of it, if it was asked.
    pub verdict: Option<Box<Verdict>>,
    /// Memory against time, if it was asked for.
    pub curve: Option<Vec<Point>>,
    /// The module before and after.
    pub(crate) modules: Box<[Module; 2]>,
}

impl Optimized {
    /// Who holds the memory at the peak, before and after.
    pub fn details(&self, target: Target) -> Result<[Details; 2], Failure> {
        let of = |module| hlo_memory::details(module, target).map(|(_, details)| details).map_err(Failure::Estimate);
        let [before, after] = self.modules.as_ref();
        Ok([of(before)?, of(after)?])
    }
    /// The module as it was read.
    pub fn before(&self) -> &Module {
        let [before, _] = self.modules.as_ref();
        before
    }
    /// The rewritten module.
    pub fn after(&self) -> &Module {
        let [_, after] = self.modules.as_ref();
        after
    }
    /// Whether the run lowered the peak.
    pub fn helped(&self) -> bool {
        self.report.after.total_with_scratch() < self.report.before.total_with_scratch()
    }
    /// The report as JSON (`docs/report.schema.json`); `target` is that of the run's options.
    pub fn report_json(&self, target: Target) -> Result<String, Failure> {
        let details = self.details(target)?;
        Ok(Report::of_run(&self.module, target, &self.report, &details).judged(self.verdict.as_deref()).json())
    }
    /// Whether the peak of the result is within the budget of `options`; true if there is none.
    pub fn fits(&self, options: &Options) -> bool {
        options.budget.is_none_or(|budget| self.peak().is_some_and(|peak| peak <= budget))
    }
    /// The peak of the result: the judge's figure if it was asked, and `None` if it refuses the result; else the estimate with all that XLA may need beyond it.
    pub fn peak(&self) -> Option<Bytes> {
        report::peak(self.verdict.as_deref(), &self.report.after)
    }
}

/// The memory of a module.
#[derive(Clone, Debug)]
pub struct Analysis {
    /// Name of the module.
    pub module: String,
    /// The compiler for which the figures hold.
    pub target: Target,
    /// Its memory.
    pub estimate: Estimate,
    /// Who holds it at the peak, why, and what other interfaces would save.
    pub details: Details,
}

impl Analysis {
    /// The report as JSON (`docs/report.schema.json`): before and after are the same, and nothing was rewritten.
    pub fn report_json(&self, target: Target) -> String {
        Report::of_analysis(self, target).json()
    }
}

/// Why there is no result.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum Failure {
    /// The text cannot be read as a module, or the module is not legal: at least one problem.
    #[error("{}", list(.0))]
    Illegal(Vec<Diagnostic>),
    /// The memory model cannot handle the module.
    #[error(transparent)]
    Estimate(EstimateError),
    /// An error in this tool: a pass produced an illegal module.
    #[error("{0}")]
    Internal(String),
}

impl Failure {
    /// The same failure of a module that begins `offset` bytes into a file.
    #[must_use]
    pub fn shifted(self, offset: usize) -> Self {
        match self {
            Self::Illegal(problems) => {
                Self::Illegal(problems.into_iter().map(|problem| problem.shifted(offset)).collect())
            }
            other => other,
        }
    }
}

/// One line per problem, for those who print a [`Failure`] without the text it speaks of.
fn list(problems: &[Diagnostic]) -> String {
    problems.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n")
}

impl From<RunError> for Failure {
    fn from(error: RunError) -> Self {
        match error {
            RunError::Estimate(error) => Self::Estimate(error),
            RunError::Broken { .. } | RunError::Dishonest { .. } => Self::Internal(error.to_string()),
        }
    }
}

/// Rewrites the module in `text` so that its peak falls and its results stay equal as far as `options` ask.
///
/// The result was verified; nothing is returned for an input that is not legal.
pub fn optimize(text: &str, pipeline: &Pipeline, options: &Options) -> Result<Optimized, Failure> {
    optimize_observed(text, pipeline, options, &mut NoObserver)
}

/// The same as [`optimize`], told to `observer` step by step.
pub fn optimize_observed(
    text: &str,
    pipeline: &Pipeline,
    options: &Options,
    observer: &mut dyn Observer,
) -> Result<Optimized, Failure> {
    optimize_read(read(text)?, pipeline, options, observer)
}

/// The same as [`optimize`] of a module that was not read from text, such as a decoded proto. Problems of one that is not legal have places in what it prints as.
pub fn optimize_module(module: Module, pipeline: &Pipeline, options: &Options) -> Result<Optimized, Failure> {
    optimize_read(legal(module)?, pipeline, options, &mut NoObserver)
}

/// The same as [`optimize_observed`] of a legal module.
pub(crate) fn optimize_read(
    mut module: Module,
    pipeline: &Pipeline,
    options: &Options,
    observer: &mut dyn Observer,
) -> Result<Optimized, Failure> {
    if let Some(root) = options.source_root.as_deref() {
        module.set_source_root(root);
    }
    let before = module.clone();
    let estimator = ModelEstimator { target: options.target };
    let report = manager::run_observed(&mut module, pipeline.passes(), options, &estimator, observer)?;
    optimized(text::print(&before), report, [before, module])
}

/// What `full` is with another limit on rewrites ([`Options::bisect_limit`]): nothing is searched for again. The pipeline and all other options are those of `full`.
pub fn with_limit(full: &Optimized, pipeline: &Pipeline, options: &Options) -> Result<Optimized, Failure> {
    let mut module = full.before().clone();
    let estimator = ModelEstimator { target: options.target };
    let report = manager::run_again(&mut module, pipeline.passes(), options, &estimator, &full.report.recording)?;
    optimized(full.input.clone(), report, [full.before().clone(), module])
}

/// A result that was verified; `modules` are before and after.
fn optimized(input: String, report: RunReport, modules: [Module; 2]) -> Result<Optimized, Failure> {
    let [_, after] = &modules;
    if let [first, ..] = verify::verify(after).as_slice() {
        return Err(Failure::Internal(format!("the rewritten module is not legal: {first}")));
    }
    let (module, text) = (after.name.to_string(), text::print(after));
    Ok(Optimized { module, input, text, report, verdict: None, curve: None, modules: Box::new(modules) })
}

/// Says how much memory the module in `text` needs on `target`, and who holds it at the peak.
pub fn analyze(text: &str, target: Target) -> Result<Analysis, Failure> {
    analyze_as(text, &Wanted { target: Some(target), ..Wanted::default() })
}

/// The same for the target that the module itself shows, as a scheduled one does.
pub fn analyze_for_its_target(text: &str) -> Result<Analysis, Failure> {
    analyze_as(text, &Wanted::default())
}

/// What an analysis goes by.
#[derive(Clone, Copy, Debug, Default)]
pub struct Wanted<'a> {
    /// The compiler; `None` takes the one that the module itself shows.
    pub target: Option<Target>,
    /// The allocation that XLA itself wrote into a binary dump.
    pub given: Option<&'a BufferAssignment>,
    /// Folder of the user's own files ([`Options::source_root`]).
    pub source_root: Option<&'a str>,
}

/// Says how much memory the module in `text` needs, and who holds it at the peak.
pub fn analyze_as(text: &str, wanted: &Wanted<'_>) -> Result<Analysis, Failure> {
    analyze_read(read(text)?, wanted)
}

/// The same of a module that was not read from text.
pub fn analyze_module(module: Module, target: Target) -> Result<Analysis, Failure> {
    analyze_read(legal(module)?, &Wanted { target: Some(target), ..Wanted::default() })
}

fn analyze_read(mut module: Module, wanted: &Wanted<'_>) -> Result<Analysis, Failure> {
    if let Some(root) = wanted.source_root {
        module.set_source_root(root);
    }
    let target = wanted.target.unwrap_or_else(|| hlo_memory::target_of(&module));
    let details = match wanted.given {
        Some(given) => hlo_memory::details_given(&module, target, given),
        None => hlo_memory::details(&module, target),
    };
    let (estimate, details) = details.map_err(Failure::Estimate)?;
    let name = module.name.to_string();
    module.drop_in_background();
    Ok(Analysis { module: name, target, estimate, details })
}

/// The buffer assignment of the module in `text` in the formats of XLA's own dumps: the list of allocations, an empty line, and the
/// memory-usage report. `given` is XLA's own assignment, if a binary dump holds it. An unscheduled module is taken through the model of
/// XLA:CPU first.
pub fn assignment_text(text: &str, given: Option<&BufferAssignment>) -> Result<String, Failure> {
    let module = read(text)?;
    if let Some(given) = given {
        let assignment = hlo_memory::assignment::assigned(&module, given).map_err(Failure::Estimate)?;
        return Ok(xla_allocations(&module, &assignment) + "\n" + &xla_memory_usage(&module, &assignment));
    }
    let compiled = (!module.is_scheduled()).then(|| hlo_memory::cpu::compile(&module)).transpose();
    let compiled = compiled.map_err(Failure::Estimate)?;
    let module = compiled.as_ref().unwrap_or(&module);
    let assignment = hlo_memory::assignment::assign(module).map_err(Failure::Estimate)?;
    Ok(xla_allocations(module, &assignment) + "\n" + &xla_memory_usage(module, &assignment))
}

/// Parses and verifies. A text that is none of HLO is called by its name, at its first byte.
pub(crate) fn read(text: &str) -> Result<Module, Failure> {
    let module = text::parse(text).map_err(|problems| match foreign::of_text(text) {
        Some(Foreign { what, help }) => {
            Failure::Illegal(vec![Diagnostic::at(Span::new(0, 1), format!("this is no HLO: it is {what}")).note(help)])
        }
        None => Failure::Illegal(problems),
    })?;
    legal(module)
}

/// A module, if it is legal.
fn legal(module: Module) -> Result<Module, Failure> {
    let problems = verify::verify(&module);
    if problems.is_empty() { Ok(module) } else { Err(Failure::Illegal(problems)) }
}
