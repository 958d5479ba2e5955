//! `--analyze`: the memory of a module as text on standard output.

use hlo_memory::Target;

use crate::Analysis;
use crate::report::estimate_text;

/// Buffers shown; the full list is in the report file.
const SHOWN: usize = 10;

/// The module's name, figures and largest buffers at the peak.
pub(crate) fn text(analysis: &Analysis, target: Target) -> String {
    let compiler = match target {
        Target::Cpu => "XLA:CPU",
        Target::Tpu => "XLA:TPU",
        Target::Gpu => "XLA:GPU",
    };
    format!("{} on {compiler}\n{}", analysis.module, estimate_text(&analysis.estimate, SHOWN))
}
