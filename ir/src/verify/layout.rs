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
    let (mut rest, mut behind) = (suffix.trim(), 0);
    while !rest.is_empty() {
        let open = rest.find('(').ok_or_else(|| format!("ends with `{rest}`"))?;
        let word = rest[..open].trim();
        let length = group_length(&rest[open..]).ok_or_else(|| format!("leaves a parenthesis open behind `{word}`"))?;
        if let Some(at) = PARTS.iter().position(|part| *part == word) {
            if at < behind {
                return Err(format!("has `{word}` in the wrong place: the order is {}", PARTS.join(", ")));
            }
            behind = at + 1;
        }
        rest = rest[open + length..].trim_start();
    }
    Ok(())
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
