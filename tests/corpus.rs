//! The whole tool on the whole corpus: what it rewrites (as diffs), the laws that hold for every input, and XLA's recorded byte counts.
//!
//! Pins `src/api.rs`, `src/pipeline.rs`.

#![allow(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]

mod common;

use std::sync::OnceLock;

use common::{
    NO_MALLOC_CACHE, changed, corpus, devices, eager, full, on_all_cores, programs, run, small, text, xla_total,
};
use hlo_opt::{Bytes, Grade, Objective, Optimized, Options, Pipeline, Target, analyze, optimize};
use hlo_passes::{Pass, PassKind};

/// Folder and name of every program.
fn everything() -> Vec<(String, String)> {
    let folders = full().into_iter().chain(small()).chain(devices());
    folders.flat_map(|folder| programs(&folder).into_iter().map(move |name| (folder.clone(), name))).collect()
}

/// A program, and what a run makes of it.
struct FirstRun {
    label: String,
    text: String,
    changes: bool,
    before: Totals,
    after: Totals,
}

/// Total and floor.
type Totals = (Bytes, Bytes);

/// All programs, rewritten like large ones, once for all tests.
fn first_runs() -> &'static [FirstRun] {
    static RUNS: OnceLock<Vec<FirstRun>> = OnceLock::new();
    RUNS.get_or_init(|| {
        on_all_cores(&everything(), |(folder, name)| {
            let outcome = optimize(&text(corpus(folder, name, "before.hlo")), &Pipeline::standard(), &eager()).unwrap();
            let [before, after] =
                [&outcome.report.before, &outcome.report.after].map(|estimate| (estimate.total, estimate.floor));
            let changes = outcome.text != outcome.input;
            FirstRun { label: format!("{folder}/{name}"), text: outcome.text, changes, before, after }
        })
    })
}

/// The default, without a search for what other flags would give.
fn plain() -> Options {
    Options { advise: false, ..Options::default() }
}

/// What has to be asked for before the pass of a folder does anything.
fn asked_for(folder: &str) -> &'static [&'static str] {
    match folder {
        "host-offload" => &["--target=gpu", "--host-memory=8GiB", "--objective=memory", "--exactness=bitwise"],
        _ => &[],
    }
}

/// The same as options, and else the default.
fn options_of(folder: &str) -> Options {
    match folder {
        "host-offload" => {
            let (host_memory, objective) = (Bytes(8 << 30), Objective::Memory);
            Options { target: Target::Gpu, host_memory, objective, exactness: Grade::Bitwise, ..plain() }
        }
        _ => plain(),
    }
}

#[test]
fn the_default_pipeline_rewrites_the_corpus_like_this() {
    let full = full();
    insta::glob!("../corpus", "*/*.before.hlo", |path| {
        let relative = path.strip_prefix(common::root().canonicalize().unwrap()).unwrap();
        let folder = relative.parent().and_then(|folder| folder.file_name()).unwrap();
        if full.iter().all(|full| folder != full.as_str()) {
            return;
        }
        let run = run([&["--diff", relative.to_str().unwrap()], asked_for(&folder.to_string_lossy())].concat());
        assert_eq!(run.code, 0, "{run}");
        insta::assert_snapshot!("diff", format!("{}\n{}", run.stderr, run.stdout));
    });
}

#[test]
fn no_passes_print_every_dump_back_byte_for_byte() {
    on_all_cores(&everything(), |(folder, name)| {
        for extension in ["before.hlo", "after.hlo"] {
            let path = corpus(folder, name, extension);
            let run = run(["-q", "--passes=", path.to_str().unwrap()]);
            assert_eq!(run.code, 0, "{}: {run}", path.display());
            assert!(run.stdout == text(&path), "{} is printed differently", path.display());
        }
    });
}

#[test]
fn two_runs_are_byte_identical_and_their_reports_obey_the_schema() {
    let temporary = tempfile::tempdir().unwrap();
    let schema = serde_json::from_str(&text("docs/report.schema.json")).unwrap();
    let validator = jsonschema::validator_for(&schema).unwrap();
    on_all_cores(&everything(), |(folder, name)| {
        let path = corpus(folder, name, "before.hlo");
        let result = || {
            let report = temporary.path().join(format!("{folder}.{name}.json"));
            let run = run([
                "--min-saving=1",
                "--machine",
                NO_MALLOC_CACHE,
                "--report",
                report.to_str().unwrap(),
                path.to_str().unwrap(),
            ]);
            (run, text(report))
        };
        let first = result();
        assert!(result() == first, "{}", path.display());
        let report = serde_json::from_str(&first.1).unwrap();
        let problems: Vec<_> = validator.iter_errors(&report).map(|problem| problem.to_string()).collect();
        assert!(problems.is_empty(), "{}: {problems:#?}", path.display());
    });
}

#[test]
fn a_second_run_changes_nothing() {
    // A program that the first run left as it was is left again: two runs are identical.
    let changed: Vec<_> = first_runs().iter().filter(|first| first.changes).collect();
    assert!(changed.len() > 100, "only {} programs are rewritten", changed.len());
    on_all_cores(&changed, |first| {
        let second = optimize(&first.text, &Pipeline::standard(), &eager()).unwrap();
        let rewrites: Vec<_> = second.report.rewrites.iter().map(|rewrite| (rewrite.pass, &rewrite.note)).collect();
        assert!(second.text == first.text, "{} is rewritten again: {rewrites:?}", first.label);
    });
}

#[test]
fn the_estimate_never_rises_and_the_interface_never_changes() {
    for FirstRun { label, text, before, after, .. } in first_runs() {
        assert!(after.0 <= before.0, "{label}: {} -> {}", before.0, after.0);
        assert_eq!(after.1, before.1, "{label}");
        let fresh = analyze(text, Options::default().target).unwrap().estimate;
        assert_eq!(fresh.total, after.0, "{label}: the printed module has another estimate");
    }
}

/// Passes without a folder of their own, and where it is seen what they do.
const WITHOUT_FOLDER: [(&str, &str); 4] = [
    ("dead-code", "its tests write dead code by hand"),
    ("inline-calls", "it fires in the folders of rewrites that need it"),
    (
        "layout-constraints",
        "XLA:GPU alone sees what it does, and the programs of its tests exchange values between devices",
    ),
    ("replication", "it changes nothing"),
];

/// Programs that should be rewritten, of which another pass makes more than the one of their folder, and why. That one fires alone, where run time does not count.
const REWRITTEN_BY_OTHERS: [(&str, &str, &str); 6] = [
    ("direct-index", "fires-embedding-u16", "blocks of `chunk` need neither indices nor updates at full size"),
    ("direct-index", "fires-u32", "blocks of `chunk` need neither indices nor updates at full size"),
    (
        "loop-checkpoints",
        "fires-sums",
        "steps that are run again would take too long; `loop-residuals` computes one of two stacks again",
    ),
    ("rematerialize", "fires-normalised", "blocks of `chunk` save more"),
    ("roll", "fires-in-scan", "`tie` saves as much without a loop"),
    ("roll", "fires-tuple", "`tie` saves as much without a loop"),
];

#[test]
fn passes_have_programs() {
    let folders = full();
    let passes = hlo_passes::all().into_iter().map(|pass| pass.name());
    // The programs of `unfuse` are compiled ones, in which `tests/unfuse.rs` looks.
    let without: Vec<_> = passes.filter(|pass| *pass != "unfuse" && !folders.contains(&(*pass).to_owned())).collect();
    assert_eq!(without, WITHOUT_FOLDER.map(|(pass, _)| pass), "no folder with programs, and no reason for it");
}

#[test]
fn programs_that_should_be_rewritten_are_and_by_the_pass_of_their_folder() {
    let is_pass = |folder: &str| hlo_passes::all().iter().any(|pass| pass.name() == folder);
    let fires = |outcome: &Optimized, pass: &str| outcome.report.rewrites.iter().any(|rewrite| rewrite.pass == pass);
    let (mut kept, mut by_others) = (Vec::new(), Vec::new());
    for folder in full() {
        for name in programs(&folder).into_iter().filter(|name| folder == "founding" || name.starts_with("fires-")) {
            let module = text(corpus(&folder, &name, "before.hlo"));
            let outcome = optimize(&module, &Pipeline::standard(), &options_of(&folder)).unwrap();
            if !outcome.helped() {
                kept.push((folder.clone(), name, outcome.report.remarks));
            } else if is_pass(&folder) && !fires(&outcome, &folder) {
                let options = Options { objective: Objective::Memory, ..plain() };
                let alone = optimize(&module, &Pipeline::parse(&folder).unwrap(), &options).unwrap();
                assert!(alone.helped() && fires(&alone, &folder), "{folder}/{name}: {:?}", alone.report.remarks);
                by_others.push((folder.clone(), name));
            }
        }
    }
    assert!(kept.is_empty(), "{kept:#?}");
    let known = REWRITTEN_BY_OTHERS.map(|(folder, name, _)| (folder.to_owned(), name.to_owned()));
    assert_eq!(by_others, known, "programs in which the pass of their folder does nothing");
}

#[test]
fn passes_for_speed_change_what_they_should() {
    let has_folder = |pass: &dyn Pass| WITHOUT_FOLDER.iter().all(|(without, _)| *without != pass.name());
    let passes = hlo_passes::all().into_iter().filter(|pass| pass.kind() == PassKind::Speed && has_folder(&**pass));
    for pass in passes.map(|pass| pass.name()) {
        for name in programs(pass) {
            let module = text(corpus(pass, &name, "before.hlo"));
            let outcome = optimize(&module, &Pipeline::standard(), &plain()).unwrap();
            let rewrites = &outcome.report.rewrites;
            assert!(rewrites.iter().any(|rewrite| rewrite.kind == PassKind::Rewrite), "{pass}/{name}: {rewrites:?}");
            let fires = rewrites.iter().any(|rewrite| rewrite.pass == pass);
            assert_eq!(fires, name.starts_with("fires-"), "{pass}/{name}: {rewrites:?}");
        }
    }
}

#[test]
fn scheduled_modules_are_estimated_to_the_byte() {
    for (folder, name) in everything() {
        let path = corpus(&folder, &name, "after.hlo");
        let estimate = analyze(&text(&path), Options::default().target).unwrap().estimate;
        assert_eq!(estimate.total.get(), xla_total(&folder, &name), "{}", path.display());
    }
}

#[test]
fn the_founding_program_is_predicted_to_the_byte() {
    for folder in ["founding", "founding-small"] {
        for name in programs(folder) {
            let module = text(corpus(folder, &name, "before.hlo"));
            let estimate = analyze(&module, Options::default().target).unwrap().estimate;
            assert_eq!(estimate.total.get(), xla_total(folder, &name), "{folder}/{name}");
        }
    }
}

#[test]
fn names_and_comments_do_not_matter() {
    let module = text("corpus/founding/s32.before.hlo");
    let renamed = changed(&module, &[("scatter-add.5", "x"), ("main.2", "the_entry")]);
    let renamed = format!("// a comment\n{renamed}");
    let (plain, other) = (optimize_total(&module), optimize_total(&renamed));
    assert_eq!(plain, other);
}

/// Estimated total after the default pipeline.
fn optimize_total(module: &str) -> Bytes {
    optimize(module, &Pipeline::standard(), &plain()).unwrap().report.after.total
}
