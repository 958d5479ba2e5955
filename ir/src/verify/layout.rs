//! V12: sizes and layouts of every shape.

use std::sync::Arc;

use indexmap::IndexSet;
use rustc_hash::FxBuildHasher;

use crate::shape::{ShapeRef, UNBOUNDED};
use crate::{ArrayShape, Shape};

/// Remembers the shapes it has seen: a module has few.
#[derive(Default)]
pub(super) struct Layouts {
    /// Addresses of shapes that are fine. The module keeps them alive while it is verified.
    fine: IndexSet<usize, FxBuildHasher>,
}

impl Layouts {
    pub(super) fn check(&mut self, shape: &ShapeRef) -> Result<(), String> {
        if self.fine.contains(&(Arc::as_ptr(shape).addr())) {
            return Ok(());
        }
        match shape.as_ref() {
            Shape::Array(array) => check_array(array)?,
            Shape::Tuple(elements) => elements.iter().try_for_each(|element| self.check(element))?,
            Shape::Buffer(inner) => self.check(inner)?,
            Shape::Token | Shape::Opaque => {}
        }
        self.fine.insert(Arc::as_ptr(shape).addr());
        Ok(())
    }
}

fn check_array(array: &ArrayShape) -> Result<(), String> {
    if let Some(dim) = array.dims.iter().find(|&&dim| dim < 0 && dim != UNBOUNDED) {
        return Err(format!("{array} has a dimension of size {dim}"));
    }
    let Some(layout) = &array.layout else { return Ok(()) };
    check_suffix(&layout.suffix).map_err(|message| format!("the layout of {array} {message}"))?;
    let order = &layout.minor_to_major;
    let names = |dim: usize| order.iter().filter(|&&named| named == dim as i64).count();
    if order.len() == array.rank() && (0..array.rank()).all(|dim| names(dim) == 1) {
        return Ok(());
    }
    Err(format!("the layout of {array} does not name each dimension once"))
}

/// The parts of a layout behind its colon, in the order in which XLA reads them. A part that is not among them may be of a later version.
const PARTS: &[&str] = &["D", "T", "L", "#", "*", "E", "S", "SC", "P", "M"];

/// Parts are words with groups in parentheses, each part once.
fn check_suffix(suffix: &str) -> Result<(), String> {
    let (mut rest, mut behind, mut is_sparse) = (suffix.trim(), 0, false);
    while !rest.is_empty() {
        let open = rest.find('(').ok_or_else(|| format!("ends with `{rest}`"))?;
        let word = rest[..open].trim();
        let length = group_length(&rest[open..]).ok_or_else(|| format!("leaves a parenthesis open behind `{word}`"))?;
        if let Some(at) = PARTS.iter().position(|part| *part == word) {
            if at < behind {
                return Err(format!("has `{word}` in the wrong place: the order is {}", PARTS.join(", ")));
            }
            behind = at + 1;
            check_part(word, &rest[open..open + length])?;
            is_sparse |= word == "D" && rest[open..open + length].contains(['C', 'S']);
            if word == "P" && !is_sparse {
                return Err("gives a physical shape to an array that is not sparse".into());
            }
        }
        rest = rest[open + length..].trim_start();
    }
    Ok(())
}

/// Numbers and kinds that a part can hold. Source: `ParseLayout` (xla/hlo/parser/hlo_parser.cc).
fn check_part(word: &str, group: &str) -> Result<(), String> {
    let inside = group.trim_start_matches('(').trim_end_matches(')');
    let fits = match word {
        "D" => inside.split(',').all(|kind| ["D", "C", "S", "H"].contains(&kind.trim().trim_end_matches(['+', '~']))),
        "L" | "E" | "S" | "M" => inside.trim().parse::<i64>().is_ok(),
        "T" => group.chars().all(|symbol| symbol.is_ascii_digit() || "()*,- \n\r\t".contains(symbol)),
        _ => true,
    };
    if fits { Ok(()) } else { Err(format!("has `{word}{group}`, which says nothing")) }
}

/// Bytes up to the parenthesis that closes the first one.
fn group_length(text: &str) -> Option<usize> {
    let mut depth = 0_usize;
    for (at, symbol) in text.char_indices() {
        match symbol {
            '(' => depth += 1,
            ')' => depth = depth.checked_sub(1)?,
            _ => {}
        }
        if depth == 0 {
            return Some(at + 1);
        }
    }
    None
}
