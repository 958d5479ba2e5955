//! What `chunk` does to every program of the corpus, as a diff without metadata. Where it finds nothing to do, calls are inlined
//! first, as the default pipeline does.
//!
//! Pins `passes/src/chunk.rs`.

use crate::common;

use std::fs;
use std::path::Path;

use hlo_ir::graph::Users;
use hlo_ir::{InstructionId, Module, Shape, text, verify};
use hlo_memory::{Bytes, Estimate, size};
use hlo_passes::chunk::Chunk;
use hlo_passes::inline_calls::InlineCalls;
use hlo_passes::{Context, Finding, Machine, Options, Outcome, Pass};

/// Bytes of all arrays of a shape.
fn bytes(shape: &Shape) -> Bytes {
    match shape {
        Shape::Tuple(elements) => elements.iter().map(|element| bytes(element)).sum(),
        array => size::shape_size(array).unwrap_or_default(),
    }
}

/// An estimate that knows arguments and outputs: all that the pass reads.
fn interface(module: &Module) -> Estimate {
    let of = |id: InstructionId| bytes(module.shape(id));
    let entry = module.entry();
    let floor: Bytes = module.parameters(entry).into_iter().chain([module.computation(entry).root]).map(of).sum();
    // What is larger than all memory would not stand in it.
    let computed = module.instructions_of(entry).map(|(id, _)| of(id)).max().unwrap_or_default();
    Estimate { floor, ..common::estimate(floor.max(computed), Vec::new()) }
}

fn find(pass: &dyn Pass, module: &Module) -> Vec<Finding> {
    // As far as this estimate knows, all programs are small; who asks for small savings gets the blocks of large ones.
    let options = Options {
        min_saving: Bytes((1 << 20) - 1),
        machine: Some(Machine::without_malloc_cache()),
        ..Options::default()
    };
    let (users, estimate) = (Users::of(module), interface(module));
    pass.find(&Context::of_input(module, &users, &estimate, &options))
}

/// One line per finding; applies the first rewrite. `false` if there was none.
fn step(pass: &dyn Pass, module: &mut Module, log: &mut Vec<String>) -> bool {
    let mut patch = None;
    for finding in find(pass, module) {
        let name = module.instruction(finding.instruction).name.clone();
        let line = match finding.outcome {
            Outcome::Rewrite { patch: found, note, .. } => {
                let line = format!("{} {name}: {note}, {} [{}]", pass.name(), finding.wasted, finding.grade.name());
                patch = patch.or(Some((found, line)));
                continue;
            }
            Outcome::Missed(reason) | Outcome::Withheld { reason, .. } => {
                format!("missed {name}: {} [{}]", reason.message, reason.code)
            }
        };
        if !log.contains(&line) {
            log.push(line);
        }
    }
    let Some((patch, line)) = patch else { return false };
    log.push(line);
    patch.apply(module).expect("the patch fits");
    assert_eq!(verify::verify(module), [], "{}", text::print(module));
    true
}

fn without_metadata(text: &str) -> String {
    let line = |line: &str| match line.split_once(", metadata={") {
        Some((before, _)) => before.to_owned(),
        None => line.to_owned(),
    };
    text.lines().map(line).collect::<Vec<_>>().join("\n")
}

/// What was found, and how the text changed.
fn report(path: &Path) -> String {
    let source = fs::read_to_string(path).expect("the corpus is readable");
    let mut module = common::parse(&source);
    let mut log = Vec::new();
    if !step(&Chunk, &mut module, &mut log) {
        while step(&InlineCalls::where_needed(), &mut module, &mut log) {}
        step(&Chunk, &mut module, &mut log);
    }
    while step(&Chunk, &mut module, &mut log) {}
    let after = text::print(&module);
    let diff = common::diff(&without_metadata(&source), &without_metadata(&after));
    format!("{}\n{diff}", if log.is_empty() { "nothing found".to_owned() } else { log.join("\n") })
}

#[test]
fn the_corpus_is_rewritten_as_reviewed() {
    insta::with_settings!({ snapshot_path => "snapshots/chunk", prepend_module_to_snapshot => false, omit_expression => true }, {
        insta::glob!("../../corpus", "chunk/*.before.hlo", |path| insta::assert_snapshot!(report(path)));
        insta::glob!("../../corpus", "founding/*.before.hlo", |path| insta::assert_snapshot!(report(path)));
    });
}

#[test]
fn programs_named_fires_are_rewritten() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../corpus/chunk");
    let files = fs::read_dir(&folder).expect("the corpus is there").map(|entry| entry.expect("its entries too").path());
    let is_firing = |path: &Path| path.file_name().is_some_and(|name| name.to_string_lossy().starts_with("fires-"));
    let before: Vec<_> =
        files.filter(|path| is_firing(path) && path.to_string_lossy().ends_with(".before.hlo")).collect();
    assert!(before.len() > 20, "the corpus has shrunk to {} programs", before.len());
    for path in before {
        assert!(report(&path).lines().any(|line| line.starts_with("chunk ")), "{}", path.display());
    }
}
