//! How many bytes are alive at each position of the flattened schedule, and which values they are at the peak.
//!
//! Values that share memory count once. Constants and the entry parameters that no output reuses are there for the whole run.

// Tests: `memory/tests/rules.rs`.

use super::allocation::{Block, Kind};
use super::ranges::{Ranges, Time};
use super::values::ValueId;

/// One value in one piece of memory.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
struct Stay {
    offset: u64,
    start: Time,
    end: Time,
    value: ValueId,
    size: u64,
}

/// A value that is alive at some position.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Alive {
    /// The value.
    pub(crate) value: ValueId,
    /// Bytes of its memory.
    pub(crate) size: u64,
    /// Position of its block among all blocks.
    pub(crate) block: usize,
    /// First and last position at which it is there.
    pub(crate) stay: (Time, Time),
}

/// Bytes alive at every position.
#[derive(Clone, Debug)]
pub(crate) struct Timeline {
    /// Bytes by position; sums beyond 2^64 read as the largest number.
    pub(crate) bytes: Vec<u64>,
    stays: Vec<Vec<Stay>>,
}

impl Timeline {
    /// The timeline of `length` positions.
    pub(crate) fn of(blocks: &[Block], ranges: &Ranges, length: Time) -> Self {
        let stays: Vec<Vec<Stay>> = blocks.iter().map(|block| stays(block, ranges, length)).collect();
        // Differences wrap around zero; their running sum is right again.
        let mut change = vec![0_u128; length as usize + 2];
        for stay in stays.iter().flatten() {
            change[stay.start as usize] = change[stay.start as usize].wrapping_add(stay.size.into());
            change[stay.end as usize + 1] = change[stay.end as usize + 1].wrapping_sub(stay.size.into());
        }
        for stays in &stays {
            hand_overs(stays, |time, excess| {
                change[time as usize] = change[time as usize].wrapping_sub(excess);
                change[time as usize + 1] = change[time as usize + 1].wrapping_add(excess);
            });
        }
        let mut alive = 0_u128;
        let sum = |change: &u128| {
            alive = alive.wrapping_add(*change);
            u64::try_from(alive).unwrap_or(u64::MAX)
        };
        Self { bytes: change[..length as usize].iter().map(sum).collect(), stays }
    }
    /// The first position at which most bytes are alive.
    pub(crate) fn peak(&self) -> Option<(Time, u64)> {
        let most = *self.bytes.iter().max()?;
        self.bytes.iter().position(|&bytes| bytes == most).map(|time| (time as Time, most))
    }
    /// The values alive at a position; at a hand-over the one that takes over. Largest first.
    pub(crate) fn alive_at(&self, time: Time) -> Vec<Alive> {
        let mut alive = Vec::new();
        for (block, stays) in self.stays.iter().enumerate() {
            let mut last = None;
            for stay in stays.iter().filter(|stay| stay.start <= time && time <= stay.end) {
                if last.replace(stay.offset) == Some(stay.offset) {
                    alive.pop();
                }
                alive.push(Alive { value: stay.value, size: stay.size, block, stay: (stay.start, stay.end) });
            }
        }
        alive.sort_by_key(|alive| (std::cmp::Reverse(alive.size), alive.value));
        alive
    }
}

/// The values of a block in the order of offset and time.
fn stays(block: &Block, ranges: &Ranges, length: Time) -> Vec<Stay> {
    let last = length.saturating_sub(1);
    let stay = |slice: &super::allocation::Slice| {
        let range = ranges.get(slice.value)?;
        let (start, end) = match block.kind {
            Kind::Constant => (0, last),
            _ => (range.start.min(last), range.end.min(last)),
        };
        Some(Stay { offset: slice.offset, start, end, value: slice.value, size: slice.size })
    };
    // Empty values stand at offset 0 at any time and would look like hand-overs.
    let mut stays: Vec<Stay> = block.slices.iter().filter(|slice| slice.size > 0).filter_map(stay).collect();
    stays.sort_unstable();
    stays
}

/// Calls `at` with every position at which several values stand at one offset, and how many bytes too many that is.
fn hand_overs(stays: &[Stay], mut at: impl FnMut(Time, u128)) {
    let mut next = 0;
    while next + 1 < stays.len() {
        let (offset, time) = (stays[next].offset, stays[next].end);
        let meets = |stay: &&Stay| stay.offset == offset && stay.start <= time;
        let meeting = 1 + stays[next + 1..].iter().take_while(meets).count();
        if meeting > 1 {
            let sizes = stays[next..next + meeting].iter().map(|stay| u128::from(stay.size));
            let most = sizes.clone().max().unwrap_or(0);
            at(time, sizes.sum::<u128>() - most);
        }
        // The last one of the meeting may meet others later on.
        next += (meeting - 1).max(1);
    }
}
