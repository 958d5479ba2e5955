//! Arithmetic on dimensions: permutations, what a reshape leaves alone, and which moves are free in memory.

use hlo_ir::shape::{ArrayShape, Dims, Layout};

/// The permutation that undoes `permutation`.
pub(crate) fn inverse(permutation: &[i64]) -> Dims {
    let mut result: Dims = permutation.iter().copied().collect();
    for (position, &dim) in permutation.iter().enumerate() {
        result[dim as usize] = position as i64;
    }
    result
}

/// `items` in the order of `permutation`.
pub(crate) fn permute<T: Copy>(items: &[T], permutation: &[i64]) -> Vec<T> {
    permutation.iter().map(|&dim| items[dim as usize]).collect()
}

/// First `first`, then `second`: element `k` is `first[second[k]]`.
pub(crate) fn compose(first: &[i64], second: &[i64]) -> Dims {
    second.iter().map(|&dim| first[dim as usize]).collect()
}

/// The shape of a transpose whose layout makes it a bitcast.
///
/// Source: `ShapeUtil::PermuteDimensions` (xla/shape_util.cc).
pub(crate) fn permute_shape(array: &ArrayShape, permutation: &[i64]) -> ArrayShape {
    let back = inverse(permutation);
    let mut result = ArrayShape::new(array.element_type, permute(&array.dims, permutation));
    let minor_to_major = array.minor_to_major().iter().map(|&dim| back[dim as usize]).collect();
    let suffix = array.layout.as_ref().map(|layout| layout.suffix.clone()).unwrap_or_default();
    result.layout = Some(Layout { minor_to_major, suffix });
    for (position, &dim) in permutation.iter().enumerate() {
        result.dynamic |= (array.dynamic >> dim & 1) << position;
    }
    result
}

/// The row-major shape without some dimensions.
pub(crate) fn delete_dims(array: &ArrayShape, gone: &[i64]) -> ArrayShape {
    let kept = (0..array.rank() as i64).filter(|dim| !gone.contains(dim)).map(|dim| array.dims[dim as usize]);
    ArrayShape::new(array.element_type, kept)
}

/// The row-major shape without dimensions of size 1.
pub(crate) fn drop_ones(array: &ArrayShape) -> ArrayShape {
    ArrayShape::new(array.element_type, array.dims.iter().copied().filter(|&dim| dim != 1))
}

/// Number of dimensions that are not of size 1.
pub(crate) fn true_rank(array: &ArrayShape) -> usize {
    array.dims.iter().filter(|&&dim| dim != 1).count()
}

/// Product that stops at the largest number instead of overflowing.
fn product(sizes: &[i64]) -> i128 {
    sizes.iter().fold(1_i128, |product, &size| product.saturating_mul(i128::from(size)))
}

/// Positions (in `a`, in `b`) at which both lists of sizes have the same running product, from (0, 0) to both ends.
///
/// Source: `CommonFactors` (xla/util.cc).
pub(crate) fn common_factors(a: &[i64], b: &[i64]) -> Vec<(usize, usize)> {
    if a == b {
        return (0..=a.len()).map(|position| (position, position)).collect();
    }
    let mut bounds = Vec::new();
    let same = a.iter().zip(b).take_while(|(x, y)| x == y).count();
    bounds.extend((0..same).map(|position| (position, position)));
    let (rest_a, rest_b) = (product(&a[same..]), product(&b[same..]));
    if rest_a != rest_b {
        return vec![(0, 0), (a.len(), b.len())];
    }
    if rest_a == 0 {
        bounds.extend([(same, same), (a.len(), b.len())]);
        return bounds;
    }
    let (mut i, mut j) = (same, same);
    let mut last = same.checked_sub(1).map(|position| (position, position));
    let (mut size_a, mut size_b) = (1_i128, 1_i128);
    loop {
        if size_a == size_b && last.is_none_or(|(p, q)| i > p || j > q) {
            last = Some((i, j));
            bounds.push((i, j));
            continue;
        }
        let (more_a, more_b) = (i < a.len(), j < b.len());
        if !more_a && !more_b {
            return bounds;
        }
        let equal = size_a == size_b;
        let next_a = size_a < size_b || (more_a && (!more_b || (equal && a[i] <= b[j])));
        let next_b = size_b < size_a || (more_b && (!more_a || (equal && b[j] <= a[i])));
        if next_a {
            size_a *= i128::from(a[i]);
            i += 1;
        }
        if next_b {
            size_b *= i128::from(b[j]);
            j += 1;
        }
    }
}

/// Pairs (input dimension, output dimension) that a reshape leaves alone.
///
/// Source: `ShapeUtil::DimensionsUnmodifiedByReshape`.
pub(crate) fn unmodified_by_reshape(from: &[i64], to: &[i64]) -> Vec<(i64, i64)> {
    let bounds = common_factors(from, to);
    bounds
        .windows(2)
        .filter(|pair| pair[1].0 == pair[0].0 + 1 && pair[1].1 == pair[0].1 + 1)
        .map(|pair| (pair[0].0 as i64, pair[0].1 as i64))
        .collect()
}

/// Where the (sorted) input dimensions end up if the reshape leaves all of them alone.
///
/// Source: `ShapeUtil::ReshapeLeavesDimensionsUnmodified`.
pub(crate) fn leaves_unmodified(from: &[i64], to: &[i64], dims: &[i64]) -> Option<Dims> {
    if !dims.is_sorted() {
        return None;
    }
    let kept = unmodified_by_reshape(from, to);
    dims.iter().map(|&dim| kept.iter().find(|pair| pair.0 == dim).map(|pair| pair.1)).collect()
}

/// What a reshape that only adds and removes dimensions of size 1 does.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(crate) struct OnesMoved {
    /// Input dimensions of size 1 that are gone.
    pub(crate) deleted: Dims,
    /// Output dimensions of size 1 that are new.
    pub(crate) inserted: Dims,
}

/// The dimensions of size 1 that a reshape adds and removes; `None` if it does more than that.
///
/// Source: `ShapeUtil::InsertedOrDeleted1SizedDimensions`.
pub(crate) fn ones_moved(from: &[i64], to: &[i64]) -> Option<OnesMoved> {
    let mut moved = OnesMoved::default();
    let mut last = (-1, -1);
    let end = (from.len() as i64, to.len() as i64);
    for pair in unmodified_by_reshape(from, to).into_iter().chain([end]) {
        moved.deleted.extend(last.0 + 1..pair.0);
        moved.inserted.extend(last.1 + 1..pair.1);
        last = pair;
    }
    let ones = |dims: &Dims, sizes: &[i64]| dims.iter().all(|&dim| sizes[dim as usize] <= 1);
    (ones(&moved.deleted, from) && ones(&moved.inserted, to)).then_some(moved)
}

/// Whether a transpose leaves every byte where it is.
///
/// Source: `ShapeUtil::TransposeIsBitcast`.
pub(crate) fn transpose_is_bitcast(operand: &ArrayShape, result: &ArrayShape, permutation: &[i64]) -> bool {
    if operand.elements() == Some(1) {
        return true;
    }
    let back = inverse(permutation);
    let moved: Dims = operand.minor_to_major().iter().map(|&dim| back[dim as usize]).collect();
    moved == result.minor_to_major()
}

/// Whether a reshape leaves every byte where it is: dimensions larger than 1 follow each other in the same order and groups.
///
/// Source: `ShapeUtil::ReshapeIsBitcast`.
pub(crate) fn reshape_is_bitcast(from: &ArrayShape, to: &ArrayShape) -> bool {
    if from.elements() == Some(0) {
        return true;
    }
    align_layouts(from, &to.dims).is_some_and(|layout| equal_but_ones(to, &layout))
}

/// Whether the layout of `array` is `minor_to_major` when dimensions of size 1 are ignored.
fn equal_but_ones(array: &ArrayShape, minor_to_major: &[i64]) -> bool {
    let real = |dims: &[i64]| -> Dims { dims.iter().copied().filter(|&dim| array.dims[dim as usize] != 1).collect() };
    real(&array.minor_to_major()) == real(minor_to_major)
}

/// The layout (minor to major) of an array of sizes `to` that has the same bytes in the same order as `from`; `None` if there is none.
///
/// Source: `ShapeUtil::AlignLayouts`.
pub(crate) fn align_layouts(from: &ArrayShape, to: &[i64]) -> Option<Dims> {
    let real_from: Vec<usize> = (0..from.rank()).filter(|&dim| from.dims[dim] != 1).collect();
    let sizes_from: Vec<i64> = real_from.iter().map(|&dim| from.dims[dim]).collect();
    let real_to: Vec<usize> = (0..to.len()).filter(|&dim| to[dim] != 1).collect();
    let sizes_to: Vec<i64> = real_to.iter().map(|&dim| to[dim]).collect();
    let bounds = common_factors(&sizes_from, &sizes_to);
    let order: Vec<usize> = from.minor_to_major().iter().map(|&dim| dim as usize).collect();
    let position = |dim: usize| order.iter().position(|&other| other == dim).unwrap_or(0);
    let mut groups = Vec::new();
    for pair in bounds.windows(2) {
        let inside = &real_from[pair[0].0..pair[1].0];
        // The dimensions of a group must be adjacent in memory, in row-major order.
        let rest: Vec<usize> = order.iter().copied().filter(|dim| from.dims[*dim] != 1).collect();
        let places: Vec<usize> = inside.iter().filter_map(|dim| rest.iter().position(|other| other == dim)).collect();
        if places.windows(2).any(|two| two[0] != two[1] + 1) {
            return None;
        }
        let minor = inside.iter().map(|&dim| position(dim)).min().unwrap_or(usize::MAX);
        groups.push((minor, &real_to[pair[0].1..pair[1].1]));
    }
    groups.sort_by_key(|&(minor, _)| minor);
    let mut layout: Dims = groups.iter().flat_map(|(_, dims)| dims.iter().rev().map(|&dim| dim as i64)).collect();
    // Dimensions of size 1 go to the major end, the last one first.
    layout.extend((0..to.len() as i64).rev().filter(|&dim| to[dim as usize] == 1));
    Some(layout)
}

#[cfg(test)]
mod tests {
    use hlo_ir::ElementType;

    use super::*;

    #[test]
    fn common_factors_split_where_products_meet() {
        assert_eq!(common_factors(&[2, 3, 4], &[6, 4]), [(0, 0), (2, 1), (3, 2)]);
        assert_eq!(common_factors(&[8, 1], &[8, 1, 1]), [(0, 0), (1, 1), (2, 2), (2, 3)]);
        assert_eq!(common_factors(&[0, 2], &[0, 5]), [(0, 0), (2, 2)]);
    }

    #[test]
    fn reshape_that_only_adds_ones_is_recognised() {
        assert_eq!(unmodified_by_reshape(&[8, 1], &[8, 1, 1]), [(0, 0), (1, 1)]);
        let moved = ones_moved(&[8, 3], &[8, 1, 3]).unwrap();
        assert_eq!((moved.deleted.len(), moved.inserted.as_slice()), (0, &[1_i64][..]));
        assert_eq!(ones_moved(&[8, 3], &[24]), None);
        assert_eq!(leaves_unmodified(&[4, 6, 5], &[4, 2, 3, 5], &[0, 2]).as_deref(), Some(&[0, 3][..]));
        assert_eq!(leaves_unmodified(&[4, 6, 5], &[4, 2, 3, 5], &[1]), None);
    }

    #[test]
    fn bitcasts_are_told_from_copies() {
        let array = |dims: &[i64], layout: &[i64]| ArrayShape {
            layout: Some(Layout { minor_to_major: layout.iter().copied().collect(), suffix: "".into() }),
            ..ArrayShape::new(ElementType::F32, dims.iter().copied())
        };
        assert!(reshape_is_bitcast(&array(&[2, 3, 4], &[2, 1, 0]), &array(&[6, 4], &[1, 0])));
        assert!(!reshape_is_bitcast(&array(&[2, 3, 4], &[2, 0, 1]), &array(&[6, 4], &[1, 0])));
        assert!(transpose_is_bitcast(&array(&[2, 3], &[1, 0]), &array(&[3, 2], &[0, 1]), &[1, 0]));
        assert!(!transpose_is_bitcast(&array(&[2, 3], &[1, 0]), &array(&[3, 2], &[1, 0]), &[1, 0]));
        let moved = permute_shape(&array(&[2, 3, 4], &[2, 1, 0]), &[1, 2, 0]);
        assert_eq!((moved.dims.as_slice(), moved.minor_to_major().as_slice()), (&[3, 4, 2][..], &[1, 0, 2][..]));
    }
}
