//! The blocks that may take in more buffers, and a quick way to pass over those that have no room.
//!
//! XLA tries every such block for every temporary. A module with thousands of donated parameters has thousands of them, nearly all busy
//! for the whole run; the answers here are the same, found without asking each block.

use super::ranges::{Range, Time};

/// Blocks summed up by one mask.
const CHUNK: usize = 64;

/// Blocks in the order of their creation, with the pieces of the run that each is busy in from end to end.
#[derive(Clone, Debug, Default)]
pub(crate) struct Reusable {
    blocks: Vec<u32>,
    busy: Vec<u64>,
    /// By chunk: the pieces in which all its blocks are busy.
    all_busy: Vec<u64>,
}

impl Reusable {
    /// Adds a block that is busy in these pieces.
    pub(crate) fn push(&mut self, block: u32, busy: u64) {
        self.blocks.push(block);
        self.busy.push(busy);
        match self.all_busy.get_mut((self.busy.len() - 1) / CHUNK) {
            Some(all) => *all &= busy,
            None => self.all_busy.push(busy),
        }
    }
    /// Numbers of the blocks that are not known to be busy in one of the pieces `wanted`, last to first.
    pub(crate) fn candidates(&self, wanted: u64) -> impl Iterator<Item = usize> + '_ {
        let chunks = (0..self.all_busy.len()).rev().filter(move |&chunk| self.all_busy[chunk] & wanted == 0);
        chunks
            .flat_map(|chunk| (chunk * CHUNK..((chunk + 1) * CHUNK).min(self.busy.len())).rev())
            .filter(move |&number| self.busy[number] & wanted == 0)
    }
    /// The block of a number.
    pub(crate) fn block(&self, number: usize) -> u32 {
        self.blocks[number]
    }
    /// Notes that a block became busy in more pieces.
    pub(crate) fn fill(&mut self, number: usize, pieces: u64) {
        self.busy[number] |= pieces;
        let chunk = number / CHUNK;
        let members = &self.busy[chunk * CHUNK..((chunk + 1) * CHUNK).min(self.busy.len())];
        self.all_busy[chunk] = members.iter().fold(u64::MAX, |all, busy| all & busy);
    }
}

/// The run cut into at most 64 equal pieces, as bits: a quick way to see that a range has no room in a block.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Pieces {
    shift: u32,
}

impl Pieces {
    /// Pieces of a run whose last position is `last`.
    pub(crate) fn of(last: Time) -> Self {
        Self { shift: (Time::BITS - last.leading_zeros()).saturating_sub(6) }
    }
    /// The pieces a range fills from end to end.
    pub(crate) fn filled(self, range: Range) -> u64 {
        let width = 1_u64 << self.shift;
        let first = u64::from(range.start).div_ceil(width);
        bits(first, (u64::from(range.end) + 1) / width)
    }
    /// The pieces of which a range needs a position that it cannot have by a hand-over: if one range of a block fills such a piece, the
    /// block has no room. A hand-over is possible at the range's first position if that is the last of its piece, and at its last
    /// position if that is the first of its piece.
    pub(crate) fn needed(self, range: Range) -> u64 {
        let width = 1_u64 << self.shift;
        let (start, end) = (u64::from(range.start), u64::from(range.end));
        let first = if (start + 1).is_multiple_of(width) { start + 1 } else { start };
        let behind = if end.is_multiple_of(width) { end } else { end + 1 };
        if first < behind { bits(first >> self.shift, ((behind - 1) >> self.shift) + 1) } else { 0 }
    }
}

/// The bits `from..to`.
fn bits(from: u64, to: u64) -> u64 {
    let below = |end: u64| if end >= 64 { u64::MAX } else { (1 << end) - 1 };
    if from < to { below(to) & !below(from) } else { 0 }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::assignment::shape_positions::ShapePosition;

    #[test]
    fn ranges_fill_whole_pieces_and_need_what_no_hand_over_gives() {
        let range = |start, end| Range { start, end, end_place: ShapePosition(0) };
        let pieces = Pieces::of(255);
        assert_eq!(pieces.filled(range(0, 7)), 0b11);
        assert_eq!(pieces.filled(range(1, 7)), 0b10);
        assert_eq!(pieces.filled(range(1, 6)), 0);
        assert_eq!(pieces.filled(range(0, 255)), u64::MAX);
        assert_eq!(pieces.needed(range(3, 8)), 0b10);
        assert_eq!(pieces.needed(range(2, 9)), 0b111);
        assert_eq!(pieces.needed(range(3, 4)), 0);
        assert_eq!(pieces.needed(range(4, 5)), 0b10);
        assert_eq!([0, 1, 3].map(|at| pieces.needed(range(at, at))), [0, 1, 0]);
        assert_eq!(Pieces::of(64).filled(range(0, 64)), (1 << 32) - 1);
    }

    #[test]
    fn candidates_are_all_that_are_not_busy() {
        let mut reusable = Reusable::default();
        for k in 0..200_u32 {
            reusable.push(k, if k % 70 == 3 { 0b01 } else { 0b11 });
        }
        let free = |reusable: &Reusable, wanted| {
            reusable.candidates(wanted).map(|number| reusable.block(number)).collect::<Vec<_>>()
        };
        assert_eq!(free(&reusable, 0b10), [143, 73, 3]);
        assert!(free(&reusable, 0b01).is_empty());
        reusable.fill(73, 0b10);
        assert_eq!(free(&reusable, 0b10), [143, 3]);
        assert_eq!(free(&reusable, 0).len(), 200);
    }

    /// Two ranges conflict unless they are apart or the end of one is the start of the other.
    fn conflict(a: Range, b: Range) -> bool {
        a.start <= b.end && b.start <= a.end && a.end != b.start && b.end != a.start
    }

    #[test]
    fn a_filled_piece_that_is_needed_is_always_a_conflict() {
        let range = |start, end| Range { start, end, end_place: ShapePosition(0) };
        for last in [5, 63, 64, 200, 255, 256] {
            let pieces = Pieces::of(last);
            let positions = || (0..=last).step_by(1 + last as usize / 70);
            let mut seen = 0;
            for a in positions().flat_map(|s| positions().filter(move |&e| e >= s).map(move |e| range(s, e))) {
                for b in positions().flat_map(|s| [0, 1, 2, 3, 7, 40].map(|l| range(s, (s + l).min(last)))) {
                    if pieces.filled(a) & pieces.needed(b) != 0 {
                        assert!(conflict(a, b), "{a:?} {b:?} in a run up to {last}");
                        seen += 1;
                    }
                }
            }
            assert!(seen > 0 || last < 64, "nothing was ever ruled out in a run up to {last}");
        }
    }
}
