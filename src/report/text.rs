//! The report as text for people; its parts also make up `--analyze`.

use std::fmt::Write as _;

use hlo_memory::{Bytes, Details, Estimate, Model};
use hlo_passes::PassKind;
use hlo_passes::manager::{Remark, RemarkKind, Rewrite, Source};

use super::place::place;
use super::{Report, peak_report, target_name};
use crate::curve_point;

/// Writing into a `String` cannot fail.
const INFALLIBLE: &str = "a String takes every write";

/// The whole report.
pub(super) fn write(report: &Report<'_>) -> String {
    let mut out = format!("hlo-opt {} report\n", env!("CARGO_PKG_VERSION"));
    writeln!(out, "module {}, target {}", report.module, target_name(report.target)).expect(INFALLIBLE);
    section(&mut out, "BEFORE", &memory(report.before, report.details[0], usize::MAX));
    section(&mut out, "AFTER", &memory(report.after, report.details[1], usize::MAX));
    let rewrites: String = report.rewrites.iter().enumerate().map(|(index, kept)| rewrite(index + 1, kept)).collect();
    section(&mut out, "REWRITES", &rewrites);
    let remarks: String = report.remarks.iter().map(remark).collect();
    section(&mut out, "REMARKS", &remarks);
    if let Some(points) = report.curve {
        section(&mut out, "MEMORY AGAINST TIME", &curve_point::table(points));
    }
    out
}

/// A heading and its text, or `none`.
fn section(out: &mut String, heading: &str, text: &str) {
    let text = if text.is_empty() { "none\n" } else { text };
    write!(out, "\n{heading}\n{text}").expect(INFALLIBLE);
}

/// The figures of an estimate, its `most` largest buffers at the peak, and what explains them.
pub(crate) fn memory(estimate: &Estimate, details: &Details, most: usize) -> String {
    let mut out = figures(estimate);
    // Whoever reads the total alone must read this.
    for caveat in &estimate.caveats {
        writeln!(out, "caveat: {caveat}").expect(INFALLIBLE);
    }
    out + &peak_report::text(estimate, details, most)
}

/// What a rough model is.
const ROUGH: &str = "rough: the module is not scheduled, and only rules of the compiler are known";

/// The figures of an estimate.
fn figures(estimate: &Estimate) -> String {
    let mut out = String::new();
    let rough = format!("{}, error margin {}", ROUGH, estimate.error_margin);
    let trust = match estimate.model {
        Model::Exact => "exact for jaxlib 0.10.2: the module is scheduled",
        Model::Predicted => "predicted: the module is not scheduled",
        Model::Rough => &rough,
        Model::LiveRange => "model: live-range of the schedule",
        Model::XlaAssignment => "model: xla-assignment, the compiler's own allocation in the dump",
    };
    let mut row = |name: &str, bytes: Bytes, note: &str| {
        let line = format!("{name:<14}{:>12}{:>22} B  {note}", bytes.to_string(), bytes.get());
        writeln!(out, "{}", line.trim_end()).expect(INFALLIBLE);
    };
    let whole = if estimate.of_all_devices { "; of all devices together" } else { "" };
    row("total", estimate.total, &format!("{trust}{whole}"));
    row("  arguments", estimate.arguments, "");
    row("  outputs", estimate.outputs, "");
    if estimate.aliased > Bytes::ZERO {
        row("  aliased", estimate.aliased, "outputs in the memory of arguments, counted in both");
    }
    row("  constants", estimate.constants, "");
    row("  temporaries", estimate.temporaries, "");
    row("  thread-local", estimate.thread_local, "");
    if estimate.host > Bytes::ZERO {
        row("on the host", estimate.host, "beside the total: what is kept in the memory of the host, at most");
    }
    row("floor", estimate.floor, &format!("arguments + outputs - aliased; total / floor = {}", ratio(estimate)));
    out
}

/// How many times the floor the total is.
fn ratio(estimate: &Estimate) -> String {
    if estimate.floor == Bytes::ZERO {
        return "-".to_owned();
    }
    format!("{:.3}", estimate.total.get() as f64 / estimate.floor.get() as f64)
}

/// The same with the line of the library in brackets, or with the name of the operation where no line of the user's is known.
pub(crate) fn made_at(source: &Source) -> String {
    match (&source.line, &source.detail) {
        (Some(line), Some(detail)) => format!(" at {line} ({detail})"),
        (line, None) => place(line.as_deref()),
        (None, Some(name)) => format!(" in {name}"),
    }
}

/// What a rewrite does to the peak.
pub(crate) fn gain(rewrite: &Rewrite) -> String {
    let Rewrite { saved, taken, .. } = rewrite;
    match (rewrite.kind, *taken > Bytes::ZERO) {
        (PassKind::Speed, true) => format!("takes {taken} for speed"),
        (PassKind::Speed, false) if *saved > Bytes::ZERO => format!("for speed, saves {saved}"),
        (PassKind::Speed, false) => "for speed, takes nothing".to_owned(),
        (_, true) => format!("takes {taken}"),
        (PassKind::Rewrite, false) => format!("saves {saved}"),
        (_, false) if *saved == Bytes::ZERO => "enables what follows".to_owned(),
        (_, false) => format!("saves {saved}"),
    }
}

/// A rewrite and the proof of its side conditions.
pub(crate) fn rewrite(id: usize, rewrite: &Rewrite) -> String {
    let Rewrite { pass, computation, instruction, note, .. } = rewrite;
    let (grade, at) = (rewrite.grade.name(), made_at(&rewrite.source));
    let mut out = format!("{id}. {pass} {instruction} of {computation}{at}\n");
    let bytes = Some(rewrite.saved.max(rewrite.taken).get()).filter(|bytes| *bytes > 0);
    let bytes = bytes.map(|bytes| format!(" ({bytes} B)")).unwrap_or_default();
    writeln!(out, "   {}{bytes}, {grade}: {note}", gain(rewrite)).expect(INFALLIBLE);
    for condition in &rewrite.conditions {
        writeln!(out, "   - {} (by {})", condition.text, condition.discharged_by).expect(INFALLIBLE);
    }
    out
}

/// A remark in two lines.
pub(crate) fn remark(remark: &Remark) -> String {
    let kind = match remark.kind {
        RemarkKind::Missed => "missed",
        RemarkKind::Analysis => "note",
    };
    let at = made_at(&remark.source);
    let Remark { pass, instruction, code, message, bytes, .. } = remark;
    format!("{kind}: {pass} {instruction}{at}, {bytes} [{code}]\n   {message}\n")
}

#[cfg(test)]
mod tests {
    use hlo_passes::Grade;

    use super::*;

    #[test]
    fn what_a_change_gives_and_takes_is_said_of_each_kind() {
        let said = |kind, saved, taken| {
            gain(&Rewrite {
                pass: "any",
                kind,
                computation: "e".into(),
                instruction: "x".into(),
                grade: Grade::Bitwise,
                saved: Bytes(saved),
                taken: Bytes(taken),
                source: Source::default(),
                note: String::new(),
                conditions: Vec::new(),
            })
        };
        assert_eq!(said(PassKind::Speed, 0, 0), "for speed, takes nothing");
        assert_eq!(said(PassKind::Speed, 1024, 0), "for speed, saves 1.00 KiB");
        assert_eq!(said(PassKind::Speed, 0, 1024), "takes 1.00 KiB for speed");
        assert_eq!(said(PassKind::Rewrite, 1024, 0), "saves 1.00 KiB");
        assert_eq!(said(PassKind::Rewrite, 0, 1024), "takes 1.00 KiB");
    }
}
