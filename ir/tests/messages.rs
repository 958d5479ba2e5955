//! What is said about bad input. `rejected/*.hlo` are texts that cannot be read, `illegal/*.hlo` texts that can be read but break an
//! invariant, which their first line names: `// V10`. A file dropped into a folder is a test; its messages are a snapshot.
//!
//! Pins `ir/src/text/errors.rs`, `ir/src/verify/mod.rs`, `ir/src/diagnostic.rs`.

use std::fmt::Write as _;
use std::fs;

use hlo_ir::{Diagnostic, text, verify};

/// All that is said: places as `line:column`, then labels and notes.
fn written(source: &str, problems: &[Diagnostic]) -> String {
    let place = |span: hlo_ir::Span| {
        let (line, column) = text::line_column(source, span.start);
        let covered = source.get(span.start as usize..span.end as usize).expect("spans lie in the text, on characters");
        format!("{line}:{column} `{}`", covered.lines().next().unwrap_or_default())
    };
    let mut out = String::new();
    for problem in problems {
        let at = problem.span.map_or_else(|| "header".into(), place);
        writeln!(out, "{at}\n  {}", problem.message).expect("writing to a string cannot fail");
        for (span, label) in &problem.labels {
            writeln!(out, "  label {}: {label}", place(*span)).expect("writing to a string cannot fail");
        }
        for note in &problem.notes {
            writeln!(out, "  help: {note}").expect("writing to a string cannot fail");
        }
    }
    out
}

#[test]
fn texts_that_cannot_be_read() {
    insta::glob!("rejected/*.hlo", |path| {
        let source = fs::read_to_string(path).expect("a readable file");
        let problems = text::parse(&source).expect_err("a file of this folder cannot be read");
        insta::assert_snapshot!(written(&source, &problems));
    });
}

#[test]
fn modules_that_break_an_invariant() {
    insta::glob!("illegal/*.hlo", |path| {
        let source = fs::read_to_string(path).expect("a readable file");
        let module = text::parse(&source).unwrap_or_else(|problems| panic!("{}: {problems:#?}", path.display()));
        let problems = verify::verify(&module);
        let broken =
            source.strip_prefix("// ").and_then(|rest| rest.lines().next()).expect("the first line names V1...");
        assert!(!problems.is_empty(), "{} is legal", path.display());
        for problem in &problems {
            assert!(problem.message.ends_with(&format!("[{broken}]")), "{}: {problem}", path.display());
        }
        insta::assert_snapshot!(written(&source, &problems));
    });
}
