//! What the tests of this crate share: reading modules, a simple estimator, passes made of a closure, and text diffs.
#![allow(dead_code, reason = "each test binary uses a part of it")]

use hlo_ir::{Module, text, verify};
use hlo_memory::{Bytes, Estimate, EstimateError, Estimator, Model, ModelEstimator, Peak, Target, size};
use hlo_passes::manager::{default_pipeline, run};
use hlo_passes::{Context, Finding, Options, Pass, PassKind};

/// Parses a module that must be legal text.
pub(crate) fn parse(source: &str) -> Module {
    text::parse(source).unwrap_or_else(|errors| panic!("{errors:?}\n{source}"))
}

/// A module around the lines of an entry computation.
pub(crate) fn module(lines: &str) -> Module {
    parse(&format!("HloModule m\n\nENTRY %main {{\n{lines}\n}}\n"))
}

/// A legal module with some texts replaced, each of which must be there.
pub(crate) fn replaced(source: &str, changes: &[(&str, &str)]) -> Module {
    let mut source = source.to_owned();
    for (old, new) in changes {
        assert!(source.contains(old), "{old} is not in the program");
        source = source.replace(old, new);
    }
    let module = parse(&source);
    assert_eq!(verify::verify(&module), [], "{source}");
    module
}

/// The lines that differ, marked `-` and `+`, with a little context.
pub(crate) fn diff(before: &str, after: &str) -> String {
    similar::TextDiff::from_lines(before, after).unified_diff().context_radius(1).to_string()
}

/// Peaks in MiB of a program as it is and rewritten by default, by the memory model of a target.
pub(crate) fn peaks(source: &str, target: Target) -> [u64; 2] {
    let options = Options { target, ..Options::default() };
    let report = run(&mut parse(source), &default_pipeline(), &options, &ModelEstimator { target });
    let report = report.expect("it has an estimate");
    [report.before.total, report.after.total].map(|bytes| bytes.get() >> 20)
}

/// Total: the largest array that is not a parameter. Timeline: all of them.
pub(crate) struct LargestArray;

impl Estimator for LargestArray {
    fn estimate(&self, module: &Module) -> Result<Estimate, EstimateError> {
        let computed = module.live_instructions().filter(|(_, inst)| inst.parameter_number().is_none());
        let timeline: Vec<Bytes> = computed.filter_map(|(_, inst)| size::shape_size(&inst.shape)).collect();
        Ok(estimate(timeline.iter().copied().max().unwrap_or_default(), timeline))
    }
}

/// An estimate that says nothing but its total and its timeline.
pub(crate) fn estimate(total: Bytes, timeline: Vec<Bytes>) -> Estimate {
    Estimate {
        model: Model::Predicted,
        total,
        arguments: Bytes::ZERO,
        outputs: Bytes::ZERO,
        aliased: Bytes::ZERO,
        constants: Bytes::ZERO,
        temporaries: total,
        thread_local: Bytes::ZERO,
        hidden_scratch: Bytes::ZERO,
        floor: Bytes::ZERO,
        host: Bytes::ZERO,
        peak: Peak::default(),
        largest: Vec::new(),
        timeline,
        slack: Bytes::ZERO,
        error_margin: Bytes::ZERO,
        of_all_devices: false,
        caveats: Vec::new(),
    }
}

/// A pass made of a name, a kind and a closure.
pub(crate) struct Fake<F>(pub(crate) &'static str, pub(crate) PassKind, pub(crate) F);

impl<F: Fn(&Context<'_>) -> Vec<Finding>> Pass for Fake<F> {
    fn name(&self) -> &'static str {
        self.0
    }
    fn summary(&self) -> &'static str {
        "a pass of the tests"
    }
    fn explanation(&self) -> &'static str {
        "a pass of the tests\n"
    }
    fn kind(&self) -> PassKind {
        self.1
    }
    fn find(&self, context: &Context<'_>) -> Vec<Finding> {
        (self.2)(context)
    }
}
