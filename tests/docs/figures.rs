//! Figures that stand in sentences, and the line of the sources that each repeats: whoever changes one is told of the other.

use std::path::{Path, PathBuf};
use std::sync::LazyLock;

use regex::Regex;

use crate::common::text;
use crate::pages::{self, all, is_measured, read};
use crate::prose;

/// A page, words of it, a source file, and words of that.
const FIGURES: &[[&str; 4]] = &[
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
    [
        "docs/limits.md",
        "savings below 256 MiB",
        "passes/src/objective.rs",
        "ALWAYS_AVAILABLE: Bytes = Bytes(128 << 20);",
    ],
    ["docs/limits.md", "below 16 bytes an update", "passes/src/chunk/cache_conflict.rs", "LEAST_PER_UPDATE: u64 = 16;"],
    ["docs/limits.md", "add 30 % to the cost", "passes/src/chunk/seeded_planner/price.rs", " ALLOWANCE: f64 = 0.3;"],
    [
        "docs/limits.md",
        "15 % with products",
        "passes/src/chunk/seeded_planner/price.rs",
        "SMALL_ALLOWANCE: f64 = 0.15;",
    ],
    [
        "docs/limits.md",
        "10 % where less",
        "passes/src/chunk/seeded_planner/price.rs",
        "REUSED_MEMORY_ALLOWANCE: f64 = 0.1;",
    ],
    ["docs/limits.md", "up to 1.05 of the input's", "passes/src/objective.rs", "MAX_SLOWDOWN: f64 = 1.05;"],
    ["docs/limits.md", "may take 1.25 of it", "passes/src/machine.rs", "MAX_LAUNCH_OVERHEAD: f64 = 0.25;"],
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
    ["README.md", "falls from 224 GiB", "docs/memory.svg", "before: 224.01 GiB"],
    ["README.md", "the floor of 96 GiB", "docs/memory.svg", "96.01 GiB</text>"],
    ["README.md", "XLA:CPU takes 224 GiB", "docs/memory.svg", "before: 224.01 GiB"],
    ["", "Rust 1.88", "Cargo.toml", r#"rust-version = "1.88""#],
    ["", "Python 3.11", "pyproject.toml", r#"requires-python = ">=3.11""#],
    ["", "jaxlib 0.10.2", "tests/referee/requirements.txt", "jaxlib==0.10.2"],
    ["", "jaxlib 0.8 to 0.10", "python/tests/jax-0.8.txt", "jaxlib==0.8."],
    ["", "JAX 0.8 or newer", "python/tests/jax-0.8.txt", "jax==0.8."],
    ["", "tests run with 0.8, 0.9 and 0.10", "tests/python.rs", r#"["0.9", "0.8"]"#],
    ["docs/frameworks.md", "the XLA of JAX 0.10", "tests/referee/requirements.txt", "jax==0.10."],
    ["docs/frameworks.md", "TensorFlow 2.21", "tests/referee/frameworks/tensorflow.txt", "tensorflow-cpu==2.21."],
    ["docs/frameworks.md", "Keras 3.15", "tests/referee/frameworks/tensorflow.txt", "keras==3.15."],
    ["docs/frameworks.md", "PyTorch/XLA 2.9", "tests/referee/frameworks/torch_parts.py", "torch_xla==2.9."],
    ["CONTRIBUTING.md", "at most 600 lines", "tests/house.rs", "const FILE: usize = 600;"],
    ["CONTRIBUTING.md", "functions at most 80", "tests/house.rs", "const FUNCTION: usize = 80;"],
    ["CONTRIBUTING.md", "at most 150 lines", "tests/docs.rs", "const PAGE: usize = 150;"],
    ["CONTRIBUTING.md", "at most 45 words", "tests/docs.rs", "const SENTENCE: usize = 45;"],
    ["corpus/README.md", "at most 4,000 elements", "passes/tests/same_terms.rs", "const MOST_ELEMENTS: u64 = 4000;"],
    [
        "docs/adding-a-pass.md",
        "at most 4,000 elements",
        "passes/tests/same_terms.rs",
        "const MOST_ELEMENTS: u64 = 4000;",
    ],
    ["docs/adding-a-pass.md", "longer than 120 columns", "rustfmt.toml", "max_width = 120"],
    ["docs/grades.md", "array of 2 to 8 columns", "passes/src/machine.rs", "VECTOR: i64 = 8;"],
    ["docs/grades.md", "below 4,096 terms", "memory/src/cpu/ynn/support.rs", "FEWEST_ELEMENTS: u64 = 4096;"],
    ["docs/grades.md", "NaN from 4,096 floats on", "memory/src/cpu/ynn/support.rs", "FEWEST_ELEMENTS: u64 = 4096;"],
    ["docs/grades.md", "bounded by 1e-5", "tests/referee.rs", "HLO_EXACT_ERROR: f64 = 1e-5;"],
    [
        "docs/grades.md",
        "more than 1 % of the scale",
        "python/hlo_opt/xla/truth.py",
        "MEANINGLESS = {True: 1e-2, False: 0.5}",
    ],
    ["docs/grades.md", "of the scale 0.1", "python/hlo_opt/xla/cases.py", "TAME = 0.1"],
    [
        "docs/limits.md",
        "more than 2,147,483,647 rows",
        "passes/src/chunk/devices.rs",
        "i32::try_from(longest).is_err()",
    ],
    [
        "docs/limits.md",
        "in a program below 1 GiB",
        "passes/src/chunk/seeded_planner/price.rs",
        "SMALL: Bytes = Bytes(1 << 30);",
    ],
    ["docs/limits.md", "32 MiB lie above", "passes/src/machine.rs", "malloc_cache: Bytes(32 * MIB),"],
    ["docs/getting-started.md", "at most ten forms", "src/curve.rs", "const MOST_POINTS: usize = 10;"],
    [
        "docs/getting-started.md",
        "a twentieth of the peak or more",
        "src/report/sarif.rs",
        "const WORTH_A_MARK: u64 = 20;",
    ],
    ["docs/testing.md", "ordinary run tries 1,500", "tests/mutated.rs", "const USUAL: usize = 1500;"],
    [
        "docs/reading-a-report.md",
        "above 1 % of the peak",
        "passes/src/manager/peak_remarks.rs",
        "u128::from(bytes.get()) * 100 >",
    ],
    [
        "docs/reason-codes.md",
        "above 1 % of its peak",
        "passes/src/manager/peak_remarks.rs",
        "u128::from(bytes.get()) * 100 >",
    ],
    ["docs/grades.md", "1e-5 of the largest magnitude", "tests/referee.rs", "HLO_EXACT_ERROR: f64 = 1e-5;"],
    ["docs/reason-codes.md", "row 2,147,483,647", "passes/src/chunk/devices.rs", "i32::try_from(longest).is_err()"],
    ["docs/reason-codes.md", "more than 100,000 instructions", "passes/src/bounds.rs", "ADDED: usize = 100_000;"],
    ["docs/testing.md", "JAX 0.10, 0.9 and 0.8", "tests/python.rs", r#"["0.9", "0.8"]"#],
    ["docs/how-it-works.md", "| a twenty-fifth of the peak |", "passes/src/speed.rs", "SHARE_OF_PEAK: u64 = 25;"],
    ["docs/how-it-works.md", "| half of the peak |", "passes/src/weighted_sums.rs", "SHARE_OF_PEAK_SUMMED: u64 = 2;"],
    ["docs/testing.md", "seeds 1 to 100", "tests/referee.rs", "RANDOM_PROGRAMS: &str = \"100\";"],
    ["docs/passes/chunk.md", "2^33 rows of three", "corpus/founding/s32.before.hlo", "s32[8589934592,3]"],
    [
        "docs/passes/chunk.md",
        "96 GiB of indices and 32 GiB of updates beside 96 GiB of input",
        "corpus/founding/s32.before.hlo",
        "s32[8589934592,3]",
    ],
    [
        "docs/passes/chunk.md",
        "at least 1 MiB and at most 64 MiB",
        "passes/src/chunk/size.rs",
        "LARGEST_BLOCK: u64 = 64 << 20;",
    ],
    [
        "docs/passes/chunk.md",
        "at least 4 MiB or a sixteenth",
        "passes/src/chunk/size.rs",
        "(floor.get() / 16).clamp(least, least.saturating_mul(4))",
    ],
    [
        "docs/passes/chunk.md",
        "between 4 and 64 MiB",
        "passes/src/chunk/seeded_planner.rs",
        "(context.estimate.floor.get() / 16).clamp(fewest_bytes, fewest_bytes.max(64 * MIB))",
    ],
    [
        "docs/passes/chunk.md",
        "more than 30 % of the work",
        "passes/src/chunk/seeded_planner/price.rs",
        " ALLOWANCE: f64 = 0.3;",
    ],
    [
        "docs/passes/chunk.md",
        "15 % on CPU for products in programs below 1 GiB",
        "passes/src/chunk/seeded_planner/price.rs",
        "SMALL_ALLOWANCE: f64 = 0.15;",
    ],
    [
        "docs/passes/chunk.md",
        "10 % on GPU",
        "passes/src/chunk/seeded_planner/price.rs",
        "REUSED_MEMORY_ALLOWANCE: f64 = 0.1;",
    ],
    ["docs/passes/chunk.md", "tiles of 1024 rows", "memory/src/cpu/tiles/mod.rs", "LONGEST_TILE: i64 = 1024;"],
    ["docs/passes/chunk.md", "at most 4096 of them", "passes/src/chunk/size.rs", "Target::Tpu => 1 << 12,"],
    ["docs/passes/chunk.md", "at most 16384", "passes/src/chunk/size.rs", "Target::Gpu => 1 << 14,"],
    ["docs/passes/chunk.md", "row 2,147,483,647", "passes/src/chunk/devices.rs", "i32::try_from(longest).is_err()"],
    ["docs/passes/chunk.md", "less than 32 MiB beside", "passes/src/machine.rs", "malloc_cache: Bytes(32 * MIB),"],
    ["docs/passes/direct-index.md", "2^33 rows of three", "corpus/founding/s16.before.hlo", "s16[8589934592,3]"],
    [
        "docs/passes/direct-index.md",
        "takes 96 GiB beside 48 GiB of input",
        "corpus/founding/s16.before.hlo",
        "s16[8589934592,3]",
    ],
    [
        "docs/passes/inline-calls.md",
        "more than 100,000 instructions",
        "passes/src/bounds.rs",
        "ADDED: usize = 100_000;",
    ],
    [
        "docs/passes/loop-inputs.md",
        "less than 256 bytes in a piece",
        "passes/src/loop_inputs/cone.rs",
        "SHORTEST_RUN: i64 = 4 * LINE as i64;",
    ],
];

/// Numbers in sentences that are no figures: names, dates, types, codes, places in lists, the neutral ones.
const NAMES: &str = r"(?x)
    \#\d+ | \b\d{1,2}\ November(?:\ 2026)? | \b2026\b | \b[Ss]tep\ \d | ^\s*\*\*\d | \*\*\d
    | \b(?:code|codes|ends\ with|with)\ [0-6]\b | \b\d+\ bits?\b | \b8\ or\ 16\ bits\ in\ 32\b | \b(?:Llama\ 3\ 8B|Mixtral\ 8x7B|DeepSeek\ 2\ 16B) | \bApache-2\.0
    | ^\|\ \d+\ \| | \b3\ results\ in\ one\ loop | counted\ from\ 1 | -0\.0\b | \b2nd\ edition,\ chapter\ 12\b | \bfrom\ 0\b | -?\b0\.0\b | -\ 0\b";

#[test]
fn figures_in_sentences_are_those_of_the_sources() {
    for &[page, words, file, line] in FIGURES {
        let pages = if page.is_empty() { all() } else { vec![PathBuf::from(page)] };
        let said = pages.iter().any(|page| plain(&read(page)).contains(words));
        assert!(said, "{page} does not say `{words}` any more: is it in line with {file}?");
        assert!(text(file).contains(line), "{file} has no `{line}` any more, which {page} repeats: `{words}`");
    }
}

/// A number in a sentence is one of `FIGURES`, or stands on a page of measured figures that its paragraph links to.
#[test]
fn figures_in_sentences_have_a_source() {
    let mut unknown = Vec::new();
    for page in all().iter().filter(|page| !is_measured(page) && !page.ends_with("CHANGELOG.md")) {
        let text = read(page);
        // Other tests compare the front page's table and rows that name a constant.
        let is_row =
            |line: &&str| line.starts_with('|') && !page.ends_with("README.md") && pages::constants(line).is_empty();
        let rows = text.lines().filter(is_row).map(str::to_owned);
        for unit in prose::units(&text).into_iter().chain(rows) {
            let unit = plain(&unit);
            let found = numbers(&unmasked(page, &unit));
            let measured = if found.is_empty() { Vec::new() } else { linked(page, &unit) };
            let is_known = |number: &String| measured.iter().any(|known| is_rounded(number, known));
            let missing = found.iter().filter(|number| !is_known(number));
            unknown.extend(missing.map(|number| format!("{}: {number} in: {unit}", page.display())));
        }
    }
    assert!(unknown.is_empty(), "neither in FIGURES nor on a linked page of docs/measured:\n{}", unknown.join("\n"));
}

/// With one blank between words.
fn plain(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// The numbers of the pages of measured figures that a paragraph links to; of the log the section that is linked, of the plan every page.
fn linked(page: &Path, unit: &str) -> Vec<String> {
    let link = Regex::new(r"\]\(([\w./-]*measured/[\w-]+\.md)(?:#([\w-]+))?\)").unwrap();
    let folder = page.parent().unwrap();
    let mut found = Vec::new();
    for link in link.captures_iter(unit) {
        let text = read(&folder.join(&link[1]));
        found.extend(numbers(&link.get(2).map_or(text.clone(), |anchor| section(&text, anchor.as_str()))));
    }
    if page.ends_with("plan.md") {
        static ALL: LazyLock<Vec<String>> = LazyLock::new(|| {
            all().iter().filter(|page| is_measured(page)).flat_map(|page| numbers(&read(page))).collect()
        });
        found.extend_from_slice(&ALL);
    }
    found
}

/// What stands below the heading with this anchor.
fn section(text: &str, anchor: &str) -> String {
    let is_heading = |line: &&str| line.starts_with("## ");
    let behind = text.lines().skip_while(|line| !prose::anchors(line).contains(anchor)).skip(1);
    behind.take_while(|line| !is_heading(line)).collect::<Vec<_>>().join("\n")
}

/// A paragraph without code, targets of links, names, and the words of `FIGURES`.
fn unmasked(page: &Path, unit: &str) -> String {
    static PATTERNS: LazyLock<Vec<(Regex, &str)>> = LazyLock::new(|| {
        let patterns = [("`[^`]*`", "CODE"), (r"\]\([^)]*\)", "]"), (NAMES, "NAME")];
        patterns.map(|(pattern, instead)| (Regex::new(pattern).unwrap(), instead)).into()
    });
    let mut rest = unit.to_owned();
    for [_, words, ..] in FIGURES.iter().filter(|[of, ..]| of.is_empty() || Path::new(of) == page) {
        rest = rest.split(words).collect();
    }
    for (pattern, instead) in PATTERNS.iter() {
        rest = pattern.replace_all(&rest, *instead).into_owned();
    }
    rest
}

/// Numbers of a text, without the commas between their digits; 0 and 1 alone are the ends of a scale.
fn numbers(text: &str) -> Vec<String> {
    static NUMBER: LazyLock<Regex> =
        LazyLock::new(|| Regex::new(r"(?:^|[^\w.])(\d[\d,]*(?:\.\d+)?(?:e-?\d+)?)( %| \w?i?B\b)?").unwrap());
    let found =
        NUMBER.captures_iter(text).filter(|number| number.get(2).is_some() || !["0", "1"].contains(&&number[1]));
    found.map(|number| number[1].replace(',', "")).collect()
}

/// Whether a number is another one, or that one rounded.
fn is_rounded(number: &str, known: &str) -> bool {
    let places = number.split_once('.').map_or(0, |(_, places)| places.len());
    number == known
        || !number.contains('e') && known.parse().is_ok_and(|known: f64| format!("{known:.places$}") == number)
}

#[test]
fn numbers_are_found_and_rounded() {
    assert_eq!(
        numbers("From 1,024 to 0.5 of f32, -3 and 1e-5; 1 is neutral, 1 % is not, 0.10.2"),
        ["1024", "0.5", "3", "1e-5", "1", "0.10"]
    );
    assert!(is_rounded("0.6", "0.60") && is_rounded("1.1", "1.12") && is_rounded("1e-5", "1e-5"));
    assert!(!is_rounded("1.2", "1.12") && !is_rounded("12", "1.12"));
}
