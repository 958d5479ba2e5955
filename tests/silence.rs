//! No large buffer is passed over in silence: for each one above a hundredth of the peak that is no part of the floor there is a rewrite or a remark
//! about the instruction that it stems from.
//!
//! Pins `passes/src/manager/peak_remarks.rs`.

mod common;

use std::path::{Path, PathBuf};

use hlo_memory::{Estimator as _, ModelEstimator, attribution::Role};
use hlo_opt::{Grade, Optimized, Options, Pipeline, Target, optimize};

/// Longer texts take minutes without optimization.
const MOST_TEXT: u64 = if cfg!(debug_assertions) { 40_000 } else { 800_000 };

/// Shapes of the large buffers of the result of which nothing is said.
fn silent(found: &Optimized, options: &Options) -> Vec<String> {
    let report = &found.report;
    let estimator = ModelEstimator { target: options.target };
    let holders = estimator.holders(found.after());
    let large = holders.into_iter().filter(|(holder, _)| {
        let floor = matches!(holder.role, Role::Argument { .. } | Role::Output);
        !floor && u128::from(holder.buffer.bytes.get()) * 100 > u128::from(report.after.total.get())
    });
    // The instruction of a remark is that of the input, which a rewrite may have replaced: the bytes tell whether the buffer is meant.
    let silent = large.filter(|(holder, _)| !report.remarks.iter().any(|remark| remark.bytes == holder.buffer.bytes));
    silent.map(|(holder, _)| format!("{} {}", holder.buffer.instruction, holder.buffer.shape)).collect()
}

/// What is silent in the module of a file; nothing for one that is no legal module of its own.
fn silent_in(path: &Path) -> Option<String> {
    let text = std::fs::read_to_string(path).ok()?;
    let options = Options { advise: false, ..Options::default() };
    let found = optimize(&text, &Pipeline::standard(), &options).ok()?;
    let buffers = silent(&found, &options);
    (!buffers.is_empty()).then(|| format!("{}: {}", path.display(), buffers.join(", ")))
}

/// HLO texts below a folder that are short enough, sorted.
fn texts(folder: &Path) -> Vec<PathBuf> {
    let Ok(entries) = std::fs::read_dir(folder) else { return Vec::new() };
    let mut found = Vec::new();
    for path in entries.filter_map(|entry| Some(entry.ok()?.path())) {
        let short = || path.metadata().is_ok_and(|data| data.len() <= MOST_TEXT);
        if path.is_dir() {
            found.extend(texts(&path));
        } else if path.extension().is_some_and(|extension| extension == "hlo") && short() {
            found.push(path);
        }
    }
    found.sort();
    found
}

fn check(folder: &str) {
    let silent: Vec<String> = common::on_all_cores(&texts(&common::root().join(folder)), |path| silent_in(path))
        .into_iter()
        .flatten()
        .collect();
    assert!(silent.is_empty(), "nothing is said of\n{}", silent.join("\n"));
}

#[test]
fn nothing_large_is_silent_in_the_corpus() {
    check("corpus");
}

#[test]
fn nothing_large_is_silent_in_programs_of_others() {
    for folder in ["external-hlo", "library-hlo", "faults"] {
        check(&format!("../shared/{folder}"));
    }
}

/// Kind: large buffers without a word, in a likelihood that gathers from its log-softmax, the gradient of a pool, a state of nested tuples, branches, the call of
/// another compiler, and what is stitched from halves.
#[test]
fn nothing_large_is_silent_in_programs_of_one_kind_each() {
    assert!(texts(&common::root().join("tests/silence")).len() >= 6, "the programs lie beside this test");
    check("tests/silence");
}

/// Kind: of what is computed again only one number of each row is read, which takes next to no time.
#[test]
fn a_likelihood_is_computed_again_without_being_asked() {
    let text = common::text("tests/silence/likelihood.hlo");
    let run = |exactness| {
        let options = Options { exactness, ..Options::default() };
        optimize(&text, &Pipeline::standard(), &options).expect("it is legal").report
    };
    let (plain, split) = (run(hlo_opt::Grade::HloExact), run(hlo_opt::Grade::Reassociate));
    assert!(plain.after.total.get() < plain.before.total.get() / 100 * 55, "{:?}", plain.after.total);
    assert!(split.after.total <= plain.after.total);
    assert!(plain.rewrites.iter().any(|rewrite| rewrite.pass == "rematerialize"), "{:?}", plain.rewrites);
}

#[test]
fn what_another_grade_would_give_is_said_with_its_bytes() {
    let text =
        std::fs::read_to_string(common::root().join("corpus/roll/fires-maximum.before.hlo")).expect("it is there");
    let run = |options: &Options| optimize(&text, &Pipeline::standard(), options).expect("it is legal").report;
    let plain = run(&Options::default());
    let advice = plain.remarks.iter().find(|remark| remark.code == "more-freedom").expect("sums in blocks help");
    assert!(advice.message.contains("--exactness=reassociate"), "{}", advice.message);
    let split = run(&Options { exactness: hlo_opt::Grade::Reassociate, ..Options::default() });
    assert!(plain.after.total - advice.bytes >= split.after.total, "what is promised is reached");
}

/// Where a later search of the same run leads to nothing lower, the earlier end comes back with what was tried there.
#[test]
fn what_time_alone_forbids_is_said_of_the_end_that_stays() {
    let options = Options { target: Target::Gpu, advise: false, ..Options::default() };
    let program = common::text(common::corpus("loop-residuals", "fires-state", "before.hlo"));
    let report = optimize(&program, &Pipeline::standard(), &options).unwrap().report;
    let slower: Vec<_> = report.remarks.iter().filter(|remark| remark.code == "slower").collect();
    assert!(slower.iter().any(|remark| remark.pass == "loop-checkpoints"), "{:?}", report.remarks);
}

/// A run that keeps every bit says what the next weaker grade would give, not only what the weakest would.
#[test]
fn a_run_that_keeps_every_bit_says_what_each_weaker_grade_gives() {
    let program = common::text(common::corpus("materialize-trig", "fires-normed-waves", "before.hlo"));
    let said = |exactness| {
        let options = Options { exactness, ..Options::default() };
        let remarks = optimize(&program, &Pipeline::standard(), &options).unwrap().report.remarks;
        remarks.into_iter().filter(|remark| remark.code == "more-freedom").map(|remark| remark.message).collect()
    };
    let [bitwise, exact]: [Vec<String>; 2] = [Grade::Bitwise, Grade::HloExact].map(said);
    let names =
        |said: &[String], grade: &str| said.iter().any(|message| message.starts_with(&format!("--exactness={grade},")));
    assert!(names(&bitwise, "hlo-exact") && names(&bitwise, "reassociate"), "{bitwise:?}");
    assert!(!names(&exact, "hlo-exact") && names(&exact, "reassociate"), "{exact:?}");
}
