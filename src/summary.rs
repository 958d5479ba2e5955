//! The short summary that ends a rewriting run on standard error.

// Tests: `tests/cli.rs`.

use hlo_memory::{Bytes, Estimate};
use hlo_passes::manager::{Remark, RemarkKind, Rewrite, RunReport};
use hlo_passes::{Machine, PassKind};
use indexmap::IndexMap;

use crate::report::{gain, made_at};

/// One line for the peak, one for the memory of the machine if one was named, one per rewrite, one per missed chance that is worth more than 1 % of the remaining peak, and
/// one per rewrite that a limit keeps away.
pub(crate) fn text(module: &str, report: &RunReport, peak: Option<Bytes>, machine: Option<&Machine>) -> String {
    // A form that was asked for and not made is worth a line whatever it would save.
    let form = |remark: &&Remark| remark.kind == RemarkKind::Missed && remark.pass == "unfuse";
    // Whoever looks for the rewrite that is to blame counts them.
    let numbered = |remark: &&Remark| remark.code == "bisect-limit";
    let is_said = |remark: &&Remark| worth_saying(remark, report.after.total) || form(remark) || numbered(remark);
    let missed = report.remarks.iter().filter(is_said);
    let ours = &report.before.caveats;
    let caveats = ours.iter().chain(report.after.caveats.iter().filter(|caveat| !ours.contains(caveat)));
    let caveats = caveats.map(|caveat| format!("  caveat: {caveat}\n"));
    let left = left(report);
    let rewrites = report.rewrites.iter().map(rewrite_line);
    let notes = report.remarks.iter().filter(|remark| remark.code == "scheduled");
    let notes = notes.map(|remark| format!("  {}\n", remark.message));
    let machine = machine.filter(|_| !report.after.of_all_devices);
    let fits = machine.and_then(|machine| fits(peak, &report.after, machine));
    let lines =
        [headline(module, report)].into_iter().chain(fits).chain(rewrites).chain(missed.map(missed_line)).chain(left);
    lines.chain(caveats).chain(notes).collect()
}

fn headline(module: &str, report: &RunReport) -> String {
    let whole = if report.before.of_all_devices { ", of all devices together" } else { "" };
    let [first, last] = [&report.before, &report.after].map(|estimate| estimate.model.name());
    let (before, after, floor) = (report.before.total, report.after.total, report.after.floor);
    let hidden = hidden(report);
    if report.rewrites.is_empty() {
        return format!("{module}: peak {before} (floor {floor}, {first}{whole}){hidden}, nothing rewritten\n");
    }
    let trust = if first == last { last.to_owned() } else { format!("{first} before, {last} after") };
    let time = report.slowdown.map_or_else(String::new, |slowdown| format!(", estimated time x {slowdown:.2}"));
    let host = report.after.host;
    let host = if host > report.before.host { format!(" and {host} on the host") } else { String::new() };
    format!("{module}: peak {before} -> {after} (floor {floor}, {trust}{whole}){hidden}{host}{time}\n")
}

/// Whether the program fits the memory of a machine, with all that the compiler may need beyond the estimate; what has no peak does not.
fn fits(peak: Option<Bytes>, after: &Estimate, machine: &Machine) -> Option<String> {
    let memory = machine.memory?;
    let verb = match peak {
        Some(peak) if peak <= memory => "fits",
        Some(peak) if peak == after.certain() && after.likely() <= memory => "may not fit",
        _ => "does not fit",
    };
    Some(format!("  {verb} the {memory} of {}\n", machine.name))
}

/// What XLA's peak leaves out, if it would count.
fn hidden(report: &RunReport) -> String {
    let (before, after) = (report.before.hidden_scratch, report.after.hidden_scratch);
    if u128::from(before.max(after).get()) * 100 < u128::from(report.before.total.get()) {
        return String::new();
    }
    let change = if before == after { before.to_string() } else { format!("{before} -> {after}") };
    format!(" and {change} inside library calls")
}

fn rewrite_line(rewrite: &Rewrite) -> String {
    let Rewrite { pass, instruction, note, .. } = rewrite;
    let (grade, at) = (rewrite.grade.name(), made_at(&rewrite.source));
    let gain = if rewrite.saved == rewrite.taken && rewrite.kind != PassKind::Speed {
        String::new()
    } else {
        format!("{}, ", gain(rewrite))
    };
    format!("  {pass} {instruction}{at}: {gain}{grade}: {note}\n")
}

fn worth_saying(remark: &Remark, peak: Bytes) -> bool {
    remark.kind == RemarkKind::Missed && u128::from(remark.bytes.get()) * 100 > u128::from(peak.get())
}

/// One line for each reason why large buffers are still there, with the largest of them; not those of which a missed chance is said.
fn left(report: &RunReport) -> Vec<String> {
    let remarks = &report.remarks;
    // What other flags would give is said of the module, at its root, not of that buffer.
    let of_buffer = |remark: &Remark| remark.code != "more-freedom" && worth_saying(remark, report.after.total);
    let said = |id| remarks.iter().any(|remark| remark.id == id && of_buffer(remark));
    let mut by_code: IndexMap<&str, Vec<&Remark>> = IndexMap::new();
    let held = remarks.iter().filter(|remark| remark.kind == RemarkKind::Analysis && remark.bytes > Bytes::ZERO);
    for remark in held.filter(|remark| !said(remark.id)) {
        by_code.entry(remark.code).or_default().push(remark);
    }
    let line = |(code, remarks): (&str, Vec<&Remark>)| {
        let largest = remarks.iter().copied().max_by_key(|remark| remark.bytes)?;
        let (at, instruction) = (made_at(&largest.source), &largest.instruction);
        let sum: Bytes = remarks.iter().map(|remark| remark.bytes).sum();
        let of = match remarks.len() {
            1 => format!("{sum}, {instruction}{at}"),
            count => format!("{sum} in {count} buffers, the largest {instruction}{at}, {}", largest.bytes),
        };
        Some(format!("  left: {of}: {} [{code}]\n", largest.message))
    };
    by_code.into_iter().filter_map(line).collect()
}

fn missed_line(remark: &Remark) -> String {
    if remark.code == "more-freedom" {
        return format!("  possible: {} [{}]\n", remark.message, remark.code);
    }
    let Remark { pass, instruction, code, message, bytes, .. } = remark;
    format!("  missed: {pass} {instruction}{}, {bytes}: {message} [{code}]\n", made_at(&remark.source))
}
