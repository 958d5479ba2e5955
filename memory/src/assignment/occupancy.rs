//! The times at which a block is in use: ranges that at most touch, sorted.

use std::collections::BTreeSet;

use super::ranges::{Range, Time};
use super::values::ValueId;

/// Ranges of the values stored in one block. No two overlap in more than a hand-over point, so both ends rise together. A tree, because the
/// block of a chain that is written over again and again holds as many as the chain is long, and they come in no order.
#[derive(Clone, Debug, Default)]
pub(crate) struct Occupancy {
    ranges: BTreeSet<(Time, Time, ValueId)>,
}

impl Occupancy {
    /// Adds a range that overlaps none of the others but in a hand-over point.
    pub(crate) fn insert(&mut self, value: ValueId, range: Range) {
        self.ranges.insert((range.start, range.end, value));
    }
    /// The values whose ranges meet a range, with their ranges.
    pub(crate) fn meeting(&self, range: Range) -> impl Iterator<Item = (ValueId, Time, Time)> + '_ {
        let until = (range.end, Time::MAX, ValueId(u32::MAX));
        let meets = self.ranges.range(..=until).rev().take_while(move |&&(_, end, _)| end >= range.start);
        meets.map(|&(start, end, value)| (value, start, end))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::assignment::shape_positions::ShapePosition;

    #[test]
    fn meets_ranges_that_touch_and_no_others() {
        let range = |start, end| Range { start, end, end_place: ShapePosition(0) };
        let mut block = Occupancy::default();
        for (value, start, end) in [(1, 0, 3), (3, 8, 9), (2, 3, 5), (4, 5, 5)] {
            block.insert(ValueId(value), range(start, end));
        }
        let meeting = |start, end| block.meeting(range(start, end)).map(|(value, _, _)| value.0).collect::<Vec<_>>();
        assert_eq!(meeting(5, 7), [4, 2]);
        assert_eq!(meeting(6, 7), []);
        assert_eq!(meeting(0, 20), [3, 4, 2, 1]);
        assert_eq!(meeting(3, 3), [2, 1]);
    }
}
