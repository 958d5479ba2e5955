//! The chunk pass on random programs that are run before and after.

mod chunking;
mod common;
mod interpreter;

use std::collections::BTreeMap;

use hlo_ir::{text, verify};

use chunking::{assert_same_results, options, programs, rewrite};
use common::parse;

#[test]
fn random_programs_give_the_same_results() {
    let mut seen: BTreeMap<&str, usize> = BTreeMap::new();
    for seed in 0..120 {
        let before = parse(&programs::program(seed));
        let violations = verify::verify(&before);
        assert!(violations.is_empty(), "{violations:?}\n{}", text::print(&before));
        let mut after = before.clone();
        let notes = rewrite(&mut after, &options([1, 40, 100, 200][seed as usize % 4]));
        assert_same_results(&before, &after, seed);
        *seen.entry("rewritten").or_default() += usize::from(!notes.is_empty());
        *seen.entry("rest").or_default() += usize::from(notes.iter().any(|note| note.contains("then")));
        *seen.entry("several scatters").or_default() +=
            usize::from(notes.iter().any(|note| note.contains("in one loop")));
        *seen.entry("several loops").or_default() += usize::from(notes.len() > 1);
    }
    // A generator that stops to reach the pass would prove nothing.
    assert!(seen.values().all(|&count| count >= 8), "{seen:?}");
}
