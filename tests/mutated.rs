//! Texts of the corpus, damaged: whatever comes out is read or refused with a message at a place, in computing time that its length excuses.
//!
//! `HLO_OPT_MUTATIONS=100000 cargo test --test mutated` tries more of them; the same number always means the same texts.
//!
//! Pins `ir/src/text/mod.rs`, `src/guard.rs`.

#[path = "mutated/damage.rs"]
mod damage;
#[allow(dead_code, unreachable_pub, reason = "a library there, a part of this test here")]
#[path = "../fuzz/src/lib.rs"]
mod laws;

use std::time::{Duration, Instant};

use damage::{Random, damage};

/// Texts tried when nothing else is asked for.
const USUAL: usize = 1500;

/// Texts to try.
fn wanted() -> usize {
    match std::env::var("HLO_OPT_MUTATIONS") {
        Ok(count) => count.parse().expect("HLO_OPT_MUTATIONS is a number"),
        Err(_) => USUAL,
    }
}

/// Texts of the corpus and of the parser's own tests.
fn seeds() -> Vec<String> {
    let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut folders = vec![root.join("corpus"), root.join("ir/tests")];
    let mut seeds = Vec::new();
    while let Some(folder) = folders.pop() {
        for entry in folder.read_dir().expect("a folder of this repository") {
            let path = entry.expect("a readable folder").path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|extension| extension == "hlo") {
                seeds.push((path.clone(), std::fs::read_to_string(path).expect("a readable file")));
            }
        }
    }
    seeds.sort();
    assert!(seeds.len() > 100, "the corpus is not where this test looks for it");
    seeds.into_iter().map(|(_, text)| text).collect()
}

/// Time this thread has spent computing, which other processes do not lengthen; by the clock where the system does not tell.
fn busy(start: Instant) -> Duration {
    let told = std::fs::read_to_string("/proc/thread-self/schedstat").ok();
    let nanoseconds = told.as_deref().and_then(|line| line.split(' ').next()?.parse().ok());
    nanoseconds.map_or_else(|| start.elapsed(), Duration::from_nanos)
}

/// A second for each started megabyte.
fn limit(text: &str) -> Duration {
    Duration::from_secs(1 + (text.len() >> 20) as u64)
}

#[test]
fn damaged_texts_are_read_or_refused_in_time() {
    let (seeds, begin) = (seeds(), Instant::now());
    let (mut refused, mut broken) = (0, Vec::new());
    for number in 0..wanted() {
        let text = damage(&seeds, &mut Random::new(number as u64));
        let start = busy(begin);
        let outcome = std::panic::catch_unwind(|| laws::parse_print_parse(text.as_bytes()));
        let taken = busy(begin).saturating_sub(start);
        broken.extend(outcome.err().map(|_| number));
        assert!(taken < limit(&text), "text {number} of {} bytes takes {taken:?}", text.len());
        refused += usize::from(hlo_ir::text::parse(&text).is_err());
    }
    assert!(broken.is_empty(), "these texts break a law: {broken:?}");
    // Damage that is never noticed, or always, would test little.
    assert!(refused > wanted() / 4 && refused < wanted(), "{refused} of {} texts are refused", wanted());
}

#[test]
fn damaged_legal_texts_are_rewritten_or_refused() {
    let seeds = seeds();
    let mut broken = Vec::new();
    for number in 0..wanted() / 10 {
        let text = damage(&seeds, &mut Random::new(number as u64));
        let outcome = std::panic::catch_unwind(|| {
            laws::verify(text.as_bytes());
            laws::optimize(text.as_bytes());
        });
        broken.extend(outcome.err().map(|_| number));
    }
    assert!(broken.is_empty(), "these texts break a law: {broken:?}");
}
