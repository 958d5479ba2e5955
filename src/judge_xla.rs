//! `--judge` and `--max-slowdown`: who decides, and the target's compiler as judge, by the Python package, which compiles from shapes without a device.

// Tests: `tests/judge.rs`.

use std::io;
use std::path::Path;
use std::process::Output;

use hlo_ir::{Module, text};
use hlo_memory::{Bytes, Target};
use hlo_passes::Machine;
use serde::Deserialize;

use crate::answer::{Answer, Figures};
use crate::args::{JudgeName, Judging, Rewriting};
use crate::judge::{self, Judge, JudgeError, Request};
use crate::judge_model::ByModel;
use crate::progress::Progress;
use crate::report::target_name;
use crate::{Failure, Optimized, Options, verify_xla};

/// Why the compiler did not decide.
#[derive(Debug, thiserror::Error)]
pub(crate) enum JudgedError {
    /// It could not be asked.
    #[error("--judge xla could not ask the compiler; nothing is written\n{0}")]
    Unasked(String),
    /// A form could not be made.
    #[error(transparent)]
    Run(Failure),
}

impl From<JudgeError> for JudgedError {
    fn from(error: JudgeError) -> Self {
        match error {
            JudgeError::Unasked(reason) => Self::Unasked(reason),
            JudgeError::Run(failure) => Self::Run(failure),
        }
    }
}

/// The forms that the compiler finds best.
pub(crate) fn decide(
    results: Vec<Optimized>,
    rewriting: &Rewriting,
    options: &Options,
    silent: bool,
) -> Result<Vec<Optimized>, JudgedError> {
    let Judging { judge, max_slowdown } = rewriting.judging;
    let request = Request { pipeline: &rewriting.pipeline, options, max_slowdown };
    let (mut xla, mut model) = (Xla(options), ByModel(options));
    let judge: &mut dyn Judge = match (judge, max_slowdown) {
        (JudgeName::Xla, _) => &mut xla,
        (JudgeName::Model, Some(_)) => &mut model,
        // The search has gone by the model's bytes already.
        (JudgeName::Model, None) => return Ok(results),
    };
    let progress = Progress::start(silent);
    progress.stage("asking the judge");
    results.into_iter().map(|result| Ok(judge::decide(result, request, judge)?)).collect()
}

/// The compiler of the target, and a roofline over what it makes of a module.
struct Xla<'a>(&'a Options);

/// The line of JSON that the package answers with (`python/hlo_opt/xla/trial.py`): figures, or an error.
#[derive(Deserialize, Default)]
#[serde(default)]
struct Line {
    total_bytes: Option<u64>,
    alias_bytes: u64,
    seconds: Option<f64>,
    error: String,
    does_not_fit: bool,
}

impl Judge for Xla<'_> {
    fn name(&self) -> &'static str {
        match self.0.target {
            Target::Cpu => "XLA:CPU",
            Target::Tpu => "XLA:TPU",
            Target::Gpu => "XLA:GPU",
        }
    }
    fn ask(&mut self, module: &Module) -> Result<Answer, String> {
        let said = |error: io::Error| error.to_string();
        let folder = tempfile::tempdir().map_err(said)?;
        let file = folder.path().join("module.hlo");
        std::fs::write(&file, text::print(module)).map_err(said)?;
        self.answer(&file)
    }
}

impl Xla<'_> {
    fn answer(&self, file: &Path) -> Result<Answer, String> {
        let mut command = verify_xla::package();
        command.args(["time", "--json", "--target", &self.target()]).arg(file);
        let output = command.output().map_err(|error| verify_xla::no_python(&command, &error, "--judge xla"))?;
        let line: Line = serde_json::from_slice(&output.stdout).map_err(|_| end_of(&output))?;
        let Some(total) = line.total_bytes else {
            return Ok(if line.does_not_fit { Answer::TooLarge(line.error) } else { Answer::Failed(line.error) });
        };
        let (total, aliased) = (Bytes(total), Bytes(line.alias_bytes));
        Ok(Answer::Compiled(Figures { total, aliased, seconds: line.seconds }))
    }
}

impl Xla<'_> {
    /// The target as the package's `--target` spells it, with the machine if that has a name.
    fn target(&self) -> String {
        let target = target_name(self.0.target);
        let named = self.0.machine.as_ref().filter(|machine| Machine::named(machine.target, &machine.name).is_some());
        named.map_or_else(|| target.to_owned(), |machine| format!("{target}:{}", machine.name))
    }
}

/// What the package said instead of an answer.
fn end_of(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).trim().to_owned()
}
