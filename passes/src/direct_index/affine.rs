//! Index arithmetic: coordinates of an element as affine functions of the row it belongs to.

use smallvec::SmallVec;

/// `constant + sum of coefficient * row index`, over the row dimensions of an index array.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Default)]
pub(super) struct Affine {
    constant: i64,
    /// Row dimension and coefficient, by row dimension; no coefficient is zero.
    terms: SmallVec<[(usize, i64); 2]>,
}

impl Affine {
    /// Always the same.
    pub(super) fn constant(constant: i64) -> Self {
        Self { constant, terms: SmallVec::new() }
    }
    /// The index in a row dimension of the given size.
    pub(super) fn row(dim: usize, size: i64) -> Self {
        let terms = if size == 1 { SmallVec::new() } else { SmallVec::from_slice(&[(dim, 1)]) };
        Self { constant: 0, terms }
    }
    /// The value, if it does not depend on the row.
    pub(super) fn as_constant(&self) -> Option<i64> {
        self.terms.is_empty().then_some(self.constant)
    }
    /// The constant part.
    pub(super) fn offset(&self) -> i64 {
        self.constant
    }
    /// The sum of two; `None` if numbers get too large.
    pub(super) fn plus(&self, other: &Self) -> Option<Self> {
        let mut sum = Self::constant(self.constant.checked_add(other.constant)?);
        let (mut a, mut b) = (self.terms.iter().peekable(), other.terms.iter().peekable());
        while let Some(&&(dim, coefficient)) = match (a.peek(), b.peek()) {
            (Some(x), Some(y)) if x.0 <= y.0 => Some(x),
            (Some(x), None) => Some(x),
            (_, y) => y,
        } {
            let from_a = a.next_if(|term| term.0 == dim).map_or(0, |term| term.1);
            let from_b = b.next_if(|term| term.0 == dim).map_or(0, |term| term.1);
            debug_assert!(from_a == coefficient || from_b == coefficient, "one of them was peeked at");
            let total = from_a.checked_add(from_b)?;
            if total != 0 {
                sum.terms.push((dim, total));
            }
        }
        Some(sum)
    }
    /// A multiple.
    pub(super) fn times(&self, factor: i64) -> Option<Self> {
        if factor == 0 {
            return Some(Self::default());
        }
        let terms = self.terms.iter().map(|&(dim, coefficient)| Some((dim, coefficient.checked_mul(factor)?)));
        Some(Self { constant: self.constant.checked_mul(factor)?, terms: terms.collect::<Option<_>>()? })
    }
    /// Smallest and largest value over all rows of an array whose row dimensions have these sizes.
    pub(super) fn bounds(&self, rows: &[i64]) -> Option<(i64, i64)> {
        self.terms.iter().try_fold((self.constant, self.constant), |(low, high), &(dim, coefficient)| {
            let most = coefficient.checked_mul(rows[dim] - 1)?;
            Some((low.checked_add(most.min(0))?, high.checked_add(most.max(0))?))
        })
    }
    /// Quotient and remainder by a positive divisor, if both are affine again.
    fn divided(&self, divisor: i64, rows: &[i64]) -> Option<(Self, Self)> {
        let mut quotient = Self::constant(self.constant.div_euclid(divisor));
        let mut remainder = Self::constant(self.constant.rem_euclid(divisor));
        for &(dim, coefficient) in &self.terms {
            if coefficient % divisor == 0 {
                quotient.terms.push((dim, coefficient / divisor));
            } else {
                remainder.terms.push((dim, coefficient));
            }
        }
        let (low, high) = remainder.bounds(rows)?;
        (low >= 0 && high < divisor).then_some((quotient, remainder))
    }
}

/// Row-major position of coordinates in an array of these sizes.
pub(super) fn position(coordinates: &[Affine], sizes: &[i64]) -> Option<Affine> {
    coordinates.iter().zip(sizes).try_fold(Affine::default(), |sum, (at, &size)| sum.times(size)?.plus(at))
}

/// Row-major position, in an index array of these sizes, of component `component` of every row; dimension `vector_dim` holds the components.
pub(super) fn of_component(component: usize, vector_dim: usize, sizes: &[i64]) -> Option<Affine> {
    let mut rows = 0..;
    let coordinate = |(dim, &size): (usize, &i64)| {
        if dim == vector_dim {
            return Affine::constant(component as i64);
        }
        Affine::row(rows.next().expect("it never ends"), size)
    };
    let coordinates: Vec<Affine> = sizes.iter().enumerate().map(coordinate).collect();
    position(&coordinates, sizes)
}

/// Coordinates of a row-major position in an array of these sizes; `None` if they are not affine.
pub(super) fn coordinates(position: &Affine, sizes: &[i64], rows: &[i64]) -> Option<Vec<Affine>> {
    let mut rest = position.clone();
    let mut coordinates = Vec::with_capacity(sizes.len());
    for dim in 0..sizes.len() {
        let stride = sizes[dim + 1..].iter().try_fold(1_i64, |product, &size| product.checked_mul(size))?;
        if stride == 0 {
            return None;
        }
        let (at, remainder) = rest.divided(stride, rows)?;
        coordinates.push(at);
        rest = remainder;
    }
    Some(coordinates)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_column_through_reshapes() {
        let rows = [8, 5];
        // Row (a, b), column 2 of [8, 5, 3] is element (5a + b) * 3 + 2.
        let at = [Affine::row(0, 8), Affine::row(1, 5), Affine::constant(2)];
        let flat = position(&at, &[8, 5, 3]).expect("small");
        assert_eq!(flat.bounds(&rows), Some((2, 119)));
        assert_eq!(coordinates(&flat, &[8, 5, 3], &rows), Some(at.to_vec()));
        let merged = coordinates(&flat, &[40, 3], &rows).expect("rows merge");
        assert_eq!((merged[0].bounds(&rows), merged[1].as_constant()), (Some((0, 39)), Some(2)));
        assert_eq!(coordinates(&flat, &[20, 6], &rows), None, "columns of 6 mix rows");
    }

    #[test]
    fn dimensions_of_size_one_do_not_count() {
        assert_eq!(Affine::row(0, 1), Affine::constant(0));
        assert_eq!(Affine::row(0, 4).plus(&Affine::row(0, 4).times(-1).expect("small")), Some(Affine::constant(0)));
    }
}
