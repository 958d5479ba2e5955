//! The `window={size=3x3 stride=2x2 pad=1_1x0_0 ...}` attribute of convolutions and reduce-windows.

use nom::Parser;
use nom::bytes::complete::tag;
use nom::sequence::separated_pair;

use super::attribute::by_x;
use super::lex::{Res, bare_integer, bare_word, mismatch, skip_blank, symbol};
use crate::attribute::WindowDim;

/// All dimensions of a window. `size` says how many there are; a part of another length is a mismatch.
pub(super) fn window(input: &str) -> Res<'_, Vec<WindowDim>> {
    let (mut input, ()) = symbol('{').parse(input)?;
    let mut parts = Vec::new();
    loop {
        let at = skip_blank(input);
        if let Some(rest) = at.strip_prefix('}') {
            return assemble(at, &parts).map(|(_, dims)| (rest, dims));
        }
        let (rest, part) = part(at)?;
        parts.push(part);
        input = rest;
    }
}

/// One part: its key and a pair of numbers per dimension (the second one only for `pad`).
type Part<'a> = (&'a str, Vec<(i64, i64)>);

fn part(at: &str) -> Res<'_, Part<'_>> {
    let (rest, key) = bare_word(at)?;
    let (rest, _) = tag("=").parse(rest)?;
    let pair = separated_pair(bare_integer, tag("_"), bare_integer);
    let (rest, values) = match key {
        "pad" => by_x(pair).parse(rest)?,
        _ => by_x(bare_integer.map(|value| (value, 0))).parse(rest)?,
    };
    Ok((rest, (key, values)))
}

fn assemble<'a>(at: &'a str, parts: &[Part<'a>]) -> Res<'a, Vec<WindowDim>> {
    let rank = parts.iter().find(|part| part.0 == "size").map_or(0, |part| part.1.len());
    let mut dims = vec![WindowDim::default(); rank];
    for (key, values) in parts {
        if values.len() != rank {
            return mismatch(at);
        }
        for (dim, &(value, high)) in dims.iter_mut().zip(values) {
            match *key {
                "size" => dim.size = value,
                "stride" => dim.stride = value,
                "pad" => (dim.pad_low, dim.pad_high) = (value, high),
                "lhs_dilate" => dim.lhs_dilate = value,
                "rhs_dilate" => dim.rhs_dilate = value,
                "rhs_reversal" => dim.reversed = value != 0,
                _ => return mismatch(at),
            }
        }
    }
    Ok((at, dims))
}
