//! Runs the built command the way a shell would, and finds the corpus.

#![allow(dead_code, reason = "each test binary uses its own part")]

use hlo_opt::{Bytes, Machine, Options};
use std::ffi::OsStr;
use std::fmt;
use std::io::Write as _;
use std::panic::resume_unwind;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};

/// What a run of the command left behind.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Run {
    /// The exit code; -1 if it died of a signal.
    pub(crate) code: i32,
    /// Standard output.
    pub(crate) stdout: String,
    /// Standard error.
    pub(crate) stderr: String,
}

impl fmt::Display for Run {
    /// The form of snapshots.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "exit code {}", self.code)?;
        for (name, text) in [("output", &self.stdout), ("error", &self.stderr)] {
            if !text.is_empty() {
                write!(f, "--- standard {name}\n{text}")?;
            }
        }
        Ok(())
    }
}

/// What comes of each item, found on all cores: a test that takes minutes is often the last of its file.
pub(crate) fn on_all_cores<T: Sync, R: Send>(items: &[T], work: impl Fn(&T) -> R + Sync) -> Vec<R> {
    let next = AtomicUsize::new(0);
    let take = || -> Vec<(usize, R)> {
        let mine = std::iter::from_fn(|| Some(next.fetch_add(1, Ordering::Relaxed)).filter(|at| *at < items.len()));
        mine.map(|at| (at, work(&items[at]))).collect()
    };
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let mut found: Vec<(usize, R)> = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..cores).map(|_| scope.spawn(take)).collect();
        let results = threads.into_iter().map(|thread| thread.join().unwrap_or_else(|panic| resume_unwind(panic)));
        results.flatten().collect()
    });
    found.sort_by_key(|(at, _)| *at);
    found.into_iter().map(|(_, result)| result).collect()
}

/// A text with others in the place of some of its parts, each of which must be there: a program of a file that varies in a few words.
pub(crate) fn changed(text: &str, changes: &[(&str, &str)]) -> String {
    changes.iter().fold(text.to_owned(), |text, (old, new)| {
        assert!(text.contains(old), "nothing to replace: {old}");
        text.replace(old, new)
    })
}

/// The root of the repository, where the command is run: paths in messages are then the same everywhere.
pub(crate) fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// The command with a fixed environment.
pub(crate) fn command() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_hlo-opt"));
    command.current_dir(root()).stdin(Stdio::null());
    for variable in ["COLUMNS", "NO_COLOR", "CLICOLOR", "CLICOLOR_FORCE", "RUST_BACKTRACE"] {
        command.env_remove(variable);
    }
    command
}

/// Runs the command with these arguments and nothing on standard input.
pub(crate) fn run<A: AsRef<OsStr>>(arguments: impl IntoIterator<Item = A>) -> Run {
    finish(command().args(arguments))
}

/// Runs the command with `input` on standard input.
pub(crate) fn run_on<A: AsRef<OsStr>>(input: &[u8], arguments: impl IntoIterator<Item = A>) -> Run {
    let mut command = command();
    command.args(arguments).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().expect("the built command starts");
    let mut stdin = child.stdin.take().expect("standard input is a pipe");
    let input = input.to_vec();
    // A thread: the command may print more than a pipe holds before it has read everything. It may also leave early.
    let writer = std::thread::spawn(move || drop(stdin.write_all(&input)));
    let output = child.wait_with_output().expect("the command ends");
    writer.join().expect("the writer does not panic");
    from(&output)
}

/// Runs a prepared command to its end.
pub(crate) fn finish(command: &mut Command) -> Run {
    from(&command.output().expect("the built command starts"))
}

fn from(output: &std::process::Output) -> Run {
    let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).expect("output is UTF-8");
    Run { code: output.status.code().unwrap_or(-1), stdout: text(&output.stdout), stderr: text(&output.stderr) }
}

/// Names without `.before.hlo` of the programs in a folder of the corpus, sorted; never empty.
pub(crate) fn programs(folder: &str) -> Vec<String> {
    let path = root().join("corpus").join(folder);
    let entries = path.read_dir().unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    let mut names: Vec<_> = entries
        .filter_map(|entry| Some(entry.ok()?.file_name().to_str()?.strip_suffix(".before.hlo")?.to_owned()))
        .collect();
    names.sort();
    assert!(!names.is_empty(), "no programs in {}", path.display());
    names
}

/// Folders of the corpus that hold full-size programs and have a twin of small ones, sorted.
pub(crate) fn full() -> Vec<String> {
    let path = root().join("corpus");
    let entries = path.read_dir().unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    let names = entries.filter_map(|entry| entry.ok()?.file_name().to_str().map(str::to_owned));
    let mut full: Vec<String> = names.filter(|name| path.join(format!("{name}-small")).is_dir()).collect();
    full.sort();
    assert!(full.len() > 10, "the corpus is not where the tests look for it");
    full
}

/// Options under which small programs are rewritten like large ones.
#[allow(dead_code, reason = "each test binary uses a part of it")]
pub(crate) fn eager() -> Options {
    Options {
        min_saving: Bytes(1),
        machine: Some(Machine::without_malloc_cache()),
        verify_each: true,
        advise: false,
        ..Options::default()
    }
}

/// A machine on which small programs are treated like large ones.
#[allow(dead_code, reason = "each test binary uses a part of it")]
pub(crate) const NO_MALLOC_CACHE: &str = "tests/machines/no_malloc_cache.toml";

/// Their twins, of programs that can be run on one device.
pub(crate) fn small() -> Vec<String> {
    twins(false)
}

/// Their twins, of programs that run on several devices.
pub(crate) fn devices() -> Vec<String> {
    twins(true)
}

fn twins(on_several_devices: bool) -> Vec<String> {
    let twins = full().into_iter().map(|folder| format!("{folder}-small"));
    let is_partitioned = |folder: &str| {
        let first = text(corpus(folder, &programs(folder)[0], "before.hlo"));
        first.lines().next().is_some_and(|header| header.contains("num_partitions="))
    };
    twins.filter(|folder| is_partitioned(folder) == on_several_devices).collect()
}

/// A file of the corpus, relative to the root.
pub(crate) fn corpus(folder: &str, name: &str, extension: &str) -> PathBuf {
    Path::new("corpus").join(folder).join(format!("{name}.{extension}"))
}

/// The text of a file, given relative to the root.
pub(crate) fn text(path: impl AsRef<Path>) -> String {
    let path = root().join(path);
    std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// XLA's total for a program of the corpus, as `corpus/generate.py` recorded it.
pub(crate) fn xla_total(folder: &str, name: &str) -> u64 {
    let facts: serde_json::Value = serde_json::from_str(&text(corpus(folder, name, "xla.json"))).expect("JSON");
    facts["total_bytes"].as_u64().expect("a number of bytes")
}
