//! The course of memory as a trace that Perfetto and Chrome's tracing page open: a counter of bytes alive, and one track per buffer of the
//! peak. One step of the schedule is one microsecond; real times are not known.

use hlo_memory::Details;
use hlo_memory::attribution::Holder;
use serde::Serialize;
use serde_json::{Value, json};

use super::{Report, peak_report};

/// Tracks of buffers: more than fit a screen helps nobody.
const TRACKS: usize = 100;

/// One event of the trace format.
#[derive(Serialize)]
struct Event {
    name: String,
    ph: &'static str,
    pid: usize,
    tid: usize,
    #[serde(skip_serializing_if = "Option::is_none")]
    ts: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    dur: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    s: Option<&'static str>,
    args: Value,
}

/// The trace as JSON with a final newline; `before` and `after` are two processes.
pub(super) fn write(report: &Report<'_>) -> String {
    let mut events = Vec::new();
    for (pid, (side, details)) in report.sides().into_iter().enumerate() {
        let name = side.map_or_else(|| report.module.to_owned(), |side| format!("{} {side}", report.module));
        describe(&mut events, pid + 1, &name, details);
    }
    let trace =
        json!({ "displayTimeUnit": "ms", "otherData": { "tool": super::TOOL, "step": "1 us" }, "traceEvents": events });
    trace.to_string() + "\n"
}

/// The events of one module.
fn describe(events: &mut Vec<Event>, pid: usize, name: &str, details: &Details) {
    events.push(meta("process_name", pid, 0, name));
    let told = &details.attribution;
    for point in &told.points {
        events.push(event("bytes alive", "C", pid, 0, point.step, json!({ "bytes": point.bytes.get() })));
    }
    events.push(event("bytes alive", "C", pid, 0, told.steps, json!({ "bytes": 0 })));
    let mut peak = event("peak", "i", pid, 0, told.peak_step, json!({}));
    peak.s = Some("p");
    events.push(peak);
    for (tid, holder) in told.holders.iter().take(TRACKS).enumerate() {
        events.push(meta("thread_name", pid, tid + 1, &format!("peak buffer {}", tid + 1)));
        events.push(buffer(pid, tid + 1, holder));
    }
}

/// A buffer over its lifetime.
fn buffer(pid: usize, tid: usize, holder: &Holder) -> Event {
    let (first, last) = holder.steps;
    let args = json!({
        "bytes": holder.buffer.bytes.get(),
        "shape": holder.buffer.shape,
        "source": holder.buffer.source,
        "op_name": holder.buffer.op_name.as_deref(),
        "why": peak_report::why(holder),
    });
    let mut event =
        event(&format!("{} {}", holder.buffer.instruction, holder.buffer.bytes), "X", pid, tid, first, args);
    event.dur = Some(last - first + 1);
    event
}

fn event(name: &str, ph: &'static str, pid: usize, tid: usize, ts: u32, args: Value) -> Event {
    Event { name: name.to_owned(), ph, pid, tid, ts: Some(ts), dur: None, s: None, args }
}

fn meta(name: &str, pid: usize, tid: usize, value: &str) -> Event {
    Event { name: name.to_owned(), ph: "M", pid, tid, ts: None, dur: None, s: None, args: json!({ "name": value }) }
}
