//! Every file of the corpus: reading and printing gives the same bytes, and the module is legal.
//!
//! Pins `ir/src/text/mod.rs`, `ir/src/text/print.rs`, `ir/src/verify/mod.rs`.

use std::fs;
use std::path::{Path, PathBuf};

use hlo_ir::{text, verify};

/// HLO files below the corpus folder; `programs` holds templates, which are no HLO yet.
fn files() -> Vec<PathBuf> {
    let mut files = Vec::new();
    let mut folders = vec![Path::new(env!("CARGO_MANIFEST_DIR")).join("../corpus")];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder).expect("the corpus is a folder of this repository") {
            let path = entry.expect("a readable folder").path();
            if path.is_dir() && path.file_name().is_some_and(|name| name != "programs") {
                folders.push(path);
            } else if path.extension().is_some_and(|extension| extension == "hlo") {
                files.push(path);
            }
        }
    }
    files.sort();
    files
}

#[test]
fn every_file_prints_back_as_it_was() {
    let files = files();
    assert!(files.len() > 10, "the corpus is not where this test looks for it");
    for path in files {
        let source = fs::read_to_string(&path).expect("a readable file");
        let module = text::parse(&source).unwrap_or_else(|problems| panic!("{}: {problems:#?}", path.display()));
        assert_eq!(text::print(&module), source, "{}", path.display());
        assert_eq!(verify::verify(&module), [], "{}", path.display());
    }
}
