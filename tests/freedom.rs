//! More freedom never ends higher: over the corpus, and over the programs that once broke it, a weaker grade or a budget never leaves a higher peak.
//!
//! Pins `passes/src/manager/search.rs`.

mod common;

use std::path::{Path, PathBuf};

use hlo_opt::{Bytes, Grade, Objective, Options, Pipeline, optimize};

/// Modules that once ended higher with more freedom, beside this repository where they are at hand.
const SHARED: [&str; 5] = [
    "faults/loss-plain.hlo",
    "faults/tf-cross-entropy-gradient.hlo",
    "faults/torch-language-model-step.hlo",
    "library-hlo/nnx_gpt_L1_V50304.hlo",
    "library-hlo/jaxmd_lj_allpairs.hlo",
];
/// Longer texts take minutes without optimization.
const MOST_TEXT: Option<usize> = if cfg!(debug_assertions) { Some(60_000) } else { None };

fn peak(text: &str, exactness: Grade, budget: Option<Bytes>) -> Bytes {
    peak_with(text, &Options { exactness, budget, advise: false, ..Options::default() })
}

fn peak_with(text: &str, options: &Options) -> Bytes {
    optimize(text, &Pipeline::standard(), options).expect("the module is legal").report.after.total
}

/// Each of these allows all that the ones before it do.
fn check(path: &Path) {
    let text = std::fs::read_to_string(path).expect("the file can be read");
    if MOST_TEXT.is_some_and(|most| text.len() > most) {
        return;
    }
    let exact = peak(&text, Grade::HloExact, None);
    let split = peak(&text, Grade::Reassociate, None);
    assert!(split <= exact, "{}: {exact} by default, {split} with reassociate", path.display());
    let out_of_reach = Some(Bytes(1));
    let missed = peak(&text, Grade::HloExact, out_of_reach);
    assert!(missed <= exact, "{}: {exact} by default, {missed} for a budget", path.display());
}

#[test]
fn a_weaker_grade_or_a_budget_never_ends_higher_in_the_corpus() {
    let of = |folder: String| common::programs(&folder).into_iter().map(move |name| (folder.clone(), name));
    let programs: Vec<_> = common::full().into_iter().flat_map(of).collect();
    common::on_all_cores(&programs, |(folder, name)| {
        check(&common::root().join(format!("corpus/{folder}/{name}.before.hlo")));
    });
}

#[test]
fn as_little_memory_as_can_be_had_is_no_more_than_for_any_budget() {
    let under = |objective| Options { objective, advise: false, ..Options::default() };
    for (folder, name, falls) in
        [("loop-checkpoints", "fires-sums", true), ("loop-residuals", "fires-gelu", true), ("founding", "s32", false)]
    {
        let text = common::text(common::corpus(folder, name, "before.hlo"));
        let balanced = peak_with(&text, &under(Objective::Balanced));
        let memory = peak_with(&text, &under(Objective::Memory));
        assert!(memory <= balanced && (memory < balanced) == falls, "{folder}/{name}: {memory} for {balanced}");
        assert_eq!(memory, peak(&text, Grade::HloExact, Some(Bytes(1))), "{folder}/{name}");
    }
}

#[test]
fn memory_that_costs_no_time_costs_none() {
    for (folder, name) in [
        ("loop-residuals", "fires-gelu"),
        ("rematerialize", "fires-normalised"),
        ("loop-checkpoints", "fires-oscillators"),
    ] {
        let text = common::text(common::corpus(folder, name, "before.hlo"));
        let options = Options { objective: Objective::Time, advise: false, ..Options::default() };
        let result = optimize(&text, &Pipeline::standard(), &options).expect("the module is legal");
        assert!(result.report.after.total < result.report.before.total, "{folder}/{name} falls");
        let seconds = |text: &str| {
            let module = hlo_ir::text::parse(text).expect("a module");
            hlo_passes::run_time(&module, options.target, options.machine()).expect("a time").seconds
        };
        assert!(seconds(&result.text) <= seconds(&text), "{folder}/{name}");
    }
}

#[test]
fn what_once_ended_higher_does_not() {
    let shared: PathBuf = common::root().join("../shared");
    for file in SHARED {
        let path = shared.join(file);
        if path.exists() {
            check(&path);
        }
    }
}

/// Kind: more freedom that ended higher, where a budget is missed, met or nearly met, alone and with sums in blocks.
#[test]
fn budgets_and_grades_together_never_end_higher() {
    for name in ["likelihood", "pool_gradient", "stitched_halves"] {
        let text = common::text(format!("tests/silence/{name}.hlo"));
        let (exact, split) = (peak(&text, Grade::HloExact, None), peak(&text, Grade::Reassociate, None));
        assert!(split <= exact, "{name}: {exact} by default, {split} with reassociate");
        for percent in [5, 50, 95] {
            let budget = Bytes(exact.get() / 100 * percent);
            let alone = peak(&text, Grade::HloExact, Some(budget));
            assert!(alone <= exact, "{name}: {exact} by default, {alone} for {budget}");
            let both = peak(&text, Grade::Reassociate, Some(budget));
            assert!(both <= split.max(budget), "{name}: {split} with reassociate, {both} with {budget} too");
        }
    }
}
