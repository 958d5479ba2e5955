//! The full report of a run: what is in it ([`Report`]) and the forms it can be written in.
//!
//! Reports never compute: every figure was found by the memory model or by the pass manager.

mod json;
mod text;

use std::path::Path;

use hlo_memory::{Estimate, Target};
use hlo_passes::manager::{Remark, Rewrite, RunReport};

pub(crate) use text::{estimate as estimate_text, place};

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
    rewrites: &'a [Rewrite],
    remarks: &'a [Remark],
}

impl<'a> Report<'a> {
    /// The report of a run of passes.
    pub(crate) fn of_run(module: &'a str, target: Target, run: &'a RunReport) -> Self {
        let RunReport { before, after, rewrites, remarks } = run;
        Self { module, target, before, after, rewrites, remarks }
    }
    /// The report of a module that was only looked at.
    pub(crate) fn of_estimate(module: &'a str, target: Target, estimate: &'a Estimate) -> Self {
        Self { module, target, before: estimate, after: estimate, rewrites: &[], remarks: &[] }
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
