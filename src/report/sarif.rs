//! The report as SARIF 2.1.0, which code hosts show as remarks beside the lines of the user's program.

use hlo_passes::manager::RemarkKind;
use serde_json::{Value, json};

use super::Report;

/// The schema that the file names; readers look at it by this name.
const SCHEMA: &str = "https://json.schemastore.org/sarif-2.1.0.json";

/// The report with a final newline. Rewrites are warnings, since the program as written wastes what they save; missed chances are notes.
pub(super) fn write(report: &Report<'_>) -> String {
    let rewrites = report.rewrites.iter().map(|kept| {
        let text =
            format!("{}: {} saves {} ({}): {}", report.module, kept.pass, kept.saved, kept.grade.name(), kept.note);
        result(kept.pass, "warning", &text, kept.saved.get(), kept.source.as_deref())
    });
    let missed = report.remarks.iter().filter(|remark| remark.kind == RemarkKind::Missed).map(|remark| {
        let text = format!("{}: {} [{}]", report.module, remark.message, remark.code);
        result(remark.pass, "note", &text, remark.bytes.get(), remark.source.as_deref())
    });
    let document = json!({
        "$schema": SCHEMA,
        "version": "2.1.0",
        "runs": [{
            "tool": {"driver": {"name": "hlo-opt", "version": env!("CARGO_PKG_VERSION"), "rules": rules()}},
            "results": rewrites.chain(missed).collect::<Vec<_>>(),
            "properties": {"module": report.module, "beforeBytes": report.before.total.get(), "afterBytes": report.after.total.get()},
        }],
    });
    serde_json::to_string_pretty(&document).expect("strings and integers always serialize") + "\n"
}

/// One rule per pass.
fn rules() -> Vec<Value> {
    let rule = |name: &str, summary: &str| json!({"id": name, "shortDescription": {"text": summary}});
    hlo_passes::all().iter().map(|pass| rule(pass.name(), pass.summary())).collect()
}

fn result(rule: &str, level: &str, text: &str, bytes: u64, source: Option<&str>) -> Value {
    let locations: Vec<_> = source.and_then(location).into_iter().collect();
    json!({
        "ruleId": rule, "level": level, "message": {"text": text}, "locations": locations, "properties": {"bytes": bytes},
    })
}

/// The place of `file:line`.
fn location(source: &str) -> Option<Value> {
    let (file, line) = source.rsplit_once(':')?;
    let line: u64 = line.parse().ok().filter(|&line| line > 0)?;
    Some(json!({"physicalLocation": {"artifactLocation": {"uri": file}, "region": {"startLine": line}}}))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_is_a_file_and_a_line() {
        let found = location("model/layers.py:12").unwrap();
        assert_eq!(found["physicalLocation"]["artifactLocation"]["uri"], "model/layers.py");
        assert_eq!(found["physicalLocation"]["region"]["startLine"], 12);
        assert_eq!((location("no line"), location("a.py:0"), location("a.py:x")), (None, None, None));
    }
}
