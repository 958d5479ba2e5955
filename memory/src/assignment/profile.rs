//! Which addresses of the heap are taken when: a segment tree over events whose nodes hold sets of address ranges.
//!
//! A node keeps the ranges of groups that are alive throughout it, and the ranges of groups alive anywhere in it. A question about a span
//! of events then reads few nodes, and neighbouring ranges melt into one, so its cost does not grow with the number of groups alive.
//!
//! Source of the rule: `GlobalDecreasingSizeBestFitHeap::FindChunkCandidate` (xla/service/heap_simulator/heap_simulator.cc).

use super::packing::{ALIGNMENT, Span};

/// Disjoint ranges of addresses, sorted; neighbours do not touch. Unit: bytes, multiples of the alignment.
#[derive(Clone, Debug, Default)]
struct Taken(Vec<(u64, u64)>);

impl Taken {
    fn add(&mut self, mut from: u64, mut to: u64) {
        let first = self.0.partition_point(|&(_, end)| end < from);
        let last = first + self.0[first..].partition_point(|&(start, _)| start <= to);
        if first < last {
            from = from.min(self.0[first].0);
            to = to.max(self.0[last - 1].1);
        }
        self.0.splice(first..last, [(from, to)]);
    }
}

#[derive(Clone, Debug, Default)]
struct Node {
    throughout: Taken,
    anywhere: Taken,
}

/// Taken addresses over time.
#[derive(Clone, Debug)]
pub(crate) struct Profile {
    nodes: Vec<Node>,
    leaves: u32,
    scratch: Vec<(u64, u64)>,
}

impl Profile {
    /// An empty heap over events `0..events`.
    pub(crate) fn new(events: u32) -> Self {
        let leaves = events.max(1).next_power_of_two();
        Self { nodes: vec![Node::default(); 2 * leaves as usize], leaves, scratch: Vec::new() }
    }
    /// The offset of the smallest gap that is free during all of `spans` and holds `size` bytes; the lowest of equally small ones.
    pub(crate) fn best_fit(&mut self, spans: &[Span], size: u64) -> u64 {
        let mut taken = std::mem::take(&mut self.scratch);
        taken.clear();
        for &span in spans {
            self.collect(span, &mut taken);
        }
        taken.sort_unstable();
        let offset = smallest_gap(&taken, size);
        self.scratch = taken;
        offset
    }
    /// Takes `size` bytes at `offset` during all of `spans`.
    pub(crate) fn insert(&mut self, spans: &[Span], offset: u64, size: u64) {
        let end = offset.saturating_add(size).div_ceil(ALIGNMENT).saturating_mul(ALIGNMENT);
        for &span in spans {
            self.visit(span, |node, inside| {
                node.anywhere.add(offset, end);
                if inside {
                    node.throughout.add(offset, end);
                }
            });
        }
    }
    fn collect(&mut self, span: Span, taken: &mut Vec<(u64, u64)>) {
        self.visit(span, |node, inside| {
            let ranges = if inside { &node.anywhere } else { &node.throughout };
            taken.extend_from_slice(&ranges.0);
        });
    }
    /// Calls `at` for every node that meets `span`, not going below nodes that lie inside it.
    fn visit(&mut self, span: Span, mut at: impl FnMut(&mut Node, bool)) {
        let mut stack = smallvec::SmallVec::<[(usize, u32, u32); 48]>::new();
        stack.push((1, 0, self.leaves - 1));
        while let Some((node, from, to)) = stack.pop() {
            if to < span.start || span.end < from {
                continue;
            }
            let inside = span.start <= from && to <= span.end;
            at(&mut self.nodes[node], inside);
            if !inside {
                let middle = from + (to - from) / 2;
                stack.push((2 * node, from, middle));
                stack.push((2 * node + 1, middle + 1, to));
            }
        }
    }
}

/// The start of the smallest gap between sorted ranges that holds `size`; behind them all if none does.
fn smallest_gap(taken: &[(u64, u64)], size: u64) -> u64 {
    let (mut best, mut free) = (None, 0);
    for &(start, end) in taken {
        if start > free {
            let gap = start - free;
            if gap >= size && best.is_none_or(|(smallest, _)| gap < smallest) {
                best = Some((gap, free));
            }
        }
        free = free.max(end);
    }
    best.map_or(free, |(_, offset)| offset)
}
