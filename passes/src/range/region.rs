//! Boxes of elements: which part of an operand a part of a result comes from.

use hlo_ir::attribute::SliceDim;
use smallvec::SmallVec;

/// A box of elements: for every dimension the first index and one past the last.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Region {
    bounds: SmallVec<[(i64, i64); 4]>,
}

impl Region {
    /// The whole array.
    pub fn full(dims: &[i64]) -> Self {
        Self { bounds: dims.iter().map(|&size| (0, size)).collect() }
    }
    /// The box with these bounds.
    pub fn from_bounds(bounds: impl IntoIterator<Item = (i64, i64)>) -> Self {
        Self { bounds: bounds.into_iter().collect() }
    }
    /// Bounds of every dimension.
    pub fn bounds(&self) -> &[(i64, i64)] {
        &self.bounds
    }
    /// This region with other bounds in dimension `dim`.
    #[must_use]
    pub fn with(mut self, dim: usize, low: i64, high: i64) -> Self {
        self.bounds[dim] = (low, high);
        self
    }
    /// The one element, if the region has only one index in dimension `dim`.
    pub fn index(&self, dim: usize) -> Option<i64> {
        let (low, high) = *self.bounds.get(dim)?;
        (high - low == 1).then_some(low)
    }
    /// Whether `indices` lie inside.
    pub fn contains(&self, indices: &[i64]) -> bool {
        self.bounds.iter().zip(indices).all(|(&(low, high), index)| (low..high).contains(index))
    }

    /// The part of the operand of a `slice`.
    pub(super) fn through_slice(&self, slices: &[SliceDim]) -> Self {
        let bound = |(&(low, high), slice): (&(i64, i64), &SliceDim)| {
            let at = |index: i64| slice.start + index * slice.stride;
            (at(low), if high > low { at(high - 1) + 1 } else { at(low) })
        };
        Self { bounds: self.bounds.iter().zip(slices).map(bound).collect() }
    }
    /// The part of the operand of a `transpose`.
    pub(super) fn through_transpose(&self, permutation: &[i64]) -> Self {
        let mut bounds = self.bounds.clone();
        for (&dim, &bound) in permutation.iter().zip(&self.bounds) {
            bounds[dim as usize] = bound;
        }
        Self { bounds }
    }
    /// The part of the operand of a `broadcast` that maps operand dimensions to `dims`.
    pub(super) fn through_broadcast(&self, dims: &[i64]) -> Self {
        Self { bounds: dims.iter().map(|&dim| self.bounds[dim as usize]).collect() }
    }
    /// The part of the operand of a `reverse` along `dims`; `sizes` are those of the operand.
    pub(super) fn through_reverse(&self, dims: &[i64], sizes: &[i64]) -> Self {
        let mut region = self.clone();
        for &dim in dims {
            let (low, high) = self.bounds[dim as usize];
            let size = sizes[dim as usize];
            region.bounds[dim as usize] = (size - high, size - low);
        }
        region
    }
    /// The part of an operand of a `reduce` over `reduced` dimensions of sizes `sizes`.
    pub(super) fn through_reduce(&self, reduced: &[i64], sizes: &[i64]) -> Self {
        let mut kept = self.bounds.iter();
        let bound = |(dim, &size): (usize, &i64)| {
            let whole = reduced.contains(&(dim as i64));
            if whole { (0, size) } else { kept.next().copied().unwrap_or((0, size)) }
        };
        Self { bounds: sizes.iter().enumerate().map(bound).collect() }
    }
    /// The parts of the operands of a `concatenate` along `dim`: operand number and region, for operands that contribute.
    pub(super) fn through_concatenate(&self, dim: usize, sizes: &[i64]) -> Vec<(usize, Self)> {
        let (low, high) = self.bounds[dim];
        let mut start = 0;
        let mut parts = Vec::new();
        for (operand, &size) in sizes.iter().enumerate() {
            let (from, to) = (low.max(start), high.min(start + size));
            if from < to {
                parts.push((operand, self.clone().with(dim, from - start, to - start)));
            }
            start += size;
        }
        parts
    }
    /// A part of the operand of a `reshape` from `from` to `to` that holds at least what this region of the result needs.
    ///
    /// Dimensions are taken in groups of equal product; inside a group the region is widened to a run of consecutive elements.
    pub(super) fn through_reshape(&self, to: &[i64], from: &[i64]) -> Self {
        if from.contains(&0) || to.contains(&0) {
            return Self::full(from);
        }
        let mut bounds = SmallVec::new();
        let (mut i, mut j) = (0, 0);
        while j < from.len() {
            let (mut to_end, mut from_end) = (i, j + 1);
            let (mut to_product, mut from_product) = (1_i64, from[j]);
            while to_product != from_product {
                if to_product < from_product && to_end < to.len() {
                    to_product = to_product.saturating_mul(to[to_end]);
                    to_end += 1;
                } else if from_end < from.len() {
                    from_product = from_product.saturating_mul(from[from_end]);
                    from_end += 1;
                } else {
                    return Self::full(from);
                }
            }
            let run = consecutive(&self.bounds[i..to_end], &to[i..to_end]);
            bounds.extend(cover(run, &from[j..from_end]));
            (i, j) = (to_end, from_end);
        }
        Self { bounds }
    }
}

/// First and last row-major position of a box in an array of these sizes.
fn consecutive(bounds: &[(i64, i64)], sizes: &[i64]) -> (i64, i64) {
    bounds
        .iter()
        .zip(sizes)
        .fold((0, 0), |(low, high), (bound, size)| (low * size + bound.0, high * size + bound.1 - 1))
}

/// The smallest box that this code finds around the positions `low` to `high` of an array of these sizes.
fn cover((mut low, mut high): (i64, i64), sizes: &[i64]) -> Vec<(i64, i64)> {
    let mut stride: i64 = sizes.iter().product();
    let mut bounds: Vec<(i64, i64)> = Vec::with_capacity(sizes.len());
    let mut one_index_so_far = true;
    for &size in sizes {
        stride /= size;
        if !one_index_so_far {
            bounds.push((0, size));
            continue;
        }
        let (first, last) = (low / stride, high / stride);
        bounds.push((first, last + 1));
        one_index_so_far = first == last;
        low -= first * stride;
        high -= last * stride;
    }
    bounds
}

#[cfg(test)]
mod tests {
    use super::*;

    fn region(bounds: &[(i64, i64)]) -> Region {
        Region { bounds: SmallVec::from_slice(bounds) }
    }

    #[test]
    fn a_column_survives_new_unit_dimensions() {
        let column = region(&[(0, 8), (0, 1), (2, 3)]);
        assert_eq!(column.through_reshape(&[8, 1, 3], &[8, 3]), region(&[(0, 8), (2, 3)]));
        let column = region(&[(0, 8), (2, 3)]);
        assert_eq!(
            column.through_reshape(&[8, 3], &[2, 4, 1, 3, 1]),
            region(&[(0, 2), (0, 4), (0, 1), (2, 3), (0, 1)])
        );
    }

    #[test]
    fn merged_dimensions_are_covered() {
        // Rows 1 and 2 of [4, 3] are the elements 3 to 8 of [12].
        assert_eq!(region(&[(1, 3), (0, 3)]).through_reshape(&[4, 3], &[12]), region(&[(3, 9)]));
        assert_eq!(region(&[(3, 5)]).through_reshape(&[12], &[4, 3]), region(&[(1, 2), (0, 2)]));
        assert_eq!(region(&[(3, 7)]).through_reshape(&[12], &[4, 3]), region(&[(1, 3), (0, 3)]));
        assert_eq!(region(&[(0, 0)]).through_reshape(&[0], &[0, 3]), region(&[(0, 0), (0, 3)]));
    }

    #[test]
    fn slices_and_concatenations_shift() {
        let slices = [SliceDim { start: 4, limit: 10, stride: 2 }];
        assert_eq!(region(&[(1, 3)]).through_slice(&slices), region(&[(6, 9)]));
        let parts = region(&[(1, 4)]).through_concatenate(0, &[2, 1, 5]);
        assert_eq!(parts, [(0, region(&[(1, 2)])), (1, region(&[(0, 1)])), (2, region(&[(0, 1)]))]);
    }
}
