//! What is said on standard error, and in which form: for people with the line of the input, or for programs as lines of JSON
//! (`docs/messages.md` describes them).

// Tests: `tests/forms.rs`.

use std::io::{self, Write as _};

use hlo_ir::{Diagnostic, Span, text};
use serde::Serialize;

use crate::render;

/// The form of messages.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Messages {
    /// As compilers write them.
    Human {
        /// Whether with colors.
        color: bool,
    },
    /// One JSON object per line.
    Json,
}

/// How grave a message is.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Level {
    /// There is no result.
    Error,
    /// There is a result, but it lacks something.
    Warning,
}

/// A text and what messages call it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Origin<'a> {
    pub(crate) name: &'a str,
    pub(crate) text: &'a str,
}

impl Messages {
    /// Says what is wrong with a text. `code` is that of problems that break no numbered invariant.
    pub(crate) fn problems(self, problems: &[Diagnostic], code: &str, origin: Origin<'_>) {
        match self {
            Self::Human { color } => say(&render::diagnostics(problems, origin.name, origin.text, color)),
            Self::Json => problems.iter().for_each(|problem| say(&located(problem, code, origin))),
        }
    }
    /// Says something that has no place in a text.
    pub(crate) fn plain(self, level: Level, code: &str, message: &str, file: Option<&str>) {
        match (self, level) {
            (Self::Human { color }, Level::Error) => say(&(render::error(message, color) + "\n")),
            (Self::Human { color }, Level::Warning) => say(&(render::warning(message, color) + "\n")),
            (Self::Json, _) => say(&line(&Record { level, file, ..Record::new(code, message) })),
        }
    }
    /// Says that something in the input is not in the result.
    pub(crate) fn dropped(self, dropped: &[Diagnostic], file: &str) {
        for what in dropped {
            self.plain(Level::Warning, "dropped", &what.message, Some(file));
        }
    }
    /// Says something to a person; programs do not read it.
    pub(crate) fn remark(self, text: &str) {
        if matches!(self, Self::Human { .. }) {
            say(text);
        }
    }
}

/// Prints on standard error; when even that fails there is nobody left to tell.
fn say(text: &str) {
    let _ = io::stderr().write_all(text.as_bytes());
}

/// One line of JSON.
#[derive(Serialize)]
struct Record<'a> {
    level: Level,
    code: &'a str,
    message: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    file: Option<&'a str>,
    #[serde(flatten)]
    place: Option<Place>,
    labels: Vec<Label<'a>>,
    help: &'a [String],
}

/// Lines and columns count from 1, columns in bytes; `end` is the place behind the last byte.
#[derive(Serialize)]
struct Place {
    line: usize,
    column: usize,
    end: End,
}

#[derive(Serialize)]
struct End {
    line: usize,
    column: usize,
}

#[derive(Serialize)]
struct Label<'a> {
    #[serde(flatten)]
    place: Place,
    message: &'a str,
}

impl<'a> Record<'a> {
    fn new(code: &'a str, message: &'a str) -> Self {
        Self { level: Level::Error, code, message, file: None, place: None, labels: Vec::new(), help: &[] }
    }
}

/// The line of a problem with a text.
fn located(problem: &Diagnostic, code: &str, origin: Origin<'_>) -> String {
    let (message, code) = match with_code(&problem.message) {
        Some(both) => both,
        None => (problem.message.as_str(), code),
    };
    let place = |span: Span| {
        let (line, column) = text::line_column(origin.text, span.start);
        let end = text::line_column(origin.text, span.end);
        Place { line, column, end: End { line: end.0, column: end.1 } }
    };
    line(&Record {
        file: Some(origin.name),
        place: problem.span.map(place),
        labels: problem.labels.iter().map(|(span, message)| Label { place: place(*span), message }).collect(),
        help: &problem.notes,
        ..Record::new(code, message)
    })
}

/// The message and its code if it is the verifier's: these end with the number of the violated invariant.
fn with_code(message: &str) -> Option<(&str, &str)> {
    let (before, number) = message.strip_suffix(']')?.rsplit_once(" [V")?;
    let code = &message[before.len() + 2..message.len() - 1];
    (!number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit())).then_some((before, code))
}

fn line(record: &Record<'_>) -> String {
    serde_json::to_string(record).expect("strings and numbers can be written as JSON") + "\n"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_invariant_is_the_code() {
        assert_eq!(with_code("`x`: is wrong [V10]"), Some(("`x`: is wrong", "V10")));
        for message in ["expected `]`, found `[V10]", "[V]x]", "a [V1x]", "a [V]"] {
            assert_eq!(with_code(message), None);
        }
    }

    #[test]
    fn a_problem_is_one_line_with_its_place() {
        let problem = Diagnostic::at(Span::new(4, 9), "is wrong").label(Span::new(0, 1), "here").note("try \"x\"");
        let written = located(&problem, "syntax", Origin { name: "f.hlo", text: "abc\ndefgh\ni" });
        let expected = r#"{"level":"error","code":"syntax","message":"is wrong","file":"f.hlo","line":2,"column":1,"end":{"line":2,"column":6},"labels":[{"line":1,"column":1,"end":{"line":1,"column":2},"message":"here"}],"help":["try \"x\""]}"#;
        assert_eq!(written, format!("{expected}\n"));
    }
}
