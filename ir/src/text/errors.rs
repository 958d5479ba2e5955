//! Every message of the parser, one function each.

// Tests: `ir/tests/messages.rs`.

use super::lex::Problem;
use crate::diagnostic::shortened;
use crate::{Diagnostic, ElementType, Opcode, Span};

type Failure<'a> = nom::Err<Problem<'a>>;

/// The first line of `at`, shortened, for use inside a message.
fn seen(at: &str) -> String {
    match shortened(at.lines().next().unwrap_or_default()) {
        line if line.is_empty() => "the end of the line".into(),
        line => format!("`{line}`"),
    }
}

/// The first character of `at`, the part of it that a caret can point to.
fn first(at: &str) -> &str {
    at.chars().next().map_or(at, |first| &at[..first.len_utf8()])
}

/// Help for a text that begins with neither a header nor a computation.
pub(super) const NOT_HLO: &str =
    "read as a single instruction, since the text begins with neither `HloModule` nor a computation";

/// A text of nothing but blanks.
pub(super) fn empty_text(at: &str) -> Failure<'_> {
    Problem::failure(at, Diagnostic::new("the text is empty"))
}

/// Something else than `wanted` stands at `at`.
pub(super) fn expected<'a>(wanted: &str, at: &'a str) -> Failure<'a> {
    if at.is_empty() {
        return Problem::failure(at, Diagnostic::new(format!("the text ends where {wanted} is expected")))
            .with_note("the text may be truncated");
    }
    if at.starts_with("/*") {
        return unterminated("comment", &at[..2]);
    }
    let error = Problem::failure(first(at), Diagnostic::new(format!("expected {wanted}, found {}", seen(at))));
    if at.starts_with('\u{feff}') {
        error.with_note("remove the byte order mark: XLA does not read it either")
    } else {
        error
    }
}

/// An attribute name without `=` right behind it.
pub(super) fn no_equals<'a>(name: &str, at: &'a str) -> Failure<'a> {
    let error = expected(&format!("`=` right behind attribute name `{name}`"), at);
    if super::lex::next_is(at, '=') { error.with_note("no blank may stand before the `=`") } else { error }
}

/// `what` (a string, comment or group) has no end.
pub(super) fn unterminated<'a>(what: &str, at: &'a str) -> Failure<'a> {
    Problem::failure(at, Diagnostic::new(format!("this {what} is never closed"))).with_note("the text may be truncated")
}

/// An integer that no 64-bit type holds.
pub(super) fn integer_too_large(at: &str) -> Failure<'_> {
    Problem::failure(at, Diagnostic::new("this integer does not fit 64 bits"))
}

/// A dimension below zero or above 2^63-1.
pub(super) fn bad_dimension(at: &str) -> Failure<'_> {
    Problem::failure(at, Diagnostic::new("a dimension must be between 0 and 9223372036854775807"))
}

/// A dynamic dimension behind the 64th.
pub(super) fn dynamic_rank(at: &str) -> Failure<'_> {
    Problem::failure(at, Diagnostic::new("only the first 64 dimensions of an array can be dynamic"))
}

/// A layout whose length is not the rank.
pub(super) fn layout_rank(at: &str, rank: usize, length: usize) -> Failure<'_> {
    let message = format!("the layout orders {length} dimensions, but the array has {rank}");
    Problem::failure(at, Diagnostic::new(message))
}

/// A word that is no element type.
pub(super) fn unknown_type(at: &str) -> Failure<'_> {
    let names = ElementType::all().map(ElementType::name);
    Problem::failure(at, Diagnostic::new(format!("`{at}` is not an element type")))
        .with_similar(super::similar::closest(at, names))
}

/// Shapes, operands or inline computations nested too deep.
pub(super) fn too_deep<'a>(what: &str, limit: u32, at: &'a str) -> Failure<'a> {
    Problem::failure(first(at), Diagnostic::new(format!("{what} are nested deeper than {limit} levels")))
}

/// An operand that no instruction before it defines.
pub(super) fn undefined_operand<'a>(name: &'a str, computation: &str, similar: Option<&str>) -> Failure<'a> {
    let message = format!("no instruction before this one in computation `{computation}` is called `{name}`");
    Problem::failure(name, Diagnostic::new(message)).with_similar(similar)
}

/// A computation that is not defined before its use.
pub(super) fn undefined_computation<'a>(name: &'a str, similar: Option<&str>) -> Failure<'a> {
    let message = format!("no computation before this one is called `{name}`");
    Problem::failure(name, Diagnostic::new(message)).with_similar(similar)
}

/// Two instructions or computations of one name.
pub(super) fn duplicate<'a>(what: &str, name: &'a str, previous: Option<Span>) -> Failure<'a> {
    let message = format!("{what} `{name}` is defined twice");
    let report = Diagnostic::new(message);
    Problem::failure(
        name,
        match previous {
            Some(span) => report.label(span, "previously defined here"),
            None => report,
        },
    )
}

/// A second `ENTRY` or `ROOT`.
pub(super) fn second<'a>(what: &str, at: &'a str, previous: Option<Span>) -> Failure<'a> {
    let report = Diagnostic::new(format!("there is already {what}"));
    Problem::failure(
        at,
        match previous {
            Some(span) => report.label(span, "the first one"),
            None => report,
        },
    )
}

/// An attribute given twice.
pub(super) fn duplicate_attribute(name: &str) -> Failure<'_> {
    Problem::failure(name, Diagnostic::new(format!("attribute `{name}` is given twice")))
}

/// An opcode that is not known at a place that needs to know it.
pub(super) fn unknown_opcode<'a>(name: &'a str, why: &str) -> Failure<'a> {
    let report = Diagnostic::new(format!("`{name}` is not an opcode this version knows{why}"));
    let names = Opcode::all().map(Opcode::name);
    Problem::failure(name, report).with_similar(super::similar::closest(name, names))
}

/// A result shape that is neither written nor inferable.
pub(super) fn shape_needed<'a>(opcode: &'a str, why: &str) -> Failure<'a> {
    Problem::failure(opcode, Diagnostic::new(format!("`{opcode}` needs a result shape in front of it{why}")))
}

/// The shape in front of an operand is not the operand's.
pub(super) fn operand_shape<'a>(at: &'a str, written: &str, name: &str, actual: &str) -> Failure<'a> {
    let message = format!("operand shape {written} is not compatible with {actual}, the shape of `{name}`");
    Problem::failure(at, Diagnostic::new(message))
}

/// The result in a computation's head is not the root's shape.
pub(super) fn root_shape<'a>(at: &'a str, name: &str, actual: &str) -> Failure<'a> {
    let message = format!("computation `{name}` says it returns this, but its root has shape {actual}");
    Problem::failure(at, Diagnostic::new(message))
}

/// A computation without instructions.
pub(super) fn empty_computation<'a>(name: &str, at: &'a str) -> Failure<'a> {
    Problem::failure(at, Diagnostic::new(format!("computation `{name}` has no instructions")))
}

/// A text longer than spans can address.
pub(super) fn text_too_long() -> Diagnostic {
    Diagnostic::new("texts of 4 GiB and more are not supported")
}

/// A second module in the same text.
pub(super) fn second_module(at: &str) -> Failure<'_> {
    Problem::failure(at, Diagnostic::new("a second module begins here, but one text holds one module"))
        .with_note("`hlo-opt --split-input-file` takes the modules of a file one by one")
}

/// Something that is neither a computation nor the end of the text.
pub(super) fn trailing(at: &str) -> Failure<'_> {
    Problem::failure(first(at), Diagnostic::new(format!("expected the end of the text, found {}", seen(at))))
}

/// Adding help to a failure.
pub(super) trait WithHelp {
    /// Adds a help text.
    fn with_note(self, note: &str) -> Self;
    /// Adds a did-you-mean.
    fn with_similar(self, similar: Option<&str>) -> Self;
}

impl WithHelp for Failure<'_> {
    fn with_note(self, note: &str) -> Self {
        match self {
            nom::Err::Failure(Problem { at, report: Some(report) }) => Problem::failure(at, report.note(note)),
            other => other,
        }
    }
    fn with_similar(self, similar: Option<&str>) -> Self {
        match similar {
            Some(name) => self.with_note(&format!("did you mean `{name}`?")),
            None => self,
        }
    }
}
