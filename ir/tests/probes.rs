//! Small texts with what XLA's own parser says about each ("ok", "error" or "abort", jaxlib 0.10.2), and where this parser and
//! verifier judge otherwise on purpose.
//!
//! Pins `ir/src/text/mod.rs`, `ir/src/verify/mod.rs`.

use std::fs;

use hlo_ir::{text, verify};

/// Texts that XLA's parser takes, but that are no legal programs; XLA finds out later, or never.
const REFUSED: &[&str] = &[
    "c scalar for array",
    "layout dup dims",
    "no shape verify",
    "slice noverify",
    "hdr ecl mismatch",
    "hdr ecl missing param",
    "conv window",
    "pad",
    "dims negative",
    "gte oob",
    "gte non tuple",
    "tuple shape wrong",
    "while mismatch",
    "call wrong argc",
    "fusion argc",
    "iota bad",
    "bitcast",
    "convert tuple",
    "rng",
];

/// Texts that XLA refuses and this parser takes, each with the reason.
const TAKEN: &[(&str, &str)] = &[
    ("wrongop", "an opcode of a later XLA is kept as it is, and no rewrite touches it"),
    ("attr unknown", "an attribute of a later XLA is kept as it is"),
    ("hdr unknown", "the same in the header"),
    ("md unknown", "the same in metadata, which no rewrite reads"),
    ("md preserve_layout", "dumps of older versions have it"),
    ("layout scalar {}", "dumps of older versions have it"),
    ("stack frames missing key", "the tables are kept as they are; only the keys that are there are read"),
    ("name keyword", "it is printed behind a `%`, where XLA reads it"),
    ("name nan", "it is printed behind a `%`, where XLA reads it"),
    ("ident followed =", "the printer puts the blank in that XLA's lexer wants"),
    ("ident space =", "the printer puts the blank in that XLA's lexer wants"),
    ("hdrless percent", "the printer adds the header that XLA wants"),
];

struct Probe {
    name: String,
    text: String,
    /// Whether XLA takes it.
    taken: bool,
}

fn probes() -> Vec<Probe> {
    let file = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/xla-probes.jsonl");
    let lines = fs::read_to_string(file).expect("the probes lie beside this test");
    let read = |line: &str| {
        let probe: serde_json::Value = serde_json::from_str(line).expect("a line of JSON");
        let field = |key: &str| probe[key].as_str().expect("a string").to_owned();
        Probe { name: field("name"), text: field("text"), taken: field("xla") == "ok" }
    };
    lines.lines().map(read).collect()
}

/// What this crate says: the problems, none if it takes the text.
fn problems(source: &str) -> Vec<String> {
    let found = match text::parse(source) {
        Ok(module) => verify::verify(&module),
        Err(found) => found,
    };
    found.into_iter().map(|problem| problem.message).collect()
}

#[test]
fn we_take_what_xla_takes_and_refuse_what_it_refuses() {
    let probes = probes();
    assert!(probes.len() > 300, "probes are missing");
    let mut others = Vec::new();
    for probe in probes {
        let expected = match (REFUSED.contains(&probe.name.as_str()), TAKEN.iter().any(|row| row.0 == probe.name)) {
            (false, false) => probe.taken,
            // One name stands for two probes, of which XLA takes one.
            (refused, taken) => taken || probe.taken && !refused,
        };
        let problems = problems(&probe.text);
        if problems.is_empty() != expected {
            others.push(format!("{}: {problems:#?}\n{}", probe.name, probe.text));
        }
    }
    assert!(others.is_empty(), "{}", others.join("\n"));
}

#[test]
fn printing_is_a_fixed_point() {
    for probe in probes() {
        let Ok(module) = text::parse(&probe.text) else { continue };
        let printed = text::print(&module);
        let again = text::parse(&printed).unwrap_or_else(|problems| panic!("{}: {problems:#?}\n{printed}", probe.name));
        assert_eq!(text::print(&again), printed, "{}", probe.name);
    }
}
