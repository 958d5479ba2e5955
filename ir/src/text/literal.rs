//! The literal between the parentheses of a `constant`, taken verbatim.

use std::borrow::Cow;

use super::errors;
use super::lex::{Res, skip_blank, verbatim};

/// `(literal)`: the text between the parentheses, without blanks around it and without line comments.
pub(super) fn literal(input: &str) -> Res<'_, Cow<'_, str>> {
    let at = skip_blank(input);
    let Some(inside) = at.strip_prefix('(') else { return Err(errors::expected("`(` before the literal", at)) };
    match length(inside) {
        Some(length) => Ok((&inside[length + 1..], verbatim(&inside[..length]))),
        None => Err(errors::unterminated("literal", &at[..1])),
    }
}

/// Bytes up to the parenthesis that closes the literal; complex numbers and tuples nest.
fn length(inside: &str) -> Option<usize> {
    let bytes = inside.as_bytes();
    let (mut at, mut depth) = (0, 0_usize);
    loop {
        at += memchr::memchr3(b'(', b')', b'/', &bytes[at..])?;
        match bytes[at] {
            b'(' => depth += 1,
            b')' if depth == 0 => return Some(at),
            b')' => depth -= 1,
            // A comment may contain parentheses; skip_blank knows where it ends.
            _ => {
                let behind = skip_blank(&inside[at..]);
                at = (inside.len() - behind.len()).max(at + 1);
                continue;
            }
        }
        at += 1;
    }
}
