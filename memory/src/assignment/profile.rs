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

/// Sorted lists of ranges that a question reads.
type Lists<'a> = SmallVec<[&'a [Addresses]; 48]>;

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
    loose: Vec<Addresses>,
}

impl Profile {
    /// An empty heap over events `0..events`.
    pub(crate) fn new(events: u32) -> Self {
        let leaves = events.div_ceil(LEAF).max(1).next_power_of_two();
        Self {
            nodes: vec![Node::default(); 2 * leaves as usize],
            partial: vec![Vec::new(); leaves as usize],
            leaves,
            loose: Vec::new(),
        }
    }
    /// The offset of the smallest gap that is free during all of `spans` and holds `size` bytes; the lowest of equally small ones.
    pub(crate) fn best_fit(&mut self, spans: &[Span], size: u64) -> u64 {
        let mut loose = std::mem::take(&mut self.loose);
        loose.clear();
        let mut lists = Lists::new();
        for &span in spans {
            self.collect(span, &mut lists, &mut loose);
        }
        merge(&mut loose);
        lists.push(&loose);
        let offset = smallest_gap(lists, size);
        self.loose = loose;
        offset
    }
    /// The addresses taken at any event of `span`: sorted lists of nodes, and loose ranges of leaves that lie half inside.
    fn collect<'a>(&'a self, span: Span, lists: &mut Lists<'a>, loose: &mut Vec<Addresses>) {
        visit(self.leaves, span, |node, inside| {
            let here = &self.nodes[node];
            lists.push(if inside { &here.anywhere.0 } else { &here.throughout.0 });
            if let Some(partial) = node.checked_sub(self.leaves as usize).filter(|_| !inside) {
                let meets = |other: &Span| other.start <= span.end && span.start <= other.end;
                loose.extend(self.partial[partial].iter().filter(|(other, _)| meets(other)).map(|&(_, range)| range));
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

/// The start of the smallest gap that no range of any list meets and that holds `size`; the end of them all if there is none. Each list is
/// sorted. The walk leaps over whatever ends below the address it has come to, so that a list costs little where another covers it.
fn smallest_gap(mut lists: Lists<'_>, size: u64) -> u64 {
    // All addresses are aligned, so no gap that holds `size` is smaller than this.
    let tight = size.div_ceil(ALIGNMENT).saturating_mul(ALIGNMENT);
    let (mut best, mut free) = (None, 0);
    loop {
        let (before, mut next) = (free, None);
        lists.retain(|list| {
            *list = behind(list, free);
            while let Some((&(start, end), rest)) = list.split_first() {
                if start > free {
                    next = Some(next.map_or(start, |next: u64| next.min(start)));
                    break;
                }
                free = free.max(end);
                *list = rest;
            }
            !list.is_empty()
        });
        // A list looked at early may reach further now that another one has moved on.
        if free > before && !lists.is_empty() {
            continue;
        }
        let Some(start) = next else { break };
        let gap = start - free;
        if gap >= size && best.is_none_or(|(smallest, _)| gap < smallest) {
            best = Some((gap, free));
            if gap == tight {
                break;
            }
        }
        free = start;
    }
    best.map_or(free, |(_, offset)| offset)
}

/// Sorts ranges and joins those that meet, so that their ends rise too.
fn merge(ranges: &mut Vec<Addresses>) {
    ranges.sort_unstable();
    ranges.dedup_by(|next, kept| {
        let meets = next.0 <= kept.1;
        if meets {
            kept.1 = kept.1.max(next.1);
        }
        meets
    });
}

/// The part of a sorted list that does not end at or below `address`.
fn behind(list: &[Addresses], address: u64) -> &[Addresses] {
    // Mostly nothing or a few entries are passed over: try growing steps before a binary search.
    let mut step = 1;
    while step <= list.len() && list[step - 1].1 <= address {
        step *= 2;
    }
    let from = step / 2;
    let to = step.min(list.len());
    let passed = from + list[from..to].partition_point(|&(_, end)| end <= address);
    &list[passed..]
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Every group that meets the spans, one by one, without the tree and without leaps.
    fn slow_fit(placed: &[(Span, Addresses)], spans: &[Span], size: u64) -> u64 {
        let meets = |a: &Span, b: &Span| a.start <= b.end && b.start <= a.end;
        let alive = placed.iter().filter(|(other, _)| spans.iter().any(|span| meets(span, other)));
        let mut taken: Vec<Addresses> = alive.map(|&(_, range)| range).collect();
        taken.sort_unstable();
        let (mut best, mut free) = (None, 0);
        for (start, end) in taken {
            if start > free && start - free >= size && best.is_none_or(|(smallest, _)| start - free < smallest) {
                best = Some((start - free, free));
            }
            free = free.max(end);
        }
        best.map_or(free, |(_, offset)| offset)
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
        let gap = |lists: &[&[Addresses]], size| smallest_gap(lists.iter().copied().collect(), size);
        assert_eq!(gap(&[&[(0, 64), (192, 256), (320, 384), (448, 512)]], 64), 256);
        assert_eq!(gap(&[&[(0, 64)], &[(192, 256)]], 65), 64);
        assert_eq!(gap(&[&[(192, 256)], &[], &[(0, 64)]], 129), 256);
        assert_eq!(gap(&[&[(128, 192)], &[(0, 64), (192, 256)], &[(64, 128)]], 1), 256);
        assert_eq!(gap(&[], 1), 0);
    }

    #[test]
    fn what_lies_behind_an_address() {
        let list: Vec<Addresses> = (0..20).map(|k| (k * 128, k * 128 + 64)).collect();
        for address in 0..2700 {
            let expected: Vec<Addresses> = list.iter().copied().filter(|&(_, end)| end > address).collect();
            assert_eq!(behind(&list, address), expected);
        }
    }
}
