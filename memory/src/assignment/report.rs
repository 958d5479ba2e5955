//! An assignment as XLA's dumps list it: allocations with their values, live ranges, and the moment of the live-range peak.
//!
//! Source: `BufferAssignment::ToString` (xla/service/buffer_assignment.cc), `HloLiveRange::ToString` and `ComputePeakMemoryMoment`
//! (xla/hlo/utils/hlo_live_range.cc).

// Tests: `tests/dumps.rs`.

use hlo_ir::shape::Dims;
use hlo_ir::{InstructionId, Shape};

use super::Assignment;
use super::allocation::{Block, Kind};
use super::numbers::Numbers;
use super::values::ValueId;
use crate::Bytes;
use crate::size::{POINTER_BYTES, dataless_size};

/// What an allocation is for.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum AllocationKind {
    /// An entry parameter, or one array inside it.
    Parameter {
        /// Parameter number.
        number: i64,
        /// Tuple index inside the parameter.
        index: Dims,
        /// Whether an output reuses its memory.
        aliased: bool,
    },
    /// A constant.
    Constant,
    /// Scratch of an applied computation, such as the addition of a reduce.
    ThreadLocal,
    /// An output that has no parameter's memory.
    Output,
    /// All temporaries together.
    Temporary,
}

/// A value: what an instruction defines at one tuple index.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ValueRef {
    /// The defining instruction.
    pub instruction: InstructionId,
    /// The tuple index inside its result.
    pub index: Dims,
    /// Whether values from several places meet here.
    pub phi: bool,
}

/// A value stored in an allocation.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct StoredValue {
    /// The value.
    pub value: ValueRef,
    /// The number XLA's dumps print for it.
    pub number: u64,
    /// Bytes from the start of the allocation.
    pub offset: Bytes,
    /// Bytes of its buffer.
    pub size: Bytes,
}

/// A block of memory for the whole run.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Allocation {
    /// Bytes.
    pub size: Bytes,
    /// What it is for.
    pub kind: AllocationKind,
    /// Whether it holds something the module returns.
    pub live_out: bool,
    /// Whether it holds the whole result: the array, or the pointer table of the result tuple.
    pub holds_root: bool,
    /// What is stored in it, at any time.
    pub values: Vec<StoredValue>,
}

/// When a value is alive, in positions of [`Assignment::schedule`], both ends included.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct LiveRange {
    /// The value.
    pub value: ValueRef,
    /// First position.
    pub start: u32,
    /// Last position; one past the schedule for what is alive when the module returns.
    pub end: u32,
}

/// The peak of XLA's live-range report. It adds up values, not memory: shared memory counts several times.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct LiveRangePeak {
    /// Position in the schedule.
    pub time: u32,
    /// Sum over the values alive there.
    pub bytes: Bytes,
    /// The values alive there, in the order of their definition.
    pub values: Vec<ValueRef>,
}

impl Assignment<'_> {
    /// The flattened schedule: what a call or loop runs stands before it.
    pub fn schedule(&self) -> &[InstructionId] {
        &self.schedule.sequence
    }
    /// All allocations, in XLA's order.
    pub fn allocations(&self) -> impl Iterator<Item = Allocation> + '_ {
        let numbers = Numbers::of(self);
        self.blocks.iter().map(move |block| self.allocation(block, &numbers))
    }
    fn allocation(&self, block: &Block, numbers: &Numbers) -> Allocation {
        let stored = |slice: &super::allocation::Slice| StoredValue {
            value: self.value_ref(slice.value),
            number: numbers.get(slice.value),
            offset: Bytes(slice.offset),
            size: Bytes(slice.size),
        };
        Allocation {
            size: Bytes(block.size),
            kind: self.allocation_kind(block),
            live_out: block.live_out,
            holds_root: block.live_out && block.slices.iter().any(|slice| self.is_root(slice.value)),
            values: block.slices.iter().map(stored).collect(),
        }
    }
    /// Whether a value is the whole result of the entry computation.
    fn is_root(&self, value: ValueId) -> bool {
        let module = self.flow.module;
        let root = self.flow.places.root(module.computation(module.entry()).root);
        self.flow.values.positions(value).any(|place| Some(place) == root)
    }
    fn allocation_kind(&self, block: &Block) -> AllocationKind {
        match block.kind {
            Kind::Parameter { place, aliased } => {
                let inst = self.flow.module.instruction(self.flow.places.owner(place));
                let number = inst.parameter_number().unwrap_or_default();
                AllocationKind::Parameter { number, index: self.flow.places.tuple_index(place), aliased }
            }
            Kind::Constant => AllocationKind::Constant,
            Kind::ThreadLocal => AllocationKind::ThreadLocal,
            Kind::Tuple | Kind::Plain if block.live_out => AllocationKind::Output,
            Kind::Tuple | Kind::Plain => AllocationKind::Temporary,
        }
    }
    fn value_ref(&self, value: ValueId) -> ValueRef {
        let place = self.flow.values.place(value);
        ValueRef {
            instruction: self.flow.places.owner(place),
            index: self.flow.places.tuple_index(place),
            phi: self.flow.values.is_phi(value),
        }
    }
    /// The live range of every value of the scheduled computations, in the order of their definition.
    pub fn live_ranges(&self) -> impl Iterator<Item = LiveRange> + '_ {
        self.flow.values.list().iter().filter_map(|&value| {
            let range = self.ranges.get(value)?;
            Some(LiveRange { value: self.value_ref(value), start: range.start, end: range.end })
        })
    }
    /// The moment XLA's live-range report calls the peak, and the sum it prints for it. The moment is found with the size of the whole
    /// result of each value's instruction, the sum with the value's own size.
    pub fn live_range_peak(&self) -> Option<LiveRangePeak> {
        let flow = &self.flow;
        let mut events = Vec::new();
        for &value in flow.values.list() {
            let Some(range) = self.ranges.get(value) else { continue };
            let weight = weight(flow.module.shape(flow.places.owner(flow.values.place(value))));
            events.push((range.start, false, weight));
            events.push((range.end + 1, true, weight));
        }
        events.sort_by_key(|&(time, ends, _)| (time, ends));
        let (mut alive, mut peak) = (0_i128, (0_i128, 0));
        for (time, ends, weight) in events {
            alive += if ends { -i128::from(weight) } else { i128::from(weight) };
            if alive > peak.0 {
                peak = (alive, time);
            }
        }
        let time = peak.1;
        let alive = flow
            .values
            .list()
            .iter()
            .copied()
            .filter(|&value| self.ranges.get(value).is_some_and(|range| range.start <= time && time <= range.end));
        let alive: Vec<ValueId> = alive.collect();
        let bytes = alive.iter().map(|&value| Bytes(weight(flow.places.shape(flow.values.place(value))))).sum();
        let values = alive.into_iter().map(|value| self.value_ref(value)).collect();
        (!self.schedule.sequence.is_empty()).then_some(LiveRangePeak { time, bytes, values })
    }
}

/// Bytes of a shape without the sizes of its dynamic dimensions.
fn weight(shape: &Shape) -> u64 {
    match shape {
        Shape::Tuple(elements) => POINTER_BYTES * elements.len() as u64,
        _ => dataless_size(shape).map_or(u64::MAX, Bytes::get),
    }
}
