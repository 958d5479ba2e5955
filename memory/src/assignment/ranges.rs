//! Live ranges: from when to when each value holds memory, in positions of the flattened schedule.
//!
//! Source: `HloLiveRange` (xla/hlo/utils/hlo_live_range.cc).

use hlo_ir::arena::Id;
use hlo_ir::{AttrKey, ComputationId, InstructionId, Module, Opcode};

use super::aliases::Buffers;
use super::flow::Flow;
use super::order::{Step, walk};
use super::shape_positions::ShapePosition;
use super::uses::reads;
use super::values::ValueId;

/// A point of time: a position of the flattened schedule.
pub(crate) type Time = u32;

const NEVER: Time = Time::MAX;

/// The flattened schedule: what a call runs stands before the call.
#[derive(Clone, Debug)]
pub(crate) struct Schedule {
    /// The instructions in the order they finish.
    pub(crate) sequence: Vec<InstructionId>,
    time: Vec<Time>,
    span: Vec<(Time, Time)>,
}

impl Schedule {
    /// Flattens the schedule of a module whose text order is the schedule.
    pub(crate) fn of(module: &Module) -> Self {
        Self::in_order(module, |computation| module.computation(computation).instructions.as_slice())
    }
    /// Flattens a schedule in which a computation runs its instructions in the order of `list`.
    pub(crate) fn in_order<'a>(module: &Module, list: impl Fn(ComputationId) -> &'a [InstructionId]) -> Self {
        let mut schedule = Self {
            sequence: Vec::with_capacity(module.instruction_count()),
            time: vec![NEVER; module.instruction_count()],
            span: vec![(NEVER, NEVER); module.computation_count()],
        };
        walk(module, list, |step| schedule.step(step));
        schedule
    }
    fn step(&mut self, step: Step) {
        let now = self.sequence.len() as Time;
        match step {
            Step::Enter(computation) => self.span[computation.index()].0 = now,
            Step::Leave(computation) => self.span[computation.index()].1 = now,
            Step::Visit(id) => {
                self.time[id.index()] = now;
                self.sequence.push(id);
            }
        }
    }
    /// Number of positions.
    pub(crate) fn len(&self) -> Time {
        self.sequence.len() as Time
    }
    /// When an instruction runs; `None` if the schedule does not reach it.
    pub(crate) fn time(&self, id: InstructionId) -> Option<Time> {
        let time = self.time[id.index()];
        (time != NEVER).then_some(time)
    }
    /// First position of a computation, and the position right after its last.
    fn span(&self, id: ComputationId) -> (Time, Time) {
        self.span[id.index()]
    }
}

/// When a value is alive, both ends included.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Range {
    /// First position.
    pub(crate) start: Time,
    /// Last position.
    pub(crate) end: Time,
    /// The place at which the value appears last.
    pub(crate) end_place: ShapePosition,
}

/// The live range of every value of the scheduled computations.
#[derive(Clone, Debug)]
pub(crate) struct Ranges {
    range: Vec<Range>,
}

impl Ranges {
    /// Computes all ranges and separates those that share a buffer.
    pub(crate) fn of(flow: &Flow<'_>, buffers: &Buffers, schedule: &Schedule) -> Self {
        let none = Range { start: NEVER, end: NEVER, end_place: ShapePosition(0) };
        let mut ranges = Self { range: vec![none; flow.values.table_len()] };
        let finder = Finder::new(flow, schedule);
        for &value in flow.values.list() {
            if let Some(range) = finder.range(value) {
                ranges.range[value.index()] = range;
            }
        }
        for buffer in 0..buffers.len() {
            if buffers.value_count(buffer) > 1 {
                ranges.separate(buffers.values(buffer));
            }
        }
        ranges
    }
    /// The range of a value; `None` if it belongs to no scheduled computation.
    pub(crate) fn get(&self, value: ValueId) -> Option<Range> {
        let range = self.range[value.index()];
        (range.start != NEVER).then_some(range)
    }
    /// The last position any range reaches.
    pub(crate) fn last(&self) -> Time {
        self.range.iter().filter(|range| range.start != NEVER).map(|range| range.end).max().unwrap_or(0)
    }
    /// Cuts the ranges of one buffer so that each ends where the next begins.
    fn separate(&mut self, values: impl Iterator<Item = ValueId>) {
        let mut sorted: Vec<ValueId> = values.filter(|&value| self.get(value).is_some()).collect();
        sorted.sort_by_key(|&value| (self.range[value.index()].start, self.range[value.index()].end, value));
        for pair in sorted.windows(2) {
            let (a, mut b) = (self.range[pair[0].index()], self.range[pair[1].index()]);
            b.end = b.end.max(a.end);
            self.range[pair[1].index()].end = b.end;
            self.range[pair[0].index()].end = a.end.min(b.start);
        }
    }
}

/// What the computation of ranges reads.
struct Finder<'a, 'm> {
    flow: &'a Flow<'m>,
    schedule: &'a Schedule,
    /// Last use of an instruction's own table or array, and of what lies inside it, plus one; 0 if there is none.
    last_use: Vec<[Time; 2]>,
    /// Entry parameter places with an input/output alias.
    aliased: Vec<ShapePosition>,
}

impl<'a, 'm> Finder<'a, 'm> {
    fn new(flow: &'a Flow<'m>, schedule: &'a Schedule) -> Self {
        let module = flow.module;
        let mut last_use = vec![[0; 2]; module.instruction_count()];
        for &id in &schedule.sequence {
            let inst = module.instruction(id);
            let Some(time) = use_time(module, schedule, id) else { continue };
            for operand in &inst.operands {
                for nested in [false, true].into_iter().filter(|&nested| reads(inst.opcode, nested)) {
                    let last = &mut last_use[operand.index()][usize::from(nested)];
                    *last = (*last).max(time + 1);
                }
            }
        }
        Self { flow, schedule, last_use, aliased: aliased_places(flow) }
    }
    fn range(&self, value: ValueId) -> Option<Range> {
        let module = self.flow.module;
        let place = self.flow.values.place(value);
        let id = self.flow.places.owner(place);
        let inst = module.instruction(id);
        let time = self.schedule.time(id)?;
        let is_parameter = inst.opcode == Opcode::Parameter;
        let start = if is_parameter { self.schedule.span(inst.parent).0 } else { time };
        let mut range = Range { start, end: self.position_time(place)?, end_place: place };
        for other in self.flow.values.other_positions(value) {
            let time = self.position_time(other)?;
            if time > range.end {
                (range.end, range.end_place) = (time, other);
            }
        }
        if is_parameter && inst.parent == module.entry() && self.aliased.binary_search(&place).is_err() {
            range.end = self.schedule.len();
        } else if let Some(last) = self.last_use(value) {
            range.end = range.end.max(last);
        }
        Some(range)
    }
    /// How long a value is alive because it stands at `place`: a root's value until its computation ends.
    fn position_time(&self, place: ShapePosition) -> Option<Time> {
        let id = self.flow.places.owner(place);
        let parent = self.flow.module.instruction(id).parent;
        if self.flow.module.computation(parent).root == id {
            Some(self.schedule.span(parent).1).filter(|&end| end != NEVER)
        } else {
            self.schedule.time(id)
        }
    }
    fn last_use(&self, value: ValueId) -> Option<Time> {
        let last = |place: ShapePosition| {
            let nested = usize::from(self.flow.places.offset(place) > 0);
            self.last_use[self.flow.places.owner(place).index()][nested]
        };
        self.flow.values.positions(value).map(last).max()?.checked_sub(1)
    }
}

/// When an instruction reads its operands: a call reads inside its callee, a while when its body begins.
pub(super) fn use_time(module: &Module, schedule: &Schedule, id: InstructionId) -> Option<Time> {
    let inst = module.instruction(id);
    match inst.opcode {
        Opcode::Call => None,
        Opcode::While => {
            let body = inst.computation(&AttrKey::Body)?;
            schedule.time(*module.parameters(body).first()?)
        }
        _ => schedule.time(id),
    }
}

/// The places of entry parameters that an output shares memory with.
pub(crate) fn aliased_places(flow: &Flow<'_>) -> Vec<ShapePosition> {
    let parameters = flow.module.parameters(flow.module.entry());
    let place = |alias: &hlo_ir::attribute::Alias| {
        let id = usize::try_from(alias.operand).ok().and_then(|k| parameters.get(k))?;
        flow.places.at(*id, &alias.operand_index)
    };
    let mut places: Vec<ShapePosition> = flow.module.input_output_aliases().iter().filter_map(place).collect();
    places.sort_unstable();
    places.dedup();
    places
}
