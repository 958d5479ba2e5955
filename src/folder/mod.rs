//! XLA dump folders (`--xla_dump_to`): which modules are in them, which text of a module is wanted, and what XLA itself says beside it.

// Tests: `tests/dumps.rs`, `tests/inputs.rs`.

mod names;

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use hlo_memory::Bytes;
use regex::Regex;

use crate::foreign;
use crate::unpack::{self, ENDINGS};
use names::{File, Stage};

/// Which stage of a module is wanted; where it is missing, the one that is next to it is taken.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Wanted {
    /// The program as it goes into the compiler, to be rewritten.
    Program,
    /// What the compiler made of it, with its schedule.
    Scheduled,
}

impl Wanted {
    /// How names of such files end, but for their form.
    pub(crate) fn ending(self) -> &'static str {
        match self {
            Self::Program => "before_optimizations",
            Self::Scheduled => "after_optimizations",
        }
    }
}

/// Modules that are listed in a message.
const LISTED: usize = 20;

/// Why a folder gives no module.
#[derive(Debug, thiserror::Error)]
pub(crate) enum FolderError {
    /// The operating system refused.
    #[error("cannot read `{0}`: {1}")]
    Read(PathBuf, std::io::Error),
    /// No dumps.
    #[error(
        "`{folder}` is a folder without HLO dumps: no file ends in before_optimizations or after_optimizations and .txt or .hlo.pb{}",
        else_found(.other.as_ref())
    )]
    Empty {
        /// The folder.
        folder: PathBuf,
        /// What it holds instead, if that is known.
        other: Option<Other>,
    },
    /// Nothing has the name.
    #[error("no module of `{folder}` matches `{pattern}`; there are{}", list(.names))]
    NoMatch {
        /// The folder.
        folder: PathBuf,
        /// What was asked for.
        pattern: String,
        /// What there is.
        names: Vec<String>,
    },
    /// Several have it.
    #[error("`{folder}` holds several modules{}; pick one with --module REGEX:{}", asked(.pattern.as_deref()), list(.names))]
    Several {
        /// The folder.
        folder: PathBuf,
        /// What was asked for, if anything.
        pattern: Option<String>,
        /// What fits.
        names: Vec<String>,
    },
}

fn asked(pattern: Option<&str>) -> String {
    pattern.map(|pattern| format!(" that match `{pattern}`")).unwrap_or_default()
}

fn list(names: &[String]) -> String {
    let mut lines: Vec<&str> = names.iter().take(LISTED).map(String::as_str).collect();
    let more = format!("and {} more", names.len().saturating_sub(LISTED));
    if names.len() > LISTED {
        lines.push(&more);
    }
    lines.iter().flat_map(|line| ["\n  ", line]).collect()
}

/// What a folder without dumps holds.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Other {
    /// A folder with dumps.
    Below(PathBuf),
    /// What TensorFlow saves.
    SavedModel,
    /// Modules of StableHLO, as JAX dumps them (`JAX_DUMP_IR_TO`).
    StableHlo,
    /// Code that XLA makes, dumped without the modules.
    Code,
}

fn else_found(other: Option<&Other>) -> &'static str {
    match other {
        None | Some(Other::Below(_)) => "",
        Some(Other::SavedModel) => "; it is a SavedModel of TensorFlow",
        Some(Other::StableHlo) => "; it holds StableHLO (.mlir)",
        Some(Other::Code) => "; it holds code that XLA made, but no module",
    }
}

impl FolderError {
    /// Name of the folder, and what to do.
    pub(crate) fn advice(&self) -> Option<(String, String)> {
        let Self::Empty { folder, other } = self else { return None };
        let help = match other {
            Some(Other::Below(below)) => format!("the folder `{}` holds dumps", below.display()),
            Some(Other::StableHlo) => foreign::LOWER.to_owned(),
            Some(Other::SavedModel) => foreign::TENSORFLOW.to_owned(),
            _ => foreign::DUMP.to_owned(),
        };
        Some((folder.display().to_string(), help))
    }
}

/// What stands in a folder without dumps, if that is known.
fn other(folder: &Path) -> Option<Other> {
    let entries: Vec<PathBuf> = fs::read_dir(folder).ok()?.filter_map(|entry| Some(entry.ok()?.path())).collect();
    let ends = |ending: &str| entries.iter().any(|path| path.extension().is_some_and(|found| found == ending));
    let mut below = entries.iter().filter(|path| path.is_dir() && modules(path).is_ok_and(|found| !found.is_empty()));
    if let Some(path) = below.next() {
        return Some(Other::Below(path.clone()));
    }
    let kinds = [
        (folder.join("saved_model.pb").exists(), Other::SavedModel),
        (ends("mlir"), Other::StableHlo),
        (ends("ll") || ends("ptx") || ends("debug_options"), Other::Code),
    ];
    kinds.into_iter().find_map(|(is, other)| is.then_some(other))
}

/// What was picked.
#[derive(Debug)]
pub(crate) struct Picked {
    /// The file.
    pub(crate) path: PathBuf,
    /// Whether it is of the stage that was wanted.
    pub(crate) is_wanted: bool,
}

/// The file of the one module of `folder` that matches.
pub(crate) fn pick(folder: &Path, pattern: Option<&Regex>, wanted: Wanted) -> Result<Picked, FolderError> {
    let modules = modules(folder)?;
    if modules.is_empty() {
        return Err(FolderError::Empty { folder: folder.to_owned(), other: other(folder) });
    }
    let fits = |name: &String| pattern.is_none_or(|pattern| pattern.is_match(name));
    let names: Vec<String> = modules.keys().filter(|name| fits(name)).cloned().collect();
    match (names.as_slice(), pattern) {
        ([name], _) => {
            let best = modules[name].iter().min_by_key(|file| file.rank(wanted));
            let File { path, stage, .. } = best.expect("a module is listed because it has a file");
            let is_wanted = match wanted {
                Wanted::Program => matches!(stage, Stage::Program | Stage::Partitioned(_)),
                Wanted::Scheduled => *stage == Stage::Scheduled,
            };
            Ok(Picked { path: path.clone(), is_wanted })
        }
        ([], Some(pattern)) => {
            let names = modules.into_keys().collect();
            Err(FolderError::NoMatch { folder: folder.to_owned(), pattern: pattern.to_string(), names })
        }
        (_, pattern) => {
            Err(FolderError::Several { folder: folder.to_owned(), pattern: pattern.map(ToString::to_string), names })
        }
    }
}

/// The modules of a folder by name, such as `module_0003.jit_f`, with their files.
fn modules(folder: &Path) -> Result<BTreeMap<String, Vec<File>>, FolderError> {
    let failed = |error| FolderError::Read(folder.to_owned(), error);
    let mut found: BTreeMap<String, Vec<File>> = BTreeMap::new();
    for entry in fs::read_dir(folder).map_err(failed)? {
        if let Some((module, file)) = names::read(&entry.map_err(failed)?.path()) {
            found.entry(module).or_default().push(file);
        }
    }
    Ok(found)
}

/// XLA's own total for the module in the file `path`, if its reports stand beside it.
pub(crate) fn own_total(path: &Path) -> Option<Bytes> {
    let plain = unpack::without_ending(path.to_str()?);
    let stem = plain.strip_suffix(".txt").or_else(|| plain.strip_suffix(".hlo.pb"))?;
    let read = |report: &str| beside(&format!("{stem}-{report}.txt"));
    let usage = read("memory-usage-report").and_then(|report| {
        let totals = report.lines().filter_map(|line| line.strip_prefix("Total bytes"));
        sum(totals.filter_map(|rest| number(rest.trim_start_matches(" used").strip_prefix(':')?)))
    });
    usage.or_else(|| {
        let report = read("buffer-assignment")?;
        let sizes = report.lines().filter(|line| line.starts_with("allocation "));
        sum(sizes.filter_map(|line| number(line.split_once(": size ")?.1)))
    })
}

/// The text of a report, compressed or not.
fn beside(path: &str) -> Option<String> {
    let packed = ENDINGS.iter().map(|ending| format!("{path}{ending}"));
    let bytes = std::iter::once(path.to_owned()).chain(packed).find_map(|path| fs::read(path).ok())?;
    let bytes = match unpack::packing(&bytes) {
        Some(packing) => unpack::unpack(&bytes, packing).ok()?,
        None => bytes,
    };
    String::from_utf8(bytes).ok()
}

fn sum(mut numbers: impl Iterator<Item = Bytes>) -> Option<Bytes> {
    let first = numbers.next()?;
    Some(first + numbers.sum())
}

fn number(text: &str) -> Option<Bytes> {
    let text = text.trim_start();
    let end = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    text[..end].parse().ok().map(Bytes)
}
