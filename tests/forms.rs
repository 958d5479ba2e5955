//! The forms that modules and messages come in: text and binary, one module and several, long and short, for people and for programs.
//!
//! Pins `src/messages.rs`, `src/results.rs`.

#![allow(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]

mod common;

use std::fs;
use std::process::Stdio;

use common::{Run, changed, command, run, run_on, text};

const S32: &str = "corpus/founding/s32.before.hlo";

/// A module that no pass has anything to say about.
fn tiny(name: &str) -> String {
    format!(
        "HloModule {name}, entry_computation_layout={{(f32[8]{{0}})->f32[8]{{0}}}}\n\nENTRY %main (x: f32[8]) -> f32[8] {{\n  ROOT %x = f32[8]{{0}} parameter(0)\n}}\n"
    )
}

/// Standard output as bytes.
fn bytes_of(arguments: &[&str]) -> Vec<u8> {
    let output = command().args(arguments).stderr(Stdio::piped()).output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
    output.stdout
}

/// The JSON objects on standard error.
fn lines(run: &Run) -> Vec<serde_json::Value> {
    run.stderr.lines().map(|line| serde_json::from_str(line).unwrap_or_else(|_| panic!("not JSON: {run}"))).collect()
}

#[test]
fn the_output_name_asks_for_the_binary_form_and_the_content_tells_it() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    assert_eq!(run([S32, "-q", "-o", &path("out.pb")]).code, 0);
    let binary = fs::read(path("out.pb")).unwrap();
    assert!(hlo_ir::proto::looks_like_proto(&binary));
    assert_eq!(bytes_of(&[S32, "-q", "--format=pb"]), binary);
    assert_eq!(run([S32, "-q", "--format=pb", "-o", &path("out.hlo")]).code, 0);
    assert_eq!(fs::read(path("out.hlo")).unwrap(), binary);
    // No name says that this is binary.
    let back = run([&path("out.hlo"), "-q", "--passes="]);
    let without =
        |text: String, what: &str| text.replace(&format!(", allow_spmd_sharding_propagation_to_{what}={{true}}"), "");
    assert_eq!(back.stdout, without(without(run([S32, "-q"]).stdout, "parameters"), "output"));
    assert_eq!(run([S32, "-q", "--format=text", "-o", &path("text.pb")]).code, 0);
    assert_eq!(fs::read_to_string(path("text.pb")).unwrap(), run([S32, "-q"]).stdout);
    assert_eq!(run_on(&binary, ["-q", "--passes="]).stdout, back.stdout);
}

#[test]
fn either_form_of_a_module_message_is_read() {
    let module = hlo_ir::text::parse(&tiny("tiny")).unwrap();
    let proto = hlo_ir::proto::write(&module).unwrap().bytes;
    // A HloProto is its only field, the HloModuleProto, behind a tag of one byte and a length of one or two.
    let bare = &proto[if proto[1] < 0x80 { 2 } else { 3 }..];
    for form in [&proto, bare] {
        assert_eq!(run_on(form, ["-q"]).stdout, tiny("tiny"));
    }
}

#[test]
fn what_the_binary_form_lacks_is_said() {
    let input = tiny("tiny").replace(", entry", ", allow_spmd_sharding_propagation_to_output={true}, entry");
    let run = |flag: &str| {
        let mut command = command();
        let mut child = command.args(["-q", "--format=pb", flag]).stdin(Stdio::piped()).stdout(Stdio::piped());
        child = child.stderr(Stdio::piped());
        let mut child = child.spawn().unwrap();
        std::io::Write::write_all(&mut child.stdin.take().unwrap(), input.as_bytes()).unwrap();
        String::from_utf8(child.wait_with_output().unwrap().stderr).unwrap()
    };
    insta::assert_snapshot!(run("--error-format=human") + &run("--error-format=json"));
}

#[test]
fn what_cannot_be_written_in_binary_form_is_an_error() {
    let input = tiny("tiny").replace("parameter(0)", "parameter(0), brand_new={1}");
    let refused = |form: &str| run_on(input.as_bytes(), ["--format=pb", "--error-format", form]);
    insta::assert_snapshot!(format!("{}{}", refused("human"), refused("json")));
}

#[test]
fn a_damaged_binary_is_an_error() {
    let binary = hlo_ir::proto::write(&hlo_ir::text::parse(&tiny("tiny")).unwrap()).unwrap().bytes;
    insta::assert_snapshot!(run_on(&binary[..binary.len() / 2], ["-"]));
}

#[test]
fn an_illegal_binary_is_shown_as_text() {
    let text = "HloModule tiny, entry_computation_layout={(f32[8]{0})->f32[8]{0}}

ENTRY %main (x: f32[8]) -> f32[9] {
  %x = f32[8]{0} parameter(0)
  ROOT %y = f32[9]{0} negate(%x)
}
";
    let binary = hlo_ir::proto::write(&hlo_ir::text::parse(text).unwrap()).unwrap().bytes;
    insta::assert_snapshot!(run_on(&binary, ["-"]));
}

#[test]
fn styles_change_the_text_and_nothing_else() {
    let printed = |style: &str| run([S32, "-q", "--passes=", "--print-style", style]).stdout;
    assert_eq!(printed("long"), text(S32));
    assert!(printed("short").len() < printed("long").len() && !printed("short").contains("metadata"));
    assert!(printed("canonical").contains("\n  tmp_0 = "), "{}", printed("canonical"));
    let diff = run([S32, "-q", "--diff", "--print-style=short"]);
    assert!(diff.stdout.contains("\n-  ") && !diff.stdout.contains('%'), "{diff}");
    let binary = run([S32, "--print-style=short", "-o", "x.pb"]);
    assert_eq!((binary.code, binary.stdout.as_str()), (2, ""), "{binary}");
}

#[test]
fn several_modules_are_taken_one_by_one() {
    let (a, b) = (tiny("a"), tiny("b"));
    let file = format!("// RUN: nothing\n\n// -----\n{a}// -----\n\n{b}");
    let joined = format!("{a}\n// -----\n\n{b}");
    let run = run_on(file.as_bytes(), ["--split-input-file"]);
    assert_eq!((run.code, run.stdout.as_str()), (0, joined.as_str()));
    assert_eq!(run.stderr.lines().count(), 2, "a summary for each: {run}");
    assert_eq!(run_on(joined.as_bytes(), ["--split-input-file"]), run);
    assert_eq!(run_on(format!("{a}{b}").as_bytes(), ["--split-input-file"]), run, "headers divide too");
    let whole = run_on(file.as_bytes(), ["-q"]);
    assert_eq!(whole.code, 1);
    assert!(whole.stderr.contains("--split-input-file"), "{whole}");
    let analyses = run_on(file.as_bytes(), ["--split-input-file", "--analyze"]);
    assert_eq!(analyses.stdout.matches(" on XLA:CPU\n").count(), 2, "{analyses}");
}

#[test]
fn every_module_is_tried_and_the_gravest_end_is_the_exit_code() {
    let (helps, silent) = (text(S32), tiny("silent"));
    let check = |file: &str| run_on(file.as_bytes(), ["--split-input-file", "--check", "-q"]);
    assert_eq!(check(&hlo_ir::text::join([silent.as_str(), &helps, &silent])).code, 5);
    let wrong = silent.replace("ROOT %x = f32[8]{0}", "ROOT %x = f33[8]{0}");
    let illegal = silent.replace("parameter(0)", "parameter(1)");
    let file = hlo_ir::text::join([wrong.as_str(), &helps, &illegal]);
    let run = check(&file);
    assert_eq!((run.code, run.stdout.as_str()), (1, ""));
    // Lines are lines of the file.
    let line = |what: &str| file[..file.rfind(what).unwrap()].lines().count();
    assert!(run.stderr.contains(&format!("<stdin>:{}:", line("f33[8]{0}"))), "{run}");
    assert!(run.stderr.contains(&format!("<stdin>:{}:", line("parameter(1)"))), "{run}");
}

#[test]
fn nothing_is_written_unless_every_module_has_a_result() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("out.hlo");
    let file = hlo_ir::text::join([tiny("a").as_str(), "HloModule broken {"]);
    let run = run_on(file.as_bytes(), ["--split-input-file", "-o", path.to_str().unwrap()]);
    assert_eq!((run.code, path.exists()), (1, false), "{run}");
    let binary =
        run_on(hlo_ir::text::join([tiny("a").as_str(), &tiny("b")]).as_bytes(), ["--split-input-file", "--format=pb"]);
    assert_eq!((binary.code, binary.stdout.as_str()), (2, ""), "{binary}");
}

#[test]
fn each_module_has_its_report() {
    let folder = tempfile::tempdir().unwrap();
    let report = folder.path().join("report.json");
    let file = hlo_ir::text::join([tiny("a").as_str(), &tiny("b")]);
    let run = run_on(file.as_bytes(), ["--split-input-file", "--report", report.to_str().unwrap()]);
    assert_eq!(run.code, 0, "{run}");
    assert!(!report.exists());
    for (number, name) in [(1, "a"), (2, "b")] {
        let written = fs::read_to_string(folder.path().join(format!("report.{number}.json"))).unwrap();
        let report: serde_json::Value = serde_json::from_str(&written).unwrap();
        assert_eq!(report["module"], name);
    }
}

#[test]
fn a_missed_budget_of_one_module_leaves_all_unwritten() {
    let file = hlo_ir::text::join([tiny("a").as_str(), &text(S32)]);
    let run = |flags: &[&str]| run_on(file.as_bytes(), ["--split-input-file", "--budget=1GiB"].iter().chain(flags));
    let human = run(&["-q"]);
    assert_eq!((human.code, human.stdout.as_str()), (4, ""), "{human}");
    assert!(human.stderr.contains("over budget: the peak of 96.07 GiB does not fit 1.00 GiB"), "{human}");
    let json = run(&["--error-format=json"]);
    assert_eq!((json.code, lines(&json).len(), &lines(&json)[0]["code"]), (4, 1, &serde_json::Value::from("budget")));
}

#[test]
fn each_module_has_its_folder_of_dumps() {
    let folder = tempfile::tempdir().unwrap();
    let file = hlo_ir::text::join([tiny("a").as_str(), &text(S32)]);
    let run = run_on(file.as_bytes(), ["--split-input-file", "-q", "--dump-dir", folder.path().to_str().unwrap()]);
    assert_eq!(run.code, 0, "{run}");
    for (number, dumps) in [("1", 1), ("2", 3)] {
        assert_eq!(folder.path().join(number).read_dir().unwrap().count(), dumps);
    }
}

#[test]
fn messages_for_programs_are_json_and_nothing_else_is_said() {
    let json = |input: &str, arguments: &[&str]| {
        run_on(input.as_bytes(), arguments.iter().copied().chain(["--error-format=json", "-"]))
    };
    assert_eq!(json(&tiny("tiny"), &[]).stderr, "");
    let errors = [("compare(%split.3,", "compare(%splot.3,"), ("select(%lt.4", "select(%let.4")];
    let wrong = changed(&text(S32), &errors);
    let syntax = json(&wrong, &[]);
    assert_eq!((syntax.code, lines(&syntax).len()), (1, 2), "{syntax}");
    let illegal = json(&text(S32).replacen("8589934592,1]{1,0} add(", "8589934592,2]{1,0} add(", 1), &[]);
    assert_eq!(lines(&illegal)[0]["code"], "V10", "{illegal}");
    insta::assert_snapshot!(syntax.stderr + &illegal.stderr);
    for (run, code, exit) in [
        (run(["--error-format=json", "no-such-file"]), "input", 1),
        (run(["--error-format=json", "--passes=nothing", "-"]), "usage", 2),
        (run(["--error-format=json", S32, "-o", "/dev/full"]), "output", 1),
    ] {
        assert_eq!((run.code, &lines(&run)[0]["code"]), (exit, &serde_json::Value::from(code)), "{run}");
    }
}
