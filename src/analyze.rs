//! `--analyze`: the memory of a module as text on standard output.

// Tests: `tests/cli.rs`.

use std::cmp::Ordering;

use hlo_memory::{Bytes, Target};

use crate::Analysis;
use crate::report::memory_text;

/// Buffers shown; the full list is in the report file.
const SHOWN: usize = 10;

/// The module's name, its figures, the largest buffers at the peak, and what explains them.
pub(crate) fn text(analysis: &Analysis, xla_total: Option<Bytes>) -> String {
    let compiler = match analysis.target {
        Target::Cpu => "XLA:CPU",
        Target::Tpu => "XLA:TPU",
        Target::Gpu => "XLA:GPU",
    };
    let memory = memory_text(&analysis.estimate, &analysis.details, SHOWN);
    let own = xla_total.map(|own| beside(analysis.estimate.total, own)).unwrap_or_default();
    format!("{} on {compiler}\n{own}{memory}", analysis.module)
}

/// XLA's own figure and how far ours is from it.
fn beside(ours: Bytes, own: Bytes) -> String {
    let percent = || format!("{:.2} %", 100.0 * (ours.get() as f64 - own.get() as f64) / own.get() as f64);
    let verdict = match ours.cmp(&own) {
        Ordering::Equal => "equal to ours".to_owned(),
        Ordering::Greater => format!("ours is {} more ({})", ours - own, percent()),
        Ordering::Less => format!("ours is {} less ({})", own - ours, percent()),
    };
    format!("{:<14}{:>12}{:>22} B  {verdict}\n", "XLA's report", own.to_string(), own.get())
}
