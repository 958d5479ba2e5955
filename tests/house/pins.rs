//! Tests and the files that they pin name each other: the header of a test has a line `Pins`, and behind the header of a source stands `// Tests:`.
//! A pass names every test that is called after it, which `passes/tests/registry.rs` compares.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use regex::Regex;

use crate::common::root;

/// Files of a folder, from the root of the repository.
fn files(folder: &str, below: bool) -> Vec<String> {
    let mut found = Vec::new();
    for entry in fs::read_dir(root().join(folder)).unwrap().map(Result::unwrap) {
        let name = format!("{folder}/{}", entry.file_name().to_str().unwrap());
        if entry.path().is_dir() && below {
            found.extend(files(&name, below));
        } else if Path::new(&name).extension().is_some_and(|extension| extension == "rs") {
            found.push(name);
        }
    }
    found.sort();
    found
}

/// Paths in the paragraph of a comment that begins with these words.
fn named(text: &str, comment: &str, begin: &str) -> BTreeSet<String> {
    let paragraph = Regex::new(&format!(r"(?m)^{comment} {begin} ((?:.*,\n{comment} )*.*)\.$")).unwrap();
    let path = Regex::new("`([^`]+)`").unwrap();
    let paths = |list: &str| path.captures_iter(list).map(|path| path[1].to_owned()).collect();
    paragraph.captures(text).map_or_else(BTreeSet::new, |found| paths(&found[1]))
}

fn pins(test: &str) -> BTreeSet<String> {
    named(&crate::common::text(test), "//!", "Pins")
}

fn tests(source: &str) -> BTreeSet<String> {
    named(&crate::common::text(source), "//", "Tests:")
}

/// Folders of tests.
const FOLDERS: [&str; 4] = ["ir/tests", "memory/tests", "passes/tests", "tests"];

/// Test files, without the lists of those that are one program.
fn all_tests() -> Vec<String> {
    FOLDERS.iter().flat_map(|folder| files(folder, false)).filter(|file| !file.ends_with("/all.rs")).collect()
}

fn all_sources() -> Vec<String> {
    ["ir/src", "memory/src", "passes/src", "src"].iter().flat_map(|folder| files(folder, true)).collect()
}

#[test]
fn tests_and_what_they_pin_name_each_other() {
    let (sources, all, mut wrong) = (all_sources(), all_tests(), Vec::new());
    for test in &all {
        let pinned = pins(test);
        assert!(!pinned.is_empty(), "{test}: which files does it pin?");
        for file in pinned {
            assert!(root().join(&file).exists(), "{test}: there is no {file}");
            if sources.contains(&file) && !tests(&file).contains(test) {
                wrong.push(format!("{file} does not name {test}, which pins it"));
            }
        }
    }
    for source in sources {
        // Files of other crates are named as they are.
        let is_true =
            |test: &String| root().join(test).exists() && (!all.contains(test) || pins(test).contains(&source));
        let untrue = tests(&source).into_iter().filter(|test| !is_true(test));
        wrong.extend(untrue.map(|test| format!("{test} does not say that it pins {source}")));
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// A file that `all.rs` leaves out is not run.
#[test]
fn lists_of_tests_are_complete() {
    for folder in FOLDERS.iter().filter(|folder| root().join(folder).join("all.rs").exists()) {
        let list = crate::common::text(format!("{folder}/all.rs"));
        for test in all_tests().iter().filter_map(|file| file.strip_prefix(&format!("{folder}/"))) {
            let line = format!("\nmod {};\n", test.strip_suffix(".rs").unwrap());
            assert!(list.contains(&line), "{folder}/all.rs leaves {test} out");
        }
    }
}

/// Each source has tests at its end, or names them; so may the module that it is a part of.
#[test]
fn every_source_has_tests() {
    let is_tested = |file: &str| root().join(file).exists() && !tests(file).is_empty();
    let mut missing = Vec::new();
    for source in all_sources() {
        let modules = Path::new(&source).ancestors().skip(1).map(|folder| folder.to_str().unwrap());
        let mut modules = modules.flat_map(|folder| [format!("{folder}/mod.rs"), format!("{folder}.rs")]);
        let own = crate::common::text(&source).contains("#[cfg(test)]");
        let is_whole = ["lib.rs", "main.rs"].iter().any(|name| source.ends_with(name));
        if !own && !is_whole && !is_tested(&source) && !modules.any(|module| is_tested(&module)) {
            missing.push(source);
        }
    }
    assert!(missing.is_empty(), "without tests, and naming none:\n{}", missing.join("\n"));
}

#[test]
fn names_are_read_over_lines() {
    let text = "//! A test.\n//!\n//! Pins `a.rs`,\n//! `b.rs`.\n\n// Tests: `c.rs`.\n// Not `d.rs`.\n";
    assert_eq!(named(text, "//!", "Pins").into_iter().collect::<Vec<_>>(), ["a.rs", "b.rs"]);
    assert_eq!(named(text, "//", "Tests:").into_iter().collect::<Vec<_>>(), ["c.rs"]);
}
