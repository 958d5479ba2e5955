//! The rules of the house that no compiler checks: how long files and functions may be, and that every file says what it is for.
//!
//! Pins `CONTRIBUTING.md`.

#![allow(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]

#[path = "house/chains.rs"]
mod chains;
mod common;
#[path = "house/imports.rs"]
mod imports;
#[path = "house/manifests.rs"]
mod manifests;
#[path = "house/pins.rs"]
mod pins;

use std::fs;
use std::path::{Path, PathBuf};

use common::root;

/// Most lines of a file.
const FILE: usize = 600;

/// Most lines of a function, from its signature to its closing brace.
const FUNCTION: usize = 80;

/// Every Rust file of the repository.
fn sources() -> Vec<PathBuf> {
    let mut files = Vec::new();
    for room in ["src", "tests", "fuzz", "ir", "memory", "passes", "python"] {
        collect(&root().join(room), &mut files);
    }
    assert!(files.len() > 40, "the rooms are not where this test looks for them");
    files
}

fn collect(folder: &Path, files: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).unwrap().map(Result::unwrap) {
        let path = entry.path();
        if path.is_dir() && entry.file_name() != "target" {
            collect(&path, files);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            files.push(path);
        }
    }
}

/// First line and number of lines of every function of more than one line, in a file that rustfmt has formatted: the closing brace stands
/// in the column of the signature.
fn functions(text: &str) -> Vec<(usize, usize)> {
    let lines: Vec<_> = text.lines().collect();
    let begins = |line: &str| {
        let words = line.trim_start();
        let declares = words.starts_with("fn ") || words.contains(" fn ");
        declares && words.contains('(') && !words.starts_with("//") && !words.ends_with([';', '}'])
    };
    let indent = |line: &str| line.len() - line.trim_start().len();
    let mut found = Vec::new();
    for (start, line) in lines.iter().enumerate().filter(|(_, line)| begins(line)) {
        let closes = |candidate: &&str| indent(candidate) == indent(line) && candidate.trim_start().starts_with('}');
        if let Some(length) = lines[start + 1..].iter().position(closes) {
            found.push((start + 1, length + 2));
        }
    }
    found
}

/// The part of a file that is only for tests: all of it, or what stands behind `#[cfg(test)]`.
fn for_tests<'t>(path: &Path, text: &'t str) -> &'t str {
    let folder = path.components().any(|part| part.as_os_str() == "tests");
    let start = if folder || path.ends_with("tests.rs") { Some(0) } else { text.find("#[cfg(test)]\nmod ") };
    start.map_or("", |start| &text[start..])
}

#[test]
fn files_are_short() {
    for path in sources() {
        let lines = fs::read_to_string(&path).unwrap().lines().count();
        assert!(lines <= FILE, "{} has {lines} lines, more than {FILE}", path.display());
    }
}

#[test]
fn functions_are_short() {
    for path in sources() {
        for (line, length) in functions(&fs::read_to_string(&path).unwrap()) {
            assert!(
                length <= FUNCTION,
                "{}:{line}: a function of {length} lines, more than {FUNCTION}",
                path.display()
            );
        }
    }
}

#[test]
fn every_file_says_what_it_is_for() {
    for path in sources() {
        assert!(fs::read_to_string(&path).unwrap().starts_with("//! "), "{} has no header", path.display());
    }
}

/// A snapshot is called after its test binary and its test, and behind an `@` after the corpus file it is about.
#[test]
fn no_snapshot_is_orphaned() {
    for entry in fs::read_dir(root().join("tests/snapshots")).unwrap().map(Result::unwrap) {
        let file = entry.file_name().into_string().unwrap();
        let name = file.strip_suffix(".snap").unwrap_or_else(|| panic!("{file} is not a kept snapshot"));
        let (binary, test) = name.split_once("__").unwrap();
        let (test, input) = test.split_once('@').unwrap_or((test, ""));
        let source = common::text(format!("tests/{binary}.rs"));
        assert!(source.contains(test), "{file}: tests/{binary}.rs does not speak of `{test}`");
        let input = root().join("corpus").join(input.replacen("__", "/", 1));
        assert!(input.exists(), "{file}: there is no {}", input.display());
    }
}

/// A program that is made by several replacements, one after another, is nowhere to be read: it stands in a raw string or a file, or a
/// function makes it whose parameters say what varies.
#[test]
fn texts_in_tests_are_not_chains_of_replacements() {
    // Its `replaced` makes the changes that a test lists, each of which it looks for.
    let shared = root().join("passes/tests/common/mod.rs");
    for path in sources().into_iter().filter(|path| *path != shared) {
        let text = fs::read_to_string(&path).unwrap();
        let part = for_tests(&path, &text);
        let before = text[..text.len() - part.len()].lines().count();
        let lines: Vec<usize> = chains::chains(part).into_iter().map(|line| before + line).collect();
        assert!(lines.is_empty(), "{}:{lines:?}: replacements in what was replaced", path.display());
    }
}

#[test]
fn what_is_for_tests_is_found() {
    assert_eq!(for_tests(Path::new("src/a.rs"), "fn a() {}\n"), "", "no part of it is a test");
    let text = "fn a() {}\n#[cfg(test)]\nmod tests {}\n";
    assert_eq!(for_tests(Path::new("src/a.rs"), text), "#[cfg(test)]\nmod tests {}\n");
    assert_eq!(for_tests(Path::new("tests/a.rs"), text), text);
}

#[test]
fn the_counter_counts() {
    let text = "pub fn a(\n    x: u8,\n) {\n    x;\n}\n\nimpl B {\n    fn c() -> u8 {\n        3\n    }\n}\n// a fn d(\nfn e() {}\n";
    assert_eq!(functions(text), [(1, 5), (8, 3)]);
}

/// Modules import each other in one direction, but for these: types that are built from each other.
#[test]
fn modules_import_in_one_direction() {
    let known = [("ir/src", 3), ("memory/src", 10), ("passes/src", 0), ("src", 0)];
    for (folder, most) in known {
        let found = imports::circles(&root().join(folder));
        assert!(found.len() <= most, "{folder}: {found:?}");
    }
}
