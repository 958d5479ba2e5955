//! Second stage: the temporaries of the whole module share one heap. The schedule is replayed as a sequence of allocations and frees, in
//! which a result may take over the memory of an operand that dies.
//!
//! Source: `HeapSimulator::RunComputation`, `Alloc`, `Free`, `ShareBuffer` (xla/service/heap_simulator/heap_simulator.cc).

use hlo_ir::Opcode;

use super::aliases::Buffers;
use super::allocation::{Block, Kind, Slice};
use super::csr::Csr;
use super::flow::Flow;
use super::packing::{Group, Span, pack};
use super::ranges::Ranges;
use super::values::ValueId;

const NONE: u32 = u32::MAX;

/// The block that holds all of `heap`'s buffers; `None` if there are none.
pub(crate) fn heap_block(
    flow: &Flow<'_>,
    buffers: &Buffers,
    ranges: &Ranges,
    sizes: &[u64],
    heap: &[u32],
) -> Option<Block> {
    let values = in_order_of_start(ranges, heap.iter().flat_map(|&buffer| buffers.values(buffer)));
    if values.is_empty() {
        return None;
    }
    let replay = Replay::run(flow, buffers, sizes, &values);
    let groups = replay.groups();
    let packing = pack(&groups);
    let mut offset_of = vec![0; values.len()];
    for (group, &offset) in groups.iter().zip(&packing.offsets) {
        offset_of[group.first as usize] = offset;
    }
    let mut block = Block::new(packing.size, Kind::Plain);
    block.slices = (0..values.len())
        .map(|k| {
            let value = values[k].2;
            let offset = offset_of[replay.leader[k] as usize];
            Slice { value, offset, size: sizes[buffers.of_value(value) as usize] }
        })
        .collect();
    block.slices.sort_by_key(|slice| slice.value);
    Some(block)
}

/// Bytes alive at most at a time as a scheduler counts them, which compares orders by that. Constants do not count. Of two values in one buffer both count
/// where one ends and the other begins.
///
/// Source: `HeapSimulator::MinimumMemoryForModule`, `NoFragmentationStatsHeap` (xla/service/heap_simulator/heap_simulator.cc).
pub(crate) fn most_alive(flow: &Flow<'_>, buffers: &Buffers, ranges: &Ranges, sizes: &[u64]) -> u64 {
    let owner = |value: ValueId| flow.module.instruction(flow.places.owner(flow.values.place(value)));
    let counted = flow.values.list().iter().copied().filter(|&value| owner(value).opcode != Opcode::Constant);
    let values = in_order_of_start(ranges, counted);
    Replay::run(flow, buffers, sizes, &values).most_alive
}

/// The values that have live ranges, with these, in the order in which they get memory.
fn in_order_of_start(ranges: &Ranges, values: impl Iterator<Item = ValueId>) -> Vec<(u32, u32, ValueId)> {
    let with_range = |value| ranges.get(value).map(|range| (range.start, range.end, value));
    let mut values: Vec<_> = values.filter_map(with_range).collect();
    values.sort_unstable();
    values
}

/// The replayed schedule. Values are named by their position in the sorted list.
struct Replay {
    /// The value whose memory each value shares; itself if it has memory of its own.
    leader: Vec<u32>,
    /// First and last event of each value; zero-sized values take part in none.
    span: Vec<Option<Span>>,
    size: Vec<u64>,
    id: Vec<ValueId>,
    clock: u32,
    /// Bytes of the values that are alive, and the most so far.
    alive: u64,
    most_alive: u64,
}

impl Replay {
    fn run(flow: &Flow<'_>, buffers: &Buffers, sizes: &[u64], values: &[(u32, u32, ValueId)]) -> Self {
        let size_of = |&(_, _, value): &(u32, u32, ValueId)| sizes[buffers.of_value(value) as usize];
        let mut replay = Self {
            leader: (0..values.len() as u32).collect(),
            span: vec![None; values.len()],
            size: values.iter().map(size_of).collect(),
            id: values.iter().map(|&(_, _, value)| value).collect(),
            clock: 0,
            alive: 0,
            most_alive: 0,
        };
        let horizon = values.iter().map(|&(_, end, _)| end).max().map_or(0, |end| end as usize + 1);
        let ends: Vec<(u32, u32)> = values.iter().enumerate().map(|(k, &(_, end, _))| (end, k as u32)).collect();
        let ending = Csr::new(horizon, &ends);
        let mut state = State {
            first: vec![NONE; buffers.len() as usize],
            number: vec![NONE; flow.values.table_len()],
            freed: vec![false; values.len()],
        };
        for (k, &(_, _, value)) in values.iter().enumerate() {
            state.number[value.index()] = k as u32;
        }
        let mut next = 0;
        for now in 0..horizon as u32 {
            while next < values.len() && values[next].0 == now {
                replay.begin(flow, buffers, values, &mut state, next as u32);
                next += 1;
            }
            for &k in ending.get(now) {
                if !std::mem::replace(&mut state.freed[k as usize], true) {
                    replay.free(k);
                }
            }
        }
        replay
    }
    /// Gives memory to value `k`: that of its buffer, that of a dying operand, or new memory.
    fn begin(&mut self, flow: &Flow<'_>, buffers: &Buffers, values: &[(u32, u32, ValueId)], state: &mut State, k: u32) {
        let buffer = buffers.of_value(self.id[k as usize]);
        let first = state.first[buffer as usize];
        if first != NONE {
            self.share(k, first);
        } else if let Some(operand) = dying_operand(flow, buffers, values, state, k) {
            self.free(operand);
            state.freed[operand as usize] = true;
            self.share(k, operand);
        } else {
            self.tick_in(k);
        }
        if first == NONE {
            state.first[buffer as usize] = k;
        }
    }
    fn share(&mut self, k: u32, with: u32) {
        self.leader[k as usize] = self.leader[with as usize];
        self.tick_in(k);
    }
    fn tick_in(&mut self, k: u32) {
        let size = self.size[k as usize];
        if size > 0 {
            self.span[k as usize] = Some(Span { start: self.clock, end: self.clock });
            self.clock += 1;
            self.alive = self.alive.saturating_add(size);
            self.most_alive = self.most_alive.max(self.alive);
        }
    }
    fn free(&mut self, k: u32) {
        if let Some(span) = &mut self.span[k as usize] {
            span.end = self.clock;
            self.clock += 1;
            self.alive = self.alive.saturating_sub(self.size[k as usize]);
        }
    }
    /// The sets of values that share memory, with all the times at which one of them is alive.
    fn groups(&self) -> Vec<Group> {
        let pairs: Vec<(u32, u32)> = self.leader.iter().enumerate().map(|(k, &leader)| (leader, k as u32)).collect();
        let members = Csr::new(self.leader.len(), &pairs);
        let leaders = (0..self.leader.len() as u32).filter(|&k| self.leader[k as usize] == k);
        leaders
            .filter_map(|k| {
                let own = self.span[k as usize]?;
                let spans = members.get(k).iter().filter_map(|&member| self.span[member as usize]);
                Some(Group::new(k, self.id[k as usize].0, self.size[k as usize], own, spans))
            })
            .collect()
    }
}

/// What the replay remembers between events.
struct State {
    /// By buffer: its first value that has memory.
    first: Vec<u32>,
    /// By value id: its position in the sorted list.
    number: Vec<u32>,
    freed: Vec<bool>,
}

/// An operand whose memory value `k` may take over because its last use is the instruction that defines `k`.
fn dying_operand(
    flow: &Flow<'_>,
    buffers: &Buffers,
    values: &[(u32, u32, ValueId)],
    state: &State,
    k: u32,
) -> Option<u32> {
    let (now, _, value) = values[k as usize];
    let place = flow.values.place(value);
    let id = flow.places.owner(place);
    let inst = flow.module.instruction(id);
    if buffers.value_count(buffers.of_value(value)) != 1 || inst.opcode == Opcode::Copy {
        return None;
    }
    inst.operands.iter().find_map(|&operand| {
        let other = flow.values.at(flow.places.root(operand)?)?;
        let number = state.number[other.index()];
        let (_, end, _) = *values.get(number as usize)?;
        let definition = flow.values.place(other);
        let dies = number < k && end == now && !state.freed[number as usize];
        let alone = buffers.value_count(buffers.of_value(other)) == 1;
        let direct = dies && alone && inst.operands.contains(&flow.places.owner(definition));
        (direct && flow.can_share(definition, place)).then_some(number)
    })
}
