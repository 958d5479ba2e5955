//! Sets of integers as a few disjoint intervals.

use std::fmt;

use hlo_ir::ElementType;
use smallvec::SmallVec;

use crate::bounds;

/// A set of integers that holds every value an element can have, and perhaps more.
///
/// Intervals are closed, sorted, and neither touch nor overlap.
#[derive(Clone, PartialEq, Eq, Hash, Default)]
pub struct Range {
    pieces: SmallVec<[(i128, i128); 2]>,
}

impl Range {
    /// No value: the element is never computed.
    pub fn empty() -> Self {
        Self::default()
    }
    /// Nothing is known, not even a type.
    pub fn all() -> Self {
        Self::new(i128::MIN, i128::MAX)
    }
    /// From `low` to `high`, both included; empty if they cross.
    pub fn new(low: i128, high: i128) -> Self {
        if low > high { Self::empty() } else { Self { pieces: SmallVec::from_slice(&[(low, high)]) } }
    }
    /// One value.
    pub fn point(value: i128) -> Self {
        Self::new(value, value)
    }
    /// Every value of an integer type or `pred`; everything for other types.
    pub fn full(element_type: ElementType) -> Self {
        element_type.integer_range().map_or_else(Self::all, |(low, high)| Self::new(low, high))
    }
    /// The union of any intervals.
    pub fn from_pieces(pieces: impl IntoIterator<Item = (i128, i128)>) -> Self {
        let mut sorted: Vec<_> = pieces.into_iter().filter(|(low, high)| low <= high).collect();
        sorted.sort_unstable();
        let mut merged: SmallVec<[(i128, i128); 2]> = SmallVec::new();
        for (low, high) in sorted {
            match merged.last_mut() {
                Some(last) if low <= last.1.saturating_add(1) => last.1 = last.1.max(high),
                _ => merged.push((low, high)),
            }
        }
        Self { pieces: merge_closest(merged) }
    }
    /// The intervals in ascending order.
    pub fn pieces(&self) -> &[(i128, i128)] {
        &self.pieces
    }
    /// Whether no value is possible.
    pub fn is_empty(&self) -> bool {
        self.pieces.is_empty()
    }
    /// The smallest value.
    pub fn low(&self) -> Option<i128> {
        self.pieces.first().map(|piece| piece.0)
    }
    /// The largest value.
    pub fn high(&self) -> Option<i128> {
        self.pieces.last().map(|piece| piece.1)
    }
    /// Smallest and largest value.
    pub fn hull(&self) -> Option<(i128, i128)> {
        Some((self.low()?, self.high()?))
    }
    /// The value, if there is only one.
    pub fn as_point(&self) -> Option<i128> {
        self.hull().filter(|(low, high)| low == high).map(|(low, _)| low)
    }
    /// Whether `value` is possible.
    pub fn contains(&self, value: i128) -> bool {
        self.pieces.iter().any(|&(low, high)| (low..=high).contains(&value))
    }
    /// Values in either set.
    #[must_use]
    pub fn union(&self, other: &Self) -> Self {
        Self::from_pieces(self.pieces.iter().chain(&other.pieces).copied())
    }
    /// Values in both sets.
    #[must_use]
    pub fn intersect(&self, other: &Self) -> Self {
        let pairs = self.pieces.iter().flat_map(|a| other.pieces.iter().map(move |b| (a.0.max(b.0), a.1.min(b.1))));
        Self::from_pieces(pairs)
    }
    /// Whether every value of this set is in `other`.
    pub fn is_subset(&self, other: &Self) -> bool {
        let inside = |a: &(i128, i128)| other.pieces.iter().any(|b| b.0 <= a.0 && a.1 <= b.1);
        self.pieces.iter().all(inside)
    }
    /// Whether the sets share no value.
    pub fn is_disjoint(&self, other: &Self) -> bool {
        self.intersect(other).is_empty()
    }
    /// The union of what `image` makes of each interval.
    #[must_use]
    pub fn map(&self, image: impl Fn(i128, i128) -> Self) -> Self {
        Self::from_pieces(self.pieces.iter().flat_map(|&(low, high)| image(low, high).pieces))
    }
    /// The union of what `image` makes of each pair of intervals.
    #[must_use]
    pub fn map_pairs(&self, other: &Self, image: impl Fn((i128, i128), (i128, i128)) -> Self) -> Self {
        let pairs = self.pieces.iter().flat_map(|&a| other.pieces.iter().map(move |&b| (a, b)));
        Self::from_pieces(pairs.flat_map(|(a, b)| image(a, b).pieces))
    }
}

/// Fills the narrowest gaps until few enough intervals are left.
fn merge_closest(mut pieces: SmallVec<[(i128, i128); 2]>) -> SmallVec<[(i128, i128); 2]> {
    if pieces.len() <= bounds::PIECES {
        return pieces;
    }
    let gap = |pair: &[(i128, i128)]| pair[1].0.saturating_sub(pair[0].1);
    let mut gaps: Vec<i128> = pieces.windows(2).map(gap).collect();
    gaps.sort_unstable_by(|a, b| b.cmp(a));
    let widest = gaps[bounds::PIECES - 2];
    let mut kept: SmallVec<[(i128, i128); 2]> = SmallVec::new();
    for piece in pieces.drain(..) {
        let is_full = kept.len() == bounds::PIECES;
        match kept.last_mut() {
            Some(last) if is_full || piece.0.saturating_sub(last.1) < widest => last.1 = piece.1,
            _ => kept.push(piece),
        }
    }
    kept
}

impl fmt::Display for Range {
    /// `[0, 127]`, `-5`, `[0, 3] or 7`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.is_empty() {
            return f.write_str("nothing");
        }
        for (index, &(low, high)) in self.pieces.iter().enumerate() {
            f.write_str(if index > 0 { " or " } else { "" })?;
            if low == high { write!(f, "{low}")? } else { write!(f, "[{low}, {high}]")? }
        }
        Ok(())
    }
}

impl fmt::Debug for Range {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn intervals_merge_when_they_touch() {
        assert_eq!(Range::from_pieces([(5, 6), (0, 1), (2, 3)]).pieces(), [(0, 3), (5, 6)]);
        assert_eq!(Range::new(3, 2), Range::empty());
        assert_eq!(Range::from_pieces([(i128::MIN, -1), (0, i128::MAX)]), Range::all());
    }

    #[test]
    fn too_many_intervals_lose_the_narrowest_gaps_only() {
        let far = (1..bounds::PIECES as i128 - 1).map(|number| 100 * number);
        let points = [0, 2].into_iter().chain(far.clone()).chain([5000, 5003]);
        let merged = Range::from_pieces(points.map(|value| (value, value)));
        let expected: Vec<_> =
            [(0, 2)].into_iter().chain(far.map(|value| (value, value))).chain([(5000, 5003)]).collect();
        assert_eq!(merged.pieces(), expected);
        let even = Range::from_pieces((0..40).map(|value| (3 * value, 3 * value)));
        assert!(even.pieces().len() <= bounds::PIECES && (0..40).all(|value| even.contains(3 * value)), "{even}");
    }

    #[test]
    fn sets_behave_like_sets() {
        let (a, b) = (Range::from_pieces([(0, 3), (8, 9)]), Range::new(2, 8));
        assert_eq!(a.intersect(&b).pieces(), [(2, 3), (8, 8)]);
        assert_eq!(a.union(&b), Range::new(0, 9));
        assert!(a.is_subset(&Range::new(0, 9)) && !a.is_subset(&b));
        assert!(a.is_disjoint(&Range::new(4, 7)));
        assert_eq!(format!("{a} {}", Range::point(-5)), "[0, 3] or [8, 9] -5");
    }
}
