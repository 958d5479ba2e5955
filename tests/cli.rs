//! The command line's contract: what goes where, which exit code, and that files are written whole or not at all.
//!
//! Pins `src/driver.rs`, `src/args.rs`, `src/output.rs`, `src/results.rs`, `src/summary.rs`, `src/shell.rs`, `src/explain.rs`, `src/analyze.rs`,
//! `src/progress.rs`, `memory/src/bytes.rs`.

#![allow(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]

mod common;

use std::fs;
use std::process::Stdio;

use common::{NO_MALLOC_CACHE, command, finish, root, run, run_on, text};

const S32: &str = "corpus/founding/s32.before.hlo";

/// A module that no pass has anything to say about.
const TINY: &str = "HloModule tiny, entry_computation_layout={(f32[8]{0})->f32[8]{0}}\n\nENTRY %main (x: f32[8]) -> f32[8] {\n  ROOT %x = f32[8]{0} parameter(0)\n}\n";

#[test]
fn help_is_as_documented() {
    insta::assert_snapshot!(run(["--help"]));
}

#[test]
fn version_is_printed() {
    assert_eq!(run(["--version"]).stdout, concat!("hlo-opt ", env!("CARGO_PKG_VERSION"), "\n"));
}

#[test]
fn machines_are_named_or_described() {
    let fits = |target: &str| run([S32, "--target", target, "-o", "-"]).stderr;
    assert!(fits("gpu:h200").contains("\n  fits the 131.32 GiB of h200\n"), "{}", fits("gpu:h200"));
    assert!(fits("gpu:h100").contains("\n  does not fit the 74.51 GiB of h100\n"), "{}", fits("gpu:h100"));
    let unknown = run([S32, "--target", "gpu:abacus"]);
    assert!(unknown.code == 2 && unknown.stderr.contains("gpu:h100"), "{unknown}");
    let described = |extra: &[&str]| run([&[S32, "--machine", "tests/machines/server.toml", "-q"], extra].concat());
    assert_eq!(described(&[]).code, 0);
    let other = described(&["--target", "tpu"]);
    assert!(other.code == 2 && other.stderr.contains("describes a machine for cpu, and --target is tpu"), "{other}");
    let wrong = run([S32, "--machine", "README.md"]);
    assert!(wrong.code == 2 && wrong.stderr.contains("at line "), "{wrong}");
}

/// Reports speak of grades, codes and terms: all of them can be asked for, with every meaning that a word has.
#[test]
fn grades_codes_and_terms_are_explained() {
    let page = |name: &str| run(["--explain", name]).stdout;
    assert!(page("hlo-exact").contains("Meaning: Every element of the result is computed by the same HLO operations"));
    assert_eq!(page("sharded").matches("sharded (code of a remark)").count(), 2);
    assert!(page("sink").starts_with("sink (term)\n"));
    let rule = page("dynamic-update-slice");
    assert!(rule.starts_with("dynamic-update-slice (rule of dimension flow)\n"), "{rule}");
    assert!(rule.contains("flow/indexed.rs"), "{rule}");
    assert!(!page("more-freedom").contains('`') && !page("grade").contains("]("), "marks of code and links");
}

/// Where runs keep no memory of those before them, small programs are worth their run time; a small `--min-saving` alone asks for none.
#[test]
fn what_small_programs_may_cost_is_a_row_of_the_machine() {
    let small = "corpus/loop-checkpoints-small/fires-oscillators.before.hlo";
    let said = |extra: &[&str]| run([&[small, "--min-saving=1", "-o", "-"], extra].concat()).stderr;
    let kept = said(&[]);
    assert!(kept.contains("nothing rewritten") && kept.contains("less than 32.00 MiB lie above the floor"), "{kept}");
    let given_back = said(&["--machine", NO_MALLOC_CACHE]);
    assert!(given_back.contains("loop-residuals while.14") && !given_back.contains("small-gain"), "{given_back}");
}

#[test]
fn packagers_get_completions_and_a_manual() {
    for (shell, sign) in [("bash", "complete -F"), ("zsh", "#compdef hlo-opt"), ("fish", "complete -c hlo-opt")] {
        let run = run(["--completions", shell]);
        assert!(run.code == 0 && run.stdout.contains(sign) && run.stdout.contains("min-saving"), "{shell}: {run}");
    }
    let page = run(["--manual"]).stdout;
    assert!(page.contains(".TH hlo-opt 1") && page.contains("min\\-saving") && page.contains("Exit codes"), "{page}");
    assert_eq!(run(["--manual", S32]).code, 2);
}

#[test]
fn passes_are_listed() {
    insta::assert_snapshot!(run(["--list-passes"]));
}

#[test]
fn every_listed_pass_is_explained() {
    for line in run(["--list-passes"]).stdout.lines() {
        let name = line.split_whitespace().next().unwrap();
        let page = run(["--explain", name]);
        assert_eq!((page.code, page.stderr.as_str()), (0, ""), "{name}");
        assert!(page.stdout.lines().count() > 5, "the page of {name} is too short:\n{}", page.stdout);
    }
}

#[test]
fn the_module_goes_to_standard_output_and_the_summary_to_standard_error() {
    let run = run([S32]);
    assert_eq!(run.code, 0, "{run}");
    assert!(run.stdout.starts_with("HloModule jit_loss"), "{}", run.stdout);
    insta::assert_snapshot!(run.stderr);
}

#[test]
fn quiet_prints_nothing_but_the_module() {
    assert_eq!(run(["--quiet", S32]).stderr, "");
    assert_eq!(run(["-q", S32]).stdout, run([S32]).stdout);
}

#[test]
fn standard_input_is_the_default() {
    let input = text(S32);
    let from_file = run([S32]);
    assert_eq!(run_on(input.as_bytes(), ["-"]), from_file);
    assert_eq!(run_on(input.as_bytes(), [] as [&str; 0]), from_file);
}

#[test]
fn output_names_a_file_or_a_dash() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("out.hlo");
    let written = run([S32, "-o", path.to_str().unwrap()]);
    assert_eq!((written.code, written.stdout.as_str()), (0, ""));
    assert_eq!(fs::read_to_string(&path).unwrap(), run([S32]).stdout);
    assert_eq!(run([S32, "-o", "-"]), run([S32]));
}

#[test]
fn the_input_may_be_the_output() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("module.hlo");
    fs::copy(root().join(S32), &path).unwrap();
    assert_eq!(run(["-q", path.to_str().unwrap(), "-o", path.to_str().unwrap()]).code, 0);
    assert_eq!(fs::read_to_string(&path).unwrap(), run([S32]).stdout);
}

#[test]
fn commands_of_the_package_are_called_by_their_names() {
    for (command, how) in [("fleet", "docs/fleets.md"), ("run", "python -m hlo_opt run")] {
        let run = run([command, "somewhere"]);
        let said = format!("`{command}` is a command of the Python package");
        assert!(run.code == 2 && run.stderr.contains(&said) && run.stderr.contains(how), "{run}");
    }
}

#[test]
fn an_existing_output_survives_every_error() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("out.hlo");
    fs::write(&path, "precious").unwrap();
    let out = path.to_str().unwrap();
    let truncated = &text(S32)[..1500];
    assert_eq!(run_on(truncated.as_bytes(), ["-o", out]).code, 1);
    assert_eq!(run(["no-such-file", "-o", out]).code, 1);
    assert_eq!(run([S32, "-o", out, "--passes=none-of-this-name"]).code, 2);
    assert_eq!(run([S32, "-o", out, "--report", "/no/such/folder/report.json"]).code, 2);
    assert_eq!(fs::read_to_string(&path).unwrap(), "precious");
    assert_eq!(folder.path().read_dir().unwrap().count(), 1, "no temporary files stay behind");
}

#[cfg(unix)]
#[test]
fn a_replaced_file_keeps_its_permissions_and_a_link_stays_a_link() {
    use std::os::unix::fs::{PermissionsExt as _, symlink};
    let folder = tempfile::tempdir().unwrap();
    let (path, link) = (folder.path().join("out.hlo"), folder.path().join("link.hlo"));
    fs::write(&path, "old").unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o640)).unwrap();
    symlink(&path, &link).unwrap();
    assert_eq!(run_on(TINY.as_bytes(), ["-o", link.to_str().unwrap()]).code, 0);
    assert_eq!(fs::read_to_string(&path).unwrap(), TINY);
    assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o640);
    assert!(fs::symlink_metadata(&link).unwrap().is_symlink());
}

#[cfg(unix)]
#[test]
fn a_device_is_written_to_and_not_replaced() {
    let run = run([S32, "-q", "-o", "/dev/stdout"]);
    assert_eq!((run.code, run.stderr.as_str()), (0, ""));
    assert!(run.stdout.starts_with("HloModule jit_loss"));
}

#[test]
fn a_reader_that_goes_away_is_no_error() {
    let mut child = command().arg(S32).arg("-q").stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    drop(child.stdout.take());
    let output = child.wait_with_output().unwrap();
    assert_eq!((output.status.code(), output.stderr.as_slice()), (Some(0), &b""[..]));
}

#[test]
fn no_passes_print_the_module_back() {
    assert_eq!(run_on(TINY.as_bytes(), ["--passes="]).stdout, TINY);
}

#[test]
fn check_writes_nothing_and_says_by_its_code_whether_a_rewrite_helps() {
    let helps = run([S32, "--check"]);
    assert_eq!((helps.code, helps.stdout.as_str()), (5, ""), "{helps}");
    let tiny = run_on(TINY.as_bytes(), ["--check"]);
    assert_eq!((tiny.code, tiny.stdout.as_str()), (0, ""), "{tiny}");
}

#[test]
fn a_diff_takes_the_place_of_the_module() {
    let diff = run([S32, "--diff"]);
    assert_eq!(diff.code, 0);
    assert!(diff.stdout.starts_with(&format!("--- {S32}\n+++ {S32}\n@@ ")), "{diff}");
    assert_eq!(run_on(TINY.as_bytes(), ["--diff"]).stdout, "");
    assert_eq!(run([S32, "--diff", "--check"]).stdout, diff.stdout);
    assert_eq!(run([S32, "--diff", "--check"]).code, 5);
}

#[test]
fn a_missed_chance_is_said_and_a_promise_takes_it() {
    let missed = run([S32, "-o", "/dev/null", "--passes=direct-index"]);
    let promised = run([S32, "-o", "/dev/null", "--passes=direct-index", "--assume=indices-in-bounds"]);
    insta::assert_snapshot!(format!("{missed}{promised}"));
}

#[test]
fn a_saving_below_the_minimum_is_left_alone() {
    let run = run([S32, "--min-saving=1TiB", "--check"]);
    assert_eq!(run.code, 0, "{run}");
}

#[test]
fn color_obeys_its_flag() {
    let colored = |when: &str| run(["--color", when, "no-such-file"]).stderr.contains('\u{1b}');
    assert!(!colored("auto"), "standard error is no terminal here");
    assert!(!colored("never"));
    assert!(colored("always"));
    let forced = finish(command().args(["--color=always", "--diff", S32]).env("NO_COLOR", "1"));
    assert!(forced.stdout.contains("\u{1b}[32m+"), "{forced}");
}

#[test]
fn analyze_prints_figures_and_holders() {
    insta::assert_snapshot!(run(["--analyze", S32]));
}

#[cfg(target_os = "linux")]
#[test]
fn a_full_disk_is_an_error_and_leaves_files_alone() {
    let full = || fs::File::options().write(true).open("/dev/full").unwrap();
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("out.hlo");
    fs::write(&path, "precious").unwrap();
    let run = finish(command().args([S32, "-q", "--diff", "-o", path.to_str().unwrap()]).stdout(full()));
    assert_eq!(run.code, 1, "{run}");
    assert!(run.stderr.contains("cannot write `standard output`: No space left on device"), "{run}");
    assert_eq!(fs::read_to_string(&path).unwrap(), "precious");
    assert_eq!(common::run([S32, "-o", "/dev/full"]).code, 1);
}

#[test]
fn the_readme_shows_the_summary_of_its_first_command() {
    let readme = text("README.md");
    for line in run([S32]).stderr.lines() {
        assert!(readme.contains(line), "README.md does not show: {line}");
    }
}

/// A budget is met only if all that XLA may need beyond the model fits too, and the message says how much that is.
#[test]
fn a_budget_asks_for_the_certain_bytes() {
    let module =
        "HloModule m\n\nENTRY e {\n  p = f32[4,4] parameter(0)\n  ROOT c = f32[4,4] cholesky(p), lower=true\n}\n";
    let folder = tempfile::tempdir().expect("a folder for one file");
    let path = folder.path().join("m.hlo");
    std::fs::write(&path, module).expect("a file in it");
    let with = |budget: &str| run(["--budget", budget, path.to_str().expect("a plain path")]);
    // 64 bytes each for operand and result, and twice both.
    let (enough, short) = (with("384"), with("383"));
    assert_eq!((enough.code, short.code), (0, 4), "{enough}{short}");
    assert!(short.stderr.contains("the peak of 128 B, and up to 256 B more, does not fit 383 B"), "{short}");
}

/// A line of a library, called from a line of the user's.
const CALLED: &str = "HloModule m

FileNames
1 \"model/train.py\"
2 \"lib/python3.11/site-packages/library/layers.py\"

FunctionNames
1 \"f\"

FileLocations
1 {file_name_id=1 function_name_id=1 line=7}
2 {file_name_id=2 function_name_id=1 line=700}

StackFrames
1 {file_location_id=1 parent_frame_id=1}
2 {file_location_id=2 parent_frame_id=2}

ENTRY %main (x: f32[4096]) -> f32[4096] {
  %x = f32[4096]{0} parameter(0)
  ROOT %y = f32[4096]{0} negate(%x), metadata={op_name=\"jit(f)/neg\" stack_frame_id=2}
}
";

#[test]
fn lines_are_those_of_the_user_or_below_the_source_root() {
    let plain = common::run_on(CALLED.as_bytes(), ["--analyze"]);
    assert!(plain.stdout.contains("model/train.py:7"), "{plain}");
    assert!(!plain.stdout.contains("layers.py:700 "), "{plain}");
    let rooted =
        common::run_on(CALLED.as_bytes(), ["--analyze", "--source-root", "lib/python3.11/site-packages/library"]);
    assert!(rooted.stdout.contains("layers.py:700"), "{rooted}");
}

/// 12 MiB, a third of them for the first product.
const PRODUCTS: &str = "HloModule products

ENTRY %e {
  %x = f32[1024,1024]{1,0} parameter(0)
  %y = f32[1024,1024]{1,0} dot(%x, %x), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  ROOT %z = f32[1024,1024]{1,0} dot(%y, %y), lhs_contracting_dims={1}, rhs_contracting_dims={0}
}
";

#[test]
fn a_budget_is_met_if_the_error_margin_of_a_rough_model_fits_too() {
    let with = |budget: &str, target: &str| {
        common::run_on(
            PRODUCTS.as_bytes(),
            ["-", "-o", "/dev/null", "--passes=", "--target", target, "--budget", budget],
        )
    };
    let met = with("14MiB", "gpu");
    assert_eq!(met.code, 0, "{met}");
    assert!(met.stderr.contains("rough: the budget is met with an error margin of 1.80 MiB"), "{met}");
    let near = with("13MiB", "gpu");
    assert_eq!(near.code, 4, "{near}");
    assert!(near.stderr.contains("12.00 MiB, and up to 1.80 MiB more, does not fit 13.00 MiB"), "{near}");
    assert!(near.stderr.contains("--judge xla asks XLA"), "{near}");
    let missed = with("11MiB", "gpu");
    assert!(missed.code == 4 && !missed.stderr.contains("--judge"), "{missed}");
    let known = with("12MiB", "cpu");
    assert!(known.code == 0 && !known.stderr.contains("rough"), "{known}");
    let of_device = common::run_on(PRODUCTS.as_bytes(), ["-", "-o", "/dev/null", "--passes=", "--target=gpu:h100"]);
    assert!(of_device.stderr.contains("  fits the 74.51 GiB of h100"), "{of_device}");
    let larger = PRODUCTS.replace("1024,1024", "80000,80000");
    let near = common::run_on(larger.as_bytes(), ["-", "-o", "/dev/null", "--passes=", "--target=gpu:h100"]);
    assert!(near.stderr.contains("peak 71.53 GiB") && near.stderr.contains("may not fit the 74.51 GiB"), "{near}");
}

#[test]
fn budgets_are_taken_in_decimal_units() {
    let fits = common::run_on(CALLED.as_bytes(), ["--budget", "33kB", "--quiet"]);
    assert_eq!(fits.code, 0, "{fits}");
    let over = common::run_on(CALLED.as_bytes(), ["--budget", "32kB", "--quiet"]);
    assert_eq!(over.code, 4, "{over}");
}
