//! The report files: what each form says, and that the schema of the JSON form refuses what is no report. `tests/corpus.rs` holds the reports of the whole corpus
//! to the schema.
//!
//! Pins `src/report/mod.rs`.

#![allow(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]

mod common;

use std::fmt::Write as _;
use std::fs;

use common::{corpus, full, on_all_cores, programs, run, text};
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
fn sarif_report_marks_the_lines_of_the_program() {
    let found: Value = serde_json::from_str(&report("sarif", &[S32])).unwrap();
    assert_eq!(found["version"], "2.1.0");
    let run = &found["runs"][0];
    let ids: Vec<_> = run["tool"]["driver"]["rules"].as_array().unwrap().iter().map(|rule| &rule["id"]).collect();
    let results = run["results"].as_array().unwrap();
    assert!(!results.is_empty() && results.iter().all(|result| ids.contains(&&result["ruleId"])), "{results:?}");
    let place = &results[0]["locations"][0]["physicalLocation"];
    assert_eq!(
        (place["artifactLocation"]["uri"].as_str(), place["region"]["startLine"].as_u64()),
        (Some("repro.py"), Some(4))
    );
    assert_eq!(results[0]["level"], "warning");
    assert_eq!(results[0]["properties"]["bytes"], json(&[S32])["rewrites"][0]["saved_bytes"]);
}

#[test]
fn sarif_marks_the_lines_that_own_the_peak_and_calls_them_errors_over_the_budget() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("report.sarif");
    let marked = |budget: &str| -> Vec<(Value, u64)> {
        run(["--quiet", "--output=/dev/null", "--report", path.to_str().unwrap(), budget, S32]);
        let found: Value = serde_json::from_str(&fs::read_to_string(&path).unwrap()).unwrap();
        let results = found["runs"][0]["results"].as_array().unwrap().iter();
        let held = results.filter(|result| ["peak", "budget"].contains(&result["ruleId"].as_str().unwrap()));
        held.map(|result| (result["level"].clone(), result["properties"]["bytes"].as_u64().unwrap())).collect()
    };
    // 224 GiB as written, of which 96 are an argument without a line; 96 GiB rewritten.
    let (fits, over) = (marked("--budget=100GiB"), marked("--budget=90GiB"));
    assert!(fits.len() == 1 && fits[0].0 == "note" && fits[0].1 > 120 << 30, "{fits:?}");
    assert!(over.iter().all(|(level, _)| level == "error"), "{over:?}");
}

#[test]
fn text_report_of_the_founding_program() {
    insta::assert_snapshot!(report("txt", &[S32]));
}

/// A module whose metadata try to leave the places that HTML gives them; its name can only be a word.
const HOSTILE: &str = "HloModule m, is_scheduled=true

ENTRY e {
  x = f32[256]{0} parameter(0), metadata={op_name=\"<img src=x onerror=alert(2)>\"}
  ROOT r = f32[256]{0} reverse(x), dimensions={0}, metadata={op_name=\"a</script>b\" source_file=\"<!--.py\" source_line=1}
}
";

/// The data block of an HTML report.
fn embedded(page: &str) -> Value {
    let (_, rest) = page.split_once("<script type=\"application/json\" id=\"data\">").unwrap();
    serde_json::from_str(rest.split_once("</script>").unwrap().0).unwrap()
}

#[test]
fn the_html_report_is_one_page_around_the_json_report() {
    let page = report("html", &[S32]);
    assert_eq!(embedded(&page), json(&[S32]));
    assert!(validator().is_valid(&embedded(&page)));
    assert_eq!(page.matches("<script").count(), 2, "the data and the program");
    assert!(page.contains("prefers-color-scheme: dark"));
    for outside in ["src=", "<link", "@import", "url(http"] {
        assert!(!page.contains(outside), "the page must not ask for anything: {outside}");
    }
}

#[test]
fn names_in_a_module_stay_text_in_the_html_report() {
    let folder = tempfile::tempdir().unwrap();
    let (module, path) = (folder.path().join("m.hlo"), folder.path().join("m.html"));
    fs::write(&module, HOSTILE).unwrap();
    let run = run(["--analyze", module.to_str().unwrap(), "--report", path.to_str().unwrap()]);
    assert_eq!(run.code, 0, "{run}");
    let page = fs::read_to_string(path).unwrap();
    assert_eq!(page.matches("</script>").count(), 2);
    assert!(!page.contains("<img") && !page.contains("<!--"), "metadata became markup");
    let holders = &embedded(&page)["before"]["details"]["holders"];
    assert!(holders.as_array().unwrap().iter().any(|holder| holder["op_name"] == "a</script>b"), "{holders}");
}

#[test]
fn reports_of_long_programs_are_bounded() {
    let mut text = "HloModule long, is_scheduled=true\n\nENTRY e {\n  x0 = f32[64]{0} parameter(0)\n".to_owned();
    for line in 1..20_000 {
        let metadata =
            format!("metadata={{op_name=\"jit(f)/step_{line}/sin\" source_file=\"f.py\" source_line={line}}}");
        writeln!(text, "  x{line} = f32[64]{{0}} reverse(x{}), dimensions={{0}}, {metadata}", line / 2).unwrap();
    }
    let all: Vec<String> = (1..20_000).map(|line| format!("x{line}")).collect();
    writeln!(text, "  ROOT r = f32[{}]{{0}} concatenate({}), dimensions={{0}}\n}}", 64 * 19_999, all.join(", "))
        .unwrap();
    let folder = tempfile::tempdir().unwrap();
    let (module, path) = (folder.path().join("long.hlo"), folder.path().join("long.html"));
    fs::write(&module, text).unwrap();
    let run = run(["--analyze", module.to_str().unwrap(), "--report", path.to_str().unwrap()]);
    assert_eq!(run.code, 0, "{run}");
    let page = fs::read_to_string(path).unwrap();
    assert!(page.len() < 1_500_000, "{} bytes", page.len());
    let details = &embedded(&page)["before"]["details"];
    let points = details["timeline"].as_array().unwrap();
    let most = points.iter().map(|point| point["bytes"].as_u64().unwrap()).max();
    assert_eq!(most, embedded(&page)["before"]["peak"]["bytes"].as_u64());
    assert!(points.len() <= 2000 && details["by_source"].as_array().unwrap().len() <= 500);
    assert!(details["unlisted"]["count"].as_u64().unwrap() > 19_000);
}

#[test]
fn the_trace_holds_the_course_of_memory_before_and_after() {
    let trace: Value = serde_json::from_str(&report("perfetto.json", &[S32])).unwrap();
    let events = trace["traceEvents"].as_array().unwrap();
    let peak = |pid: u64| {
        let counters = events.iter().filter(|event| event["ph"] == "C" && event["pid"] == pid);
        counters.map(|event| event["args"]["bytes"].as_u64().unwrap()).max()
    };
    let full = json(&[S32]);
    let told = |side: &str| full[side]["peak"]["bytes"].as_u64();
    assert_eq!((peak(1), peak(2)), (told("before"), told("after")));
    let steps = full["before"]["details"]["steps"].as_u64().unwrap();
    for event in events.iter().filter(|event| event["ph"] == "X" && event["pid"] == 1) {
        let (from, length) = (event["ts"].as_u64().unwrap(), event["dur"].as_u64().unwrap());
        assert!(length > 0 && from + length <= steps, "{event}");
    }
    assert_eq!(events.iter().filter(|event| event["name"] == "process_name").count(), 2);
}

#[test]
fn the_profile_is_a_gzipped_file() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("x.pprof.pb.gz");
    let run = run(["-q", S32, "-o", "/dev/null", "--report", path.to_str().unwrap()]);
    assert_eq!(run.code, 0, "{run}");
    assert_eq!(fs::read(path).unwrap()[..2], [0x1f, 0x8b]);
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
    let rewrites = report["rewrites"].as_array().unwrap();
    let sum = |key: &str| rewrites.iter().map(|rewrite| rewrite[key].as_u64().unwrap()).sum::<u64>();
    assert_eq!(sum("saved_bytes") - sum("taken_bytes"), bytes("/before/total_bytes") - bytes("/after/total_bytes"));
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
    let of = |folder: String| programs(&folder).into_iter().map(move |name| (folder.clone(), name));
    let programs: Vec<_> = full().into_iter().flat_map(of).collect();
    on_all_cores(&programs, |(folder, name)| {
        let options = hlo_opt::Options { advise: false, ..hlo_opt::Options::default() };
        let module = text(corpus(folder, name, "before.hlo"));
        let found = hlo_opt::optimize(&module, &hlo_opt::Pipeline::standard(), &options).unwrap();
        for remark in &found.report.remarks {
            let code = remark.code;
            assert!(page.contains(&format!("`{code}`")), "{folder}/{name}: `{code}` is not in docs/reason-codes.md");
        }
    });
}

#[test]
fn a_what_if_says_whether_xla_would_make_another_schedule() {
    let said = |file: &str| run(["--analyze", file]).stdout;
    let (program, schedule) = (said(S32), said("corpus/founding/s32.after.hlo"));
    assert!(program.contains("\nwhat if\n"), "{program}");
    assert!(schedule.contains("\nwhat if (this schedule stayed;"), "{schedule}");
}

#[test]
fn caveats_stand_right_below_the_figures_and_remarks_name_their_line() {
    let sharded = corpus("chunk", "keeps-sharded", "before.hlo");
    let told = run(["--analyze", sharded.to_str().unwrap()]).stdout;
    let lines: Vec<&str> = told.lines().collect();
    let caveat = lines.iter().position(|line| line.starts_with("caveat: ")).unwrap();
    assert!(lines[caveat - 1].starts_with("floor ") && lines[caveat + 1].starts_with("peak of "), "{told}");
    let remarks = json(&[sharded.to_str().unwrap()])["remarks"].as_array().unwrap().clone();
    assert!(
        remarks.iter().any(|remark| remark["source"].as_str().is_some_and(|at| at.contains(".py:"))),
        "{remarks:?}"
    );
}
