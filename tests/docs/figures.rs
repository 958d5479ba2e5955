//! Figures that stand in sentences, and the line of the sources that each repeats: whoever changes one is told of the other.

use crate::common::text;

/// A page, words of it, a source file, and words of that.
const FIGURES: [[&str; 4]; 23] = [
    [
        "docs/limits.md",
        "Each missed chance above 1 %",
        "passes/src/manager/peak_remarks.rs",
        "u128::from(bytes.get()) * 100 >",
    ],
    ["docs/limits.md", "15 % of the total on GPU", "memory/src/estimate.rs", "Target::Gpu => 15,"],
    ["docs/limits.md", "40 % on TPU", "memory/src/estimate.rs", "Target::Tpu => 40,"],
    ["docs/limits.md", "By more than 1 % it may only", "passes/src/objective.rs", "NEGLIGIBLE: u64 = 100;"],
    ["docs/limits.md", "that saves 32 MiB or more", "passes/src/machine.rs", "malloc_cache: Bytes(32 * MIB),"],
    ["docs/limits.md", "more than 32 MiB at once", "passes/src/machine.rs", "malloc_cache: Bytes(32 * MIB),"],
    [
        "docs/limits.md",
        "below a quarter of all memory",
        "passes/src/small_programs.rs",
        "(Bytes(all.get() / 4), \"a quarter\")",
    ],
    ["docs/limits.md", "for tables of 8 MiB", "passes/src/machine.rs", "cache: Bytes(4 * MIB),"],
    ["docs/limits.md", "savings below 256 MiB", "passes/src/objective.rs", "AT_HAND: Bytes = Bytes(128 << 20);"],
    ["docs/limits.md", "below 16 bytes an update", "passes/src/chunk/cache_conflict.rs", "PAYS: u64 = 16;"],
    ["docs/limits.md", "add 30 % to the cost", "passes/src/chunk/seeded_planner/price.rs", " ALLOWANCE: f64 = 0.3;"],
    [
        "docs/limits.md",
        "15 % with products",
        "passes/src/chunk/seeded_planner/price.rs",
        "SMALL_ALLOWANCE: f64 = 0.15;",
    ],
    ["docs/limits.md", "10 % where less", "passes/src/chunk/seeded_planner/price.rs", "RECYCLED_ALLOWANCE: f64 = 0.1;"],
    ["docs/limits.md", "up to 1.05 of the input's", "passes/src/objective.rs", "MAX_SLOWDOWN: f64 = 1.05;"],
    ["docs/limits.md", "may take 1.25 of it", "passes/src/machine.rs", "STARTING: f64 = 0.25;"],
    ["docs/limits.md", "products of more than 168 terms", "passes/src/chunk/faithful.rs", "MOST_TERMS: i64 = 168;"],
    ["docs/testing.md", "| seeds 1 to 3, one minute at most |", "tests/accuracy.rs", "RANDOM_HALVES: &str = \"3\";"],
    ["docs/testing.md", "seeds 1 to 3, one minute", "tests/accuracy.rs", "RANDOM_MINUTES: &str = \"1\";"],
    ["docs/getting-started.md", "up to four times", "src/judge.rs", "MOST_SEARCHES: usize = 4;"],
    ["docs/python.md", "bytes (32 MiB) together", "python/hlo_opt/jax_install.py", "at_least: int = 32 << 20"],
    [
        "docs/fleets.md",
        "(`--limit`, 600 seconds)",
        "python/hlo_opt/fleet/command.py",
        "default=600, metavar=\"SECONDS\"",
    ],
    ["docs/flags.md", "(`--time-limit`, 300 s)", "python/hlo_opt/xla/advise.py", "time_limit: float = 300.0"],
    ["docs/flags.md", "limits the whole (900 s)", "python/hlo_opt/xla/advise.py", "within: float = 900.0"],
];

#[test]
fn figures_in_sentences_are_those_of_the_sources() {
    for [page, words, file, line] in FIGURES {
        let plain = text(page).split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(plain.contains(words), "{page} does not say `{words}` any more: is it in line with {file}?");
        assert!(text(file).contains(line), "{file} has no `{line}` any more, which {page} repeats: `{words}`");
    }
}
