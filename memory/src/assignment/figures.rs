//! The figures of an assignment: sums over its blocks, the peak, and what is alive there.

use hlo_ir::{AttrKey, InstructionId, Opcode};
use smol_str::SmolStr;

use super::Assignment;
use super::allocation::{Block, Kind};
use super::classes::Class;
use super::from_proto::ProtoAssignment;
use super::propagate::Half;
use super::timeline::Timeline;
use super::values::ValueId;
use crate::hash::IndexSet;
use crate::names::{Called, named};
use crate::{Bytes, Estimate, LiveBuffer, Model, Peak};

/// Most rows of [`Estimate::largest`]: a report shows the top of the list, and a planner asks for thousands of estimates.
pub const LARGEST_ROWS: usize = 64;

/// What names instructions among the figures: the peak, what is alive there, and what the rules do not cover.
pub(crate) type Words = (Peak, Vec<LiveBuffer>, Vec<String>);

impl Assignment<'_> {
    /// The figures of the assignment, as exact as the module is scheduled the way XLA would.
    pub fn estimate(&self) -> Estimate {
        self.estimate_called(false)
    }
    /// The same; `unnamed` says that instructions carry the names they wanted, of which one may stand for several.
    pub(crate) fn estimate_called(&self, unnamed: bool) -> Estimate {
        let timeline = self.timeline();
        let words = named(self.flow.module, unnamed, |called| self.in_words(&timeline, called));
        self.figures(&timeline, words)
    }
    /// Bytes over time.
    pub(crate) fn timeline(&self) -> Timeline {
        Timeline::of(&self.blocks, &self.ranges, self.schedule.len())
    }
    /// The figures, with what [`Assignment::in_words`] says of them.
    pub(crate) fn figures(&self, timeline: &Timeline, (peak, largest, caveats): Words) -> Estimate {
        let arguments = self.sum(|block| matches!(block.kind, Kind::Parameter { .. }));
        let aliased = self.sum(|block| matches!(block.kind, Kind::Parameter { aliased: true, .. }));
        let outputs = self.sum(|block| block.live_out);
        Estimate {
            model: if self.given.is_some() { Model::XlaAssignment } else { Model::Exact },
            total: self.sum(|_| true),
            arguments,
            outputs,
            aliased,
            constants: self.sum(|block| block.kind == Kind::Constant),
            temporaries: self.sum(Block::is_temporary),
            thread_local: self.sum(|block| block.kind == Kind::ThreadLocal),
            hidden_scratch: Bytes::ZERO,
            floor: arguments + outputs - aliased,
            host: Bytes(self.host),
            peak,
            largest,
            timeline: timeline.bytes.iter().copied().map(Bytes).collect(),
            slack: Bytes::ZERO,
            error_margin: Bytes::ZERO,
            of_all_devices: false,
            caveats,
        }
    }
    /// What names instructions: the peak, what is alive there, and what the rules do not cover.
    pub(crate) fn in_words(&self, timeline: &Timeline, called: &dyn Called) -> Words {
        (self.peak(timeline, called), self.largest(timeline, called), self.caveats(called))
    }
    fn sum(&self, of: impl Fn(&Block) -> bool) -> Bytes {
        self.blocks.iter().filter(|block| of(block)).map(|block| Bytes(block.size)).sum()
    }
    fn peak(&self, timeline: &Timeline, called: &dyn Called) -> Peak {
        let Some((time, bytes)) = timeline.peak() else { return Peak::default() };
        let id = self.schedule.sequence[time as usize];
        Peak {
            instruction: called.instruction(id),
            computation: called.computation(self.flow.module.instruction(id).parent),
            bytes: Bytes(bytes),
        }
    }
    fn largest(&self, timeline: &Timeline, called: &dyn Called) -> Vec<LiveBuffer> {
        let Some((time, _)) = timeline.peak() else { return Vec::new() };
        let mut alive = timeline.alive_at(time);
        alive.truncate(LARGEST_ROWS);
        alive.into_iter().map(|alive| self.live_buffer(alive.value, alive.size, called)).collect()
    }
    /// The instruction whose metadata say most about a value. Where a loop carries a buffer its parameters say nothing about the user's
    /// program; then another value of the buffer does.
    pub(super) fn told(&self, value: ValueId) -> InstructionId {
        let flow = &self.flow;
        let owner = |value: ValueId| flow.places.owner(flow.values.place(value));
        let named = |&id: &InstructionId| flow.module.instruction(id).metadata("op_name").is_some();
        let all = || std::iter::once(owner(value)).chain(self.buffers.values(self.buffers.of_value(value)).map(owner));
        let opcode = |id: InstructionId| flow.module.instruction(id).opcode;
        // A loop carries many things: what is written into this one says more of it than the name of the loop.
        let writes = |id: &InstructionId| !carries(opcode(*id)) && named(id);
        let written = (opcode(owner(value)) == Opcode::While).then(|| all().find(writes)).flatten();
        let told = written.or_else(|| all().find(named));
        told.or_else(|| self.named_before(owner(value))).unwrap_or(owner(value))
    }
    /// The nearest instruction with a name that one without is made of: in the bodies of fusions, or else before them. Conversions that compilers
    /// add have none.
    fn named_before(&self, id: InstructionId) -> Option<InstructionId> {
        /// Instructions looked at.
        const MOST: usize = 64;
        let module = self.flow.module;
        let (mut near, mut outside) = (IndexSet::default(), vec![id]);
        let mut next = 0;
        while next < MOST {
            let Some(&at) = near.get_index(next) else {
                // What stands in bodies comes first.
                near.insert(outside.pop()?);
                continue;
            };
            next += 1;
            let inst = module.instruction(at);
            if inst.metadata("op_name").is_some() {
                return Some(at);
            }
            match inst.computation(&AttrKey::Calls).filter(|_| inst.opcode == Opcode::Fusion) {
                Some(body) => {
                    near.insert(module.computation(body).root);
                    outside.extend(inst.operands.iter().rev());
                }
                None => near.extend(&inst.operands),
            }
        }
        None
    }
    pub(super) fn live_buffer(&self, value: ValueId, bytes: u64, called: &dyn Called) -> LiveBuffer {
        let flow = &self.flow;
        let place = flow.values.place(value);
        let told = self.told(value);
        LiveBuffer {
            instruction: called.instruction(flow.places.owner(place)),
            shape: flow.places.shape(place).to_string(),
            bytes: Bytes(bytes),
            op_name: flow.module.instruction(told).metadata("op_name").map(unquoted),
            source: self.source(told),
        }
    }
    /// `file:line` of an instruction.
    pub(crate) fn source(&self, id: InstructionId) -> Option<String> {
        let line = self.flow.module.made_at(id).line?;
        Some(format!("{}:{}", line.file, line.line))
    }
    /// All instructions, and those of computations that the entry reaches.
    fn reached(&self) -> (usize, usize) {
        let module = self.flow.module;
        let (mut all, mut reached) = (0, 0);
        for &computation in module.computation_ids() {
            let count = module.computation(computation).instructions.len();
            all += count;
            reached += if self.flow.classes.class(computation) == Class::Unreachable { 0 } else { count };
        }
        (all, reached)
    }
    /// What the rules do not cover.
    fn caveats(&self, called: &dyn Called) -> Vec<String> {
        let module = self.flow.module;
        let mut caveats = Vec::new();
        if let Some(ProtoAssignment { unknown, .. }) = &self.given {
            if *unknown > 0 {
                caveats.push(format!("{unknown} of XLA's buffers are in the total, but not in peak and timeline"));
            }
            return caveats;
        }
        for &computation in self.flow.classes.shared() {
            let name = called.computation(computation);
            caveats
                .push(format!("computation `{name}` has several callers; XLA would clone it before it assigns memory"));
        }
        let is_unknown = |&&id: &&InstructionId| {
            let inst = module.instruction(id);
            inst.opcode == Opcode::Unknown && Half::of(inst).is_none()
        };
        for &id in self.flow.places.order().iter().filter(is_unknown) {
            let name = called.instruction(id);
            caveats.push(format!("`{name}` has an unknown opcode; it is taken to share no memory"));
        }
        let (all, reached) = self.reached();
        if all > 2 * reached {
            caveats.push(format!(
                "the entry computation reaches {reached} of {all} instructions: the text may be cut off"
            ));
        }
        caveats.sort();
        caveats.dedup();
        caveats
    }
}

/// A name of the metadata without the backslashes that stand before quotes in the text.
pub(super) fn unquoted(name: &str) -> SmolStr {
    if name.contains('\\') { name.replace("\\'", "'").into() } else { name.into() }
}

/// Whether an opcode forwards what others made.
const fn carries(opcode: Opcode) -> bool {
    use Opcode as O;
    matches!(
        opcode,
        O::While
            | O::Tuple
            | O::GetTupleElement
            | O::Parameter
            | O::Copy
            | O::Call
            | O::Conditional
            | O::OptBarrier
            | O::Broadcast
            | O::Constant
    )
}
