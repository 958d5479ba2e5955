//! `hlo-opt`: the memory optimizer for XLA programs, as a library and as the command of the same name.
//!
//! [`optimize`] takes HLO text to HLO text of lower peak memory and equal results; [`analyze()`] only says how much memory a module needs and
//! who holds it. Both return values; nothing in them reads files, prints or ends the process. [`run`] is the command line on top.
//!
//! ```
//! use hlo_opt::{Options, Pipeline, optimize};
//!
//! let text = "HloModule tiny\n\nENTRY main {\n  ROOT x = f32[8] parameter(0)\n}\n";
//! let outcome = optimize(text, &Pipeline::standard(), &Options::default())?;
//! assert_eq!(outcome.report.after.total, outcome.report.before.total);
//! # Ok::<(), hlo_opt::Failure>(())
//! ```

mod analyze;
mod answer;
mod api;
mod args;
mod curve;
mod curve_point;
mod diff;
mod driver;
mod exit;
mod explain;
mod folder;
mod foreign;
mod guard;
mod input;
mod judge;
mod judge_model;
mod judge_xla;
mod machine_flags;
mod messages;
mod output;
mod pipeline;
mod problem;
mod progress;
mod render;
mod report;
mod results;
mod shell;
mod size;
mod summary;
mod unpack;
mod usage_error;
mod verdict;
mod verify_xla;
mod watch_flags;
mod watcher;
mod why_not;

pub use answer::{Answer, Attempt, Bounds, Figures, Verdict};
pub use api::{
    Analysis, Failure, Optimized, Wanted, analyze, analyze_as, analyze_for_its_target, analyze_module, assignment_text,
    optimize, optimize_module, optimize_observed, with_limit,
};
pub use curve::{curve, curve_of};
pub use curve_point::Point;
pub use driver::run;
pub use exit::Exit;
pub use hlo_memory::{Bytes, Details, Estimate, Target};
pub use hlo_passes::manager::Observer;
pub use hlo_passes::{Assumption, Grade, Machine, Objective, Options};
pub use judge::{Judge, JudgeError, Request, decide};
pub use pipeline::{Pipeline, PipelineError};
