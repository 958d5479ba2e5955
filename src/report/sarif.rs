//! The report as SARIF 2.1.0, which code hosts show as remarks beside the lines of the user's program.

use std::fmt::Write as _;
use std::path::Path;

use hlo_passes::PassKind;
use hlo_passes::manager::RemarkKind;
use serde_json::{Value, json};

use super::Report;

/// The schema that the file names; readers look at it by this name.
const SCHEMA: &str = "https://json.schemastore.org/sarif-2.1.0.json";

/// Rules beside the passes: what a line holds at the peak, and the same where the peak is over the budget.
const PEAK: (&str, &str) = ("peak", "memory that a source line holds at the peak of the program as written");
const BUDGET: (&str, &str) = ("budget", "memory that a source line holds at a peak that is over the budget");

/// A line that holds less than one in this many bytes of the peak is not marked.
const WORTH_A_MARK: u64 = 20;

/// The report with a final newline. Rewrites are warnings, since the program as written wastes what they save, but for those that take memory for the
/// speed of what others made; missed chances and the lines that own
/// the peak are notes, errors if the peak is over the budget. Files below the folder `here` are named from there, as code hosts want them.
pub(super) fn write(report: &Report<'_>, here: Option<&Path>) -> String {
    let result = |rule, level, text: &str, bytes, source| result(rule, level, text, bytes, source, here);
    let of_the_program = report.rewrites.iter().filter(|kept| kept.kind != PassKind::Speed);
    let rewrites = of_the_program.map(|kept| {
        let text =
            format!("{}: {} saves {} ({}): {}", report.module, kept.pass, kept.saved, kept.grade.name(), kept.note);
        result(kept.pass, "warning", &text, kept.saved.get(), kept.source.line.as_deref())
    });
    let missed = report.remarks.iter().filter(|remark| remark.kind == RemarkKind::Missed).map(|remark| {
        let text = format!("{}: {} [{}]", report.module, remark.message, remark.code);
        result(remark.pass, "note", &text, remark.bytes.get(), remark.source.line.as_deref())
    });
    let held = held(report)
        .into_iter()
        .map(|(rule, level, text, bytes, source)| result(rule, level, &text, bytes, Some(source)));
    let document = json!({
        "$schema": SCHEMA,
        "version": "2.1.0",
        "runs": [{
            "tool": {"driver": {"name": "hlo-opt", "version": env!("CARGO_PKG_VERSION"), "rules": rules()}},
            "results": rewrites.chain(missed).chain(held).collect::<Vec<_>>(),
            "properties": {"module": report.module, "beforeBytes": report.before.total.get(), "afterBytes": report.after.total.get()},
        }],
    });
    serde_json::to_string_pretty(&document).expect("strings and integers always serialize") + "\n"
}

/// The lines that own the peak: rule, level, sentence, bytes, place. A missed budget is about what is left after rewriting.
fn held<'a>(report: &Report<'a>) -> Vec<(&'static str, &'static str, String, u64, &'a str)> {
    let over = report.budget.filter(|&budget| report.peak().is_none_or(|peak| peak > budget));
    let (estimate, details) =
        if over.is_some() { (report.after, report.details[1]) } else { (report.before, report.details[0]) };
    let (rule, level) = if over.is_some() { (BUDGET.0, "error") } else { (PEAK.0, "note") };
    let budget = over.map(|budget| format!(", which does not fit {budget}")).unwrap_or_default();
    let sums = details.attribution.by_source.iter();
    let large = sums.filter(|sum| sum.bytes.get().saturating_mul(WORTH_A_MARK) >= estimate.total.get());
    large
        .map(|sum| {
            let text = format!("{}: holds {} of the peak of {}{budget}", report.module, sum.bytes, estimate.total);
            (rule, level, text, sum.bytes.get(), sum.key.as_str())
        })
        .filter(|found| located(found.4).is_some())
        .collect()
}

/// One rule per pass, and those of the peak.
fn rules() -> Vec<Value> {
    let rule = |name: &str, summary: &str| json!({"id": name, "shortDescription": {"text": summary}});
    let passes = hlo_passes::all();
    let passes = passes.iter().map(|pass| rule(pass.name(), pass.summary()));
    passes.chain([PEAK, BUDGET].map(|(name, summary)| rule(name, summary))).collect()
}

fn result(rule: &str, level: &str, text: &str, bytes: u64, source: Option<&str>, here: Option<&Path>) -> Value {
    let locations: Vec<_> = source.and_then(|source| location(source, here)).into_iter().collect();
    json!({
        "ruleId": rule, "level": level, "message": {"text": text}, "locations": locations, "properties": {"bytes": bytes},
    })
}

/// File and line of `file:line`.
fn located(source: &str) -> Option<(&str, u64)> {
    let (file, line) = source.rsplit_once(':')?;
    Some((file, line.parse().ok().filter(|&line| line > 0)?))
}

/// The place of `file:line`.
fn location(source: &str, here: Option<&Path>) -> Option<Value> {
    let (file, line) = located(source)?;
    Some(json!({"physicalLocation": {"artifactLocation": {"uri": uri(file, here)}, "region": {"startLine": line}}}))
}

/// A file as SARIF names it: relative where it lies below `here`, else with its scheme.
fn uri(file: &str, here: Option<&Path>) -> String {
    let below = here.and_then(|here| Path::new(file).strip_prefix(here).ok()).and_then(Path::to_str);
    match below {
        Some(below) => escaped(below),
        None if file.starts_with('/') => format!("file://{}", escaped(file)),
        None => escaped(file),
    }
}

/// A path with everything escaped that has a meaning in a URI.
fn escaped(path: &str) -> String {
    path.bytes().fold(String::new(), |mut out, byte| {
        if byte.is_ascii_alphanumeric() || b"/-_.~".contains(&byte) {
            out.push(char::from(byte));
        } else {
            write!(out, "%{byte:02X}").expect("a String takes every write");
        }
        out
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_is_a_file_and_a_line() {
        let found = location("model/layers.py:12", None).unwrap();
        assert_eq!(found["physicalLocation"]["artifactLocation"]["uri"], "model/layers.py");
        assert_eq!(found["physicalLocation"]["region"]["startLine"], 12);
        assert_eq!(["no line", "a.py:0", "a.py:x"].map(|source| location(source, None)), [None, None, None]);
    }

    #[test]
    fn files_are_named_from_where_the_tool_runs() {
        let here = Some(Path::new("/model"));
        assert_eq!(uri("/model/layers/a b.py", here), "layers/a%20b.py");
        assert_eq!(uri("/models/a.py", here), "file:///models/a.py");
        assert_eq!(uri("/usr/lib/é.py", None), "file:///usr/lib/%C3%A9.py");
        assert_eq!(uri("model.py", here), "model.py");
    }
}
