//! Last stage: all temporary blocks become one.
//!
//! Source: `BufferAssignment::CombineTempAllocations` (xla/service/buffer_assignment.cc).

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
