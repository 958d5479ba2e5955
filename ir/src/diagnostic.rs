//! What went wrong and where; rendering with the source text happens at the edge of the tool.

// Tests: `ir/tests/messages.rs`.

/// A half-open range of byte offsets in the input text.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct Span {
    /// First byte.
    pub start: u32,
    /// One past the last byte.
    pub end: u32,
}

impl Span {
    /// The bytes from `start` up to but not including `end`.
    pub fn new(start: usize, end: usize) -> Self {
        Self { start: start as u32, end: end as u32 }
    }
}

/// One problem of an input: a message, where it stands, and what else helps to understand it.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("{message}")]
pub struct Diagnostic {
    /// What is wrong, in one line, lower case, no full stop.
    pub message: String,
    /// Where it stands; `None` for a module that was not read from text.
    pub span: Option<Span>,
    /// Other places with a remark each, such as "previously defined here".
    pub labels: Vec<(Span, String)>,
    /// Help texts, such as a did-you-mean.
    pub notes: Vec<String>,
}

impl Diagnostic {
    /// A problem at a place.
    pub fn at(span: Span, message: impl Into<String>) -> Self {
        Self { span: Some(span), ..Self::new(message) }
    }
    /// A problem that has no place in a text.
    pub fn new(message: impl Into<String>) -> Self {
        Self { message: capped(in_one_line(message.into())), span: None, labels: Vec::new(), notes: Vec::new() }
    }
    /// The same problem in a text in which `offset` more bytes stand in front.
    #[must_use]
    pub fn shifted(mut self, offset: usize) -> Self {
        for span in self.span.iter_mut().chain(self.labels.iter_mut().map(|(span, _)| span)) {
            *span = Span::new(span.start as usize + offset, span.end as usize + offset);
        }
        self
    }
    /// Adds a remark about another place.
    #[must_use]
    pub fn label(mut self, span: Span, text: impl Into<String>) -> Self {
        self.labels.push((span, capped(text.into())));
        self
    }
    /// Adds a help text.
    #[must_use]
    pub fn note(mut self, text: impl Into<String>) -> Self {
        self.notes.push(text.into());
        self
    }
}

/// Bytes of a message, about. A shape may have thousands of elements, and a name may be as long as the text.
const LONGEST: usize = 600;

/// The message in one line. What it quotes, such as an attribute that is not known, may stand in several.
fn in_one_line(message: String) -> String {
    if message.contains(['\n', '\r']) {
        message.split(['\n', '\r']).map(str::trim).filter(|line| !line.is_empty()).collect::<Vec<_>>().join(" ")
    } else {
        message
    }
}

/// The message without its middle if it is too long to be read.
fn capped(message: String) -> String {
    if message.len() <= LONGEST {
        return message;
    }
    let boundary = |wanted: usize| (0..=wanted).rev().find(|&at| message.is_char_boundary(at)).unwrap_or(0);
    let (from, to) = (boundary(LONGEST / 2), boundary(message.len() - LONGEST / 4));
    format!("{} ... {}", &message[..from], &message[to..])
}

/// Characters of the input that a message quotes at most.
const QUOTED: usize = 40;

/// The first line of `text`, shortened, so that it can stand inside a message; empty if the line is.
pub(crate) fn shortened(text: &str) -> String {
    let line = text.lines().next().unwrap_or_default().trim_end();
    match line.char_indices().nth(QUOTED) {
        Some((end, _)) => format!("{}...", &line[..end]),
        None if line.len() < text.trim_end().len() => format!("{line}..."),
        None => line.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_loses_its_middle_before_it_gets_too_long() {
        let long = format!("the {} is wrong [V1]", "\u{e9}".repeat(100_000));
        let message = Diagnostic::new(long).message;
        assert!(message.len() < LONGEST && message.starts_with("the \u{e9}") && message.ends_with(" is wrong [V1]"));
        assert_eq!(Diagnostic::new("short").message, "short");
        assert_eq!(Diagnostic::new("`dims={\r\n  1\n}` is wrong").message, "`dims={ 1 }` is wrong");
    }
}
