//! Finds, in a directory of XLA pass dumps, the dump before and the dump after a stage.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// Input of a stage and what XLA made of it.
pub(crate) struct Pair {
    /// Module, such as `module_0007.jit_f`.
    pub(crate) name: String,
    /// XLA's dump before the stage.
    pub(crate) input: PathBuf,
    /// XLA's dump after the stage; the input where XLA changed nothing.
    pub(crate) expected: PathBuf,
    /// XLA's report of the bytes it needs.
    pub(crate) report: Option<PathBuf>,
}

/// Per stage: the dump that shows its result, then dumps that come after it whether or not it changed anything.
const STAGES: &[(&str, &str, &[&str])] = &[
    ("simplify", BEFORE_LAYOUTS, &[]),
    ("layout", BEFORE_LIBRARY, &[]),
    ("library", ".after_dot-library-rewriter.", &[".HLO_passes_after_layout_assignment.after_pipeline-start."]),
    ("fusion", ".after_fusion.", &[".after_fusion-wrapper.", CLEANUP_TUPLES, CLEANUP_START]),
    ("wrapper", ".after_fusion-wrapper.", &[CLEANUP_TUPLES, CLEANUP_START]),
    (
        "cleanup",
        ".after_simplification_after_layout_assignment.",
        &[".after_cpu-parallel-task-assigner.", ".copy-insertion.after_adding_copies"],
    ),
    ("copies-added", ".copy-insertion.after_adding_copies", &[]),
    ("copies-removed", ".copy-insertion.after_removing", &[]),
    ("copies", ".after_copy-insertion.", &[]),
    ("hoist", ".after_small-while-loop-hoisting.", &[".after_propagate-call-metadata.", SCHEDULED]),
    ("schedule", SCHEDULED, &[]),
];
/// The dump after layout assignment; the one before it is the result of the simplification.
const BEFORE_LAYOUTS: &str = ".after_layout-assignment.";
/// What the library rewriter is given.
const BEFORE_LIBRARY: &str = ".dot-library-passes.after_pipeline-start.";
const CLEANUP_TUPLES: &str = ".after_tuple-simplifier.before_simplification_after_layout";
const CLEANUP_START: &str = ".simplification_after_layout_assignment.after_pipeline-start.";
const SCHEDULED: &str = ".HLO_passes_after_scheduling.after_pipeline-start.";

/// All pairs of a stage, by module name.
pub(crate) fn pairs(directory: &str, stage: &str) -> Vec<Pair> {
    let Some((_, result, later)) = STAGES.iter().find(|row| row.0 == stage) else { return Vec::new() };
    let mut modules: BTreeMap<String, Dumped> = BTreeMap::new();
    collect(Path::new(directory), &mut modules);
    modules
        .into_iter()
        .filter_map(|(name, module)| {
            let (input, expected) = pair(&module.dumps, stage, result, later)?;
            Some(Pair { name, input, expected, report: module.report })
        })
        .collect()
}

/// The dumps of one module by number, and its report.
#[derive(Default)]
struct Dumped {
    /// By number; the module before all passes has number -1.
    dumps: BTreeMap<i32, PathBuf>,
    report: Option<PathBuf>,
}

/// Groups the numbered dumps of a directory and its sub-directories by module.
fn collect(directory: &Path, modules: &mut BTreeMap<String, Dumped>) {
    for entry in std::fs::read_dir(directory).into_iter().flatten().flatten() {
        let path = entry.path();
        if path.is_dir() {
            collect(&path, modules);
            continue;
        }
        let file = path.file_name().unwrap().to_string_lossy().into_owned();
        let parts: Vec<&str> = file.split('.').collect();
        if path.extension().is_none_or(|extension| extension != "txt") {
            continue;
        }
        let group = directory.file_name().unwrap().to_string_lossy();
        let number = parts.iter().position(|part| part.len() == 4 && part.bytes().all(|b| b.is_ascii_digit()));
        if let Some(at) = number {
            let module = modules.entry(format!("{group}/{}", parts[..at].join("."))).or_default();
            module.dumps.insert(parts[at].parse().unwrap(), path);
        } else if let Some(name) = file.strip_suffix(".before_optimizations.txt") {
            modules.entry(format!("{group}/{name}")).or_default().dumps.insert(-1, path);
        } else if let Some(name) = file.strip_suffix(".cpu_after_optimizations-memory-usage-report.txt") {
            modules.entry(format!("{group}/{name}")).or_default().report = Some(path);
        }
    }
}

/// The dump before a stage and the dump after it.
fn pair(dumps: &BTreeMap<i32, PathBuf>, stage: &str, result: &str, later: &[&str]) -> Option<(PathBuf, PathBuf)> {
    let dumps: Vec<&PathBuf> = dumps.values().collect();
    let is = |path: &&PathBuf, mark: &str| path.file_name().unwrap().to_string_lossy().contains(mark);
    if stage == "simplify" || stage == "layout" {
        let end = dumps.iter().position(|path| is(path, BEFORE_LAYOUTS))?;
        let library = dumps.iter().position(|path| is(path, BEFORE_LIBRARY))?;
        let (input, expected) = if stage == "simplify" { (0, end - 1) } else { (end - 1, library) };
        return Some((dumps[input].clone(), dumps[expected].clone()));
    }
    let start = match stage {
        "cleanup" => dumps.iter().position(|path| is(path, CLEANUP_START)).map(|at| at + 1)?,
        "copies" => dumps.iter().position(|path| is(path, ".copy-insertion.after_adding_copies"))?,
        _ => dumps.iter().position(|path| is(path, result) || later.iter().any(|mark| is(path, mark)))?,
    };
    let input = dumps.get(start.checked_sub(1)?)?;
    let end = dumps[start..].iter().find(|path| is(path, result) || later.iter().any(|mark| is(path, mark)));
    let expected = match end {
        Some(path) if is(path, result) => path,
        _ => input,
    };
    Some(((*input).clone(), (*expected).clone()))
}
