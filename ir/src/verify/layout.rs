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
    let order = &layout.minor_to_major;
    let names = |dim: usize| order.iter().filter(|&&named| named == dim as i64).count();
    if order.len() == array.rank() && (0..array.rank()).all(|dim| names(dim) == 1) {
        return Ok(());
    }
    Err(format!("the layout of {array} does not name each dimension once"))
}
