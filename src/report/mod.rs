//! The full report of a run: what is in it ([`Report`]) and the forms it can be written in.
//!
//! Reports never compute: every figure was found by the memory model or by the pass manager.

// Tests: `tests/reports.rs`.

mod html;
mod json;
mod json_details;
mod peak_report;
mod place;
mod pprof;
mod sarif;
mod text;
mod trace;
mod xla;

use std::path::Path;

use hlo_memory::{Bytes, Details, Estimate, Target};
use hlo_passes::manager::{Remark, Rewrite, RunReport};

use crate::Analysis;
use crate::answer::Verdict;
use crate::curve_point::Point;

pub(crate) use text::{gain, made_at, memory as memory_text, remark as remark_text, rewrite as rewrite_text};
pub(crate) use xla::{allocations as xla_allocations, memory_usage as xla_memory_usage};

/// The form of a report file.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Format {
    /// For programs; `docs/report.schema.json` describes it.
    Json,
    /// For people.
    Text,
    /// For people, in a browser.
    Html,
    /// The course of memory, for Perfetto and Chrome's tracing page.
    Trace,
    /// The peak by call stack, for pprof.
    Pprof,
    /// Remarks beside the lines of the program, for code hosts.
    Sarif,
}

/// Ends of file names and the forms they ask for; the first that fits counts.
const ENDINGS: [(&str, Format); 6] = [
    (".perfetto.json", Format::Trace),
    (".json", Format::Json),
    (".txt", Format::Text),
    (".html", Format::Html),
    (".pprof.pb.gz", Format::Pprof),
    (".sarif", Format::Sarif),
];

/// Name and version of this tool, as reports carry it.
const TOOL: &str = concat!("hlo-opt ", env!("CARGO_PKG_VERSION"));

impl Format {
    /// The form that the end of a file's name asks for.
    pub(crate) fn of(path: &Path) -> Option<Self> {
        let name = path.file_name()?.to_str()?;
        ENDINGS.iter().find(|(ending, _)| name.ends_with(ending)).map(|&(_, format)| format)
    }
}

/// What a report says.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Report<'a> {
    module: &'a str,
    target: Target,
    before: &'a Estimate,
    after: &'a Estimate,
    details: [&'a Details; 2],
    xla_total: Option<Bytes>,
    budget: Option<Bytes>,
    verdict: Option<&'a Verdict>,
    curve: Option<&'a [Point]>,
    slowdown: Option<f64>,
    rewrites: &'a [Rewrite],
    remarks: &'a [Remark],
}

impl<'a> Report<'a> {
    /// The report of a run of passes; `details` explain the memory before and after.
    pub(crate) fn of_run(module: &'a str, target: Target, run: &'a RunReport, details: &'a [Details; 2]) -> Self {
        let RunReport { before, after, slowdown, rewrites, remarks, statistics: _, recording: _ } = run;
        let details = details.each_ref();
        Self {
            module,
            target,
            before,
            after,
            details,
            xla_total: None,
            budget: None,
            verdict: None,
            curve: None,
            slowdown: *slowdown,
            rewrites,
            remarks,
        }
    }
    /// The report of a module that was only looked at.
    pub(crate) fn of_analysis(analysis: &'a Analysis, target: Target) -> Self {
        let Analysis { module, estimate, details, .. } = analysis;
        let details = [details, details];
        Self {
            module,
            target,
            before: estimate,
            after: estimate,
            details,
            xla_total: None,
            budget: None,
            verdict: None,
            curve: None,
            slowdown: None,
            rewrites: &[],
            remarks: &[],
        }
    }
    /// The same beside XLA's own total for the module.
    pub(crate) const fn beside(mut self, xla_total: Option<Bytes>) -> Self {
        self.xla_total = xla_total;
        self
    }
    /// The same held against a budget.
    pub(crate) const fn within(mut self, budget: Option<Bytes>) -> Self {
        self.budget = budget;
        self
    }
    /// The same with what the compiler said.
    pub(crate) const fn judged(mut self, verdict: Option<&'a Verdict>) -> Self {
        self.verdict = verdict;
        self
    }
    /// The peak of the result, by the judge if there was one; `None` if it refuses the result.
    pub(crate) fn peak(&self) -> Option<Bytes> {
        peak(self.verdict, self.after)
    }
    /// The same with the curve of memory against time.
    pub(crate) const fn with_curve(mut self, curve: Option<&'a [Point]>) -> Self {
        self.curve = curve;
        self
    }
    /// The report as JSON text.
    pub(crate) fn json(&self) -> String {
        json::write(self)
    }
    /// The report's bytes.
    pub(crate) fn write(&self, format: Format) -> Vec<u8> {
        match format {
            Format::Json => self.json().into_bytes(),
            Format::Text => text::write(self).into_bytes(),
            Format::Html => html::write(self).into_bytes(),
            Format::Trace => trace::write(self).into_bytes(),
            Format::Pprof => pprof::write(self),
            Format::Sarif => sarif::write(self, std::env::current_dir().ok().as_deref()).into_bytes(),
        }
    }
    /// What explains the memory: before and after where something was rewritten, otherwise the one thing there is.
    fn sides(&self) -> Vec<(Option<&'static str>, &'a Details)> {
        let [before, after] = self.details;
        match self.rewrites {
            [] => vec![(None, before)],
            _ => vec![(Some("before"), before), (Some("after"), after)],
        }
    }
}

/// The peak of a result: the judge's figure if it was asked, and `None` if it refuses the result; else the estimate with all that XLA may need beyond it.
pub(crate) fn peak(verdict: Option<&Verdict>, after: &Estimate) -> Option<Bytes> {
    verdict.map_or_else(|| Some(after.certain()), |verdict| verdict.after.figures().map(|figures| figures.total))
}

/// The spelling of a target in flags and reports.
pub(crate) const fn target_name(target: Target) -> &'static str {
    match target {
        Target::Cpu => "cpu",
        Target::Tpu => "tpu",
        Target::Gpu => "gpu",
    }
}
