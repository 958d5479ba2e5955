//! The part of the JSON report that explains an estimate: holders of the peak, sums, gap, what-ifs and the course of memory.

use hlo_memory::Details;
use hlo_memory::attribution::{Attribution, Change, Gap, Group, Hidden, Holder, Point, WhatIf};
use serde::Serialize;

use super::peak_report;

#[derive(Serialize)]
pub(super) struct JsonDetails<'a> {
    peak_step: u32,
    steps: u32,
    holders: Vec<JsonHolder<'a>>,
    unlisted: JsonUnlisted,
    by_source: Vec<JsonGroup<'a>>,
    by_path: Vec<JsonGroup<'a>>,
    gap: JsonGap<'a>,
    hidden_scratch: Vec<JsonHidden<'a>>,
    what_if: Vec<JsonWhatIf<'a>>,
    timeline: Vec<JsonPoint<'a>>,
}

#[derive(Serialize)]
struct JsonHolder<'a> {
    instruction: &'a str,
    computation: &'a str,
    shape: &'a str,
    bytes: u64,
    padding: u64,
    op_name: Option<&'a str>,
    source: Option<&'a str>,
    role: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    argument: Option<i64>,
    first_step: u32,
    last_step: u32,
    next_user: Option<&'a str>,
    aliased_with: Option<&'a str>,
    carried_by: Option<&'a str>,
    stack: Vec<String>,
}

#[derive(Serialize)]
struct JsonUnlisted {
    count: usize,
    bytes: u64,
}

#[derive(Serialize)]
struct JsonGroup<'a> {
    key: &'a str,
    bytes: u64,
    count: usize,
    largest: &'a str,
}

#[derive(Serialize)]
struct JsonGap<'a> {
    temporaries: Vec<JsonGroup<'a>>,
    idle: u64,
    constants: u64,
    thread_local: u64,
}

#[derive(Serialize)]
struct JsonHidden<'a> {
    instruction: &'a str,
    computation: &'a str,
    source: Option<&'a str>,
    bytes: u64,
}

#[derive(Serialize)]
struct JsonWhatIf<'a> {
    change: &'static str,
    argument: Option<i64>,
    name: Option<&'a str>,
    element_type: Option<&'static str>,
    saved_bytes: u64,
    note: String,
}

#[derive(Serialize)]
struct JsonPoint<'a> {
    step: u32,
    bytes: u64,
    instruction: &'a str,
    computation: &'a str,
    source: Option<&'a str>,
}

/// The JSON form of details.
pub(super) fn details(details: &Details) -> JsonDetails<'_> {
    let Attribution {
        peak_step,
        steps,
        holders,
        unlisted,
        unlisted_bytes,
        by_source,
        by_path,
        gap: parts,
        hidden_scratch: hidden,
        points,
    } = &details.attribution;
    JsonDetails {
        peak_step: *peak_step,
        steps: *steps,
        holders: holders.iter().map(holder).collect(),
        unlisted: JsonUnlisted { count: *unlisted, bytes: unlisted_bytes.get() },
        by_source: by_source.iter().map(group).collect(),
        by_path: by_path.iter().map(group).collect(),
        gap: gap(parts),
        hidden_scratch: hidden.iter().map(scratch).collect(),
        what_if: details.what_ifs.iter().map(what_if).collect(),
        timeline: points.iter().map(point).collect(),
    }
}

fn holder(holder: &Holder) -> JsonHolder<'_> {
    let frame = |frame: &hlo_ir::StackFrame| {
        let place = format!("{}:{}", frame.line.file, frame.line.line);
        if frame.function.is_empty() { place } else { format!("{place} {}", frame.function) }
    };
    JsonHolder {
        instruction: &holder.buffer.instruction,
        computation: &holder.computation,
        shape: &holder.buffer.shape,
        bytes: holder.buffer.bytes.get(),
        padding: holder.padding.get(),
        op_name: holder.buffer.op_name.as_deref(),
        source: holder.buffer.source.as_deref(),
        role: holder.role.name(),
        argument: holder.role.argument(),
        first_step: holder.steps.0,
        last_step: holder.steps.1,
        next_user: holder.next_user.as_ref().map(|user| user.instruction.as_str()),
        aliased_with: holder.aliased_with.as_deref(),
        carried_by: holder.carried_by.as_deref(),
        stack: holder.stack.iter().map(frame).collect(),
    }
}

fn group(group: &Group) -> JsonGroup<'_> {
    JsonGroup { key: &group.key, bytes: group.bytes.get(), count: group.count, largest: &group.largest }
}

fn gap(gap: &Gap) -> JsonGap<'_> {
    JsonGap {
        temporaries: gap.temporaries.iter().map(group).collect(),
        idle: gap.idle.get(),
        constants: gap.constants.get(),
        thread_local: gap.thread_local.get(),
    }
}

fn scratch(hidden: &Hidden) -> JsonHidden<'_> {
    JsonHidden {
        instruction: &hidden.instruction,
        computation: &hidden.computation,
        source: hidden.source.as_deref(),
        bytes: hidden.bytes.get(),
    }
}

fn what_if(what_if: &WhatIf) -> JsonWhatIf<'_> {
    let (change, argument, name, element_type) = match &what_if.change {
        Change::Donate { parameter, name, .. } => ("donate", Some(*parameter), Some(name.as_str()), None),
        Change::DonateAll { .. } => ("donate-all", None, None, None),
        Change::NarrowIndex { parameter, name, to, .. } => {
            ("narrow-index", Some(*parameter), Some(name.as_str()), Some(to.name()))
        }
    };
    let note = peak_report::change(&what_if.change);
    JsonWhatIf { change, argument, name, element_type, saved_bytes: what_if.saved.get(), note }
}

fn point(point: &Point) -> JsonPoint<'_> {
    JsonPoint {
        step: point.step,
        bytes: point.bytes.get(),
        instruction: &point.instruction,
        computation: &point.computation,
        source: point.source.as_deref(),
    }
}
