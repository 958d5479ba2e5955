//! XLA dump folders (`--xla_dump_to`): which modules are in them, which text of a module is wanted, and what XLA itself says beside it.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use hlo_memory::Bytes;
use regex::Regex;

/// Which text of a module is wanted first; the other one is taken where that is missing.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Wanted {
    /// The program as it goes into the compiler, to be rewritten.
    Program,
    /// What the compiler made of it, with its schedule.
    Scheduled,
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
    #[error("`{0}` is a folder without HLO dumps: no file ends in before_optimizations.txt or after_optimizations.txt")]
    Empty(PathBuf),
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

/// The texts of one module.
#[derive(Debug, Default)]
struct Texts {
    program: Option<PathBuf>,
    scheduled: Option<PathBuf>,
}

/// The text of the one module of `folder` that matches.
pub(crate) fn pick(folder: &Path, pattern: Option<&Regex>, wanted: Wanted) -> Result<PathBuf, FolderError> {
    let modules = modules(folder)?;
    if modules.is_empty() {
        return Err(FolderError::Empty(folder.to_owned()));
    }
    let fits = |name: &String| pattern.is_none_or(|pattern| pattern.is_match(name));
    let names: Vec<String> = modules.keys().filter(|name| fits(name)).cloned().collect();
    match (names.as_slice(), pattern) {
        ([name], _) => {
            let Texts { program, scheduled } = &modules[name];
            let (first, second) = match wanted {
                Wanted::Program => (program, scheduled),
                Wanted::Scheduled => (scheduled, program),
            };
            Ok(first.clone().or(second.clone()).expect("a module is listed because it has a text"))
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

/// The modules of a folder by name, such as `module_0003.jit_f`.
fn modules(folder: &Path) -> Result<BTreeMap<String, Texts>, FolderError> {
    let failed = |error| FolderError::Read(folder.to_owned(), error);
    let mut found: BTreeMap<String, Texts> = BTreeMap::new();
    for entry in fs::read_dir(folder).map_err(failed)? {
        let path = entry.map_err(failed)?.path();
        let Some(file) = path.file_name().and_then(|file| file.to_str()) else { continue };
        if let Some(name) = file.strip_suffix(".before_optimizations.txt") {
            found.entry(name.to_owned()).or_default().program = Some(path.clone());
        } else if let Some(name) = file.strip_suffix("after_optimizations.txt") {
            found.entry(module_name(name)).or_default().scheduled = Some(path.clone());
        }
    }
    Ok(found)
}

/// `module_0003.jit_f.cpu_` and `module_0003.jit_f.sm_9.0_gpu_` name `module_0003.jit_f`.
fn module_name(stem: &str) -> String {
    let stem = stem.trim_end_matches(['_', '.']);
    let stem = stem
        .strip_suffix("cpu")
        .or_else(|| stem.strip_suffix("gpu"))
        .or_else(|| stem.strip_suffix("tpu"))
        .unwrap_or(stem);
    let stem = stem.trim_end_matches(['_', '.']);
    // A GPU's architecture has a dot of its own: `.sm_9.0a`.
    let arch = stem.rfind(".sm_").or_else(|| stem.rfind(".gfx"));
    arch.map_or(stem, |at| &stem[..at]).to_owned()
}

/// XLA's own total for the module in the file `text`, if its reports stand beside it.
pub(crate) fn own_total(text: &Path) -> Option<Bytes> {
    let stem = text.to_str()?.strip_suffix(".txt")?;
    let read = |report: &str| fs::read_to_string(format!("{stem}-{report}.txt")).ok();
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

fn sum(mut numbers: impl Iterator<Item = Bytes>) -> Option<Bytes> {
    let first = numbers.next()?;
    Some(first + numbers.sum())
}

fn number(text: &str) -> Option<Bytes> {
    let text = text.trim_start();
    let end = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    text[..end].parse().ok().map(Bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_part_behind_the_module_is_no_part_of_its_name() {
        for stem in [
            "module_0003.jit_f.cpu_",
            "module_0003.jit_f.sm_9.0a_gpu_",
            "module_0003.jit_f.",
            "module_0003.jit_f.gfx942_gpu_",
        ] {
            assert_eq!(module_name(stem), "module_0003.jit_f");
        }
    }
}
