//! Which addresses of the heap are taken when: a segment tree over events whose nodes hold sets of address ranges.
//!
//! A node keeps the ranges of groups that are alive throughout it, and the ranges of groups alive anywhere in it. A question about a span
//! of events then reads few nodes, and neighbouring ranges melt into one, so its cost does not grow with the number of groups alive.
//! Leaves are wide and list what begins or ends in them, which keeps the tree small.
//!
//! Source of the rule: `GlobalDecreasingSizeBestFitHeap::FindChunkCandidate` (xla/service/heap_simulator/heap_simulator.cc).

use smallvec::SmallVec;

use super::packing::{ALIGNMENT, Span};

/// Events per leaf: about as many list entries are read at each end of a span as tree nodes in between.
const LEAF: u32 = 64;

/// A range of addresses: first byte, and one past the last, rounded up to the alignment.
type Addresses = (u64, u64);

/// Disjoint ranges of addresses, sorted; neighbours do not touch.
#[derive(Clone, Debug, Default)]
struct Taken(SmallVec<[Addresses; 2]>);

impl Taken {
    fn add(&mut self, (from, to): Addresses) {
        let ranges = &mut self.0;
        let first = ranges.partition_point(|&(_, end)| end < from);
        let Some(&(start, end)) = ranges.get(first).filter(|&&(start, _)| start <= to) else {
            ranges.insert(first, (from, to));
            return;
        };
        let joined = &ranges[first + 1..];
        let count = joined.iter().take_while(|&&(start, _)| start <= to).count();
        let end = end.max(to).max(joined[..count].last().map_or(0, |&(_, end)| end));
        ranges[first] = (start.min(from), end);
        if count > 0 {
            ranges.drain(first + 1..=first + count);
        }
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
    /// What begins or ends inside each leaf.
    partial: Vec<Vec<(Span, Addresses)>>,
    leaves: u32,
    scratch: Vec<Addresses>,
}

impl Profile {
    /// An empty heap over events `0..events`.
    pub(crate) fn new(events: u32) -> Self {
        let leaves = events.div_ceil(LEAF).max(1).next_power_of_two();
        Self {
            nodes: vec![Node::default(); 2 * leaves as usize],
            partial: vec![Vec::new(); leaves as usize],
            leaves,
            scratch: Vec::new(),
        }
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
    /// The addresses taken at any event of `span`; the same ones may come several times.
    fn collect(&self, span: Span, taken: &mut Vec<Addresses>) {
        visit(self.leaves, span, |node, inside| {
            let here = &self.nodes[node];
            let ranges = if inside { &here.anywhere } else { &here.throughout };
            taken.extend_from_slice(&ranges.0);
            if let Some(partial) = node.checked_sub(self.leaves as usize).filter(|_| !inside) {
                let meets = |other: &Span| other.start <= span.end && span.start <= other.end;
                taken.extend(self.partial[partial].iter().filter(|(other, _)| meets(other)).map(|&(_, range)| range));
            }
        });
    }
    /// Takes `size` bytes at `offset` during all of `spans`.
    pub(crate) fn insert(&mut self, spans: &[Span], offset: u64, size: u64) {
        let end = offset.saturating_add(size).div_ceil(ALIGNMENT).saturating_mul(ALIGNMENT);
        let range = (offset, end);
        for &span in spans {
            visit(self.leaves, span, |node, inside| {
                let here = &mut self.nodes[node];
                here.anywhere.add(range);
                if inside {
                    here.throughout.add(range);
                } else if let Some(partial) = node.checked_sub(self.leaves as usize) {
                    self.partial[partial].push((span, range));
                }
            });
        }
    }
}

/// Calls `at` for every node of a tree with `leaves` leaves that meets `span`, not going below nodes that lie inside it. Node `n` has the
/// children `2n` and `2n + 1`, the root is 1, leaf `k` is `leaves + k`.
fn visit(leaves: u32, span: Span, mut at: impl FnMut(usize, bool)) {
    let mut stack = SmallVec::<[(usize, u32, u32); 32]>::new();
    stack.push((1, 0, leaves * LEAF));
    while let Some((node, from, to)) = stack.pop() {
        if to <= span.start || span.end < from {
            continue;
        }
        let inside = span.start <= from && to <= span.end + 1;
        at(node, inside);
        if !inside && to - from > LEAF {
            let middle = from + (to - from) / 2;
            stack.push((2 * node, from, middle));
            stack.push((2 * node + 1, middle, to));
        }
    }
}

/// The start of the smallest gap between sorted ranges that holds `size`; behind them all if none does.
fn smallest_gap(taken: &[Addresses], size: u64) -> u64 {
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

#[cfg(test)]
mod tests {
    use super::*;

    /// Every group that meets the spans, one by one.
    fn slow_fit(placed: &[(Span, Addresses)], spans: &[Span], size: u64) -> u64 {
        let meets = |a: &Span, b: &Span| a.start <= b.end && b.start <= a.end;
        let alive = placed.iter().filter(|(other, _)| spans.iter().any(|span| meets(span, other)));
        let mut taken: Vec<Addresses> = alive.map(|&(_, range)| range).collect();
        taken.sort_unstable();
        smallest_gap(&taken, size)
    }

    #[test]
    fn the_tree_finds_what_a_full_search_finds() {
        let mut seed = 1_u64;
        let mut random = |below: u64| {
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (seed >> 33) % below
        };
        for events in [1, 50, 700, 5000] {
            let mut profile = Profile::new(events);
            let mut placed = Vec::new();
            for _ in 0..400 {
                let scale = 1 + random(12);
                let size = 1 + random(1 << scale);
                let mut spans = Vec::new();
                for _ in 0..=random(3) {
                    let (start, scale) = (random(events.into()) as u32, random(13));
                    let end = (start + random(1 << scale) as u32).min(events - 1);
                    spans.push(Span { start, end });
                }
                let offset = profile.best_fit(&spans, size);
                assert_eq!(offset, slow_fit(&placed, &spans, size));
                profile.insert(&spans, offset, size);
                let range = (offset, (offset + size).div_ceil(ALIGNMENT) * ALIGNMENT);
                placed.extend(spans.into_iter().map(|span| (span, range)));
            }
        }
    }

    #[test]
    fn the_smallest_gap_wins_then_the_lowest() {
        assert_eq!(smallest_gap(&[(0, 64), (192, 256), (320, 384), (448, 512)], 64), 256);
        assert_eq!(smallest_gap(&[(0, 64), (192, 256)], 65), 64);
        assert_eq!(smallest_gap(&[(0, 64), (192, 256)], 129), 256);
    }
}
