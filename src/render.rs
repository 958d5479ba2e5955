//! Shows problems of the input the way compilers do: message, file, line and column, the line itself and a caret.

// Tests: `tests/errors.rs`.

use std::ops::Range;

use annotate_snippets::{AnnotationKind, Group, Level, Renderer, Snippet};
use hlo_ir::{Diagnostic, Span};

/// Problems shown in full; a broken file rarely needs more to be understood.
const SHOWN: usize = 20;

/// Columns of a source line that are shown at most: HLO lines can be megabytes long.
const WIDTH: usize = 140;

/// The problems of the text `source` that was read from `origin`.
pub(crate) fn diagnostics(problems: &[Diagnostic], origin: &str, source: &str, color: bool) -> String {
    let renderer = if color { Renderer::styled() } else { Renderer::plain() }.term_width(WIDTH);
    let mut shown: Vec<_> =
        problems.iter().take(SHOWN).map(|problem| renderer.render(&[group(problem, origin, source)])).collect();
    if problems.len() > SHOWN {
        shown.push(error(&format!("{} more problems are not shown", problems.len() - SHOWN), color));
    }
    shown.join("\n\n") + "\n"
}

/// One error without a place in a text.
pub(crate) fn error(message: &str, color: bool) -> String {
    titled(&Level::ERROR, message, color)
}

/// One warning without a place in a text.
pub(crate) fn warning(message: &str, color: bool) -> String {
    titled(&Level::WARNING, message, color)
}

fn titled(level: &Level<'static>, message: &str, color: bool) -> String {
    let renderer = if color { Renderer::styled() } else { Renderer::plain() };
    renderer.render(&[Group::with_title(level.clone().primary_title(message))])
}

/// One problem: title, the text with its marks, and the help texts.
fn group<'a>(problem: &'a Diagnostic, origin: &'a str, source: &'a str) -> Group<'a> {
    let group = Group::with_title(Level::ERROR.primary_title(problem.message.as_str()));
    let notes = problem.notes.iter().map(|note| Level::HELP.message(note.as_str()));
    let Some(span) = problem.span else { return group.elements(notes) };
    let marks = problem
        .labels
        .iter()
        .map(|(span, text)| AnnotationKind::Context.span(clamp(*span, source)).label(text.as_str()));
    let snippet = Snippet::source(source)
        .path(origin)
        .annotation(AnnotationKind::Primary.span(clamp(span, source)))
        .annotations(marks);
    group.element(snippet).elements(notes)
}

/// The span as a range inside the text that starts and ends between characters and stays on its first line: a problem of a whole
/// computation is shown where it begins.
fn clamp(span: Span, source: &str) -> Range<usize> {
    let start = boundary(source, (span.start as usize).min(source.len()));
    let line_end = source[start..].find('\n').map_or(source.len(), |length| start + length);
    let end = boundary(source, (span.end as usize).clamp(start, line_end));
    start..end
}

/// The last place between two characters that is not behind `at`.
fn boundary(source: &str, at: usize) -> usize {
    (0..=at).rev().find(|&at| source.is_char_boundary(at)).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn marks_stay_inside_the_text_and_on_one_line() {
        assert_eq!(clamp(Span::new(0, 9), "abc\ndef\n"), 0..3);
        assert_eq!(clamp(Span::new(50, 90), "abc"), 3..3);
        assert_eq!(clamp(Span::new(1, 1), "ä"), 0..0);
        assert_eq!(clamp(Span::new(2, 1), "abc"), 2..2);
    }

    #[test]
    fn a_very_long_line_is_cut_around_the_mark() {
        let line = format!("{}wrong{}", "x".repeat(100_000), "y".repeat(100_000));
        let problem = Diagnostic::at(Span::new(100_000, 100_005), "not a word");
        let shown = diagnostics(&[problem], "long.hlo", &line, false);
        assert!(shown.contains("long.hlo:1:100001"), "{shown}");
        assert!(shown.lines().all(|line| line.chars().count() < 200), "{}", shown.len());
        assert!(shown.contains("wrong"), "{shown}");
    }

    #[test]
    fn only_the_first_problems_are_shown() {
        let problems: Vec<_> = (0..SHOWN + 3).map(|number| Diagnostic::new(format!("problem {number}"))).collect();
        let shown = diagnostics(&problems, "x", "", false);
        assert!(shown.contains("problem 19") && !shown.contains("problem 20"), "{shown}");
        assert!(shown.contains("3 more problems are not shown"), "{shown}");
    }
}
