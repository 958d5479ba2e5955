//! The scheduled modules of the corpus: our figures against the ones XLA reported when the module was compiled.
//!
//! Pins `memory/src/assignment/mod.rs`, `memory/src/estimate.rs`.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};

use hlo_memory::assignment::assign;
use hlo_memory::{Bytes, Estimate};

fn corpus() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../corpus")
}

/// Every `*.after.hlo` below a folder, sorted.
fn scheduled(folder: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let entries = fs::read_dir(folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display()));
    for path in entries.map(|entry| entry.expect("the folder can be listed").path()) {
        if path.is_dir() {
            found.extend(scheduled(&path));
        } else if path.to_string_lossy().ends_with(".after.hlo") {
            found.push(path);
        }
    }
    found.sort();
    found
}

/// An integer of the JSON beside a module.
fn xla(module: &Path, key: &str) -> u64 {
    let json = module.to_string_lossy().replace(".after.hlo", ".xla.json");
    let text = fs::read_to_string(&json).unwrap_or_else(|error| panic!("{json}: {error}"));
    let (_, rest) = text.split_once(&format!("\"{key}\": ")).unwrap_or_else(|| panic!("{json} has no {key}"));
    let digits = rest.split(|c: char| !c.is_ascii_digit()).next();
    digits.and_then(|digits| digits.parse().ok()).unwrap_or_else(|| panic!("{json}: {key} is no number"))
}

fn estimate(path: &Path) -> Estimate {
    let text = fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    let module = hlo_ir::text::parse(&text).unwrap_or_else(|errors| panic!("{}: {errors:?}", path.display()));
    assign(&module).unwrap_or_else(|error| panic!("{}: {error}", path.display())).estimate()
}

#[test]
fn founding_programs_are_exact() {
    let programs = scheduled(&corpus().join("founding"));
    assert!(programs.len() >= 6, "the founding programs are missing");
    for path in programs {
        let figures = estimate(&path);
        assert_eq!(figures.total, Bytes(xla(&path, "total_bytes")), "{}", path.display());
        assert_eq!(figures.arguments, Bytes(xla(&path, "argument_bytes")), "{}", path.display());
        assert_eq!(figures.outputs, Bytes(xla(&path, "output_bytes")), "{}", path.display());
        assert_eq!(figures.aliased, Bytes(xla(&path, "alias_bytes")), "{}", path.display());
        assert_eq!(figures.temporaries, Bytes(xla(&path, "temp_bytes")), "{}", path.display());
    }
    let s32 = estimate(&corpus().join("founding/s32.after.hlo"));
    assert_eq!(s32.total, Bytes(240_526_557_204));
    assert_eq!(estimate(&corpus().join("founding/s16.after.hlo")).total, Bytes(188_986_949_652));
    assert_eq!(s32.floor, Bytes(103_087_603_712));
    // The scatter works in place, so its last operand is where the most is alive first.
    assert_eq!((s32.peak.instruction.as_str(), s32.peak.bytes), ("wrapped_broadcast.1", Bytes(240_526_557_192)));
    let largest: Vec<&str> = s32.largest.iter().map(|buffer| buffer.instruction.as_str()).collect();
    assert_eq!(largest[..3], ["idx.1", "concatenate_bitcast_fusion", "wrapped_broadcast.1"]);
    assert_eq!(s32.largest[1].source.as_deref(), Some("repro.py:4"));
}

/// What every estimate must satisfy, whatever the module.
fn check_invariants(figures: &Estimate, name: &str) {
    let parts = figures.arguments + figures.outputs - figures.aliased
        + figures.constants
        + figures.temporaries
        + figures.thread_local;
    assert_eq!(figures.total, parts, "{name}: the parts do not add up");
    assert_eq!(figures.peak.bytes, figures.timeline.iter().copied().max().unwrap_or_default(), "{name}");
    assert!(figures.peak.bytes <= figures.total, "{name}: more alive than allocated");
    assert!(figures.largest.is_sorted_by(|a, b| a.bytes >= b.bytes), "{name}");
    if figures.largest.len() < hlo_memory::assignment::LARGEST_ROWS {
        let alive: Bytes = figures.largest.iter().map(|buffer| buffer.bytes).sum();
        assert_eq!(alive, figures.peak.bytes, "{name}: the list does not add up to the peak");
    }
}

/// One line per folder, and one per module that misses: adding an exact module changes nothing here.
#[test]
fn scoreboard() {
    let mut board: BTreeMap<String, String> = BTreeMap::new();
    for path in scheduled(&corpus()) {
        let name = path.strip_prefix(corpus()).expect("it was found below the corpus").display().to_string();
        let figures = estimate(&path);
        check_invariants(&figures, &name);
        let folder = name.rsplit_once('/').map_or("", |(folder, _)| folder);
        let misses = board.entry(folder.to_owned()).or_default();
        let (ours, theirs) = (figures.total.get(), xla(&path, "total_bytes"));
        if ours != theirs {
            writeln!(misses, "    {name}: ours {ours}, XLA {theirs}").expect("writing to a string succeeds");
        }
    }
    assert!(!board.is_empty(), "the corpus has no scheduled modules");
    let line = |(folder, misses): (&String, &String)| match misses.as_str() {
        "" => format!("{folder}: exact\n"),
        _ => format!("{folder}:\n{misses}"),
    };
    insta::assert_snapshot!(board.iter().map(line).collect::<String>());
}
