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
    let mut order: Vec<usize> = (0..groups.len()).collect();
    order.sort_unstable_by_key(|&k| {
        let group = &groups[k];
        (Reverse(group.size), Reverse(group.own.end - group.own.start), group.id)
    });
    let spatial = place_all(groups, &order);
    if spatial.size <= lower_bound(groups) {
        return spatial;
    }
    order.sort_unstable_by_key(|&k| {
        let group = &groups[k];
        (Reverse(group.last_event() - group.own.start), Reverse(group.size), group.id)
    });
    let temporal = place_all(groups, &order);
    if temporal.size < spatial.size { temporal } else { spatial }
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
