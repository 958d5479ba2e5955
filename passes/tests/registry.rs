//! The list of passes and the files of the passes agree, and every pass has a manual.

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

#[test]
fn the_default_pipeline_has_every_pass_once() {
    let mut names: Vec<_> = default_pipeline().iter().map(|pass| pass.name()).collect();
    names.sort_unstable();
    assert_eq!(names, hlo_passes::all().iter().map(|pass| pass.name()).collect::<Vec<_>>());
}
