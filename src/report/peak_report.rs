//! Who holds the memory at the peak as text: the largest buffers with the reason why they are alive, sums by source line and by operation,
//! the gap above the floor, and what other interfaces would save.

use std::fmt::Write as _;

use hlo_memory::attribution::{Attribution, Change, Group, Hidden, Holder, Role, WhatIf};
use hlo_memory::{Bytes, Details, Estimate, Model};

use super::place;

/// Writing into a `String` cannot fail.
const INFALLIBLE: &str = "a String takes every write";

/// Lines of each list of sums.
const GROUPS: usize = 10;

/// Everything below the figures.
pub(super) fn text(estimate: &Estimate, details: &Details, most: usize) -> String {
    let attribution = &details.attribution;
    let peak = estimate.peak.bytes;
    let mut out = heading(estimate, attribution);
    for holder in attribution.holders.iter().take(most) {
        let line = place::holder(&holder.buffer);
        writeln!(out, "  {line}  [{}]", why(holder)).expect(INFALLIBLE);
    }
    let left = attribution.holders.len().saturating_sub(most);
    let hidden: Bytes = attribution.holders.iter().skip(most).map(|holder| holder.buffer.bytes).sum();
    let (left, hidden) = (left + attribution.unlisted, hidden + attribution.unlisted_bytes);
    if left > 0 {
        writeln!(out, "  {:>12}  in {left} smaller ones", hidden.to_string()).expect(INFALLIBLE);
    }
    groups(&mut out, "by source line", &attribution.by_source, peak);
    groups(&mut out, "by operation", &attribution.by_path, peak);
    gap(&mut out, estimate, attribution);
    scratch(&mut out, &attribution.hidden_scratch);
    what_ifs(&mut out, &details.what_ifs, estimate.model);
    out
}

fn heading(estimate: &Estimate, attribution: &Attribution) -> String {
    let peak = &estimate.peak;
    if peak.instruction.is_empty() {
        return String::new();
    }
    let (step, steps) = (attribution.peak_step + 1, attribution.steps);
    format!("peak of {} while {} of {} runs (step {step} of {steps})\n", peak.bytes, peak.instruction, peak.computation)
}

/// Why a buffer is alive, in a few words.
pub(super) fn why(holder: &Holder) -> String {
    let mut parts = vec![match holder.role {
        Role::Argument { number, donated: false } => format!("argument {number}"),
        Role::Argument { number, donated: true } => format!("argument {number}, donated"),
        Role::Constant => "constant".to_owned(),
        Role::Output => "output".to_owned(),
        Role::Temporary => "temporary".to_owned(),
        Role::InOutput => "temporary in an output's memory".to_owned(),
    }];
    if let Some(name) = &holder.carried_by {
        parts.push(format!("carried by loop {name}"));
    } else if let Some(name) = &holder.aliased_with {
        parts.push(format!("becomes {name}"));
    }
    if let Some(user) = &holder.next_user {
        parts.push(format!("next read by {}", user.instruction));
    }
    if holder.padding > Bytes::ZERO {
        parts.push(format!("{} of padding", holder.padding));
    }
    parts.join("; ")
}

fn groups(out: &mut String, heading: &str, groups: &[Group], peak: Bytes) {
    if groups.is_empty() {
        return;
    }
    writeln!(out, "{heading}").expect(INFALLIBLE);
    for group in groups.iter().take(GROUPS) {
        let Group { key, bytes, count, largest } = group;
        let buffers = if *count == 1 { largest.to_string() } else { format!("{count} buffers, {largest} the largest") };
        writeln!(out, "  {:>12} {:>6}  {key}: {buffers}", bytes.to_string(), share(*bytes, peak)).expect(INFALLIBLE);
    }
    if groups.len() > GROUPS {
        let rest: Bytes = groups[GROUPS..].iter().map(|group| group.bytes).sum();
        let (bytes, share) = (rest.to_string(), share(rest, peak));
        writeln!(out, "  {bytes:>12} {share:>6}  in {} more", groups.len() - GROUPS).expect(INFALLIBLE);
    }
}

/// `61%` of a whole.
fn share(part: Bytes, whole: Bytes) -> String {
    if whole == Bytes::ZERO {
        return "-".to_owned();
    }
    format!("{:.0}%", 100.0 * part.get() as f64 / whole.get() as f64)
}

fn gap(out: &mut String, estimate: &Estimate, attribution: &Attribution) {
    let gap = estimate.total - estimate.floor;
    if gap == Bytes::ZERO {
        return;
    }
    writeln!(out, "gap above the floor: {gap}").expect(INFALLIBLE);
    let parts = &attribution.gap;
    let mut row = |bytes: Bytes, what: &str| {
        if bytes > Bytes::ZERO {
            writeln!(out, "  {:>12} {:>6}  {what}", bytes.to_string(), share(bytes, gap)).expect(INFALLIBLE);
        }
    };
    for group in parts.temporaries.iter().take(GROUPS) {
        row(group.bytes, &format!("temporaries of {}", group.key));
    }
    row(parts.temporaries.iter().skip(GROUPS).map(|group| group.bytes).sum(), "other temporaries");
    row(parts.idle, "temporaries' memory not in use at the peak");
    row(parts.constants, "constants");
    row(parts.thread_local, "scratch of reducers and comparators");
}

fn scratch(out: &mut String, hidden: &[Hidden]) {
    let Some(first) = hidden.first() else { return };
    let Hidden { instruction, computation, source, bytes } = first;
    let others = match hidden.len() {
        1 => String::new(),
        count => format!(" ({} others need less or as much)", count - 1),
    };
    let at = place::place(source.as_deref());
    writeln!(
        out,
        "beside the total: about {bytes} inside library fusion {instruction} of {computation}{at} while it runs{others}"
    )
    .expect(INFALLIBLE);
}

fn what_ifs(out: &mut String, what_ifs: &[WhatIf], model: Model) {
    if what_ifs.is_empty() {
        return;
    }
    // Of a program XLA's own choices are predicted; a schedule stays as it is here, and XLA would make another.
    let scheduled = matches!(model, Model::Exact | Model::LiveRange | Model::XlaAssignment);
    let as_it_is =
        if scheduled { " (this schedule stayed; the module before optimizations tells what XLA would do)" } else { "" };
    writeln!(out, "what if{as_it_is}").expect(INFALLIBLE);
    for what_if in what_ifs {
        writeln!(out, "  {:>12} less: {}", what_if.saved.to_string(), change(&what_if.change)).expect(INFALLIBLE);
    }
}

/// A change of the interface in words.
pub(super) fn change(change: &Change) -> String {
    match change {
        Change::Donate { parameter, name, shape } => {
            format!("donate argument {parameter}, {name} {shape}: an output of its shape takes over its memory")
        }
        Change::DonateAll { count } => format!("donate all {count} arguments that have the shape of an output"),
        Change::NarrowIndex { parameter, name, from, to, bound } => format!(
            "pass the indices in argument {parameter}, {name}, as {} instead of {}: they select among {bound} at most",
            to.name(),
            from.name()
        ),
    }
}
