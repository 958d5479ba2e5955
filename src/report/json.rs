//! The report as JSON, version 1. The structures below are the format: `docs/report.schema.json` says the same as a schema, and a test
//! compares the two.

use hlo_memory::{Bytes, Details, Estimate, LiveBuffer, Model};
use hlo_passes::manager::{Remark, RemarkKind, Rewrite};
use hlo_passes::{Condition, Grade};
use serde::Serialize;

use super::json_details::{self, JsonDetails};
use super::{Report, TOOL, target_name};
use crate::curve_point::Point;
use crate::verdict::JsonVerdict;

/// Version of the format; it changes whenever a reader of the old one could be misled.
const VERSION: u32 = 1;

#[derive(Serialize)]
struct JsonReport<'a> {
    version: u32,
    tool: &'static str,
    module: &'a str,
    target: &'static str,
    before: JsonEstimate<'a>,
    after: JsonEstimate<'a>,
    #[serde(skip_serializing_if = "Option::is_none")]
    estimated_slowdown: Option<f64>,
    rewrites: Vec<JsonRewrite<'a>>,
    remarks: Vec<JsonRemark<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    judge: Option<JsonVerdict<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    curve: Option<Vec<JsonPoint<'a>>>,
}

#[derive(Serialize)]
struct JsonEstimate<'a> {
    total_bytes: u64,
    model: &'static str,
    arguments: u64,
    outputs: u64,
    constants: u64,
    temporaries: u64,
    floor: u64,
    peak: JsonPeak<'a>,
    largest: Vec<JsonBuffer<'a>>,
    aliased: u64,
    thread_local: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    host_bytes: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    error_margin_bytes: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    xla_total_bytes: Option<u64>,
    caveats: &'a [String],
    details: JsonDetails<'a>,
}

#[derive(Serialize)]
struct JsonPeak<'a> {
    instruction: &'a str,
    computation: &'a str,
    bytes: u64,
}

#[derive(Serialize)]
struct JsonBuffer<'a> {
    instruction: &'a str,
    shape: &'a str,
    bytes: u64,
    op_name: Option<&'a str>,
    source: Option<&'a str>,
}

#[derive(Serialize)]
struct JsonRewrite<'a> {
    id: usize,
    pass: &'a str,
    computation: &'a str,
    instruction: &'a str,
    grade: &'static str,
    kind: &'static str,
    saved_bytes: u64,
    taken_bytes: u64,
    source: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    detail: Option<&'a str>,
    note: &'a str,
    conditions: Vec<JsonCondition<'a>>,
}

#[derive(Serialize)]
struct JsonCondition<'a> {
    text: &'a str,
    discharged_by: &'a str,
}

#[derive(Serialize)]
struct JsonRemark<'a> {
    kind: &'static str,
    pass: &'a str,
    instruction: &'a str,
    code: &'a str,
    message: &'a str,
    bytes: u64,
    source: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    detail: Option<&'a str>,
}

#[derive(Serialize)]
struct JsonPoint<'a> {
    total_bytes: u64,
    seconds: f64,
    is_certain: bool,
    rewrites: usize,
    grade: Option<&'static str>,
    step: &'a str,
}

/// Everything in a report can be written as JSON.
const SERIALIZES: &str = "strings and integers always serialize";

/// The report as indented JSON with a final newline.
pub(super) fn write(report: &Report<'_>) -> String {
    serde_json::to_string_pretty(&document(report)).expect(SERIALIZES) + "\n"
}

/// The same in one line.
pub(super) fn compact(report: &Report<'_>) -> String {
    serde_json::to_string(&document(report)).expect(SERIALIZES)
}

fn document<'a>(report: &Report<'a>) -> JsonReport<'a> {
    let xla_total_bytes = report.xla_total.map(Bytes::get);
    JsonReport {
        version: VERSION,
        tool: TOOL,
        module: report.module,
        target: target_name(report.target),
        before: JsonEstimate { xla_total_bytes, ..estimate(report.before, report.details[0]) },
        after: estimate(report.after, report.details[1]),
        estimated_slowdown: report.slowdown,
        rewrites: report.rewrites.iter().enumerate().map(|(index, kept)| rewrite(index + 1, kept)).collect(),
        remarks: report.remarks.iter().map(remark).collect(),
        judge: report.verdict.map(JsonVerdict::from),
        curve: report.curve.map(|points| points.iter().map(point).collect()),
    }
}

fn estimate<'a>(estimate: &'a Estimate, details: &'a Details) -> JsonEstimate<'a> {
    JsonEstimate {
        total_bytes: estimate.total.get(),
        model: estimate.model.name(),
        arguments: estimate.arguments.get(),
        outputs: estimate.outputs.get(),
        constants: estimate.constants.get(),
        temporaries: estimate.temporaries.get(),
        floor: estimate.floor.get(),
        peak: JsonPeak {
            instruction: &estimate.peak.instruction,
            computation: &estimate.peak.computation,
            bytes: estimate.peak.bytes.get(),
        },
        largest: estimate.largest.iter().map(buffer).collect(),
        aliased: estimate.aliased.get(),
        thread_local: estimate.thread_local.get(),
        host_bytes: (estimate.host > Bytes::ZERO).then(|| estimate.host.get()),
        error_margin_bytes: (estimate.model == Model::Rough).then(|| estimate.error_margin.get()),
        xla_total_bytes: None,
        caveats: &estimate.caveats,
        details: json_details::details(details),
    }
}

fn buffer(buffer: &LiveBuffer) -> JsonBuffer<'_> {
    JsonBuffer {
        instruction: &buffer.instruction,
        shape: &buffer.shape,
        bytes: buffer.bytes.get(),
        op_name: buffer.op_name.as_deref(),
        source: buffer.source.as_deref(),
    }
}

fn rewrite(id: usize, rewrite: &Rewrite) -> JsonRewrite<'_> {
    JsonRewrite {
        id,
        pass: rewrite.pass,
        computation: &rewrite.computation,
        instruction: &rewrite.instruction,
        grade: rewrite.grade.name(),
        kind: rewrite.kind.name(),
        saved_bytes: rewrite.saved.get(),
        taken_bytes: rewrite.taken.get(),
        source: rewrite.source.line.as_deref(),
        detail: rewrite.source.detail.as_deref(),
        note: &rewrite.note,
        conditions: rewrite.conditions.iter().map(condition).collect(),
    }
}

fn condition(condition: &Condition) -> JsonCondition<'_> {
    JsonCondition { text: &condition.text, discharged_by: condition.discharged_by }
}

fn remark(remark: &Remark) -> JsonRemark<'_> {
    JsonRemark {
        kind: match remark.kind {
            RemarkKind::Missed => "missed",
            RemarkKind::Analysis => "analysis",
        },
        pass: remark.pass,
        instruction: &remark.instruction,
        code: remark.code,
        message: &remark.message,
        bytes: remark.bytes.get(),
        source: remark.source.line.as_deref(),
        detail: remark.source.detail.as_deref(),
    }
}

fn point(point: &Point) -> JsonPoint<'_> {
    JsonPoint {
        total_bytes: point.total.get(),
        seconds: point.seconds,
        is_certain: point.is_certain,
        rewrites: point.rewrites,
        grade: point.grade.map(Grade::name),
        step: &point.step,
    }
}
