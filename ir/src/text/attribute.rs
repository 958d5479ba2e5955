//! Attributes: `, key=value` behind instructions, computations and the module's name. The form of a value comes from the
//! table [`crate::attribute::KEYS`]; a value that does not fit its form is kept verbatim.

use std::sync::Arc;

use nom::Parser;
use nom::branch::alt;
use nom::bytes::complete::tag;
use nom::combinator::{map, opt, value as constant, verify};
use nom::multi::separated_list1;
use nom::sequence::{delimited, preceded, separated_pair, terminated};

use super::computation;
use super::errors;
use super::lex::{
    self, Res, bare_integer, bare_word, braced, continues_word, integer, mismatch, name, next_is, skip_blank, symbol,
    token, word,
};
use super::shape::integers;
use super::state::{Scope, State};
use super::window::window;
use crate::arena::Id as _;
use crate::attribute::{Alias, AttrForm, PadDim, SliceDim};
use crate::{AttrKey, AttrValue, Attribute, InstructionId};

/// Every attribute up to the token that is no comma. `scope` resolves instruction names; there is none in the header.
pub(super) fn list<'a>(
    state: &mut State<'a>,
    mut scope: Option<&mut Scope<'a>>,
    mut input: &'a str,
) -> Res<'a, Vec<Attribute>> {
    // Gathered on a stack that all lists share, so that the list that is kept has no room to spare: a large module has a million of them.
    let base = state.attributes.len();
    loop {
        let at = skip_blank(input);
        let Some(rest) = at.strip_prefix(',') else { break };
        let (rest, (key_text, key, form)) = key(rest)?;
        if state.attributes[base..].iter().any(|attribute| attribute.key == key) {
            return Err(errors::duplicate_attribute(key_text));
        }
        let (rest, value) = value(state, scope.as_deref_mut(), form, rest)?;
        state.attributes.push(Attribute { key, value });
        input = rest;
    }
    Ok((input, state.attributes.drain(base..).collect()))
}

/// `key=`.
fn key(input: &str) -> Res<'_, (&str, AttrKey, AttrForm)> {
    let at = skip_blank(input);
    let Ok((rest, text)) = bare_word(at) else { return Err(errors::expected("an attribute name", at)) };
    let Some(rest) = rest.strip_prefix('=') else { return Err(errors::no_equals(text, rest)) };
    let (key, form) = AttrKey::from_name(text);
    Ok((rest, (text, key, form)))
}

/// The value in its form if it fits, else verbatim.
fn value<'a>(
    state: &mut State<'a>,
    scope: Option<&mut Scope<'a>>,
    form: AttrForm,
    input: &'a str,
) -> Res<'a, AttrValue> {
    let at = skip_blank(input);
    let typed = match form {
        AttrForm::Raw => return raw(state, at),
        AttrForm::Computation => one_computation(state, at),
        AttrForm::Computations => many_computations(state, at),
        AttrForm::Instructions => match scope {
            Some(scope) => instructions(scope, at),
            None => mismatch(at),
        },
        AttrForm::Ints | AttrForm::Word => shared(state, form, at),
        _ => plain(form, at),
    };
    match typed {
        // A closed group ends by itself, whatever follows.
        Ok((rest, value)) if ends_value(rest) || at.starts_with('{') => Ok((rest, value)),
        Err(error @ nom::Err::Failure(_)) if !matches!(form, AttrForm::Int) => Err(error),
        _ => raw(state, at),
    }
}

/// Whether a value can end here.
fn ends_value(rest: &str) -> bool {
    rest.as_bytes().first().is_none_or(|byte| matches!(byte, b',' | b' ' | b'\n' | b'\r' | b'\t' | b'}' | b')' | b'/'))
}

/// Longer lists are not looked for: a text without any `}` must not be searched to its end for each list.
const MAX_SHARED: usize = 128;

/// A list of integers or a word: dumps repeat the same few, so every text is parsed once and shared afterwards.
fn shared<'a>(state: &mut State<'a>, form: AttrForm, at: &'a str) -> Res<'a, AttrValue> {
    let written = match form {
        AttrForm::Word => bare_word(at).map_or("", |(_, word)| word),
        _ if at.starts_with('{') => {
            let near = &at.as_bytes()[..at.len().min(MAX_SHARED)];
            memchr::memchr(b'}', near).map_or("", |end| &at[..=end])
        }
        _ => "",
    };
    if let Some(value) = state.values.get(written) {
        return Ok((&at[written.len()..], value.clone()));
    }
    let (rest, value) = plain(form, at)?;
    if rest.len() + written.len() == at.len() {
        state.values.insert(written, value.clone());
    }
    Ok((rest, value))
}

/// Values that name nothing.
fn plain(form: AttrForm, at: &str) -> Res<'_, AttrValue> {
    match form {
        AttrForm::Int => map(bare_integer, AttrValue::Int).parse(at),
        AttrForm::Bool => map(boolean, AttrValue::Bool).parse(at),
        AttrForm::Ints => map(integers, |values| AttrValue::Ints(values.as_slice().into())).parse(at),
        AttrForm::Word => map(bare_word, |text| AttrValue::Word(text.into())).parse(at),
        AttrForm::Slice => map(braced(slice_dim), |dims: Vec<_>| AttrValue::Slice(dims.into())).parse(at),
        AttrForm::Padding => map(padding, |dims| AttrValue::Padding(dims.into())).parse(at),
        AttrForm::Window => map(window, |dims| AttrValue::Window(Arc::new(dims))).parse(at),
        AttrForm::Aliases => map(braced(alias), |entries| AttrValue::Aliases(Arc::new(entries))).parse(at),
        AttrForm::Donors => map(braced(donor), |entries| AttrValue::Donors(Arc::new(entries))).parse(at),
        AttrForm::Raw | AttrForm::Computation | AttrForm::Computations | AttrForm::Instructions => mismatch(at),
    }
}

/// `true` or `false`.
fn boolean(input: &str) -> Res<'_, bool> {
    alt((
        constant(true, verify(bare_word, |word: &str| word == "true")),
        constant(false, verify(bare_word, |word: &str| word == "false")),
    ))
    .parse(input)
}

/// `[0:8]` or `[0:8:2]`.
fn slice_dim(input: &str) -> Res<'_, SliceDim> {
    let stride = opt(preceded(symbol(':'), integer));
    let bounds = (terminated(integer, symbol(':')), integer, stride);
    map(delimited(symbol('['), bounds, symbol(']')), |(start, limit, stride)| SliceDim {
        start,
        limit,
        stride: stride.unwrap_or(1),
    })
    .parse(input)
}

/// `0_1x2_3_1`; nothing at all for a scalar.
fn padding(input: &str) -> Res<'_, Vec<PadDim>> {
    let interior = opt(preceded(tag("_"), bare_integer));
    let dim = (terminated(bare_integer, tag("_")), bare_integer, interior);
    let dim = map(dim, |(low, high, interior)| PadDim { low, high, interior: interior.unwrap_or(0) });
    separated_list1(tag("x"), dim).parse(input)
}

/// `{0}: (1, {}, may-alias)`.
fn alias(input: &str) -> Res<'_, Alias> {
    let kind = opt(preceded(symbol(','), word));
    let source = delimited(symbol('('), (integer, preceded(symbol(','), integers), kind), symbol(')'));
    map(separated_pair(integers, symbol(':'), source), |(output, (operand, operand_index, kind))| Alias {
        output,
        operand,
        operand_index,
        kind: kind.unwrap_or_default().into(),
    })
    .parse(input)
}

/// `(1, {0})`.
fn donor(input: &str) -> Res<'_, (i64, crate::shape::Dims)> {
    delimited(symbol('('), separated_pair(integer, symbol(','), integers), symbol(')')).parse(input)
}

/// A computation by name, or written out in braces.
fn one_computation<'a>(state: &mut State<'a>, at: &'a str) -> Res<'a, AttrValue> {
    if at.starts_with('{') {
        let (rest, id) = computation::inline(state, at)?;
        return Ok((rest, AttrValue::Computation(id)));
    }
    let (rest, (name, _)) = name(at)?;
    let id = state.computation(name)?;
    Ok((rest, AttrValue::Computation(id.unwrap_or_else(State::placeholder_computation))))
}

/// `{a, b}` of computation names.
fn many_computations<'a>(state: &mut State<'a>, at: &'a str) -> Res<'a, AttrValue> {
    let (rest, names): (_, Vec<_>) = braced(name)(at)?;
    let mut ids = Vec::with_capacity(names.len());
    for (name, _) in names {
        ids.push(state.computation(name)?.unwrap_or_else(State::placeholder_computation));
    }
    Ok((rest, AttrValue::Computations(ids.into())))
}

/// `{a, b}` of instruction names.
fn instructions<'a>(scope: &Scope<'a>, at: &'a str) -> Res<'a, AttrValue> {
    let (rest, names): (_, Vec<_>) = braced(name)(at)?;
    let mut ids = Vec::with_capacity(names.len());
    for (name, _) in names {
        ids.push(scope.operand(name)?.unwrap_or_else(|| InstructionId::new(0)));
    }
    Ok((rest, AttrValue::Instructions(ids.into())))
}

/// A value verbatim: one string, one braced group, or everything up to a comma or the next instruction.
fn raw<'a>(state: &mut State<'a>, input: &'a str) -> Res<'a, AttrValue> {
    let whole = match input.as_bytes().first() {
        Some(b'"' | b'\'') => Some(lex::bare_string(input)?),
        Some(b'{') => Some(lex::group(b'{', b'}')(input)?),
        _ => None,
    };
    if let Some((rest, text)) = whole {
        return Ok((rest, AttrValue::Raw(state.interned.share(text))));
    }
    let end = raw_end(input)?;
    let text = &input[..input.len() - end.len()];
    if text.is_empty() {
        return Err(errors::expected("an attribute value", input));
    }
    Ok((end, AttrValue::Raw(lex::verbatim(text).into())))
}

/// The text behind a verbatim value of several parts.
fn raw_end(input: &str) -> Result<&str, nom::Err<lex::Problem<'_>>> {
    let mut rest = input;
    loop {
        rest = match rest.as_bytes().first() {
            Some(b',') if rest.starts_with(OF_MESH) => &rest[OF_MESH.len()..],
            None | Some(b',' | b'}' | b')') => return Ok(rest),
            Some(b'{') => lex::group(b'{', b'}')(rest)?.0,
            Some(b'(') => lex::group(b'(', b')')(rest)?.0,
            Some(b'[') => lex::group(b'[', b']')(rest)?.0,
            Some(b'"') => lex::bare_string(rest)?.0,
            Some(b' ' | b'\n' | b'\r' | b'\t' | b'/') if skip_blank(rest).len() < rest.len() => {
                if !continues_behind_blank(rest) {
                    return Ok(rest);
                }
                skip_blank(rest)
            }
            Some(_) => {
                let mut chars = rest.chars();
                chars.next();
                chars.as_str()
            }
        };
    }
}

/// A mesh goes on so where its devices are in an order of their own: `mesh['a'=2,'b'=4], device_ids=([4,2]T(1,0)) {'a'}`.
const OF_MESH: &str = ", device_ids=";

/// Whether a verbatim value goes on behind blanks, as in `literal=s32[2] {1,2}`; if not, the next instruction begins.
fn continues_behind_blank(rest: &str) -> bool {
    let next = skip_blank(rest);
    match next.as_bytes().first() {
        Some(b'{' | b'[' | b'(' | b'"' | b'-' | b'0'..=b'9') => true,
        Some(byte) if continues_word(*byte) => {
            matches!(word(next), Ok((after, "true" | "false" | "inf" | "nan")) if !next_is(after, '='))
        }
        _ => false,
    }
}

/// Used by the window parser: an integer in a `x`-separated list.
pub(super) fn by_x<'a, O>(
    item: impl Parser<&'a str, Output = O, Error = lex::Problem<'a>>,
) -> impl Parser<&'a str, Output = Vec<O>, Error = lex::Problem<'a>> {
    token(separated_list1(tag("x"), item))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Reads `, key=value` and says how the value was kept.
    fn read(text: &str) -> (String, AttrValue) {
        let (rest, mut attributes) = list(&mut State::new(text), None, text).expect("attributes");
        (rest.to_owned(), attributes.remove(0).value)
    }
    fn raw_text(text: &str) -> (String, String) {
        match read(text) {
            (rest, AttrValue::Raw(value)) => (rest, value.to_string()),
            (_, other) => panic!("{text} is {other:?}"),
        }
    }

    #[test]
    fn values_have_the_form_of_their_key() {
        assert_eq!(read(", index=3").1, AttrValue::Int(3));
        assert_eq!(read(", dimensions={0, 2}").1, AttrValue::Ints([0, 2].into()));
        assert_eq!(read(", is_stable=true").1, AttrValue::Bool(true));
        assert_eq!(read(", direction=LT").1, AttrValue::Word("LT".into()));
        let slice = SliceDim { start: 0, limit: 8, stride: 2 };
        assert_eq!(
            read(", slice={[0:8:2], [1:4]}").1,
            AttrValue::Slice([slice, SliceDim { start: 1, limit: 4, stride: 1 }].into())
        );
        let pads = vec![PadDim { low: -1, high: 2, interior: 3 }, PadDim::default()];
        assert_eq!(read(", padding=-1_2_3x0_0").1, AttrValue::Padding(pads.into()));
    }
    #[test]
    fn a_value_of_another_form_is_kept() {
        assert_eq!(raw_text(", index=three, x=1").1, "three");
        assert_eq!(raw_text(", slice_sizes={{8},{8}}").1, "{{8},{8}}");
        assert_eq!(raw_text(", window={size=3x3 stride=2}").1, "{size=3x3 stride=2}");
    }
    #[test]
    fn verbatim_values_end_where_the_next_thing_begins() {
        for (text, value, rest) in [
            (", new=[2,4]<=[4,2]T(1,0), a=1", "[2,4]<=[4,2]T(1,0)", ""),
            (", replica_groups=mesh['a'=2,'b'=4] {'a'}\n  %x = f32[]", "mesh['a'=2,'b'=4] {'a'}", "\n  %x = f32[]"),
            (
                ", groups=mesh['a'=4], device_ids=([2,2]T(1,0)) {'a'}, b=1",
                "mesh['a'=4], device_ids=([2,2]T(1,0)) {'a'}",
                "",
            ),
            (", literal=s32[2]{0} {1, 2}\n  ROOT x = f32[]", "s32[2]{0} {1, 2}", "\n  ROOT x = f32[]"),
            (", literal=pred[] true\n  y = f32[]", "pred[] true", "\n  y = f32[]"),
            (", new=word\n  true = f32[]", "word", "\n  true = f32[]"),
            (", new=word // comment\n}", "word", " // comment\n}"),
            (", backend_config=\"a, b\" %x", "\"a, b\"", " %x"),
            (", dim_labels=b01f_01io->b01f}", "b01f_01io->b01f", "}"),
        ] {
            let (left, kept) = raw_text(text);
            assert_eq!(kept, value, "{text}");
            assert!(rest.is_empty() || left == rest, "{text} leaves {left}");
        }
    }
}
