//! Modules of the corpus with odd things in them: control dependencies, tuples of one, side effects in fusions, unknown opcodes. Whatever they hold,
//! they are estimated, rewritten, taken apart and printed.
//!
//! `HLO_OPT_ODD=5000 cargo test --test odd` tries more of them; the same number always means the same modules.
//!
//! Pins `memory/src/guard.rs`, `passes/src/manager.rs`.

#[allow(dead_code, unreachable_pub, reason = "a library there, a part of this test here")]
#[path = "../fuzz/src/lib.rs"]
mod laws;

/// Modules tried when nothing else is asked for.
const USUAL: usize = 150;
/// Longer texts take too long for the many of them that are tried.
const LONGEST: usize = 12_000;

fn wanted() -> usize {
    match std::env::var("HLO_OPT_ODD") {
        Ok(count) => count.parse().expect("HLO_OPT_ODD is a number"),
        Err(_) => USUAL,
    }
}

/// Short texts of the corpus, before and after the compiler.
fn seeds() -> Vec<String> {
    let mut folders = vec![std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("corpus")];
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
    seeds.retain(|(_, text)| text.len() <= LONGEST);
    seeds.sort();
    assert!(seeds.len() > 100, "the corpus is not where this test looks for it");
    seeds.into_iter().map(|(_, text)| text).collect()
}

#[test]
fn odd_modules_are_treated_like_any_other() {
    let seeds = seeds();
    let mut broken = Vec::new();
    for number in 0..wanted() {
        // A comment makes other choices of the same text; steps that share no factor with the number of texts reach them all.
        let text = format!("// {number}\n{}", seeds[number * 7919 % seeds.len()]);
        if std::panic::catch_unwind(|| laws::odd(text.as_bytes())).is_err() {
            broken.push(number);
        }
    }
    assert!(broken.is_empty(), "these modules break the law: {broken:?}");
}

/// What the law puts into modules is there: a test of modules as they were would test little.
#[test]
fn modules_become_odd() {
    let seeds = seeds();
    let mut counts = [0_usize; 4];
    for (number, seed) in seeds.iter().enumerate().take(200) {
        let text = laws::made_odd(format!("// {number}\n{seed}").as_bytes()).expect("a module of the corpus is legal");
        for (count, sign) in counts.iter_mut().zip(["control-predecessors", "tuple(", " outfeed(", " melt("]) {
            *count += usize::from(text.matches(sign).count() > seed.matches(sign).count());
        }
    }
    assert!(counts.iter().all(|&count| count > 10), "{counts:?}");
}
