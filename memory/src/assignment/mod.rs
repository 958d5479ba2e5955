//! XLA:CPU's buffer assignment, reproduced to the byte for scheduled modules.
//!
//! The stages, each its own file:
//!
//! 1. `classes`: which computations own memory; `order` and `places`: XLA's orders and numbers;
//! 2. `values`, `propagate` and `phis`: which value stands where; `in_place` and `aliases`: which values must share a buffer;
//! 3. `ranges`: when each value is alive; `sharing` and `elementwise`: when a result may overwrite an operand;
//! 4. `greedy`: blocks for parameters, constants and outputs, and what fits into them; `heap` and `packing`: everything else;
//! 5. `given`: all of this by XLA itself, as far as a binary dump says it;
//! 6. `combine`: one block of temporaries; `timeline`, `figures`, `holders` and `report`: what to say about it.

// Tests: `memory/tests/corpus.rs`, `memory/tests/robust.rs`, `memory/tests/rules.rs`.

pub(crate) mod aliases;
mod allocation;
pub(crate) mod classes;
mod combine;
mod csr;
pub(crate) mod elementwise;
mod figures;
pub(crate) mod flow;
mod from_proto;
mod greedy;
mod heap;
pub(crate) mod in_place;
mod numbers;
mod occupancy;
pub(crate) mod order;
mod packing;
mod peak_buffers;
mod phis;
mod profile;
mod propagate;
mod ranges;
mod report;
mod reusable;
pub(crate) mod shape_positions;
mod sharing;
mod timeline;
pub(crate) mod uses;
pub(crate) mod values;
mod worklist;

use hlo_ir::arena::Id as _;
use hlo_ir::host::HostMove;
use hlo_ir::{ComputationId, InstructionId, Module, Opcode};

use self::aliases::Buffers;
use self::allocation::Block;
use self::flow::Flow;
use self::from_proto::ProtoAssignment;
use self::greedy::{Greedy, Placed};
use self::ranges::{Ranges, Schedule};
use crate::hash::{IndexMap, IndexSet};
use crate::parallel::join;
use crate::size::{is_elsewhere, is_in_host_memory, shape_size, size_of};
use crate::{EstimateError, Target};

pub use self::figures::LARGEST_ROWS;
pub use self::from_proto::assigned;
pub use self::peak_buffers::PeakBuffer;
pub use self::report::{Allocation, AllocationKind, LiveRange, LiveRangePeak, StoredValue, ValueRef};
pub(crate) use self::timeline::Timeline;

/// The allocations of a scheduled module.
#[derive(Clone, Debug)]
pub struct Assignment<'m> {
    flow: Flow<'m>,
    buffers: Buffers,
    schedule: Schedule,
    ranges: Ranges,
    blocks: Vec<Block>,
    /// Bytes of buffers in the memory of the host.
    host: u64,
    /// What else is known of an assignment that XLA itself made.
    given: Option<ProtoAssignment>,
}

/// Assigns the buffers of a module whose text order is its schedule, as XLA:CPU does. Fails only if a size does not fit 64 bits.
pub fn assign(module: &Module) -> Result<Assignment<'_>, EstimateError> {
    assign_for(module, Target::Cpu)
}

/// The same with the sizes of another target: its tiles, and nothing for what lives outside its main memory.
pub fn assign_for(module: &Module, target: Target) -> Result<Assignment<'_>, EstimateError> {
    let flow = Flow::of(module);
    let buffers = || {
        let buffers = Buffers::of(&flow);
        let sizes = buffer_sizes(&flow, &buffers, target);
        (buffers, sizes)
    };
    let (schedule, (buffers, sizes)) = join(module.is_large(), || Schedule::of(module), buffers);
    let Sizes { of_buffers: sizes, host } = sizes?;
    let ranges = Ranges::of(&flow, &buffers, &schedule);
    let greedy = || Greedy::new(&flow, &buffers, &ranges, &sizes);
    let (thread_local, Placed { mut blocks, heap }) =
        join(module.is_large(), || greedy().thread_local(), || greedy().global());
    blocks.extend(heap::heap_block(&flow, &buffers, &ranges, &sizes, &heap));
    blocks.extend(thread_local);
    let blocks = combine::combine(blocks);
    Ok(Assignment { flow, buffers, schedule, ranges, blocks, host, given: None })
}

/// What schedulers ask of a module whose instructions have no order yet.
pub(crate) struct Unordered<'m> {
    flow: Flow<'m>,
    buffers: Buffers,
    sizes: Vec<u64>,
}

impl<'m> Unordered<'m> {
    /// Those of an analysed module on a target; without sizes where one does not fit 64 bits.
    pub(crate) fn of(flow: Flow<'m>, target: Target) -> Self {
        let buffers = Buffers::of(&flow);
        let unsized_ = || vec![0; buffers.len() as usize];
        let sizes = buffer_sizes(&flow, &buffers, target).map_or_else(|_| unsized_(), |sizes| sizes.of_buffers);
        Self { flow, buffers, sizes }
    }
    /// Bytes of the values that each instruction makes itself, by its number: a loop makes no value of what it carries unchanged.
    pub(crate) fn bytes_made(&self) -> Vec<u64> {
        let mut made = vec![0_u64; self.flow.module.instruction_count()];
        for &value in self.flow.values.list() {
            let bytes = &mut made[self.flow.places.owner(self.flow.values.place(value)).index()];
            *bytes = bytes.saturating_add(self.sizes[self.buffers.of_value(value) as usize]);
        }
        made
    }
    /// Bytes alive at most at a time where each computation runs its instructions in the order of `list`, as XLA's schedulers count them.
    pub(crate) fn most_alive<'l>(&self, list: impl Fn(ComputationId) -> &'l [InstructionId]) -> u64 {
        let schedule = Schedule::in_order(self.flow.module, list);
        let ranges = Ranges::of(&self.flow, &self.buffers, &schedule);
        heap::most_alive(&self.flow, &self.buffers, &ranges, &self.sizes)
    }
}

/// What buffers take.
struct Sizes {
    /// Bytes of each in the main memory of the device.
    of_buffers: Vec<u64>,
    /// Bytes of all in the memory of the host.
    host: u64,
}

/// Bytes of each buffer: those of its largest value, or nothing where one of its values stands outside of the device's main memory, and so all do.
fn buffer_sizes(flow: &Flow<'_>, buffers: &Buffers, target: Target) -> Result<Sizes, EstimateError> {
    let size_of = size_of(target);
    let mut of_buffers = vec![0; buffers.len() as usize];
    let (mut elsewhere, mut of_host): (IndexSet<usize>, IndexMap<usize, u64>) = Default::default();
    for &value in flow.values.list() {
        let place = flow.values.place(value);
        let unsized_ = || EstimateError::Unsized(flow.module.instruction(flow.places.owner(place)).name.clone());
        let shape = flow.places.shape(place);
        let size = size_of(shape).ok_or_else(unsized_)?.get();
        let buffer = buffers.of_value(value) as usize;
        of_buffers[buffer] = of_buffers[buffer].max(size);
        if target != Target::Cpu && is_elsewhere(shape) {
            elsewhere.insert(buffer);
            if is_in_host_memory(shape) && makes_host_buffer(flow, flow.places.owner(place)) {
                of_host.insert(buffer, shape_size(shape).ok_or_else(unsized_)?.get());
            }
        }
    }
    elsewhere.into_iter().for_each(|buffer| of_buffers[buffer] = 0);
    Ok(Sizes { of_buffers, host: of_host.values().fold(0, |all, size| all.saturating_add(*size)) })
}

/// Whether an instruction makes a buffer in the memory of the host: rows that are written into one, or read out of one, are copied without a buffer of their own there.
fn makes_host_buffer(flow: &Flow<'_>, id: InstructionId) -> bool {
    let opcode = |id: InstructionId| flow.module.instruction(id).opcode;
    let mut users = flow.users.get(id);
    let is_row = HostMove::of(flow.module.instruction(id)) == Some(HostMove::ToHost)
        && users.any(|user| matches!(opcode(user), Opcode::DynamicUpdateSlice | Opcode::Fusion | Opcode::Bitcast));
    matches!(opcode(id), Opcode::CustomCall | Opcode::Copy) && !is_row
}
