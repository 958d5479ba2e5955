//! Dumps of other people, which are not part of the repository: where `../shared/external-hlo` exists beside it (or `HLO_OPT_DUMPS` names a
//! folder of the same form), every piece that XLA reads is parsed, printed as a fixed point and verified without false alarm.
//! `tests/referee/dumps.py` asks XLA about the same files.
//!
//! Pins `ir/src/text/mod.rs`, `ir/src/verify/mod.rs`.

use std::path::{Path, PathBuf};
use std::{env, fs};

use hlo_ir::{text, verify};

/// Where the dumps lie, if anywhere.
fn folder() -> Option<PathBuf> {
    let beside = || {
        let shared = |root: &Path| root.join("shared/external-hlo");
        Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().map(shared).find(|folder| folder.is_dir())
    };
    env::var_os("HLO_OPT_DUMPS").map(PathBuf::from).or_else(beside)
}

/// A file of the manifest and what XLA says about it: `yes`, `after split` or `no`.
fn manifest(folder: &Path) -> Vec<(String, String)> {
    let table = fs::read_to_string(folder.join("manifest.csv")).expect("the dumps come with a manifest");
    let rows = table.lines().skip(1).map(|line| {
        let verdict = ["yes", "after split", "no"].into_iter().find(|verdict| line.contains(&format!(",{verdict},")));
        let file = line.split(',').next().expect("a line has a first field");
        (file.to_owned(), verdict.expect("a line has a verdict").to_owned())
    });
    rows.collect()
}

/// The modules of a file that is several, each with its label.
fn pieces(file: &str, source: &str) -> Vec<(String, String)> {
    let mut pieces = vec![String::new()];
    for line in source.split_inclusive('\n') {
        if line.starts_with("// -----") {
            pieces.push(String::new());
        } else {
            pieces.last_mut().expect("there is always a last piece").push_str(line);
        }
    }
    let says_something = |piece: &str| piece.lines().any(|line| !line.trim().is_empty() && !line.starts_with("//"));
    let numbered = pieces.into_iter().enumerate().map(|(number, piece)| (format!("{file}#{number}"), piece));
    numbered.filter(|(_, piece)| says_something(piece)).collect()
}

/// What is wrong with our reading of a piece, nothing if all is well.
fn fault(source: &str) -> Option<String> {
    let module = match text::parse(source) {
        Ok(module) => module,
        Err(problems) => return Some(problems[0].message.clone()),
    };
    let printed = text::print(&module);
    let again = text::parse(&printed).map(|again| text::print(&again));
    if again.is_ok_and(|again| again == printed) {
        verify::verify(&module).first().map(|problem| problem.message.clone())
    } else {
        Some("its print does not print back".to_owned())
    }
}

#[test]
fn what_xla_reads_we_read_and_call_legal() {
    let Some(folder) = folder() else {
        eprintln!("\nNOT CHECKED: no dumps of other people at ../shared/external-hlo, and HLO_OPT_DUMPS is not set\n");
        return;
    };
    let known = include_str!("../../tests/referee/illegal.json");
    let known: serde_json::Map<String, serde_json::Value> = serde_json::from_str(known).expect("a JSON object");
    let (mut read, mut wrong, mut unused) = (0, Vec::new(), known.clone());
    for (file, verdict) in manifest(&folder) {
        let source = String::from_utf8_lossy(&fs::read(folder.join(&file)).expect("a listed file")).into_owned();
        let pieces = match verdict.as_str() {
            "yes" => vec![(file, source)],
            "after split" => pieces(&file, &source),
            _ => Vec::new(),
        };
        for (label, piece) in pieces {
            let reason = known.keys().find(|end| label.ends_with(end.as_str()));
            match (fault(&piece), reason) {
                (Some(_), Some(listed)) => drop(unused.remove(listed)),
                (Some(message), None) => wrong.push(format!("{label}: {message}")),
                (None, _) => read += 1,
            }
        }
    }
    assert!(wrong.is_empty(), "{} false alarms:\n{}", wrong.len(), wrong.join("\n"));
    assert!(read > 600, "only {read} pieces: what was read here?");
    assert!(unused.is_empty(), "these are legal by now, strike them off the list: {unused:?}");
}
