//! Integer values of constants.

use hlo_ir::Instruction;
use hlo_ir::literal::Literal;

use super::{Range, Region};
use crate::bounds;

/// The values in a region of a constant; `None` for other instructions and for constants that are too large, left out, or no integers.
pub(super) fn range(inst: &Instruction, region: &Region) -> Option<Range> {
    let array = inst.array()?;
    if array.elements()? > bounds::ELEMENTS {
        return None;
    }
    let values = Literal::of(inst)?.integers()?;
    let inside = values.iter().enumerate().filter(|(position, _)| region.contains(&indices(*position, &array.dims)));
    Some(Range::from_pieces(inside.map(|(_, &value)| (value, value))))
}

/// Indices of the element at a row-major position.
fn indices(mut position: usize, dims: &[i64]) -> Vec<i64> {
    let mut indices = vec![0; dims.len()];
    for (index, &size) in indices.iter_mut().zip(dims).rev() {
        *index = (position % size as usize) as i64;
        position /= size as usize;
    }
    indices
}
