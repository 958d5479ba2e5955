//! `direct-index` over its corpus: what it finds, why it is sound, and the text it makes.

mod common;

use std::fmt::Write as _;
use std::path::Path;

use common::{diff, estimate, parse};
use hlo_ir::graph::Users;
use hlo_ir::{Module, text, verify};
use hlo_memory::{Bytes, Target};
use hlo_passes::direct_index::DirectIndex;
use hlo_passes::inline_calls::InlineCalls;
use hlo_passes::{Assumption, Context, Finding, Options, Outcome, Pass};

fn find(pass: &dyn Pass, module: &Module, options: &Options) -> Vec<Finding> {
    let (users, estimate) = (Users::of(module), estimate(Bytes::ZERO, Vec::new()));
    pass.find(&Context { module, users: &users, estimate: &estimate, options })
}

fn options(target: Target, assumptions: Vec<Assumption>) -> Options {
    Options { min_saving: Bytes(1), target, assumptions, ..Options::default() }
}

/// What the pass says about a module whose calls around scatters are inlined, and what the first rewrite makes of it.
fn report(source: &str, options: &Options) -> String {
    let mut module = parse(source);
    while let Some(finding) = find(&InlineCalls::where_needed(), &module, options).into_iter().next() {
        let Outcome::Rewrite { patch, .. } = finding.outcome else { panic!("calls around scatters are inlined") };
        patch.apply(&mut module).expect("the module did not change");
    }
    let before = text::print(&module);
    let mut report = String::new();
    for finding in find(&DirectIndex, &module, options) {
        let name = &module.instruction(finding.instruction).name;
        match finding.outcome {
            Outcome::Missed(reason) => {
                let _ = writeln!(report, "{name}: missed {} of {}: {}", reason.code, finding.wasted, reason.message);
            }
            Outcome::Rewrite { patch, note, conditions } => {
                let _ = writeln!(report, "{name}: {note} ({}, {})", finding.grade.name(), finding.wasted);
                for condition in conditions {
                    let _ = writeln!(report, "  {} ({})", condition.text, condition.discharged_by);
                }
                let mut rewritten = module.clone();
                patch.apply(&mut rewritten).expect("the patch fits");
                let problems = verify::verify(&rewritten);
                assert!(problems.is_empty(), "{problems:?}");
                report += &diff(&before, &text::print(&rewritten));
            }
        }
    }
    report
}

#[test]
fn the_corpus_is_judged_like_this() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../corpus");
    assert!(folder.join("direct-index").is_dir(), "the corpus is part of the repository");
    insta::glob!("../../corpus", "{direct-index,founding}/*.before.hlo", |path| {
        let source = std::fs::read_to_string(path).expect("the corpus is text");
        let plain = report(&source, &options(Target::Cpu, Vec::new()));
        let promised = report(&source, &options(Target::Cpu, vec![Assumption::IndicesInBounds]));
        let tpu = report(&source, &options(Target::Tpu, Vec::new()));
        let mut all = plain.clone();
        for (title, other) in [("with indices in bounds", promised), ("for TPU", tpu)] {
            if other != plain {
                let _ = write!(all, "\n{title}:\n{other}");
            }
        }
        insta::assert_snapshot!(all);
    });
}
