//! Orders of dimensions in memory. Nearly all are row-major, which takes no memory of its own and is compared at once.

use std::rc::Rc;

use hlo_ir::shape::{ArrayShape, Dims, Layout};

/// The order of an array's dimensions in memory.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum Order {
    /// Row-major, of so many dimensions.
    Rows(usize),
    /// Any other, the minor dimension first.
    Other(Rc<[i64]>),
}

impl Order {
    /// The order that lists these dimensions, the minor one first.
    pub(super) fn of(dims: &[i64]) -> Self {
        if is_descending(dims) { Self::Rows(dims.len()) } else { Self::Other(dims.into()) }
    }

    /// The order of an array; row-major if it has no layout.
    pub(super) fn of_array(array: &ArrayShape) -> Self {
        array.layout.as_ref().map_or(Self::Rows(array.rank()), |layout| Self::of(&layout.minor_to_major))
    }

    /// The dimensions, the minor one first.
    pub(super) fn dims(&self) -> Dims {
        match self {
            Self::Rows(rank) => (0..*rank as i64).rev().collect(),
            Self::Other(dims) => Dims::from_slice(dims),
        }
    }

    /// Whether a layout says this order.
    pub(super) fn is_of(&self, layout: &Layout) -> bool {
        match self {
            Self::Rows(rank) => layout.minor_to_major.len() == *rank && is_descending(&layout.minor_to_major),
            Self::Other(dims) => layout.minor_to_major.as_slice() == &**dims,
        }
    }
}

fn is_descending(dims: &[i64]) -> bool {
    dims.iter().copied().eq((0..dims.len() as i64).rev())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_order_is_the_dimensions_that_it_was_made_of() {
        for dims in [&[][..], &[0], &[1, 0], &[0, 1], &[2, 0, 1], &[2, 1, 0], &[3, 2, 1]] {
            let order = Order::of(dims);
            assert_eq!(order.dims().as_slice(), dims);
            assert_eq!(matches!(order, Order::Rows(_)), dims.iter().copied().eq((0..dims.len() as i64).rev()));
            let layout = Layout { minor_to_major: Dims::from_slice(dims), suffix: "".into() };
            assert!(order.is_of(&layout) && !Order::of(&[4, 4]).is_of(&layout));
        }
    }
}
