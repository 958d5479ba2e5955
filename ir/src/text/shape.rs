//! Shapes: `f32[2,<=3]{1,0:T(8,128)}`, `(f32[], token[])`, `b(f32[4])`.
//!
//! Dumps repeat the same few shape texts many times, so every text is parsed once and shared afterwards.

// Tests: `ir/tests/limits.rs`.

use std::sync::Arc;

use indexmap::IndexMap;
use nom::Parser;
use nom::bytes::complete::tag;
use nom::combinator::opt;
use rustc_hash::FxBuildHasher;

use super::errors;
use super::lex::{self, Res, bare_integer, bare_word, braced, mismatch, next_is, skip_blank, symbol};
use crate::shape::{Dims, ShapeRef, UNBOUNDED};
use crate::{ArrayShape, ElementType, Layout, Shape};

/// Tuples nested deeper than this are an error instead of a stack overflow; real programs stay below ten.
const MAX_DEPTH: u32 = 256;

/// Shapes nested deeper than this are not looked up; real ones are not.
const MAX_LOOKUP_DEPTH: u32 = 4;

/// Parser of shapes that remembers every text it has read.
#[derive(Default)]
pub(super) struct Shapes<'a> {
    known: IndexMap<&'a str, ShapeRef, FxBuildHasher>,
}

impl<'a> Shapes<'a> {
    /// A shape, or a soft mismatch if what comes next is no shape.
    pub(super) fn shape(&mut self, input: &'a str) -> Res<'a, ShapeRef> {
        self.nested(skip_blank(input), 0)
    }

    fn nested(&mut self, input: &'a str, depth: u32) -> Res<'a, ShapeRef> {
        // Finding the end of a tuple at every level of nesting would be quadratic.
        if depth < MAX_LOOKUP_DEPTH
            && let Some(length) = written_length(input)
            && let Some(shape) = self.known.get(&input[..length])
        {
            return Ok((&input[length..], Arc::clone(shape)));
        }
        let (rest, shape) = self.parse(input, depth)?;
        let shape = Arc::new(shape);
        self.known.insert(&input[..input.len() - rest.len()], Arc::clone(&shape));
        Ok((rest, shape))
    }

    fn parse(&mut self, input: &'a str, depth: u32) -> Res<'a, Shape> {
        if depth > MAX_DEPTH {
            return Err(errors::too_deep("shapes", MAX_DEPTH, input));
        }
        if input.starts_with('(') {
            return self.tuple(input, depth);
        }
        let (rest, word) = bare_word(input)?;
        if word == "b" && next_is(rest, '(') {
            return self.buffer(rest, depth);
        }
        if !next_is(rest, '[') {
            return mismatch(input);
        }
        match (word, ElementType::from_name(word)) {
            ("token", _) => closed_brackets(rest, Shape::Token),
            ("opaque", _) => closed_brackets(rest, Shape::Opaque),
            (_, Some(element_type)) => array(element_type, rest),
            _ => Err(errors::unknown_type(word)),
        }
    }

    fn tuple(&mut self, input: &'a str, depth: u32) -> Res<'a, Shape> {
        let (mut input, ()) = symbol('(').parse(input)?;
        let mut elements = Vec::new();
        if next_is(input, ')') {
            let (rest, ()) = symbol(')').parse(input)?;
            return Ok((rest, Shape::Tuple(elements)));
        }
        loop {
            let (rest, element) = self.nested(skip_blank(input), depth + 1)?;
            elements.push(element);
            let rest = skip_blank(rest);
            match rest.as_bytes().first() {
                Some(b',') => input = &rest[1..],
                Some(b')') => return Ok((&rest[1..], Shape::Tuple(elements))),
                _ => return Err(errors::expected("`,` or `)` in a tuple shape", rest)),
            }
        }
    }

    fn buffer(&mut self, input: &'a str, depth: u32) -> Res<'a, Shape> {
        let (input, ()) = symbol('(').parse(input)?;
        let (input, inner) = self.nested(skip_blank(input), depth + 1)?;
        let (input, ()) = symbol(')').parse(input)?;
        Ok((input, Shape::Buffer(inner)))
    }
}

/// Length of the shape at the start of `input` if it is written without blanks, found without parsing. Only used to look
/// up texts that were parsed before, so a wrong guess costs time, not correctness.
fn written_length(input: &str) -> Option<usize> {
    let bytes = input.as_bytes();
    if bytes.first() == Some(&b'(') {
        return parenthesized_length(bytes);
    }
    let length = memchr::memchr(b']', &bytes[..bytes.len().min(256)])? + 1;
    match bytes.get(length) {
        Some(b'{') if matches!(bytes.get(length + 1), Some(b'0'..=b'9' | b':')) => {
            Some(length + memchr::memchr(b'}', &bytes[length..])? + 1)
        }
        // A layout may follow behind blanks: leave that to the parser.
        Some(b' ') if !matches!(bytes.get(length + 1), Some(b'{' | b' ' | b'/')) => Some(length),
        Some(b'{' | b',' | b')') => Some(length),
        _ => None,
    }
}

/// Length up to the parenthesis that closes the first one.
fn parenthesized_length(bytes: &[u8]) -> Option<usize> {
    let mut depth = 0_usize;
    for at in memchr::memchr2_iter(b'(', b')', bytes) {
        depth = if bytes[at] == b'(' { depth + 1 } else { depth - 1 };
        if depth == 0 {
            return Some(at + 1);
        }
    }
    None
}

/// `[]` of the types that have no dimensions.
fn closed_brackets(input: &str, shape: Shape) -> Res<'_, Shape> {
    let (input, ()) = symbol('[').parse(input)?;
    match symbol(']').parse(input) {
        Ok((input, ())) => Ok((input, shape)),
        Err(_) => Err(errors::expected("`]`", skip_blank(input))),
    }
}

/// Dimensions and layout behind the element type.
fn array(element_type: ElementType, input: &str) -> Res<'_, Shape> {
    let (input, ()) = symbol('[').parse(input)?;
    let (input, (dims, dynamic)) = dimensions(input)?;
    let (input, layout) = optional_layout(input, dims.len())?;
    // An array without dimensions has one layout only; a written one and a missing one are the same.
    let layout = layout.or_else(|| dims.is_empty().then(Layout::default));
    Ok((input, Shape::Array(ArrayShape { element_type, dims, dynamic, layout })))
}

/// `2,<=3,?]`: sizes and the mask of dynamic ones.
fn dimensions(mut input: &str) -> Res<'_, (Dims, u64)> {
    let (mut dims, mut dynamic) = (Dims::new(), 0_u64);
    loop {
        let at = skip_blank(input);
        if dims.is_empty() && at.starts_with(']') {
            return Ok((&at[1..], (dims, dynamic)));
        }
        let (rest, (size, is_dynamic)) = dimension(at)?;
        if is_dynamic {
            let bit = 1_u64.checked_shl(dims.len() as u32).ok_or_else(|| errors::dynamic_rank(at))?;
            dynamic |= bit;
        }
        dims.push(size);
        let rest = skip_blank(rest);
        match rest.as_bytes().first() {
            Some(b',') => input = &rest[1..],
            Some(b']') => return Ok((&rest[1..], (dims, dynamic))),
            _ => return Err(errors::expected("`,` or `]` after a dimension", rest)),
        }
    }
}

/// One dimension, and whether it is dynamic.
fn dimension(at: &str) -> Res<'_, (i64, bool)> {
    if let Some(rest) = at.strip_prefix('?') {
        return Ok((rest, (UNBOUNDED, true)));
    }
    let (rest, bounded) = opt(tag("<=")).parse(at)?;
    let digits = skip_blank(rest);
    match bare_integer(digits) {
        Ok((rest, size)) if size >= 0 => Ok((rest, (size, bounded.is_some()))),
        Ok((rest, _)) => Err(errors::bad_dimension(&digits[..digits.len() - rest.len()])),
        Err(nom::Err::Error(_)) => Err(errors::expected("a dimension", digits)),
        Err(error) => Err(error),
    }
}

/// `{1,0:T(8,128)}` if it stands there: a brace is a layout only in front of an integer or a colon.
fn optional_layout(input: &str, rank: usize) -> Res<'_, Option<Layout>> {
    // Old dumps write the empty layout of a scalar.
    if rank == 0
        && let Some(rest) = input.strip_prefix("{}")
    {
        return Ok((rest, None));
    }
    let at = skip_blank(input);
    let Some(inside) = at.strip_prefix('{') else { return Ok((input, None)) };
    if !skip_blank(inside).starts_with(|c: char| c.is_ascii_digit() || c == ':') {
        return Ok((input, None));
    }
    let (rest, text) = lex::group(b'{', b'}')(at)?;
    let inside = &text[1..text.len() - 1];
    let (order, suffix) = inside.split_once(':').unwrap_or((inside, ""));
    let minor_to_major = order_list(order)?;
    if minor_to_major.len() != rank {
        return Err(errors::layout_rank(text, rank, minor_to_major.len()));
    }
    Ok((rest, Some(Layout { minor_to_major, suffix: lex::verbatim(suffix).into() })))
}

/// `1,0` up to its end.
fn order_list(mut input: &str) -> Result<Dims, nom::Err<lex::Problem<'_>>> {
    let mut dims = Dims::new();
    loop {
        let at = skip_blank(input);
        if at.is_empty() {
            return Ok(dims);
        }
        // From 2^63 on numbers wrap, and a layout does not begin with a minus.
        let Some((rest, dim)) = bare_integer(at).ok().filter(|&(_, dim)| dim >= 0) else {
            return Err(errors::expected("a dimension number", at));
        };
        dims.push(dim);
        let rest = skip_blank(rest);
        input = rest.strip_prefix(',').unwrap_or(rest);
    }
}

/// `{(shape, ...)->shape}`.
pub(super) fn program_layout(input: &str) -> Res<'_, (Vec<ShapeRef>, ShapeRef)> {
    let mut shapes = Shapes::default();
    let (input, ()) = symbol('{').parse(input)?;
    let (input, parameters) = shapes.shape(input)?;
    let (input, _) = lex::token(tag("->")).parse(input)?;
    let (input, result) = shapes.shape(input)?;
    let (input, ()) = symbol('}').parse(input)?;
    match parameters.as_tuple() {
        Some(elements) => Ok((input, (elements.to_vec(), result))),
        None => mismatch(input),
    }
}

/// `{0,1}`.
pub(super) fn integers(input: &str) -> Res<'_, Dims> {
    braced(lex::integer)(input)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn printed(text: &str) -> String {
        let (rest, shape) = Shapes::default().shape(text).expect("a shape");
        assert_eq!(rest, "", "{text}");
        shape.to_string()
    }

    #[test]
    fn shapes_print_back() {
        for text in [
            "f32[]",
            "f32[2,3]{1,0}",
            "bf16[<=8,?]{1,0:T(8,128)(2,1)S(5)}",
            "u32[]{:S(8)}",
            "(f32[2], (s32[], token[]), opaque[])",
            "b(f32[4]{0})",
            "()",
            "s64[9223372036854775807]",
        ] {
            assert_eq!(printed(text), text);
        }
        assert_eq!(printed(" f32[ 4 , 5 ] { 0 , 1 }"), "f32[4,5]{0,1}");
        assert_eq!(printed("f32[]{}"), "f32[]");
    }
    #[test]
    fn equal_texts_share_one_shape() {
        let mut shapes = Shapes::default();
        let (rest, first) = shapes.shape("(f32[2]{0}, f32[2]{0}) (f32[2]{0}, f32[2]{0}) ").expect("a shape");
        let (_, second) = shapes.shape(rest).expect("a shape");
        assert!(Arc::ptr_eq(&first, &second));
        let elements = first.as_tuple().expect("a tuple");
        assert!(Arc::ptr_eq(&elements[0], &elements[1]));
    }
    #[test]
    fn a_brace_is_a_layout_in_front_of_an_integer_only() {
        let mut shapes = Shapes::default();
        assert_eq!(shapes.shape("f32[2] {\n").expect("a shape").0, " {\n");
        assert_eq!(shapes.shape("f32[2] {0} x").expect("a shape").0, " x");
        // Read before without a layout, now with one behind a blank.
        assert_eq!(shapes.shape("f32[2] {0} x").expect("a shape").1.to_string(), "f32[2]{0}");
    }
    #[test]
    fn nesting_is_limited() {
        let deep = format!("{}f32[]{}", "(".repeat(3000), ")".repeat(3000));
        assert!(matches!(Shapes::default().shape(&deep), Err(nom::Err::Failure(_))));
    }
    #[test]
    fn what_is_no_shape_is_a_soft_mismatch() {
        for text in ["add(x)", "", "%x", "{0}"] {
            assert!(matches!(Shapes::default().shape(text), Err(nom::Err::Error(_))), "{text}");
        }
    }
}
