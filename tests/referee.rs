//! XLA itself as the judge: it compiles what we wrote, says how many bytes it needs, and runs both programs on the same data.
//!
//! Pins `src/api.rs`, `ir/src/text/print.rs`.

#![allow(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]

mod common;
#[path = "referee/session.rs"]
mod session;

use std::cmp::Ordering;
use std::fmt::{self, Write as _};
use std::fs;
use std::path::{Path, PathBuf};

use common::{corpus, devices, full, on_all_cores, programs, root, small, text, xla_total};
use hlo_opt::{Assumption, Bytes, Grade, Machine, Optimized, Options, Pipeline, optimize};
use hlo_passes::manager::RunReport;
use serde_json::{Value, json};
use session::{Session, ask_on_all_cores, program, workspace};

/// A GiB in bytes, as a float for the limits of the table.
const GIB: f64 = (1_u64 << 30) as f64;

/// Largest error of results, over the scale of the array, for rewrites that promise the same operations but not the same bits.
const HLO_EXACT_ERROR: f64 = 1e-5;

/// Runs the passes in `list` (all standard ones if `None`) on a program of the corpus.
fn rewrite(folder: &str, name: &str, list: Option<&str>, options: &Options) -> Optimized {
    let pipeline = list.map_or_else(Pipeline::standard, |list| Pipeline::parse(list).unwrap());
    let module = text(corpus(folder, name, "before.hlo"));
    optimize(&module, &pipeline, options).unwrap_or_else(|failure| panic!("{folder}/{name}: {failure}"))
}

fn assuming_bounds() -> Options {
    Options { assumptions: vec![Assumption::IndicesInBounds], advise: false, ..Options::default() }
}

/// Group and name of every program of these groups.
fn programs_of(groups: Vec<String>) -> Vec<(String, String)> {
    let of = |group: String| programs(&group).into_iter().map(move |name| (group.clone(), name));
    groups.into_iter().flat_map(of).collect()
}

/// Writes a module for the referee.
fn save(folder: &Path, name: &str, text: &str) -> PathBuf {
    let path = folder.join(name);
    fs::write(&path, text).expect("a folder of ours can be written");
    path
}

#[test]
fn the_referee_catches_planted_errors() {
    proves_itself("test_referee.py");
}

#[test]
fn the_driver_of_random_programs_catches_tools_that_do_harm() {
    proves_itself("test_random_programs.py");
}

fn proves_itself(script: &str) {
    let output = program(script).output().expect("the interpreter starts");
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(
        output.status.success() && said.contains(" passed, 0 failed"),
        "{said}{}",
        String::from_utf8_lossy(&output.stderr)
    );
}

#[test]
fn the_scoreboard_says_which_estimates_are_off() {
    let output = program("test_scoreboard.py").output().expect("the interpreter starts");
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(
        output.status.success() && said.contains("5 of 5 checks"),
        "{said}{}",
        String::from_utf8_lossy(&output.stderr)
    );
}

#[cfg(unix)]
#[test]
fn without_python_the_reason_is_clear() {
    let mut setup = std::process::Command::new("/bin/sh");
    setup
        .arg(root().join("tests/referee/setup.sh"))
        .arg("nowhere")
        .env("PATH", "/nowhere")
        .env_remove("HLO_OPT_PYTHON");
    let output = setup.output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success() && said.contains("Python 3.11 or newer is needed"), "{said}");
}

#[test]
fn the_targets_are_met() {
    let assume = assuming_bounds();
    let table = [
        ("s32", None, Options::default(), 96.10),
        ("s16", None, Options::default(), 48.10),
        ("s32", Some("direct-index"), assume.clone(), 128.02),
        ("s16", Some("direct-index"), assume, 80.02),
    ];
    let folder = workspace("targets");
    let files: Vec<_> = table
        .iter()
        .enumerate()
        .map(|(row, (name, list, options, _))| {
            save(&folder, &format!("{row}.hlo"), &rewrite("founding", name, *list, options).text)
        })
        .collect();
    for ((name, list, _, limit), total) in table.iter().zip(Session::start().totals(&files)) {
        let reached = total as f64 / GIB;
        assert!(reached <= *limit, "{name} {list:?}: {reached:.3} GiB by XLA, more than {limit}");
    }
}

#[test]
fn an_unsigned_index_is_read_without_a_copy() {
    let outcome = rewrite("founding", "u8", Some("direct-index"), &Options::default());
    let file = save(&workspace("unsigned"), "u8.hlo", &outcome.text);
    let [total] = Session::start().totals(&[file])[..] else { panic!("one file, one total") };
    // The program holds its updates (4 bytes a row); the converted copy of the indices would be 12 bytes a row more.
    let rows = 1_u64 << 33;
    let floor = outcome.report.after.floor.get();
    assert!(total - floor < 5 * rows, "{} above the floor of {floor}", total - floor);
    assert!(outcome.report.rewrites.iter().all(|rewrite| rewrite.grade == Grade::Bitwise));
}

#[test]
fn xla_needs_for_the_result_what_we_say() {
    let folder = workspace("totals");
    let rows = on_all_cores(&programs_of(full()), |(group, name)| {
        let outcome = rewrite(group, name, None, &Options { advise: false, ..Options::default() });
        let file = save(&folder, &format!("{group}-{name}.hlo"), &outcome.text);
        (group.clone(), name.clone(), outcome, file)
    });
    let files: Vec<_> = rows.iter().map(|row| row.3.clone()).collect();
    let totals = Session::start().totals(&files);
    let mut table = Row::HEADER.to_owned();
    let mut wrong = String::new();
    for ((group, name, outcome, _), after) in rows.iter().zip(totals) {
        let row =
            Row { label: format!("{group}/{name}"), before: xla_total(group, name), after, ours: &outcome.report };
        writeln!(table, "{row}").unwrap();
        if after > row.before || row.is_wrong() {
            writeln!(wrong, "{row}").unwrap();
        }
    }
    assert!(wrong.is_empty(), "\nlarger after the rewrite, or estimated more than 0.1 % off:\n{wrong}");
    insta::assert_snapshot!(table);
}

/// One program in the table of what XLA and we say about it.
struct Row<'a> {
    label: String,
    before: u64,
    after: u64,
    ours: &'a RunReport,
}

impl Row<'_> {
    const HEADER: &'static str = "program                                XLA before     ours before       off       XLA after      ours after       off  x floor\n";

    /// Where the model says that it does not know the program, its figures are no claim.
    fn is_claim(&self) -> bool {
        self.ours.after.caveats.is_empty()
    }
    /// Whether the estimate of the result is more than 0.1 % off.
    fn is_wrong(&self) -> bool {
        self.is_claim() && self.ours.after.total.get().abs_diff(self.after) * 1000 > self.after
    }
}

impl fmt::Display for Row<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { label, before, after, ours } = self;
        let [ours_before, ours_after] = [ours.before.total.get(), ours.after.total.get()];
        let off = |ours: u64, xla: u64| match ours.cmp(&xla) {
            Ordering::Equal => "exact".to_owned(),
            _ => format!("{:+.3}%", (ours as f64 / xla as f64 - 1.0) * 100.0),
        };
        write!(f, "{label:<33}{before:>16}{ours_before:>16}{:>10}", off(ours_before, *before))?;
        write!(f, "{after:>16}{ours_after:>16}{:>10}", off(ours_after, *after))?;
        if self.is_claim() {
            write!(f, "{:>9.3}", *after as f64 / ours.after.floor.get() as f64)
        } else {
            f.write_str("  see caveat")
        }
    }
}

/// Ways to rewrite a small program: passes, options, and how many data sets the results must agree on. The first data set keeps every index
/// in bounds, the later ones do not.
fn ways() -> Vec<(&'static str, Option<&'static str>, Options, u32)> {
    let eager = common::eager();
    let blocks = |bytes| Options { chunk_bytes: Some(Bytes(bytes)), ..eager.clone() };
    let assume = Options { min_saving: Bytes(1), machine: Some(Machine::without_malloc_cache()), ..assuming_bounds() };
    vec![
        ("default", None, eager.clone(), 4),
        ("small-blocks", None, blocks(1024), 4),
        ("tiny-blocks", Some("chunk"), blocks(96), 4),
        ("direct", Some("direct-index"), eager, 4),
        ("assume", Some("direct-index"), assume, 1),
    ]
}

/// Whether a pair agrees as far as the weakest grade of its rewrites asks. Where sums of NaN are computed in another loop, which of two
/// payloads survives is up to the compiler (`docs/grades.md`), and nothing but payloads may differ. A program that magnifies rounding (a
/// saturated `tanh`) may differ more, if the rewritten one is as near the results in double precision as the original is.
fn agrees(grade: Grade, sums_move: bool, answer: &Value) -> bool {
    match grade {
        Grade::Bitwise | Grade::Assume => {
            answer["bitwise"] == json!(true) || (sums_move && answer["nan_payload_only"] == json!(true))
        }
        Grade::HloExact | Grade::Reassociate => {
            answer["max_rel_error"].as_f64().is_some_and(|error| error <= HLO_EXACT_ERROR)
                || answer["as_near_the_truth"] == json!(true)
        }
    }
}

#[test]
fn results_stay_equal() {
    let folder = workspace("results");
    let asked = on_all_cores(&programs_of(small()), |(group, name)| {
        let (mut seen, mut asked) = (Vec::new(), Vec::new());
        for (way, list, options, cases) in ways() {
            let outcome = rewrite(group, name, list, &options);
            let Some(grade) = outcome.report.rewrites.iter().map(|rewrite| rewrite.grade).max() else { continue };
            if seen.contains(&outcome.text) {
                continue;
            }
            let after = save(&folder, &format!("{group}-{name}-{way}.hlo"), &outcome.text);
            let before = root().join(corpus(group, name, "before.hlo"));
            let request = json!({"cmd": "same", "before": before, "after": after, "cases": cases});
            let sums_move = outcome.report.rewrites.iter().any(|rewrite| rewrite.pass == "roll");
            asked.push((request, (format!("{group}/{name} {way}"), grade, sums_move)));
            seen.push(outcome.text);
        }
        asked
    });
    let (requests, about): (Vec<_>, Vec<_>) = asked.into_iter().flatten().unzip();
    assert!(requests.len() > 100, "only {} rewritten programs: what is compared here?", requests.len());
    let answers = ask_on_all_cores(&requests);
    let different: String = about
        .iter()
        .zip(&answers)
        .filter(|((_, grade, sums_move), answer)| !agrees(*grade, *sums_move, answer))
        .fold(String::new(), |list, ((label, grade, _), answer)| {
            format!("{list}{label} ({}): {answer}\n", grade.name())
        });
    assert!(different.is_empty(), "\nresults differ:\n{different}");
}

#[test]
fn results_stay_equal_where_a_budget_makes_loops_multiply_again() {
    let text = include_str!("../passes/tests/budget_programs/sinkhorn.hlo").replace("16384", "2048");
    let options = Options { exactness: Grade::Reassociate, budget: Some(Bytes(8 << 20)), ..Options::default() };
    let outcome = optimize(&text, &Pipeline::parse("chunk").unwrap(), &options).unwrap();
    assert_eq!(outcome.text.matches(" dot(").count(), 3, "the slow plan is what is judged here");
    let folder = workspace("budget");
    let (before, after) = (save(&folder, "before.hlo", &text), save(&folder, "after.hlo", &outcome.text));
    let answers = Session::start().ask(&[json!({"cmd": "same", "before": before, "after": after, "cases": 4})]);
    assert!(agrees(Grade::Reassociate, false, &answers[0]), "{}", answers[0]);
}

#[test]
fn results_stay_equal_where_gradients_of_kernels_are_added_up_over_examples() {
    let text = include_str!("../passes/tests/budget_programs/convolution_gradient.hlo").replace("[512,", "[64,");
    let options = Options {
        exactness: Grade::Reassociate,
        min_saving: Bytes(1),
        machine: Some(Machine::without_malloc_cache()),
        ..Options::default()
    };
    let outcome = optimize(&text, &Pipeline::parse("chunk").unwrap(), &options).unwrap();
    assert!(outcome.text.contains(" while("), "a loop over examples is what is judged here");
    let folder = workspace("convolution-gradient");
    let (before, after) = (save(&folder, "before.hlo", &text), save(&folder, "after.hlo", &outcome.text));
    let answers = Session::start().ask(&[json!({"cmd": "same", "before": before, "after": after, "cases": 4})]);
    assert!(agrees(Grade::Reassociate, false, &answers[0]), "{}", answers[0]);
    assert_eq!(Session::start().totals(&[after])[0], outcome.report.after.total.get(), "bytes are those of XLA");
}

/// Judges a program that a pass of kind `speed` changes and for which the small programs of the corpus are too small: results must stay equal, and
/// the bytes those that are said.
fn judge_speed(pass: &str, text: &str, options: &Options) {
    /// Bytes of numbers that may be part of a library call, because nothing else reads them: 32 rows of a block have 4 x 4 partial sums each.
    const NUMBERS: u64 = 64 + 32 * 4 * 4 * 4;
    let outcome = optimize(text, &Pipeline::standard(), options).unwrap();
    assert!(outcome.report.rewrites.iter().any(|rewrite| rewrite.pass == pass), "{pass} is what is judged here");
    let grade = outcome.report.rewrites.iter().map(|rewrite| rewrite.grade).max().unwrap();
    let folder = workspace(pass);
    let (before, after) = (save(&folder, "before.hlo", text), save(&folder, "after.hlo", &outcome.text));
    let answers = Session::start().ask(&[json!({"cmd": "same", "before": before, "after": after, "cases": 2})]);
    assert!(agrees(grade, false, &answers[0]), "{}", answers[0]);
    let (total, said) = (Session::start().totals(&[after])[0], outcome.report.after.total.get());
    assert!(total.abs_diff(said) <= NUMBERS, "{total} bytes, {said} were said");
}

#[test]
fn results_stay_equal_where_blocks_are_computed_before_they_are_written() {
    let text = text(corpus("chunk", "keeps-shared-concat", "before.hlo")).replace("1073741824", "4194304");
    judge_speed("parallel-updates", &text, &Options::default());
}

#[test]
fn results_stay_equal_where_rows_are_weighted_before_they_are_summed() {
    let text = text("passes/tests/speed_programs/clipped.hlo");
    let min_saving = Bytes(4 << 20);
    judge_speed("weighted-sums", &text, &Options { exactness: Grade::Reassociate, min_saving, ..Options::default() });
}

#[test]
fn results_stay_equal_where_products_change_their_operands() {
    judge_speed("swap-dot-operands", &text("passes/tests/speed_programs/columns.hlo"), &Options::default());
}

#[test]
fn results_stay_equal_where_sums_leave_dimensions_out() {
    let text = text("passes/tests/speed_programs/one_number.hlo");
    judge_speed("degenerate-dims", &text, &Options::default());
}

#[test]
fn results_stay_equal_on_several_devices() {
    let folder = workspace("devices");
    let eager = common::eager();
    let mut compared = 0;
    for (group, name) in programs_of(devices()) {
        let outcome = rewrite(&group, &name, None, &eager);
        let Some(grade) = outcome.report.rewrites.iter().map(|rewrite| rewrite.grade).max() else { continue };
        let after = save(&folder, &format!("{name}.hlo"), &outcome.text);
        let before = root().join(corpus(&group, &name, "before.hlo"));
        let output = program("partitioned.py").arg(before).arg(after).output().unwrap();
        assert!(output.status.success(), "{name}: {}", String::from_utf8_lossy(&output.stderr));
        let answer: Value = serde_json::from_slice(&output.stdout).unwrap();
        assert!(agrees(grade, false, &answer), "{name} ({}): {answer}", grade.name());
        compared += 1;
    }
    assert!(compared >= 3, "only {compared} programs were rewritten");
}

/// Random programs of an ordinary run, the same ones each time, and the minutes they may take. Long runs are in docs/measured/log.md.
const RANDOM_PROGRAMS: &str = "100";
const RANDOM_MINUTES: &str = "3";

#[test]
fn random_programs_keep_their_results() {
    let keep = workspace("random-programs");
    let mut run = program("random_programs.py");
    run.args([
        "--tool",
        env!("CARGO_BIN_EXE_hlo-opt"),
        "--count",
        RANDOM_PROGRAMS,
        "--seed",
        "1",
        "--large-every",
        "16",
    ]);
    let output =
        run.args(["--minutes", RANDOM_MINUTES]).arg("--keep").arg(keep).output().expect("the interpreter starts");
    let said = String::from_utf8_lossy(&output.stdout);
    let passed = said.lines().last().and_then(|line| line.strip_suffix(" passed, 0 failed"));
    let passed: usize = passed.and_then(|count| count.parse().ok()).unwrap_or(0);
    assert!(output.status.success() && passed > 0, "{said}{}", String::from_utf8_lossy(&output.stderr));
}

#[test]
fn xla_reads_our_print_as_the_same_module() {
    let folder = workspace("print");
    let mut requests = Vec::new();
    for group in full() {
        for name in programs(&group) {
            for extension in ["before.hlo", "after.hlo"] {
                let original = root().join(corpus(&group, &name, extension));
                let module = hlo_ir::text::parse(&text(&original)).unwrap_or_else(|_| panic!("{}", original.display()));
                let printed = save(&folder, &format!("{group}-{name}.{extension}"), &hlo_ir::text::print(&module));
                requests.push(json!({"cmd": "roundtrip", "a": original, "b": printed}));
            }
        }
    }
    for (request, answer) in requests.iter().zip(Session::start().ask(&requests)) {
        assert_eq!(answer["equal"], json!(true), "{request}: {answer}");
    }
}
