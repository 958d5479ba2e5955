//! Applying the chunk pass until it has nothing left to do, and running programs before and after.
#![allow(dead_code, reason = "each test binary uses a part of it")]

pub(crate) mod graphs;
pub(crate) mod programs;
pub(crate) mod scatters;
pub(crate) mod seeded_planner;

use hlo_ir::graph::Users;
use hlo_ir::{Module, text, verify};
use hlo_memory::Bytes;
use hlo_passes::chunk::Chunk;
use hlo_passes::{Context, Finding, Options, Outcome, Pass};

use crate::common::{self, parse};
use crate::interpreter::random::Random;
use crate::interpreter::{Data, run};

/// The pass with blocks of at most `bytes`, and no regard for small savings.
pub(crate) fn options(bytes: u64) -> Options {
    Options { chunk_bytes: Some(Bytes(bytes)), min_saving: Bytes::ZERO, ..Options::default() }
}

pub(crate) fn find(module: &Module, options: &Options) -> Vec<Finding> {
    let users = Users::of(module);
    let estimate = common::estimate(Bytes::ZERO, Vec::new());
    Chunk.find(&Context::of_input(module, &users, &estimate, options))
}

/// Applies rewrites until there is none; the notes of those applied.
pub(crate) fn rewrite(module: &mut Module, options: &Options) -> Vec<String> {
    let mut notes = Vec::new();
    loop {
        let found = find(module, options).into_iter().find_map(|finding| match finding.outcome {
            Outcome::Rewrite { patch, note, .. } => Some((patch, note, finding.grade)),
            Outcome::Missed(_) | Outcome::Withheld { .. } => None,
        });
        let Some((patch, note, grade)) = found else { return notes };
        assert!(grade <= options.exactness, "{note}");
        let before = text::print(module);
        patch.apply(module).expect("the patch fits the module it was made for");
        let violations = verify::verify(module);
        assert!(violations.is_empty(), "{violations:?}\n{before}\n=>\n{}", text::print(module));
        notes.push(note);
        assert!(notes.len() < 20, "the pass does not come to an end: {notes:?}\n{}", text::print(module));
    }
}

/// Codes of the chances missed.
pub(crate) fn missed(module: &Module, options: &Options) -> Vec<&'static str> {
    let code = |finding: Finding| match finding.outcome {
        Outcome::Missed(reason) | Outcome::Withheld { reason, .. } => Some(reason.code),
        Outcome::Rewrite { .. } => None,
    };
    find(module, options).into_iter().filter_map(code).collect()
}

/// Runs both modules on random data.
pub(crate) fn assert_same_results(before: &Module, after: &Module, seed: u64) {
    for case in 0..2 {
        let mut random = Random(seed * 2 + case);
        let array = |id| Data::Array(random.tensor(before.instruction(id).array().expect("parameters are arrays")));
        let arguments: Vec<Data> = before.parameters(before.entry()).into_iter().map(array).collect();
        assert_eq!(
            run(after, &arguments),
            run(before, &arguments),
            "seed {seed}\n{}\n=>\n{}",
            text::print(before),
            text::print(after)
        );
    }
}

/// Rewrites a program, runs both forms, and returns the new one with the notes.
pub(crate) fn checked(source: &str, bytes: u64) -> (Module, Vec<String>) {
    let before = parse(source);
    let mut after = before.clone();
    let notes = rewrite(&mut after, &options(bytes));
    assert_same_results(&before, &after, 1);
    (after, notes)
}
