//! Offsets in the heap: groups of values are placed one after another, each into the smallest free gap that holds it.
//!
//! Source: `GlobalDecreasingSizeBestFitHeap` (spatial and temporal order) and `ChooseBestHeapAlgorithm`
//! (xla/service/heap_simulator/heap_simulator.cc).

use std::cmp::Reverse;

use smallvec::SmallVec;

use super::profile::Profile;

/// Alignment of every offset, in bytes: `cpu_function_runtime::MinAlign` (xla/cpu_function_runtime.h).
pub(crate) const ALIGNMENT: u64 = 64;

/// First and last event at which something is alive, both included.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) struct Span {
    /// First event.
    pub(crate) start: u32,
    /// Last event.
    pub(crate) end: u32,
}

/// Values that share memory.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Group {
    /// The value that got the memory first, by its number in the caller's list.
    pub(crate) first: u32,
    /// Id of that value: the last tie-breaker.
    pub(crate) id: u32,
    /// Bytes.
    pub(crate) size: u64,
    /// When that value is alive.
    pub(crate) own: Span,
    /// When any value of the group is alive: disjoint, sorted, not adjacent.
    pub(crate) spans: SmallVec<[Span; 1]>,
}

impl Group {
    /// A group from the spans of its values, the first value's among them.
    pub(crate) fn new(first: u32, id: u32, size: u64, own: Span, spans: impl Iterator<Item = Span>) -> Self {
        let mut sorted: SmallVec<[Span; 1]> = spans.collect();
        sorted.sort_unstable();
        let mut merged = SmallVec::<[Span; 1]>::new();
        for span in sorted {
            match merged.last_mut() {
                Some(last) if span.start <= last.end + 1 => last.end = last.end.max(span.end),
                _ => merged.push(span),
            }
        }
        Self { first, id, size, own, spans: merged }
    }
    fn last_event(&self) -> u32 {
        self.spans.last().map_or(self.own.end, |span| span.end)
    }
}

/// Where the groups stand.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Packing {
    /// Offset of each group.
    pub(crate) offsets: Vec<u64>,
    /// End of the highest group, not rounded up.
    pub(crate) size: u64,
}

/// Packs in both orders and keeps the smaller heap, the spatial one if they are equal.
pub(crate) fn pack(groups: &[Group]) -> Packing {
    let spatial = place_all(groups, &spatial_order(groups));
    if spatial.size <= lower_bound(groups) {
        return spatial;
    }
    let temporal = place_all(groups, &temporal_order(groups));
    if temporal.size < spatial.size { temporal } else { spatial }
}

/// Largest first, then longest.
fn spatial_order(groups: &[Group]) -> Vec<usize> {
    let mut order: Vec<usize> = (0..groups.len()).collect();
    order.sort_unstable_by_key(|&k| {
        let group = &groups[k];
        (Reverse(group.size), Reverse(group.own.end - group.own.start), group.id)
    });
    order
}

/// Longest first, up to the last event of any value that shares the memory; then largest.
fn temporal_order(groups: &[Group]) -> Vec<usize> {
    let mut order: Vec<usize> = (0..groups.len()).collect();
    order.sort_unstable_by_key(|&k| {
        let group = &groups[k];
        (Reverse(group.last_event() - group.own.start), Reverse(group.size), group.id)
    });
    order
}

fn place_all(groups: &[Group], order: &[usize]) -> Packing {
    let events = groups.iter().map(|group| group.last_event() + 1).max().unwrap_or(0);
    let mut profile = Profile::new(events);
    let mut packing = Packing { offsets: vec![0; groups.len()], size: 0 };
    for &k in order {
        let group = &groups[k];
        let offset = profile.best_fit(&group.spans, group.size);
        profile.insert(&group.spans, offset, group.size);
        packing.offsets[k] = offset;
        packing.size = packing.size.max(offset.saturating_add(group.size));
    }
    packing
}

/// No packing is smaller: at some event all groups alive there stand on top of each other, each at an aligned offset.
fn lower_bound(groups: &[Group]) -> u64 {
    let aligned = |size: u64| size.div_ceil(ALIGNMENT).saturating_mul(ALIGNMENT);
    let mut events: Vec<(u32, bool, u64)> = Vec::with_capacity(2 * groups.len());
    for group in groups {
        for span in &group.spans {
            events.push((span.start, true, aligned(group.size)));
            events.push((span.end, false, aligned(group.size)));
        }
    }
    events.sort_unstable_by_key(|&(time, starts, _)| (time, !starts));
    let (mut alive, mut most) = (0_u64, 0_u64);
    for (_, starts, size) in events {
        alive = if starts { alive.saturating_add(size) } else { alive.saturating_sub(size) };
        most = most.max(alive);
    }
    // The topmost group of a stack is not rounded up.
    let slack = groups.iter().map(|group| aligned(group.size) - group.size).max().unwrap_or(0);
    most.saturating_sub(slack)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn group(id: u32, size: u64, start: u32, end: u32) -> Group {
        let own = Span { start, end };
        Group::new(id, id, size, own, [own].into_iter())
    }

    #[test]
    fn adjacent_spans_of_a_group_are_one() {
        let own = Span { start: 0, end: 3 };
        let spans = [Span { start: 8, end: 9 }, Span { start: 4, end: 6 }, own];
        let group = Group::new(0, 0, 64, own, spans.into_iter());
        assert_eq!(group.spans[..], [Span { start: 0, end: 6 }, Span { start: 8, end: 9 }]);
    }

    #[test]
    fn groups_that_never_meet_share_addresses_and_the_top_is_not_rounded() {
        let packing = pack(&[group(0, 100, 0, 3), group(1, 30, 2, 5), group(2, 90, 4, 7)]);
        assert_eq!(packing.offsets, [0, 128, 0]);
        assert_eq!(packing.size, 158);
    }

    /// Random groups of few sizes, so that ties happen.
    fn random_groups(seed: &mut u64) -> Vec<Group> {
        let mut random = |below: u64| {
            *seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (*seed >> 33) % below
        };
        let one = |id| {
            let (start, length, size) = (random(30) as u32, random(12) as u32, 40 * (1 + random(9)));
            group(id, size, start, start + length)
        };
        (0..14).map(one).collect()
    }

    #[test]
    fn the_smaller_of_both_orders_is_kept_and_nothing_alive_overlaps() {
        let (mut seed, mut temporal_wins) = (7, 0);
        for _ in 0..2000 {
            let groups = random_groups(&mut seed);
            let [spatial, temporal] = [spatial_order(&groups), temporal_order(&groups)].map(|o| place_all(&groups, &o));
            let kept = pack(&groups);
            assert_eq!(kept.size, spatial.size.min(temporal.size));
            assert_eq!(kept == spatial, spatial.size <= temporal.size);
            temporal_wins += u32::from(temporal.size < spatial.size);
            for (a, b) in (0..groups.len()).flat_map(|a| (0..a).map(move |b| (a, b))) {
                let together = groups[a].own.start <= groups[b].own.end && groups[b].own.start <= groups[a].own.end;
                let end = |k: usize| kept.offsets[k] + groups[k].size;
                assert!(!together || end(a) <= kept.offsets[b] || end(b) <= kept.offsets[a]);
            }
        }
        assert!(temporal_wins > 0, "the second order was never needed");
    }
}
