//! Follows a run for the user: the line on the terminal, `--print-after`, `--dump-dir`, and the tables of `--time-passes` and `--stats`.

// Tests: `tests/cli_watch.rs`.

use std::fmt::Write as _;
use std::fs;
use std::io::{self, Write as _};
use std::path::PathBuf;
use std::time::Duration;

use hlo_ir::{Module, text};
use hlo_passes::manager::{Observer, Rewrite, Statistics};

use crate::progress::Progress;
use crate::watch_flags::Watch;

/// Writing into a `String` cannot fail.
const INFALLIBLE: &str = "a String takes every write";

/// Says and writes what was asked for while a run goes on.
pub(crate) struct Watcher<'a> {
    watch: &'a Watch,
    progress: Progress,
    dumps: Vec<PathBuf>,
    trouble: Option<DumpError>,
}

/// A module that could not be dumped.
#[derive(Debug, thiserror::Error)]
#[error("cannot write `{}`: {error}", .path.display())]
pub(crate) struct DumpError {
    path: PathBuf,
    error: io::Error,
}

impl<'a> Watcher<'a> {
    /// Nothing happened yet.
    pub(crate) fn new(watch: &'a Watch, quiet: bool) -> Self {
        Self { watch, progress: Progress::start(quiet), dumps: Vec::new(), trouble: None }
    }

    /// Ends the watch; the first dump that failed is an error.
    pub(crate) fn finish(self) -> Result<(), DumpError> {
        self.trouble.map_or(Ok(()), Err)
    }

    /// Writes a module into the folder for dumps, if there is one.
    fn dump(&mut self, name: &str, module: &Module) {
        let Some(folder) = self.watch.dump_dir.as_ref().filter(|_| self.trouble.is_none()) else { return };
        let path = folder.join(format!("{name}.hlo"));
        match fs::create_dir_all(folder).and_then(|()| fs::write(&path, text::print(module))) {
            Ok(()) => self.dumps.push(path),
            Err(error) => self.trouble = Some(DumpError { path, error }),
        }
    }
}

impl Observer for Watcher<'_> {
    fn begun(&mut self, module: &Module) {
        self.dump("0000.input", module);
    }
    fn working(&mut self, what: &str) {
        self.progress.stage(what);
    }
    fn applied(&mut self, number: usize, rewrite: &Rewrite, module: &Module) {
        let Rewrite { pass, instruction, .. } = rewrite;
        if self.watch.print_after.includes(pass) {
            say(&format!("// after rewrite {number}: {pass} {instruction}\n{}\n", text::print(module)));
        }
        self.dump(&format!("{number:04}.{pass}.{}", file_name(instruction)), module);
    }
    fn undone(&mut self, kept: usize) {
        if self.watch.print_after != crate::watch_flags::Printed::default() {
            say(&format!("// put back: all rewrites but the first {kept}\n"));
        }
        // The first dump is the input.
        for path in self.dumps.drain((kept + 1).min(self.dumps.len())..) {
            // What cannot be removed was removed by someone else.
            let _ = fs::remove_file(path);
        }
    }
}

/// A name in which only what is harmless in file names stands.
fn file_name(name: &str) -> String {
    name.chars().map(|c| if c.is_ascii_alphanumeric() || "._-".contains(c) { c } else { '_' }).collect()
}

/// Prints what a flag asked for on standard error, in whatever form errors are; when even that fails there is nobody left to tell.
pub(crate) fn say(text: &str) {
    let _ = io::stderr().write_all(text.as_bytes());
}

/// The tables asked for, after a run.
pub(crate) fn tables(watch: &Watch, statistics: &Statistics) -> String {
    let mut out = String::new();
    if watch.time_passes {
        out += &times(statistics);
    }
    if watch.stats {
        out += &counts(statistics);
    }
    out
}

/// `--time-passes`.
fn times(statistics: &Statistics) -> String {
    let mut out = "time by the clock, share of the run, how often\n".to_owned();
    let mut row = |name: &str, time: Duration, count: Option<usize>| {
        let share = 100.0 * time.as_secs_f64() / statistics.total.as_secs_f64().max(1e-9);
        let count = count.map(|count| count.to_string()).unwrap_or_default();
        let line = format!("{:>10.1} ms {share:>5.1} % {count:>7}  {name}", 1e3 * time.as_secs_f64());
        writeln!(out, "{line}").expect(INFALLIBLE);
    };
    for pass in &statistics.passes {
        row(&format!("search of {}", pass.name), pass.searches.time, Some(pass.searches.count));
    }
    row("patches, applied and verified", statistics.patches.time, Some(statistics.patches.count));
    row("memory estimates", statistics.estimates.time, Some(statistics.estimates.count));
    let known = statistics.passes.iter().map(|pass| pass.searches.time).sum::<Duration>();
    let known = known + statistics.patches.time + statistics.estimates.time;
    row("everything else", statistics.total.saturating_sub(known), None);
    row("total", statistics.total, None);
    out
}

/// `--stats`.
fn counts(statistics: &Statistics) -> String {
    let mut out = "findings, tried, made, put back\n".to_owned();
    for pass in &statistics.passes {
        let (found, tried, made, back) = (pass.findings, pass.tried, pass.made, pass.put_back);
        writeln!(out, "{found:>8} {tried:>6} {made:>5} {back:>9}  {}", pass.name).expect(INFALLIBLE);
    }
    let (before, after) = statistics.instructions;
    writeln!(
        out,
        "{} estimates, {} patches, {before} instructions before, {after} after",
        statistics.estimates.count, statistics.patches.count
    )
    .expect(INFALLIBLE);
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_become_harmless() {
        assert_eq!(file_name("scatter-add.5"), "scatter-add.5");
        assert_eq!(file_name("../a b"), ".._a_b");
    }
}
