//! The list of passes and the files of the passes agree, every pass has a manual, and passes and their tests name each other.
//!
//! Pins `passes/src/lib.rs`.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use hlo_passes::manager::default_pipeline;

/// Files under `folder` that implement a pass, as pass names: the file or folder that `src` holds, in kebab case.
fn files_with_passes(folder: &Path, top: Option<&str>, names: &mut BTreeSet<String>) {
    for entry in fs::read_dir(folder).expect("the source folder is readable") {
        let path = entry.expect("its entries too").path();
        let stem = path.file_stem().and_then(|stem| stem.to_str()).expect("source names are plain").to_owned();
        if path.is_dir() {
            files_with_passes(&path, Some(top.unwrap_or(&stem)), names);
        } else if fs::read_to_string(&path).expect("source is text").contains("\nimpl Pass for ") {
            names.insert(top.unwrap_or(&stem).replace('_', "-"));
        }
    }
}

#[test]
fn the_registry_lists_exactly_the_passes_of_the_folder() {
    let mut files = BTreeSet::new();
    files_with_passes(&Path::new(env!("CARGO_MANIFEST_DIR")).join("src"), None, &mut files);
    // The manager wraps passes for the default pipeline; the wrapper is not a pass of its own.
    assert!(files.remove("manager"));
    let listed: Vec<String> = hlo_passes::all().iter().map(|pass| pass.name().to_owned()).collect();
    assert_eq!(listed, files.into_iter().collect::<Vec<_>>(), "in alphabetical order");
}

#[test]
fn every_pass_explains_itself() {
    for pass in hlo_passes::all() {
        let manual = pass.explanation();
        assert!(manual.contains("=>"), "{}: before and after", pass.name());
        for word in ["Waste", "Sound ", "Grade", "Stays away"] {
            assert!(manual.contains(word), "{}: `{word}` is missing", pass.name());
        }
        assert!(!manual.contains("//!") && !pass.summary().ends_with('.'), "{}", pass.name());
    }
}

/// The file of a pass names the tests that are called after it, and the headers of these name the pass. One without has its tests in its source. What other
/// tests pin, `tests/house/pins.rs` compares.
#[test]
fn passes_and_their_tests_name_each_other() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let read = |path: &Path| fs::read_to_string(path).expect("source is text");
    let entries = fs::read_dir(root.join("tests")).expect("the folder of the tests is readable");
    let tests: Vec<_> =
        entries.map(|entry| entry.expect("its entries too").path()).filter(|path| path.is_file()).collect();
    for pass in hlo_passes::all() {
        let file = pass.name().replace('-', "_");
        let source = read(&root.join("src").join(&file).with_extension("rs"));
        let mut kept = BTreeSet::new();
        for path in &tests {
            let stem = path.file_stem().and_then(|stem| stem.to_str()).expect("source names are plain");
            if stem == file || stem.starts_with(&format!("{file}_")) {
                let text = read(path);
                let mut header = text.lines().take_while(|line| line.starts_with("//!"));
                assert!(header.any(|line| line.contains(&format!("`{}`", pass.name()))), "{stem}.rs: whose tests?");
                assert!(source.contains(&format!("`passes/tests/{stem}.rs`")), "{file}.rs does not name {stem}.rs");
                kept.insert(stem.to_owned());
            }
        }
        assert!(!kept.is_empty() || source.contains("#[cfg(test)]"), "{}: no tests", pass.name());
    }
}

#[test]
fn the_default_pipeline_has_every_pass_once() {
    let mut names: Vec<_> = default_pipeline().iter().map(|pass| pass.name()).collect();
    names.sort_unstable();
    assert_eq!(names, hlo_passes::all().iter().map(|pass| pass.name()).collect::<Vec<_>>());
}
