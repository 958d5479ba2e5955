//! `--verify-with-xla`: runs the original and the rewritten module on the same data, by the Python package's referee.

// Tests: `tests/python.rs`.

use std::ffi::OsString;
use std::io;
use std::path::Path;
use std::process::Command;

use hlo_passes::Grade;

use crate::Optimized;

/// Names the Python interpreter that has the package; the wheel's command sets it to its own.
const PYTHON: &str = "HLO_OPT_PYTHON";

/// The referee's exit code for results that differ (`python/hlo_opt/xla/__main__.py`).
const DIFFER: i32 = 3;

/// Why the rewritten module is not trusted.
#[derive(Debug, thiserror::Error)]
pub(crate) enum XlaError {
    /// A rewrite is wrong, or XLA miscompiles one of the modules.
    #[error("XLA computes other results from the rewritten module; nothing is written\n{0}")]
    Differ(String),
    /// XLA could not be asked.
    #[error("--verify-with-xla could not run both modules; nothing is written\n{0}")]
    Unasked(String),
    /// The modules could not be handed over.
    #[error("--verify-with-xla: {0}")]
    Io(#[from] io::Error),
    /// There is no interpreter.
    #[error("{0}")]
    Python(String),
}

/// The referee's command line, without arguments yet.
pub(crate) fn package() -> Command {
    let mut command = Command::new(std::env::var_os(PYTHON).unwrap_or_else(|| OsString::from("python3")));
    command.args(["-m", "hlo_opt.xla"]);
    command
}

/// What is said where that cannot be run.
pub(crate) fn no_python(command: &Command, error: &io::Error, flag: &str) -> String {
    let name = command.get_program().to_string_lossy();
    format!(
        "{flag} needs Python with the package hlo-opt (`pip install .`): cannot run `{name}`: {error}; {PYTHON} names an interpreter"
    )
}

/// What the referee says about the results: one sentence.
pub(crate) fn verify(optimized: &Optimized) -> Result<String, XlaError> {
    let grade = optimized.report.rewrites.iter().map(|rewrite| rewrite.grade).max();
    let Some(grade) = grade else { return Ok("nothing was rewritten".to_owned()) };
    let folder = tempfile::tempdir()?;
    let [before, after] = ["before.hlo", "after.hlo"].map(|name| folder.path().join(name));
    std::fs::write(&before, &optimized.input)?;
    std::fs::write(&after, &optimized.text)?;
    compare(&before, &after, grade)
}

fn compare(before: &Path, after: &Path, grade: Grade) -> Result<String, XlaError> {
    let mut command = package();
    command.args(["compare", "--grade", grade.name()]);
    if grade == Grade::Assume {
        // Only the first data set keeps every promise.
        command.args(["--cases", "1"]);
    }
    let output = command.arg(before).arg(after).output();
    let output = output.map_err(|error| XlaError::Python(no_python(&command, &error, "--verify-with-xla")))?;
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).trim().to_owned();
    match output.status.code() {
        Some(0) => Ok(text(&output.stdout)),
        Some(DIFFER) => Err(XlaError::Differ(text(&output.stdout))),
        _ => Err(XlaError::Unasked(text(&output.stderr))),
    }
}
