//! The report files: the JSON form obeys its schema on the whole corpus and says what the text form says.

#![allow(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]

mod common;

use std::fs;

use common::{FULL, SMALL, corpus, programs, run, text};
use serde_json::Value;

const S32: &str = "corpus/founding/s32.before.hlo";

/// The report of a run over `file`; the extension picks the form.
fn report(extension: &str, arguments: &[&str]) -> String {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join(format!("report.{extension}"));
    let run = run(["--quiet", "--output=/dev/null", "--report", path.to_str().unwrap()].iter().chain(arguments));
    assert_eq!((run.code, run.stderr.as_str()), (0, ""), "{arguments:?}");
    fs::read_to_string(path).unwrap()
}

fn json(arguments: &[&str]) -> Value {
    serde_json::from_str(&report("json", arguments)).unwrap()
}

fn validator() -> jsonschema::Validator {
    let schema: Value = serde_json::from_str(&text("docs/report.schema.json")).unwrap();
    jsonschema::validator_for(&schema).unwrap()
}

#[test]
fn json_report_of_the_founding_program() {
    insta::assert_snapshot!(report("json", &[S32]));
}

#[test]
fn text_report_of_the_founding_program() {
    insta::assert_snapshot!(report("txt", &[S32]));
}

#[test]
fn every_json_report_obeys_the_schema() {
    let validator = validator();
    for folder in FULL.iter().chain(&SMALL) {
        for name in programs(folder) {
            let path = corpus(folder, &name, "before.hlo");
            let report = json(&["--min-saving=1", path.to_str().unwrap()]);
            let problems: Vec<_> = validator.iter_errors(&report).map(|problem| problem.to_string()).collect();
            assert!(problems.is_empty(), "{}: {problems:#?}", path.display());
        }
    }
}

#[test]
fn the_schema_refuses_what_is_not_a_report() {
    let validator = validator();
    let good = json(&[S32]);
    assert!(validator.is_valid(&good));
    let spoil = |pointer: &str, value: Value| {
        let mut bad = good.clone();
        *bad.pointer_mut(pointer).unwrap_or_else(|| panic!("no {pointer} in {good}")) = value;
        bad
    };
    assert!(!validator.is_valid(&spoil("/version", 2.into())));
    assert!(!validator.is_valid(&spoil("/before/total_bytes", Value::from(-1))));
    assert!(!validator.is_valid(&spoil("/after/model", "guessed".into())));
    assert!(!validator.is_valid(&spoil("/rewrites/0/grade", "roughly".into())));
    let mut without = good.clone();
    without.as_object_mut().unwrap().remove("remarks");
    assert!(!validator.is_valid(&without));
    let mut with = good.clone();
    with["extra"] = 1.into();
    assert!(!validator.is_valid(&with));
}

#[test]
fn figures_add_up() {
    let report = json(&[S32]);
    let bytes = |pointer: &str| report.pointer(pointer).and_then(Value::as_u64).unwrap_or_else(|| panic!("{pointer}"));
    let saved: u64 =
        report["rewrites"].as_array().unwrap().iter().map(|rewrite| rewrite["saved_bytes"].as_u64().unwrap()).sum();
    assert_eq!(saved, bytes("/before/total_bytes") - bytes("/after/total_bytes"));
    assert_eq!(bytes("/before/floor"), 8_589_934_592 * 3 * 4 + 128 * 128 * 128 * 4);
    assert_eq!(bytes("/before/floor"), bytes("/after/floor"), "a rewrite cannot change the interface");
}

#[test]
fn analysis_writes_reports_too() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("report.json");
    let run = run(["--analyze", S32, "--report", path.to_str().unwrap()]);
    assert_eq!(run.code, 0, "{run}");
    let report: Value = serde_json::from_str(&fs::read_to_string(path).unwrap()).unwrap();
    assert!(validator().is_valid(&report));
    assert_eq!(report["before"], report["after"]);
}

#[test]
fn the_reason_codes_of_the_corpus_are_documented() {
    let page = text("docs/reason-codes.md");
    for folder in FULL {
        for name in programs(folder) {
            let report = json(&[corpus(folder, &name, "before.hlo").to_str().unwrap()]);
            for remark in report["remarks"].as_array().unwrap() {
                let code = remark["code"].as_str().unwrap();
                assert!(
                    page.contains(&format!("`{code}`")),
                    "{folder}/{name}: `{code}` is not in docs/reason-codes.md"
                );
            }
        }
    }
}
