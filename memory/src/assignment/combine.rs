//! Last stage: all temporary blocks become one.
//!
//! Source: `BufferAssignment::CombineTempAllocations` (xla/service/buffer_assignment.cc).

// Tests: `memory/tests/rules.rs`.

use super::allocation::{Block, Kind, Slice};
use super::packing::ALIGNMENT;

/// Moves temporaries to the end the way XLA's partition does and merges them. Only the last one is not rounded up, so the order counts.
pub(crate) fn combine(mut blocks: Vec<Block>) -> Vec<Block> {
    let temporaries = partition(&mut blocks);
    let tail = blocks.split_off(temporaries);
    let Some(merged) = merge(tail) else { return blocks };
    blocks.push(merged);
    blocks
}

/// Swaps temporaries from the left with others from the right; returns where the temporaries begin.
fn partition(blocks: &mut [Block]) -> usize {
    let (mut left, mut right) = (0, blocks.len());
    loop {
        while left < right && !blocks[left].is_temporary() {
            left += 1;
        }
        while left < right && blocks[right - 1].is_temporary() {
            right -= 1;
        }
        if left >= right {
            return left;
        }
        blocks.swap(left, right - 1);
    }
}

/// Each block begins at the next aligned address behind the one before.
fn merge(blocks: Vec<Block>) -> Option<Block> {
    let mut blocks = blocks.into_iter();
    let mut merged = blocks.next()?;
    merged.kind = Kind::Plain;
    for block in blocks {
        let base = merged.size.div_ceil(ALIGNMENT).saturating_mul(ALIGNMENT);
        merged.size = base.saturating_add(block.size);
        let moved = |slice: Slice| Slice { offset: base.saturating_add(slice.offset), ..slice };
        merged.slices.extend(block.slices.into_iter().map(moved));
    }
    Some(merged)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::assignment::values::ValueId;

    /// A block whose size names it; temporaries have odd sizes.
    fn block(size: u64) -> Block {
        let mut block = Block::new(size, if size % 2 == 1 { Kind::Plain } else { Kind::Constant });
        block.slices.push(Slice { value: ValueId(size as u32), offset: 0, size });
        block
    }

    #[test]
    fn temporaries_go_to_the_end_in_the_order_of_the_swaps() {
        let combined = combine([2, 3, 4, 5, 6, 8, 7].map(block).into());
        // 3 changes places with 8, then 5 with 6: the tail is 5, 3, 7.
        let sizes: Vec<u64> = combined.iter().map(|block| block.size).collect();
        assert_eq!(sizes, [2, 8, 4, 6, 64 + 64 + 7]);
        let offsets: Vec<(u32, u64)> = combined[4].slices.iter().map(|s| (s.value.0, s.offset)).collect();
        assert_eq!(offsets, [(5, 0), (3, 64), (7, 128)]);
    }

    #[test]
    fn without_temporaries_nothing_changes() {
        assert_eq!(combine([2, 4].map(block).into()), [2, 4].map(block));
        assert!(combine(Vec::new()).is_empty());
    }
}
