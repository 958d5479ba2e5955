//! Modules behind XLA's optimizations, taken apart: XLA takes them back, they compute the same, and rewrites reach the same peaks.
//!
//! Pins `passes/src/unfuse.rs`.

#![allow(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]

mod common;
#[path = "referee/session.rs"]
#[allow(dead_code, reason = "this test uses a part of it")]
mod session;

use std::fs;
use std::path::PathBuf;

use common::{corpus, programs, root, run, small, text};
use hlo_opt::{Options, Pipeline, optimize};
use serde_json::json;
use session::{Session, ask_on_all_cores, workspace};

/// Names of the programs of the group `unfuse` that begin like this.
fn group(prefix: &str) -> Vec<String> {
    programs("unfuse").into_iter().filter(|name| name.starts_with(prefix)).collect()
}

/// What `--passes=unfuse` makes of the compiled form of a program.
fn unfused(folder: &str, name: &str) -> hlo_opt::Optimized {
    let module = text(corpus(folder, name, "after.hlo"));
    optimize(&module, &Pipeline::parse("unfuse").unwrap(), &Options::default())
        .unwrap_or_else(|failure| panic!("{folder}/{name}: {failure}"))
}

#[test]
fn compiled_programs_come_apart_like_this() {
    for name in group("fires-") {
        let path = corpus("unfuse", &name, "after.hlo");
        let run = run(["--passes=unfuse", path.to_str().unwrap()]);
        assert_eq!(run.code, 0, "{run}");
        insta::assert_snapshot!(format!("unfused@unfuse__{name}.after.hlo"), format!("{}\n{}", run.stderr, run.stdout));
    }
}

#[test]
fn what_is_refused_says_why() {
    let kept = group("keeps-");
    assert!(!kept.is_empty(), "nothing is kept: what is tested here?");
    for name in kept {
        let outcome = unfused("unfuse", &name);
        let codes: Vec<_> =
            outcome.report.remarks.iter().filter(|remark| remark.pass == "unfuse").map(|remark| remark.code).collect();
        assert_eq!(codes, [name.strip_prefix("keeps-").unwrap()], "{name}");
        assert_eq!(outcome.text, outcome.input, "{name}");
    }
}

#[test]
fn xla_takes_them_back_and_they_compute_the_same() {
    let folder = workspace("unfuse-results");
    let mut programs_of: Vec<(String, String)> =
        group("fires-").into_iter().map(|name| ("unfuse".to_owned(), name)).collect();
    programs_of.extend(
        small().into_iter().flat_map(|group| programs(&group).into_iter().map(move |name| (group.clone(), name))),
    );
    let mut requests = Vec::new();
    for (group, name) in &programs_of {
        let outcome = unfused(group, name);
        if outcome.report.rewrites.is_empty() {
            // Nothing is known of what a runtime call does, such as that for the largest elements.
            let kept = |code| matches!(code, "partitioned" | "custom-call");
            let kept = outcome.report.remarks.iter().any(|remark| kept(remark.code));
            assert!(kept, "{group}/{name}: {:?}", outcome.report.remarks);
            continue;
        }
        let after = folder.join(format!("{group}-{name}.hlo"));
        fs::write(&after, outcome.text).unwrap();
        let before = root().join(corpus(group, name, "before.hlo"));
        requests.push(json!({"cmd": "same", "before": before, "after": after, "cases": 3}));
    }
    assert!(requests.len() > 100, "only {} programs were taken apart", requests.len());
    for (request, answer) in requests.iter().zip(ask_on_all_cores(&requests)) {
        let near = answer["tolerated"] == json!(true) || answer["as_near_the_truth"] == json!(true);
        assert!(answer["bitwise"] == json!(true) || near, "{request}: {answer}");
    }
}

#[test]
fn the_founding_programs_reach_the_same_peak_from_either_dump() {
    let folder = workspace("unfuse-founding");
    let names = ["s32", "s16", "u8"];
    let mut files: Vec<PathBuf> = Vec::new();
    for name in names {
        // Taken apart alone, rewritten from the compiled form, rewritten from the program.
        let whole = text(corpus("founding", name, "after.hlo"));
        let program = text(corpus("founding", name, "before.hlo"));
        let rewritten = |module: &str| optimize(module, &Pipeline::standard(), &Options::default()).unwrap().text;
        let texts = [unfused("founding", name).text, rewritten(&whole), rewritten(&program)];
        for (form, module) in ["plain", "from-after", "from-before"].iter().zip(texts) {
            let file = folder.join(format!("{name}.{form}.hlo"));
            fs::write(&file, module).unwrap();
            files.push(file);
        }
    }
    let totals = Session::start().totals(&files);
    for (name, totals) in names.iter().zip(totals.chunks(3)) {
        assert_eq!(totals[0], common::xla_total("founding", name), "{name}: taken apart, it needs what it needed");
        assert_eq!(totals[1], totals[2], "{name}: rewritten from the compiled form and from the program");
        assert!(totals[1] < totals[0], "{name}");
    }
}
