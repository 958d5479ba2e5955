//! XLA dump folders, made by XLA itself: which module is read, XLA's own figure beside ours, and our assignment in XLA's own formats.
//!
//! Pins `src/folder/mod.rs`, `src/report/xla.rs`, `memory/src/assignment/report.rs`, `memory/src/assignment/from_proto.rs`.

#![allow(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]

mod common;
#[allow(dead_code, reason = "each test binary needs a part of the referee")]
#[path = "referee/session.rs"]
mod session;

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use common::{corpus, programs, run};
use session::{program, workspace};

/// The folders whose programs are compiled: small ones, and both founding forms.
const FOLDERS: [&str; 3] = ["chunk-small", "direct-index-small", "founding"];

/// The folder into which the programs of the corpus are compiled, once for all tests.
fn dump() -> &'static Path {
    static FOLDER: OnceLock<PathBuf> = OnceLock::new();
    FOLDER.get_or_init(compile)
}

fn compile() -> PathBuf {
    let folder = workspace("dumps");
    let files = FOLDERS
        .iter()
        .flat_map(|folder| programs(folder).into_iter().map(move |name| corpus(folder, &name, "before.hlo")));
    let output = program("dump_folder.py").arg(&folder).args(files).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    folder
}

/// The scheduled texts of a folder beside which XLA's reports stand.
fn scheduled(folder: &Path) -> Vec<PathBuf> {
    let files = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let ends = |path: &PathBuf, end: &str| path.to_str().unwrap().ends_with(end);
    let mut found: Vec<PathBuf> = files.filter(|path| ends(path, "cpu_after_optimizations.txt")).collect();
    found.retain(|path| beside(path, "buffer-assignment").exists());
    found.sort();
    found
}

/// XLA's report of that name beside a text.
fn beside(text: &Path, report: &str) -> PathBuf {
    PathBuf::from(format!("{}-{report}.txt", text.to_str().unwrap().strip_suffix(".txt").unwrap()))
}

/// A list of allocations without the numbers of values, which follow an order of computations that the text does not tell.
fn without_numbers(list: &str) -> Vec<String> {
    let line = |line: &str| match line.split_once("value: <") {
        Some((_, rest)) => format!("value: <{}", rest.split_once(' ').map_or(rest, |(_, rest)| rest)),
        None => line.to_owned(),
    };
    list.trim_end().lines().map(line).collect()
}

#[test]
fn our_assignment_is_xlas_line_by_line() {
    let folder = dump();
    let texts = scheduled(folder);
    assert!(texts.len() > 40, "XLA dumped {} modules only", texts.len());
    let mut numbered = 0;
    for text in &texts {
        let printed = run(["--analyze", "--stage=buffer-assignment", text.to_str().unwrap()]);
        assert_eq!(printed.code, 0, "{printed}");
        let (list, usage) = printed.stdout.split_once("\n\nMemory Space").unwrap();
        let (own_list, own_usage) = ["buffer-assignment", "memory-usage-report"]
            .map(|name| fs::read_to_string(beside(text, name)).unwrap())
            .into();
        assert_eq!(format!("Memory Space{usage}"), own_usage, "{}", text.display());
        assert_eq!(without_numbers(list), without_numbers(&own_list), "{}", text.display());
        numbered += usize::from(list.trim_end() == own_list.trim_end());
    }
    assert!(
        numbered * 4 > texts.len() * 3,
        "the numbers of values agree in {numbered} of {} modules only",
        texts.len()
    );
}

#[test]
fn the_assignment_in_a_binary_dump_is_taken_as_it_is() {
    let texts = scheduled(dump());
    for text in &texts {
        let binary = PathBuf::from(text.to_str().unwrap().replace("optimizations.txt", "optimizations.hlo.pb"));
        let printed = run(["--analyze", "--stage=buffer-assignment", binary.to_str().unwrap()]);
        assert_eq!((printed.code, printed.stderr.as_str()), (0, ""), "{printed}");
        let own =
            ["buffer-assignment", "memory-usage-report"].map(|name| fs::read_to_string(beside(text, name)).unwrap());
        // Here the numbers of values are XLA's, too.
        assert_eq!(printed.stdout.split_once("\n\nMemory Space").unwrap().0, own[0].trim_end(), "{}", text.display());
        assert!(printed.stdout.ends_with(&own[1]), "{printed}");
    }
    let binary = texts[0].to_str().unwrap().replace("optimizations.txt", "optimizations.hlo.pb");
    let analyzed = run(["--analyze", &binary]);
    assert!(analyzed.stdout.contains("model: xla-assignment"), "{analyzed}");
    let of_text = run(["--analyze", texts[0].to_str().unwrap()]);
    let figures = |printed: &str| {
        let rows = printed.lines().filter(|line| line.contains(" B  ") || line.trim_end().ends_with(" B"));
        let row = |line: &str| line.split(" B").next().unwrap().to_owned();
        rows.filter(|line| !line.starts_with("XLA's report")).map(row).collect::<Vec<_>>()
    };
    assert_eq!(figures(&analyzed.stdout), figures(&of_text.stdout));
}

#[test]
fn a_folder_gives_the_module_that_is_asked_for() {
    let folder = dump();
    let path = folder.to_str().unwrap();
    let several = run(["--analyze", path]);
    assert_eq!(several.code, 1);
    assert!(several.stderr.contains("pick one with --module REGEX"), "{several}");
    let texts = scheduled(folder);
    let name = texts[0].file_name().unwrap().to_str().unwrap().split(".cpu_after").next().unwrap();
    let pattern = format!("^{}$", name.replace('.', "\\."));
    let analyzed = run(["--analyze", path, "--module", &pattern]);
    assert_eq!(analyzed.code, 0, "{analyzed}");
    assert!(analyzed.stdout.contains("exact for jaxlib 0.10.2: the module is scheduled"), "{analyzed}");
    let line = analyzed.stdout.lines().find(|line| line.starts_with("XLA's report")).unwrap();
    assert!(line.ends_with("equal to ours"), "{line}");
    // What is rewritten is the program, not what the compiler made of it.
    let rewritten = run(["--quiet", path, "--module", &pattern]);
    assert_eq!(rewritten.code, 0, "{rewritten}");
    assert!(!rewritten.stdout.contains("is_scheduled=true"));
    let nothing = run(["--analyze", path, "--module", "no such module"]);
    assert_eq!(nothing.code, 1);
    assert!(nothing.stderr.contains("matches `no such module`") && nothing.stderr.contains(name), "{nothing}");
    let elsewhere = run(["--analyze", texts[0].to_str().unwrap(), "--module", "x"]);
    assert_eq!(elsewhere.code, 2, "{elsewhere}");
}
