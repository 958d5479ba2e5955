//! Arrays of integers.

use hlo_ir::{ArrayShape, ElementType, Shape};

/// A row-major array; elements are wrapped to the element type.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Tensor {
    pub(crate) shape: ArrayShape,
    pub(crate) data: Vec<i64>,
}

impl Tensor {
    /// An array whose element at each index is `element(index)`.
    pub(crate) fn build(shape: &ArrayShape, mut element: impl FnMut(&[i64]) -> i64) -> Self {
        let data = indices(&shape.dims).iter().map(|index| wrap(shape.element_type, element(index))).collect();
        Self { shape: shape.clone(), data }
    }
    /// A scalar of the given shape.
    pub(crate) fn scalar(shape: &Shape, value: i64) -> Self {
        let shape = shape.as_array().expect("scalars are arrays").clone();
        Self { data: vec![wrap(shape.element_type, value)], shape }
    }
    /// The place of an element; `None` if the index is out of bounds.
    pub(crate) fn place(&self, index: &[i64]) -> Option<usize> {
        let inside = |(at, size): (&i64, &i64)| (0..*size).contains(at);
        let place = |place, (at, size): (&i64, &i64)| place * *size as usize + *at as usize;
        let pairs = || index.iter().zip(&self.shape.dims);
        assert_eq!(index.len(), self.shape.rank(), "an index has one component per dimension");
        pairs().all(inside).then(|| pairs().fold(0, place))
    }
    /// The element at an index that is in bounds.
    pub(crate) fn at(&self, index: &[i64]) -> i64 {
        self.data[self.place(index).unwrap_or_else(|| panic!("{index:?} is outside {}", self.shape))]
    }
    /// The element at `index`, or the only element of a scalar.
    pub(crate) fn at_or_scalar(&self, index: &[i64]) -> i64 {
        if self.shape.is_scalar() { self.data[0] } else { self.at(index) }
    }
    /// Rows `[start, start+len)` of dimension `dim`.
    pub(crate) fn rows(&self, dim: usize, start: i64, len: i64) -> Self {
        let mut from = Vec::new();
        Self::build(&self.shape.with_dim(dim, len), |index| {
            from.clear();
            from.extend(index);
            from[dim] += start;
            self.at(&from)
        })
    }
}

/// Every index of an array, in row-major order.
pub(crate) fn indices(dims: &[i64]) -> Vec<Vec<i64>> {
    let mut all = vec![Vec::new()];
    for &size in dims {
        all = all.iter().flat_map(|prefix| (0..size).map(move |at| [prefix.as_slice(), &[at]].concat())).collect();
    }
    all
}

/// The value an element of this type holds after an overflow.
pub(crate) fn wrap(element_type: ElementType, value: i64) -> i64 {
    match element_type.integer_range() {
        Some((low, high)) => ((i128::from(value) - low).rem_euclid(high - low + 1) + low) as i64,
        None => value,
    }
}
