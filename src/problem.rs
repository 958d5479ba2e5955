//! Why a run did not do its work, and how that is said.

// Tests: `tests/errors.rs`.

use std::fmt;

use hlo_ir::Diagnostic;

use crate::folder::FolderError;
use crate::input::InputError;
use crate::judge_xla::JudgedError;
use crate::messages::{Level, Messages, Origin};
use crate::output::OutputError;
use crate::usage_error::UsageError;
use crate::verify_xla::XlaError;
use crate::watcher::DumpError;
use crate::{Exit, Failure};

/// Why there is no result.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Problem {
    #[error(transparent)]
    Usage(#[from] UsageError),
    #[error(transparent)]
    Input(#[from] InputError),
    #[error(transparent)]
    Folder(#[from] FolderError),
    #[error(transparent)]
    Output(#[from] OutputError),
    #[error(transparent)]
    Dump(#[from] DumpError),
    #[error(transparent)]
    Xla(#[from] XlaError),
    /// The compiler did not decide, for want of the compiler or of a form.
    #[error(transparent)]
    Judge(#[from] JudgedError),
    /// One failure or several, of one module or several; places are places in `text`.
    #[error("{} modules of `{name}` have no result", failures.len())]
    Modules { failures: Vec<Failed>, name: String, text: String },
    /// The binary form has no place for something.
    #[error("the module cannot be written in binary form")]
    NoField(Vec<Diagnostic>, String),
}

/// Why one module has no result.
#[derive(Debug)]
pub(crate) struct Failed {
    pub(crate) failure: Failure,
    /// Line at which the module begins, if there are several.
    pub(crate) line: Option<usize>,
}

impl Problem {
    /// The failure of the only module there is, in a step that knows no places.
    pub(crate) fn of_one(failure: Failure, name: &str) -> Self {
        Self::Modules { failures: vec![Failed { failure, line: None }], name: name.to_owned(), text: String::new() }
    }
    /// What the binary form has no place for. The module may stand anywhere in the input by now: only names tell where the problem is.
    pub(crate) fn no_field(problems: &[Diagnostic], name: &str) -> Self {
        Self::NoField(problems.iter().map(|problem| Diagnostic::new(&problem.message)).collect(), name.to_owned())
    }
    /// Says what is wrong on standard error.
    pub(crate) fn report(&self, messages: Messages) -> Exit {
        let plain = |code: &str, exit: Exit| {
            messages.plain(Level::Error, code, &self.to_string(), None);
            exit
        };
        match self {
            Self::Usage(_) => plain("usage", Exit::Usage),
            Self::Input(InputError::Proto(source, problems)) => {
                plain("input", Exit::Input);
                messages.problems(problems, "input", Origin { name: &source.to_string(), text: "" });
                Exit::Input
            }
            Self::Input(error) => advised(error, error.advice(), messages),
            Self::Folder(error) => advised(error, error.advice(), messages),
            Self::Output(_) | Self::Dump(_) => plain("output", Exit::Input),
            // Other results are a fault of the tool that rewrote, or of the compiler, and none of the user's.
            Self::Xla(XlaError::Differ(_)) => plain("xla-differs", Exit::Internal),
            Self::Judge(JudgedError::Run(Failure::Internal(_))) => plain("internal", Exit::Internal),
            Self::Xla(_) | Self::Judge(_) => plain("xla", Exit::Input),
            Self::Modules { failures, name, text } => {
                let origin = Origin { name, text };
                failures.iter().map(|failure| say(failure, messages, origin)).fold(Exit::Done, Exit::or)
            }
            Self::NoField(problems, name) => {
                plain("output", Exit::Input);
                messages.problems(problems, "output", Origin { name, text: "" });
                Exit::Input
            }
        }
    }
}

/// Says what is wrong with an input; `advice` is its name, and what to do about it, if that is known.
fn advised(error: &impl fmt::Display, advice: Option<(String, String)>, messages: Messages) -> Exit {
    match advice {
        None => messages.plain(Level::Error, "input", &error.to_string(), None),
        Some((name, help)) => {
            let problem = Diagnostic::new(error.to_string()).note(help);
            messages.problems(&[problem], "input", Origin { name: &name, text: "" });
        }
    }
    Exit::Input
}

/// Says why one module has no result.
fn say(failed: &Failed, messages: Messages, origin: Origin<'_>) -> Exit {
    let place = failed.line.map(|line| format!(" (in the module that begins at line {line})")).unwrap_or_default();
    match &failed.failure {
        Failure::Illegal(problems) => {
            messages.problems(problems, "syntax", origin);
            Exit::Input
        }
        Failure::Estimate(error) => {
            messages.plain(Level::Error, "estimate", &format!("{error}{place}"), Some(origin.name));
            Exit::Input
        }
        Failure::Internal(message) => {
            messages.plain(Level::Error, "internal", &format!("internal error: {message}{place}"), Some(origin.name));
            Exit::Internal
        }
    }
}
