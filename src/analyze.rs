//! `--analyze`: the memory of a module as text on standard output.

use hlo_memory::Target;

use crate::Analysis;
use crate::report::memory_text;

/// Buffers shown; the full list is in the report file.
const SHOWN: usize = 10;

/// The module's name, its figures, the largest buffers at the peak, and what explains them.
pub(crate) fn text(analysis: &Analysis, target: Target) -> String {
    let compiler = match target {
        Target::Cpu => "XLA:CPU",
        Target::Tpu => "XLA:TPU",
        Target::Gpu => "XLA:GPU",
    };
    let memory = memory_text(&analysis.estimate, &analysis.details, SHOWN);
    format!("{} on {compiler}\n{memory}", analysis.module)
}
