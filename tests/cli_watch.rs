//! The flags that bound a run or show what goes on in it: budget, limit on rewrites, dumps, tables, and why a pass did not do more.
//!
//! Pins `src/watcher.rs`, `src/watch_flags.rs`, `src/why_not.rs`.

#![allow(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]

mod common;

use std::fs;

use common::{run, run_on, text};

const S32: &str = "corpus/founding/s32.before.hlo";
const TWO: &str = "corpus/chunk/fires-two-tables.before.hlo";

#[test]
fn a_budget_that_fits_ends_the_search() {
    let met = run([S32, "-o", "/dev/null", "--budget=100GiB"]);
    assert_eq!(met.code, 0, "{met}");
    let at_ease = run([S32, "--budget=300GiB"]);
    assert_eq!(at_ease.code, 0, "{at_ease}");
    assert_eq!(at_ease.stdout, run([S32, "--passes="]).stdout, "a peak that fits is left alone");
    assert!(at_ease.stderr.contains("[budget]"), "{at_ease}");
}

#[test]
fn a_missed_budget_is_exit_code_4_without_a_module() {
    let folder = tempfile::tempdir().unwrap();
    let (module, report) = (folder.path().join("out.hlo"), folder.path().join("report.json"));
    fs::write(&module, "precious").unwrap();
    let args = [S32, "-q", "--budget=1GiB", "-o", module.to_str().unwrap(), "--report", report.to_str().unwrap()];
    let missed = run(args);
    assert_eq!((missed.code, missed.stdout.as_str()), (4, ""), "{missed}");
    assert!(missed.stderr.contains("over budget: the peak of 96.07 GiB does not fit 1.00 GiB"), "{missed}");
    assert_eq!(fs::read_to_string(&module).unwrap(), "precious");
    assert!(fs::read_to_string(&report).unwrap().contains("\"rewrites\""), "the report says what was tried");
}

#[test]
fn the_limit_counts_rewrites_from_the_first() {
    let all = run([S32, "--opt-bisect-limit=9"]);
    assert_eq!(all, run([S32]));
    let none = run([S32, "--opt-bisect-limit=0"]);
    assert_eq!((none.code, &none.stdout), (0, &run([S32, "--passes="]).stdout));
    assert!(none.stderr.contains("rewrite 1 of this run is behind the limit of 0 rewrites"), "{none}");
    assert!(none.stderr.contains("rewrite 2 of this run is behind the limit of 0 rewrites"), "{none}");
    assert_eq!(none.stderr.matches("[bisect-limit]").count(), 2, "only what the limit keeps away: {none}");
}

#[test]
fn modules_are_printed_after_the_passes_asked_for() {
    let printed = run([S32, "-o", "/dev/null", "--print-after=chunk"]);
    assert!(printed.stderr.starts_with("// after rewrite 1: chunk scatter-add.5\nHloModule jit_loss"), "{printed}");
    assert_eq!(printed.stderr.matches("// after rewrite").count(), 1, "{printed}");
    let all = run([S32, "-o", "/dev/null", "--print-after=all"]);
    assert!(all.stderr.contains("\n// after rewrite 2: column-slices idx.1\nHloModule jit_loss"), "{all}");
    assert!(all.stderr.starts_with("// after rewrite 1: chunk") && !all.stderr.contains("// put back"), "{all}");
    assert!(!run([S32, "-o", "/dev/null", "--print-after=dead-code"]).stderr.contains("HloModule"));
    let unknown = run([S32, "--print-after=chnk"]);
    assert!(unknown.code == 2 && unknown.stderr.contains("did you mean `chunk`?"), "{unknown}");
    let absent = run([S32, "--passes=dead-code", "--print-after=chunk"]);
    assert!(absent.code == 2 && absent.stderr.contains("--passes leaves this pass out"), "{absent}");
}

#[test]
fn dumps_show_every_rewrite_that_stays() {
    let folder = tempfile::tempdir().unwrap();
    let dumps = folder.path().join("dumps");
    let last = run([TWO, "-q", "--dump-dir", dumps.to_str().unwrap()]);
    assert_eq!((last.code, last.stderr.as_str()), (0, ""), "{last}");
    let mut names: Vec<String> =
        dumps.read_dir().unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    assert_eq!(names[0], "0000.input.hlo");
    let (last_dump, rewrites) = names[1..].split_last().unwrap();
    assert!(!rewrites.is_empty() && rewrites.iter().all(|name| name.contains(".chunk.")), "{names:?}");
    assert!(
        last_dump.starts_with(&format!("{:04}.column-slices.", rewrites.len() + 1)),
        "loops are made faster last: {last_dump}"
    );
    let read = |name: &String| fs::read_to_string(dumps.join(name)).unwrap();
    assert_eq!(read(&names[0]), run([TWO, "--passes="]).stdout);
    assert_eq!(read(names.last().unwrap()), last.stdout);
    let file = folder.path().join("file");
    fs::write(&file, "").unwrap();
    let failed = run([TWO, "--dump-dir", file.to_str().unwrap()]);
    assert!(failed.code == 1 && failed.stderr.contains("cannot write"), "{failed}");
}

#[test]
fn tables_of_times_and_counts_go_to_standard_error() {
    let tables = run([S32, "-q", "--time-passes", "--stats"]);
    assert_eq!(tables.stdout, run([S32]).stdout);
    for row in ["search of chunk", "memory estimates", "total", "findings, tried, made, put back"] {
        assert!(tables.stderr.contains(row), "{tables}");
    }
    let chunk = tables.stderr.lines().find(|line| line.ends_with("  chunk")).unwrap();
    let numbers: Vec<usize> = chunk.split_whitespace().filter_map(|word| word.parse().ok()).collect();
    assert!(numbers.len() == 4 && numbers[2] == 1 && numbers[3] == 0, "{chunk}");
}

#[test]
fn why_not_speaks_of_one_pass() {
    insta::assert_snapshot!(run(["--why-not=direct-index", S32]).stdout);
    let chunk = run(["--why-not=chunk", S32]);
    assert!(chunk.code == 0 && chunk.stdout.contains("1. chunk scatter-add.5 of"), "{chunk}");
    assert!(!chunk.stdout.contains("direct-index") && !chunk.stdout.contains("HloModule"), "{chunk}");
    let nothing = run_on(text("corpus/chunk/keeps-segment-sum.before.hlo").as_bytes(), ["--why-not=inline-calls"]);
    assert!(nothing.stdout.contains("\nStays away from scheduled modules"), "{nothing}");
    assert_eq!(run(["--why-not=chunk", S32, "-o", "-"]).code, 2);
    assert_eq!(run(["--why-not=chunk", S32, "--diff"]).code, 2);
}

/// A program over four devices that exchange halos, which the model of the partitioner does not know.
const HALOS: &str = r##"HloModule halos, num_partitions=4, frontend_attributes={xla.sdy.meshes={mesh = #sdy.mesh<["d"=4]>}}

ENTRY e {
  p = f32[4096,64]{1,0} parameter(0), sharding={devices=[4,1]<=[4]}, frontend_attributes={xla.sdy.sharding="#sdy.sharding<@mesh, [{\"d\"}, {}]>"}
  r = f32[4096,64]{1,0} reverse(p), dimensions={0}
  ROOT s = f32[4096,64]{1,0} sine(r)
}
"##;

#[test]
fn of_all_devices_together_nothing_is_said_to_fit() {
    let found =
        run_on(HALOS.as_bytes(), ["-", "-o", "/dev/null", "--target=gpu:h100", "--curve", "--passes=dead-code"]);
    assert_eq!(found.code, 0, "{found}");
    assert!(found.stderr.contains("of all devices together") && !found.stderr.contains("EiB"), "{found}");
    assert!(!found.stderr.contains("fit the") && !found.stderr.contains("fits the"), "{found}");
    let budget = run_on(HALOS.as_bytes(), ["-", "-o", "/dev/null", "--budget=1GiB"]);
    assert_eq!(budget.code, 4, "{budget}");
    assert!(budget.stderr.contains("whether the budget of 1.00 GiB is met is not known"), "{budget}");
}
