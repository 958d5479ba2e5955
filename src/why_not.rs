//! `--why-not PASS`: what a pass did with a module and what kept it from more, as text on standard output.

// Tests: `tests/cli_watch.rs`.

use hlo_passes::Pass;

use crate::Optimized;
use crate::report::{remark_text, rewrite_text};

/// Rewrites and remarks of one pass; `alone` is the same pass without the others, asked when it has neither. Without any rewrite the part
/// of its page follows that says when it stays away.
pub(crate) fn text(pass: &dyn Pass, outcome: &Optimized, alone: impl FnOnce() -> Option<Optimized>) -> String {
    let report = &outcome.report;
    let (before, after) = (report.before.total, report.after.total);
    let peak = if before == after { before.to_string() } else { format!("{before} -> {after}") };
    let mut out = format!("{} on {}: peak {peak}, floor {}\n", pass.name(), outcome.module, report.after.floor);
    let (rewrites, remarks) = of_pass(pass, outcome);
    let silent = rewrites.is_empty() && remarks.is_empty();
    out += &rewrites;
    out += &remarks;
    if silent {
        let (rewrites, remarks) = alone().map(|alone| of_pass(pass, &alone)).unwrap_or_default();
        out += match (rewrites.is_empty(), remarks.is_empty()) {
            (true, true) => "it found nothing to rewrite and missed nothing it knows of\n",
            _ => "other passes left nothing for it; alone it would come to this:\n",
        };
        out += &rewrites;
        out += &remarks;
    }
    if rewrites.is_empty() {
        out += &page_on_limits(pass);
    }
    out
}

/// What a pass did and what it missed.
fn of_pass(pass: &dyn Pass, outcome: &Optimized) -> (String, String) {
    let name = pass.name();
    let numbered = outcome.report.rewrites.iter().enumerate().filter(|(_, rewrite)| rewrite.pass == name);
    let rewrites = numbered.map(|(index, rewrite)| rewrite_text(index + 1, rewrite)).collect();
    let remarks = outcome.report.remarks.iter().filter(|remark| remark.pass == name).map(remark_text).collect();
    (rewrites, remarks)
}

/// The paragraphs of the pass's page from `Stays away` on.
fn page_on_limits(pass: &dyn Pass) -> String {
    let page = pass.explanation();
    page.find("Stays away").map(|at| format!("\n{}\n", page[at..].trim_end())).unwrap_or_default()
}
