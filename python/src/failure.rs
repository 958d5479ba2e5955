//! Why a call has no result, and the Python exception that says so.

use hlo_ir::Diagnostic;
use hlo_opt::Failure;
use pyo3::exceptions::{PyRuntimeError, PyValueError};
use pyo3::prelude::*;

/// One problem of an input, in Python's terms: message, line and column (counted from 1, if it has a place), help texts.
pub(crate) type Problem = (String, Option<usize>, Option<usize>, Vec<String>);

/// Why there is no result.
pub(crate) enum Stop {
    /// A keyword makes no sense.
    Usage(String),
    /// The module cannot be read or is not legal.
    Illegal(Vec<Problem>),
    /// The memory model cannot handle the module.
    Estimate(String),
    /// An error in this tool.
    Internal(String),
    /// The judge could not be asked.
    Unasked(String),
}

impl Stop {
    /// The library's failure on the text `source`.
    pub(crate) fn of(failure: Failure, source: &str) -> Self {
        match failure {
            Failure::Illegal(problems) => Self::illegal(&problems, source),
            Failure::Estimate(error) => Self::Estimate(error.to_string()),
            Failure::Internal(message) => Self::Internal(message),
        }
    }

    /// Problems of the text `source`.
    pub(crate) fn illegal(problems: &[Diagnostic], source: &str) -> Self {
        Self::Illegal(problems.iter().map(|problem| placed(problem, source)).collect())
    }

    /// Bytes that are neither text nor a proto; the first bad one is at `offset`.
    pub(crate) fn not_text(data: &[u8], offset: usize) -> Self {
        let (line, column) = place(&String::from_utf8_lossy(&data[..offset]), offset);
        Self::Illegal(vec![("neither UTF-8 text nor a serialized proto".to_owned(), Some(line), Some(column), vec![])])
    }

    /// The exception, an instance of a class of `hlo_opt.errors`.
    pub(crate) fn raise(self, py: Python<'_>) -> PyErr {
        let made = match self {
            Self::Usage(message) => return PyValueError::new_err(message),
            Self::Unasked(message) => return PyRuntimeError::new_err(message),
            Self::Illegal(problems) => make(py, "HloError", problems),
            Self::Estimate(message) => make(py, "EstimateError", message),
            Self::Internal(message) => make(py, "InternalError", message),
        };
        made.unwrap_or_else(|error| error)
    }
}

fn make<'py>(py: Python<'py>, class: &str, argument: impl IntoPyObject<'py>) -> PyResult<PyErr> {
    let class = py.import("hlo_opt.errors")?.getattr(class)?;
    Ok(PyErr::from_value(class.call1((argument,))?))
}

fn placed(problem: &Diagnostic, source: &str) -> Problem {
    let (line, column) = problem.span.map(|span| place(source, span.start as usize)).unzip();
    (problem.message.clone(), line, column, problem.notes.clone())
}

/// Line and column, both counted from 1, of a byte offset; columns are characters.
fn place(source: &str, offset: usize) -> (usize, usize) {
    let mut end = offset.min(source.len());
    while !source.is_char_boundary(end) {
        end -= 1;
    }
    let before = &source[..end];
    let line_start = before.rfind('\n').map_or(0, |newline| newline + 1);
    (before.matches('\n').count() + 1, before[line_start..].chars().count() + 1)
}
