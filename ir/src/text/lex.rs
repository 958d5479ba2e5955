//! Tokens of HLO text: blanks and comments, names, integers, strings, and the extent of balanced `{...}` and `(...)` groups.
//!
//! Every parser takes the rest of the text and returns what it read with the new rest, so the place of a token is the
//! difference of two slices and needs no bookkeeping.

// Tests: `ir/tests/limits.rs`.

use std::borrow::Cow;

use nom::error::{ErrorKind, ParseError};
use nom::sequence::preceded;
use nom::{IResult, Parser};

use super::errors;
use crate::Diagnostic;

/// What a parser of this room returns.
pub(super) type Res<'a, T> = IResult<&'a str, T, Problem<'a>>;

/// Why a parser stopped: the text it stopped at and, unless it is a plain mismatch, what to tell the user.
#[derive(Debug)]
pub(super) struct Problem<'a> {
    /// The offending token, a slice of the text.
    pub(super) at: &'a str,
    /// The message; its span is still unset.
    pub(super) report: Option<Box<Diagnostic>>,
}

impl<'a> Problem<'a> {
    /// A message about `at` as a hard error: no other reading of the text is tried.
    pub(super) fn failure(at: &'a str, report: Diagnostic) -> nom::Err<Self> {
        nom::Err::Failure(Self { at, report: Some(Box::new(report)) })
    }
}

impl<'a> ParseError<&'a str> for Problem<'a> {
    fn from_error_kind(input: &'a str, _: ErrorKind) -> Self {
        Self { at: input, report: None }
    }
    fn append(_: &'a str, _: ErrorKind, other: Self) -> Self {
        other
    }
}

/// A soft mismatch at `at`.
pub(super) fn mismatch<T>(at: &str) -> Res<'_, T> {
    Err(nom::Err::Error(Problem { at, report: None }))
}

/// The text without leading blanks and comments. An unterminated comment stays, and the next token fails at it.
#[inline]
pub(crate) fn skip_blank(input: &str) -> &str {
    // Half of all calls find nothing to skip.
    match input.as_bytes() {
        // A dump's lines have single blanks in front of nearly everything else.
        [b' ', next, ..] if !may_be_blank(*next) => &input[1..],
        [first, ..] if may_be_blank(*first) => skip_some_blank(input),
        _ => input,
    }
}

/// Whether a blank or a comment may start with `byte`.
const fn may_be_blank(byte: u8) -> bool {
    matches!(byte, b' ' | b'\n' | b'\t' | b'\r' | b'/')
}

fn skip_some_blank(mut input: &str) -> &str {
    loop {
        let bytes = input.as_bytes();
        match bytes.first() {
            Some(b' ' | b'\n' | b'\t' | b'\r') => {
                let blanks = bytes.iter().position(|byte| !matches!(byte, b' ' | b'\n' | b'\t' | b'\r'));
                input = &input[blanks.unwrap_or(bytes.len())..];
            }
            Some(b'/') => match comment_length(input) {
                Some(length) => input = &input[length..],
                None => return input,
            },
            _ => return input,
        }
    }
}

/// Length of the comment at the start of `input`, if there is a complete one.
fn comment_length(input: &str) -> Option<usize> {
    let bytes = input.as_bytes();
    match bytes.get(1)? {
        b'*' => {
            let mut slashes = memchr::memchr_iter(b'/', bytes.get(3..)?).map(|at| at + 3);
            slashes.find(|&at| bytes[at - 1] == b'*').map(|at| at + 1)
        }
        b'/' => Some(memchr::memchr2(b'\n', b'\r', bytes).unwrap_or(bytes.len())),
        _ => None,
    }
}

/// Blanks and comments as a parser.
#[expect(clippy::unnecessary_wraps, reason = "a parser returns a result")]
pub(super) fn blank(input: &str) -> Res<'_, ()> {
    Ok((skip_blank(input), ()))
}

/// `parser` behind blanks.
pub(super) fn token<'a, O>(
    parser: impl Parser<&'a str, Output = O, Error = Problem<'a>>,
) -> impl Parser<&'a str, Output = O, Error = Problem<'a>> {
    preceded(blank, parser)
}

/// A punctuation byte behind blanks.
pub(super) fn symbol<'a>(wanted: char) -> impl Parser<&'a str, Output = (), Error = Problem<'a>> {
    move |input: &'a str| {
        let input = skip_blank(input);
        match input.strip_prefix(wanted) {
            Some(rest) => Ok((rest, ())),
            None => mismatch(input),
        }
    }
}

/// Whether the next token starts with `wanted`.
pub(super) fn next_is(input: &str, wanted: char) -> bool {
    skip_blank(input).starts_with(wanted)
}

/// Bytes that may continue a word.
const WORD: [bool; 256] = {
    let mut table = [false; 256];
    let mut byte = 0;
    while byte < 256 {
        let b = byte as u8;
        table[byte] = b.is_ascii_alphanumeric() || matches!(b, b'_' | b'.' | b'-');
        byte += 1;
    }
    table
};

/// Whether `byte` may continue a word.
pub(super) fn continues_word(byte: u8) -> bool {
    WORD[byte as usize]
}

/// A word `[A-Za-z_][A-Za-z0-9_.-]*` right at the start of the input.
pub(super) fn bare_word(input: &str) -> Res<'_, &str> {
    let bytes = input.as_bytes();
    if !bytes.first().is_some_and(|&byte| byte.is_ascii_alphabetic() || byte == b'_') {
        return mismatch(input);
    }
    let length = bytes.iter().position(|&byte| !continues_word(byte)).unwrap_or(bytes.len());
    Ok((&input[length..], &input[..length]))
}

/// A word behind blanks.
pub(super) fn word(input: &str) -> Res<'_, &str> {
    bare_word(skip_blank(input))
}

/// The word `wanted`, whole.
pub(super) fn keyword<'a>(wanted: &'static str) -> impl Parser<&'a str, Output = &'a str, Error = Problem<'a>> {
    move |input: &'a str| match word(input) {
        Ok((rest, found)) if found == wanted => Ok((rest, found)),
        _ => mismatch(skip_blank(input)),
    }
}

/// A name with or without `%`, and whether it had one. XLA lets a colon follow a name; it is dropped.
pub(super) fn name(input: &str) -> Res<'_, (&str, bool)> {
    let input = skip_blank(input);
    let (after, percent) = match input.strip_prefix('%') {
        Some(after) => (after, true),
        None => (input, false),
    };
    match bare_word(after) {
        Ok((rest, name)) => Ok((rest.strip_prefix(':').unwrap_or(rest), (name, percent))),
        Err(_) => mismatch(input),
    }
}

/// An integer `-?D+` right at the start of the input. Values from 2^63 to 2^64-1 wrap, as in XLA; larger ones are errors.
pub(super) fn bare_integer(input: &str) -> Res<'_, i64> {
    let bytes = input.as_bytes();
    let negative = bytes.first() == Some(&b'-');
    let start = usize::from(negative);
    let digits = bytes[start..].iter().take_while(|byte| byte.is_ascii_digit()).count();
    let text = &input[..start + digits];
    if digits == 0 {
        return mismatch(input);
    }
    let value = if negative { text.parse().ok() } else { text.parse::<u64>().ok().map(|value| value as i64) };
    match value {
        Some(value) => Ok((&input[text.len()..], value)),
        None => Err(errors::integer_too_large(text)),
    }
}

/// An integer behind blanks.
pub(super) fn integer(input: &str) -> Res<'_, i64> {
    bare_integer(skip_blank(input))
}

/// A quoted string, quotes included, right at the start of the input.
pub(super) fn bare_string(input: &str) -> Res<'_, &str> {
    let bytes = input.as_bytes();
    let Some(&quote @ (b'"' | b'\'')) = bytes.first() else { return mismatch(input) };
    match string_end(bytes, 1, quote) {
        Some(end) => Ok((&input[end..], &input[..end])),
        None => Err(errors::unterminated("string", &input[..1])),
    }
}

/// A quoted string behind blanks, quotes included.
pub(super) fn string(input: &str) -> Res<'_, &str> {
    bare_string(skip_blank(input))
}

/// Index behind the quote that closes a string whose inside starts at `at`.
fn string_end(bytes: &[u8], mut at: usize, quote: u8) -> Option<usize> {
    loop {
        at += memchr::memchr2(quote, b'\\', &bytes[at..])?;
        if bytes[at] == quote {
            return Some(at + 1);
        }
        at += 2;
        if at > bytes.len() {
            return None;
        }
    }
}

/// A group from `open` to the `close` that matches it, both included, right at the start of the input. Brackets in
/// `"strings"` do not count, in groups of other than braces those in comments neither.
pub(super) fn group<'a>(open: u8, close: u8) -> impl Fn(&'a str) -> Res<'a, &'a str> {
    move |input: &'a str| {
        let bytes = input.as_bytes();
        if bytes.first() != Some(&open) {
            return mismatch(input);
        }
        let quick = if open == b'{' { group_end(bytes, open, close) } else { None };
        let end = match quick {
            // A bracket in a comment makes the quick end one of a group around this one, if there is one: that must not depend on what stands there.
            Some(end) if may_have_comment(&bytes[..end]) => {
                Some(careful_group_end(&input[..end], open, close).unwrap_or(end))
            }
            Some(end) => Some(end),
            None => careful_group_end(input, open, close),
        };
        match end {
            Some(end) => Ok((&input[end..], &input[..end])),
            None => Err(errors::unterminated(&format!("`{}`", char::from(open)), &input[..1])),
        }
    }
}

/// Whether two slashes, or a slash and a star, follow each other somewhere, in a string maybe.
fn may_have_comment(bytes: &[u8]) -> bool {
    memchr::memchr_iter(b'/', bytes).any(|at| matches!(bytes.get(at + 1), Some(b'/' | b'*')))
}

/// Index behind the bracket that closes the one at the start.
fn group_end(bytes: &[u8], open: u8, close: u8) -> Option<usize> {
    let (mut at, mut depth) = (1, 1_usize);
    while depth > 0 {
        at += memchr::memchr3(open, close, b'"', &bytes[at..])?;
        at = match bytes[at] {
            b'"' => string_end(bytes, at + 1, b'"')?,
            byte => {
                depth = if byte == open { depth + 1 } else { depth - 1 };
                at + 1
            }
        };
    }
    Some(at)
}

/// [`group_end`] where brackets in `'strings'` and in comments do not count either. Dictionaries may hold a lone apostrophe or
/// two slashes, so this is their second try.
fn careful_group_end(input: &str, open: u8, close: u8) -> Option<usize> {
    let bytes = input.as_bytes();
    let (mut at, mut depth) = (1, 1_usize);
    while depth > 0 {
        at = match *bytes.get(at)? {
            quote @ (b'"' | b'\'') => string_end(bytes, at + 1, quote)?,
            b'/' => at + comment_length(&input[at..]).unwrap_or(1),
            byte => {
                depth = depth + usize::from(byte == open) - usize::from(byte == close);
                at + 1
            }
        };
    }
    Some(at)
}

/// `{a, b}` of anything; commas are separators only.
pub(super) fn braced<'a, O, C: Default + Extend<O>>(
    mut item: impl FnMut(&'a str) -> Res<'a, O>,
) -> impl FnMut(&'a str) -> Res<'a, C> {
    move |input: &'a str| {
        let (mut input, ()) = symbol('{').parse(input)?;
        let mut items = C::default();
        loop {
            let at = skip_blank(input);
            if let Some(rest) = at.strip_prefix('}') {
                return Ok((rest, items));
            }
            let (rest, value) = item(at)?;
            items.extend([value]);
            let rest = skip_blank(rest);
            input = match rest.as_bytes().first() {
                Some(b',') => &rest[1..],
                Some(b'}') => rest,
                _ => return mismatch(rest),
            };
        }
    }
}

/// A piece of text to be kept: without the blanks and comments around it and without line comments, which would swallow what is
/// printed behind them.
pub(super) fn verbatim(text: &str) -> Cow<'_, str> {
    let mut text = skip_blank(text).trim_end();
    while let Some(start) = text.strip_suffix("*/").and_then(|before| before.rfind("/*")) {
        text = text[..start].trim_end();
    }
    if memchr::memchr(b'/', text.as_bytes()).is_none() {
        return Cow::Borrowed(text);
    }
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = memchr::memchr2(b'"', b'/', rest.as_bytes()) {
        let kept = match bare_string(&rest[at..]) {
            Ok((behind, _)) => rest.len() - behind.len(),
            Err(_) if rest[at..].starts_with("//") => at,
            Err(_) => at + comment_length(&rest[at..]).unwrap_or(1),
        };
        out.push_str(&rest[..kept]);
        rest = &rest[kept..];
        if rest.starts_with("//") {
            rest = &rest[comment_length(rest).unwrap_or(rest.len())..];
        }
    }
    out.push_str(rest);
    let out = out.trim_end();
    // Braces behind two slashes count where a group has no end without them.
    if is_balanced(text) && !is_balanced(out) {
        return Cow::Borrowed(text);
    }
    Cow::Owned(out.to_owned())
}

/// Whether every brace outside of `"strings"` has its other one.
fn is_balanced(text: &str) -> bool {
    let mut rest = text.as_bytes();
    while let Some(at) = memchr::memchr3(b'{', b'}', b'"', rest) {
        let end = match rest[at] {
            b'{' => group_end(&rest[at..], b'{', b'}'),
            b'"' => string_end(rest, at + 1, b'"').map(|end| end - at),
            _ => None,
        };
        let Some(end) = end else { return false };
        rest = &rest[at + end..];
    }
    true
}

/// The text a quoted string stands for. An escape that is not known is kept as it is.
pub(super) fn unescape(quoted: &str) -> Cow<'_, str> {
    let inner = quoted.get(1..quoted.len().saturating_sub(1)).unwrap_or_default();
    if !inner.contains('\\') {
        return Cow::Borrowed(inner);
    }
    let mut bytes = Vec::with_capacity(inner.len());
    let mut rest = inner.as_bytes();
    while let Some((&byte, after)) = rest.split_first() {
        rest = if byte == b'\\' { unescape_one(after, &mut bytes) } else { plain(byte, after, &mut bytes) };
    }
    Cow::Owned(String::from_utf8_lossy(&bytes).into_owned())
}

/// Copies one byte.
fn plain<'b>(byte: u8, after: &'b [u8], out: &mut Vec<u8>) -> &'b [u8] {
    out.push(byte);
    after
}

/// Reads what stands behind a backslash.
fn unescape_one<'b>(after: &'b [u8], out: &mut Vec<u8>) -> &'b [u8] {
    let octal = after.iter().take(3).take_while(|byte| matches!(byte, b'0'..=b'7')).count();
    if octal > 0 {
        let value = after[..octal].iter().fold(0_u32, |value, digit| value * 8 + u32::from(digit - b'0'));
        out.push(value as u8);
        return &after[octal..];
    }
    let Some((&byte, rest)) = after.split_first() else { return after };
    match byte {
        b'n' => out.push(b'\n'),
        b'r' => out.push(b'\r'),
        b't' => out.push(b'\t'),
        b'\\' | b'"' | b'\'' | b'?' => out.push(byte),
        _ => out.extend([b'\\', byte]),
    }
    rest
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blanks_and_comments_are_skipped() {
        assert_eq!(skip_blank(" \t\r\n/* a */ // b\n// c\rx"), "x");
        assert_eq!(skip_blank("/* open"), "/* open");
        assert_eq!(skip_blank("// at the end"), "");
    }
    #[test]
    fn names_carry_percent_and_colon_or_not() {
        assert_eq!(name(" %a.b-1 = x").expect("a name"), (" = x", ("a.b-1", true)));
        assert_eq!(name("a: f32[]").expect("a name"), (" f32[]", ("a", false)));
        assert!(name("1a").is_err() && name("%1").is_err() && name("").is_err());
    }
    #[test]
    fn integers_wrap_like_xla_and_stop_at_64_bits() {
        assert_eq!(integer(" -7x").expect("an integer"), ("x", -7));
        assert_eq!(integer("18446744073709551615").expect("an integer"), ("", -1));
        assert!(matches!(integer("18446744073709551616"), Err(nom::Err::Failure(_))));
        assert!(matches!(integer("x"), Err(nom::Err::Error(_))));
    }
    #[test]
    fn groups_end_where_their_brackets_match() {
        let braces = group(b'{', b'}');
        assert_eq!(braces("{a={}, b=\"}\\\"}\"}, c").expect("a group").1, "{a={}, b=\"}\\\"}\"}");
        assert_eq!(braces("{op_name='a\"}b'} x").expect("a group").1, "{op_name='a\"}b'}");
        assert!(braces("{a").is_err());
        assert_eq!(group(b'(', b')')("(a /* ) */ b) c").expect("a group").1, "(a /* ) */ b)");
    }
    #[test]
    fn strings_stand_for_bytes() {
        assert_eq!(unescape(r#""a\"b\\\303\251\n\q""#), "a\"b\\é\n\\q");
        assert_eq!(unescape("\"plain\""), "plain");
    }
    #[test]
    fn a_bracket_in_a_comment_closes_no_group() {
        let braces = |text: &'static str| group(b'{', b'}')(text).map(|(_, found)| found).ok();
        for behind in ["", "}", " }\n}"] {
            let text: &'static str = format!("{{1, // a {{b\n2}}{behind}").leak();
            assert_eq!(braces(text), Some("{1, // a {b\n2}"), "{behind}");
            let text: &'static str = format!("{{1, /* {{ */ 2}}{behind}").leak();
            assert_eq!(braces(text), Some("{1, /* { */ 2}"), "{behind}");
        }
        assert_eq!(braces("{a: http://b{c}}, d}"), Some("{a: http://b{c}}"), "no comment");
    }
    #[test]
    fn kept_text_loses_line_comments_only() {
        assert_eq!(verbatim(" {1, // one\n 2, /*i=2*/ 3} // end\n"), "{1, \n 2, /*i=2*/ 3}");
        assert_eq!(verbatim("\"http://a\" /* b */"), "\"http://a\"");
        let needed = "{it's // {\n }}";
        assert_eq!(verbatim(needed), needed, "the group has no end without the bracket behind the slashes");
    }
}
