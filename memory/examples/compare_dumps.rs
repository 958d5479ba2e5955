//! Compares the model with XLA's own dumps: `compare_dumps FOLDER ...` reads every `*after_optimizations.txt` below the folders with the
//! reports beside it and prints where they differ, then a summary. Exit status 1 if a total differs.
#![allow(clippy::print_stdout, clippy::print_stderr, reason = "this program's product is its table")]

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use hlo_ir::Module;
use hlo_memory::assignment::{AllocationKind, Assignment, ValueRef, assign};

/// What was compared, in the order of the summary.
const COLUMNS: [&str; 6] = ["total", "sizes", "list", "offsets", "live", "peak"];

fn main() -> ExitCode {
    let mut dumps = Vec::new();
    for folder in std::env::args().skip(1) {
        find(Path::new(&folder), &mut dumps);
    }
    dumps.sort();
    let mut exact = [0; COLUMNS.len()];
    let mut compared = [0; COLUMNS.len()];
    for dump in &dumps {
        let verdicts = match compare(dump) {
            Ok(verdicts) => verdicts,
            Err(error) => {
                println!("ERROR {}: {error}", dump.display());
                compared[0] += 1;
                continue;
            }
        };
        let wrong: Vec<&str> = (0..COLUMNS.len()).filter(|&k| verdicts[k] == Some(false)).map(|k| COLUMNS[k]).collect();
        if !wrong.is_empty() {
            println!("DIFFERS {} in {}", dump.display(), wrong.join(", "));
        }
        for (k, verdict) in verdicts.into_iter().enumerate() {
            compared[k] += usize::from(verdict.is_some());
            exact[k] += usize::from(verdict == Some(true));
        }
    }
    for (k, column) in COLUMNS.iter().enumerate() {
        println!("{column:8} {}/{} exact", exact[k], compared[k]);
    }
    if exact[0] == compared[0] && compared[0] > 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn find(folder: &Path, dumps: &mut Vec<PathBuf>) {
    let Ok(entries) = std::fs::read_dir(folder) else { return };
    for path in entries.flatten().map(|entry| entry.path()) {
        if path.is_dir() {
            find(&path, dumps);
        } else if path.to_string_lossy().ends_with("after_optimizations.txt") {
            dumps.push(path);
        }
    }
}

/// The text of a report beside a dump.
fn report(dump: &Path, suffix: &str) -> Option<String> {
    let name = dump.to_string_lossy();
    std::fs::read_to_string(format!("{}-{suffix}.txt", name.strip_suffix(".txt")?)).ok()
}

fn compare(dump: &Path) -> Result<[Option<bool>; COLUMNS.len()], String> {
    let text = std::fs::read_to_string(dump).map_err(|error| error.to_string())?;
    let module = hlo_ir::text::parse(&text).map_err(|diagnostics| format!("{:?}", diagnostics.first()))?;
    let assignment = assign(&module).map_err(|error| error.to_string())?;
    let ours = assignment.estimate().total.get();
    let mut verdicts = [None; COLUMNS.len()];
    if let Some(usage) = report(dump, "memory-usage-report") {
        let total = number_after(&usage, "Total bytes: ");
        verdicts[0] = Some(total == Some(ours));
        if total != Some(ours) {
            println!("  total {total:?}, ours {ours}");
        }
    }
    if let Some(blocks) = report(dump, "buffer-assignment") {
        let (theirs, ours) = (read_blocks(&blocks), our_blocks(&module, &assignment));
        let sizes = |blocks: &[Block]| {
            let mut sizes: Vec<u64> = blocks.iter().map(|block| block.size).collect();
            sizes.sort_unstable();
            sizes
        };
        verdicts[1] = Some(sizes(&theirs) == sizes(&ours));
        let list = |blocks: &[Block]| blocks.iter().map(Block::header).collect::<BTreeSet<_>>();
        verdicts[2] = Some(list(&theirs) == list(&ours));
        let offsets = |blocks: &[Block]| blocks.iter().find(|block| block.temporary).map(|block| block.values.clone());
        verdicts[3] = Some(offsets(&theirs) == offsets(&ours));
    }
    if let Some(ranges) = report(dump, "live-range") {
        let theirs: BTreeSet<String> = section(&ranges, "BufferLiveRange:").map(str::to_owned).collect();
        let ours = assignment
            .live_ranges()
            .map(|range| format!("{}:{}-{}", braced(&module, &range.value), range.start, range.end))
            .collect::<BTreeSet<_>>();
        verdicts[4] = Some(theirs == ours);
        for line in theirs.symmetric_difference(&ours).take(6) {
            println!("  live {} {line}", if theirs.contains(line) { "XLA " } else { "ours" });
        }
        let peak = assignment.live_range_peak();
        let time = number_after(&ranges, "Live ranges at ");
        let last = ranges.rfind("(cumulative: ").map(|at| &ranges[at..]);
        let sum = last.and_then(|text| number_after(text, "(cumulative: "));
        let same = peak.is_some_and(|peak| Some(u64::from(peak.time)) == time && Some(peak.bytes.get()) == sum);
        verdicts[5] = time.map(|_| same);
    }
    Ok(verdicts)
}

fn number_after(text: &str, key: &str) -> Option<u64> {
    let rest = &text[text.find(key)? + key.len()..];
    rest[..rest.find(|c: char| !c.is_ascii_digit())?].parse().ok()
}

/// The lines below a heading, up to the next heading.
fn section<'t>(text: &'t str, heading: &str) -> impl Iterator<Item = &'t str> {
    let from = text.find(heading).map_or(text.len(), |at| at + heading.len());
    text[from..].lines().skip(1).take_while(|line| line.starts_with("    ")).map(str::trim)
}

/// An allocation as the dump lists it.
struct Block {
    size: u64,
    flags: String,
    temporary: bool,
    /// By value: size and offset.
    values: BTreeMap<String, (u64, u64)>,
}

impl Block {
    fn header(&self) -> String {
        let offset =
            |(name, at): (&String, &(u64, u64))| if self.temporary { name.clone() } else { format!("{name} {at:?}") };
        format!("{} {} {}", self.size, self.flags, self.values.iter().map(offset).collect::<Vec<_>>().join(" "))
    }
}

fn read_blocks(text: &str) -> Vec<Block> {
    let mut blocks: Vec<Block> = Vec::new();
    for line in text.lines() {
        if line.starts_with("allocation ") {
            let flags = ["parameter ", "constant", "thread-local", "maybe-live-out", "preallocated-temp"];
            let flags: Vec<&str> = flags.into_iter().filter(|flag| line.contains(&format!(", {flag}"))).collect();
            blocks.push(Block {
                size: number_after(line, ": size ").unwrap_or(u64::MAX),
                flags: flags.join(","),
                temporary: flags.contains(&"preallocated-temp"),
                values: BTreeMap::new(),
            });
        } else if let (Some(block), Some(value)) = (blocks.last_mut(), line.trim().strip_prefix("value: <")) {
            let name = value.split_once(' ').and_then(|(_, rest)| rest.split_once(" @")).map_or("", |(name, _)| name);
            let size = number_after(value, "(size=").unwrap_or(u64::MAX);
            block.values.insert(name.to_owned(), (size, number_after(value, "offset=").unwrap_or(u64::MAX)));
        } else if line.trim().is_empty() && !blocks.is_empty() {
            break;
        }
    }
    blocks
}

fn our_blocks(module: &Module, assignment: &Assignment<'_>) -> Vec<Block> {
    assignment
        .allocations()
        .map(|allocation| {
            let kind = match allocation.kind {
                AllocationKind::Parameter { .. } => "parameter ",
                AllocationKind::Constant => "constant",
                AllocationKind::ThreadLocal => "thread-local",
                AllocationKind::Output => "",
                AllocationKind::Temporary => "preallocated-temp",
            };
            let out = if allocation.live_out { "maybe-live-out" } else { "" };
            let flags: Vec<&str> = [kind, out].into_iter().filter(|flag| !flag.is_empty()).collect();
            let value = |stored: hlo_memory::assignment::StoredValue| {
                let tuple = module.shape(stored.value.instruction).as_tuple().is_some();
                let name = if tuple {
                    braced(module, &stored.value)
                } else {
                    module.instruction(stored.value.instruction).name.to_string()
                };
                let phi = if stored.value.phi { " (phi)" } else { "" };
                (format!("{name}{phi}"), (stored.size.get(), stored.offset.get()))
            };
            Block {
                size: allocation.size.get(),
                flags: flags.join(","),
                temporary: kind == "preallocated-temp",
                values: allocation.values.into_iter().map(value).collect(),
            }
        })
        .collect()
}

/// `name{0,1}`.
fn braced(module: &Module, value: &ValueRef) -> String {
    let index: Vec<String> = value.index.iter().map(i64::to_string).collect();
    format!("{}{{{}}}", module.instruction(value.instruction).name, index.join(","))
}
