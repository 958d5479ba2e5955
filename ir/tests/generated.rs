//! Properties of parser, printer and verifier over generated modules and damaged texts.
//!
//! Pins `ir/src/text/mod.rs`, `ir/src/text/print.rs`, `ir/src/verify/mod.rs`, `ir/src/attribute.rs`, `ir/src/shape.rs`.

#[path = "generated/modules.rs"]
mod modules;

use arbtest::arbitrary::Unstructured;
use arbtest::{arbitrary, arbtest};
use hlo_ir::{text, verify};
use modules::Written;

#[test]
fn a_dump_prints_back_as_it_was_and_is_legal() {
    arbtest(|u| {
        let source = modules::module(u)?.plain();
        let module = text::parse(&source).unwrap_or_else(|problems| panic!("{problems:#?}\n{source}"));
        assert_eq!(verify::verify(&module), [], "{source}");
        assert_eq!(text::print(&module), source);
        Ok(())
    })
    .budget_ms(1000);
}

#[test]
fn blanks_and_comments_between_tokens_change_nothing() {
    arbtest(|u| {
        let written = modules::module(u)?;
        let noisy = written.noisy(u)?;
        let module = text::parse(&noisy).unwrap_or_else(|problems| panic!("{problems:#?}\n{noisy}"));
        assert_eq!(text::print(&module), written.plain(), "{noisy}");
        Ok(())
    })
    .budget_ms(1000);
}

#[test]
fn damaged_text_is_read_or_refused_but_never_breaks_anything() {
    arbtest(|u| {
        let source = damaged(&modules::module(u)?, u)?;
        match text::parse(&source) {
            Err(problems) => {
                assert!(!problems.is_empty());
                for span in problems.iter().filter_map(|problem| problem.span) {
                    assert!(source.get(span.start as usize..span.end as usize).is_some(), "{span:?} of {source}");
                }
            }
            Ok(module) => {
                verify::verify(&module);
                let printed = text::print(&module);
                let again =
                    text::parse(&printed).unwrap_or_else(|problems| panic!("{problems:#?}\n{source}\n{printed}"));
                assert_eq!(text::print(&again), printed, "{source}");
            }
        }
        Ok(())
    })
    .budget_ms(1000);
}

/// The text with a few bytes removed, replaced, repeated, or cut off.
fn damaged(written: &Written, u: &mut Unstructured<'_>) -> arbitrary::Result<String> {
    const PIECES: &[&str] =
        &["(", ")", "{", "}", "[", "]", ",", "=", "\"", "'", "%", "ROOT ", "é", "-", "9", "x", "/*", "\\"];
    let mut text = if u.arbitrary()? { written.noisy(u)? } else { written.plain() };
    for _ in 0..u.int_in_range(1..=4)? {
        let mut at = u.int_in_range(0..=text.len())?;
        while !text.is_char_boundary(at) {
            at -= 1;
        }
        let next = text[at..].chars().next().map_or(at, |next| at + next.len_utf8());
        match u.int_in_range(0..=4)? {
            0 => text.truncate(at),
            1 => text.replace_range(at..next, ""),
            2 => text.replace_range(at..next, u.choose(PIECES)?),
            3 => text.insert_str(at, u.choose(PIECES)?),
            _ => text.extend_from_within(at..),
        }
        if text.len() > 100_000 {
            text.truncate(1000);
        }
    }
    Ok(text)
}
