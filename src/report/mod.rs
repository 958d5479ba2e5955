//! The full report of a run: what is in it ([`Report`]) and the forms it can be written in.
//!
//! Reports never compute: every figure was found by the memory model or by the pass manager.

mod holders;
mod json;
mod json_details;
mod text;

use std::path::Path;

use hlo_memory::{Details, Estimate, Target};
use hlo_passes::manager::{Remark, Rewrite, RunReport};

use crate::Analysis;

pub(crate) use text::{memory as memory_text, place, remark as remark_text, rewrite as rewrite_text};

/// The form of a report file.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Format {
    /// For programs; `docs/report.schema.json` describes it.
    Json,
    /// For people.
    Text,
}

impl Format {
    /// The form that the extension of `path` asks for.
    pub(crate) fn of(path: &Path) -> Option<Self> {
        match path.extension()?.to_str()? {
            "json" => Some(Self::Json),
            "txt" => Some(Self::Text),
            _ => None,
        }
    }
}

/// What a report says.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Report<'a> {
    module: &'a str,
    target: Target,
    before: &'a Estimate,
    after: &'a Estimate,
    details: Option<[&'a Details; 2]>,
    rewrites: &'a [Rewrite],
    remarks: &'a [Remark],
}

impl<'a> Report<'a> {
    /// The report of a run of passes; `details` explain the memory before and after.
    pub(crate) fn of_run(module: &'a str, target: Target, run: &'a RunReport, details: &'a [Details; 2]) -> Self {
        let RunReport { before, after, rewrites, remarks, statistics: _ } = run;
        Self { module, target, before, after, details: Some(details.each_ref()), rewrites, remarks }
    }
    /// The report of a module that was only looked at.
    pub(crate) fn of_analysis(analysis: &'a Analysis, target: Target) -> Self {
        let Analysis { module, estimate, details } = analysis;
        let details = Some([details, details]);
        Self { module, target, before: estimate, after: estimate, details, rewrites: &[], remarks: &[] }
    }
    /// The report's text.
    pub(crate) fn write(&self, format: Format) -> String {
        match format {
            Format::Json => json::write(self),
            Format::Text => text::write(self),
        }
    }
}

/// The spelling of a target in flags and reports.
const fn target_name(target: Target) -> &'static str {
    match target {
        Target::Cpu => "cpu",
        Target::Tpu => "tpu",
        Target::Gpu => "gpu",
    }
}
