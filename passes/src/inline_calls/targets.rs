//! Which calls hide producers from a scatter or gather, or the flow of large values.

use crate::hash::IndexSet;
use hlo_ir::arena::SideTable;
use hlo_ir::graph::Callers;
use hlo_ir::{ComputationId, Instruction, InstructionId, Module, Opcode, graph};
use hlo_memory::{Bytes, size};

use super::body;
use crate::objective::{MATTERS, NEGLIGIBLE};
use crate::{Context, Finding, Grade, Outcome, bounds};

/// A scatter or gather and the calls to inline for it, in text order.
pub(super) struct Target {
    sink: InstructionId,
    calls: Vec<InstructionId>,
}

impl Target {
    /// The finding that inlines the calls; `None` if the result would be too large.
    pub(super) fn finding(&self, module: &Module) -> Option<Finding> {
        let patch = super::inline(module, &self.calls).ok()?;
        let note = super::note(module, &self.calls);
        let outcome = Outcome::Rewrite { patch, note, conditions: Vec::new() };
        Some(Finding { instruction: self.sink, grade: Grade::Bitwise, wasted: bytes(module, self.sink), outcome })
    }
}

/// For every scatter and gather of at least `min_saving` bytes the calls in its operands and, if it stands in a called computation, the
/// calls around it and in their operands. Sinks that need the same calls share one target.
pub(super) fn around_sinks(context: &Context<'_>) -> Vec<Target> {
    let module = context.module;
    if module.live_instructions().all(|(_, inst)| inst.opcode != Opcode::Call) {
        return Vec::new();
    }
    let inside = largest_inside(module);
    let mut search =
        Search { module, callers: graph::callers(module), places: places(module), inside, work_left: bounds::MODULE };
    let mut seen = IndexSet::default();
    let mut targets = Vec::new();
    for (sink, inst) in module.live_instructions() {
        let large = || bytes(module, sink) >= context.options.min_saving;
        if matches!(inst.opcode, Opcode::Scatter | Opcode::Gather) && large() {
            let calls = search.calls_for(sink);
            if !calls.is_empty() && seen.insert(calls.clone()) {
                targets.push(Target { sink, calls });
            }
        }
    }
    let large = search.around_large(context);
    let between = search.between_large(context, large.as_ref());
    let both = [large, between].into_iter().flatten();
    targets.extend(both.filter(|target| seen.insert(target.calls.clone())));
    targets
}

/// All calls that may be inlined; where there is one, the one that makes most is what they stand for.
pub(super) fn everywhere(module: &Module) -> Option<Target> {
    let is_call = |(id, inst): &(InstructionId, &Instruction)| {
        inst.opcode == Opcode::Call && body::obstacle(module, *id).is_none()
    };
    let inside = SideTable::new(Bytes::ZERO);
    let search = Search { module, callers: graph::callers(module), places: places(module), inside, work_left: 0 };
    let outermost =
        module.live_instructions().filter(is_call).filter(|(_, inst)| search.calls_around(inst.parent).is_empty());
    let mut calls: Vec<InstructionId> = outermost.map(|(id, _)| id).collect();
    calls.sort_by_key(|&id| search.places[id]);
    let sink = *calls.iter().max_by_key(|&&call| bytes(module, call))?;
    Some(Target { sink, calls })
}

/// What is at least a part of the temporaries.
fn share(context: &Context<'_>, part: u64) -> Bytes {
    Bytes(context.estimate.temporaries.get() / part).max(context.options.min_saving).max(Bytes(1))
}

/// A call is small if it takes and makes less than this part of the temporaries, as a divisor: ten of them are negligible.
const SMALL: u64 = 10 * NEGLIGIBLE;

/// Bytes of the largest array the instruction reads or writes.
fn bytes(module: &Module, id: InstructionId) -> Bytes {
    let all = module.instruction(id).operands.iter().copied().chain([id]);
    all.filter_map(|id| size::shape_size(module.shape(id))).max().unwrap_or(Bytes::ZERO)
}

/// Bytes of the largest array that each computation makes, or one that it calls.
fn largest_inside(module: &Module) -> SideTable<ComputationId, Bytes> {
    let mut inside = SideTable::new(Bytes::ZERO);
    // A computation stands behind those that it calls.
    for &computation in module.computation_ids() {
        let of = |&id: &InstructionId| {
            let own = size::shape_size(module.shape(id)).unwrap_or(Bytes::ZERO);
            module.instruction(id).called_computations().map(|callee| inside[callee]).fold(own, Bytes::max)
        };
        inside[computation] = module.computation(computation).instructions.iter().map(of).max().unwrap_or(Bytes::ZERO);
    }
    inside
}

/// Calls outside of called computations that take and make less than `least` bytes, depend on a value of so many, and on which another one depends.
fn between(search: &Search<'_>, least: Bytes) -> Vec<InstructionId> {
    let module = search.module;
    let is_large = |id: InstructionId| size::shape_size(module.shape(id)).is_some_and(|bytes| bytes >= least);
    let small_call = |id: InstructionId| module.instruction(id).opcode == Opcode::Call && search.hidden(id) < least;
    let (mut behind, mut ahead) = (SideTable::new(false), SideTable::new(false));
    let mut calls = Vec::new();
    let is_call = |&id: &InstructionId| module.instruction(id).opcode == Opcode::Call;
    for &computation in module.computation_ids() {
        if search.callers[computation].iter().any(is_call)
            || !module.computation(computation).instructions.iter().any(|&id| small_call(id))
        {
            continue;
        }
        let order = graph::post_order(module, computation);
        for &id in &order {
            behind[id] = module.instruction(id).operands.iter().any(|&operand| is_large(operand) || behind[operand]);
        }
        for &id in order.iter().rev() {
            if is_large(id) || ahead[id] {
                for &operand in &module.instruction(id).operands {
                    ahead[operand] = true;
                }
            }
        }
        calls.extend(order.into_iter().filter(|&id| small_call(id) && behind[id] && ahead[id]));
    }
    calls
}

/// Positions in the text.
fn places(module: &Module) -> SideTable<InstructionId, usize> {
    let mut places = SideTable::new(usize::MAX);
    let instructions = module.computation_ids().iter().flat_map(|&id| &module.computation(id).instructions);
    for (place, &id) in instructions.enumerate() {
        places[id] = place;
    }
    places
}

struct Search<'m> {
    module: &'m Module,
    callers: Callers,
    places: SideTable<InstructionId, usize>,
    /// What [`largest_inside`] found.
    inside: SideTable<ComputationId, Bytes>,
    work_left: usize,
}

impl Search<'_> {
    /// Bytes of the largest array that a call reads, makes, or hides.
    fn hidden(&self, call: InstructionId) -> Bytes {
        let callees = self.module.instruction(call).called_computations();
        callees.map(|callee| self.inside[callee]).fold(bytes(self.module, call), Bytes::max)
    }

    /// If calls together take, make or hide a large part of the temporaries, they hide how large values flow: then all of them that are not small.
    fn around_large(&mut self, context: &Context<'_>) -> Option<Target> {
        let (large, least) = (share(context, MATTERS), share(context, SMALL));
        let (mut calls, mut hidden) = (IndexSet::default(), Bytes::ZERO);
        if context.estimate.temporaries == Bytes::ZERO {
            return None;
        }
        for (id, inst) in self.module.live_instructions() {
            if inst.opcode == Opcode::Call && self.hidden(id) >= least && body::obstacle(self.module, id).is_none() {
                let around = self.calls_around(inst.parent);
                // What an inner call hides, the call around it does.
                hidden += if around.is_empty() { self.hidden(id) } else { Bytes::ZERO };
                calls.extend(if around.is_empty() { vec![id] } else { around });
            }
        }
        let mut calls: Vec<InstructionId> = calls.into_iter().collect();
        calls.sort_by_key(|&id| self.places[id]);
        let sink = *calls.iter().max_by_key(|&&call| self.hidden(call))?;
        if hidden < large {
            return None;
        }
        Some(Target { sink, calls })
    }

    /// The calls around large values, and the small ones on the way from one large value to another, such as a `clip` of a number for each row.
    fn between_large(&self, context: &Context<'_>, around: Option<&Target>) -> Option<Target> {
        let module = self.module;
        let mut calls: IndexSet<InstructionId> =
            around.iter().flat_map(|target| target.calls.iter().copied()).collect();
        let known = calls.len();
        let small = between(self, share(context, SMALL));
        calls.extend(small.into_iter().filter(|&call| body::obstacle(module, call).is_none()));
        let mut calls: Vec<InstructionId> = calls.into_iter().collect();
        calls.sort_by_key(|&id| self.places[id]);
        let sink = *calls.iter().max_by_key(|&&call| bytes(module, call))?;
        (calls.len() > known).then_some(Target { sink, calls })
    }

    fn calls_for(&mut self, sink: InstructionId) -> Vec<InstructionId> {
        let around = self.calls_around(self.module.instruction(sink).parent);
        let mut work = if around.is_empty() { vec![sink] } else { around };
        let mut seen = IndexSet::default();
        while let Some(id) = work.pop() {
            if self.work_left > 0 && seen.insert(id) {
                self.work_left -= 1;
                work.extend(graph::predecessors(self.module, id));
            }
        }
        let inlined = |id: &InstructionId| {
            self.module.instruction(*id).opcode == Opcode::Call && body::obstacle(self.module, *id).is_none()
        };
        let mut calls: Vec<InstructionId> = seen.into_iter().filter(inlined).collect();
        calls.sort_by_key(|&id| self.places[id]);
        calls
    }

    /// The outermost calls through which `computation` is reached; their bodies are inlined whole, inner calls included.
    fn calls_around(&self, computation: ComputationId) -> Vec<InstructionId> {
        let mut seen = SideTable::new(false);
        let mut outermost = IndexSet::default();
        let mut work = vec![computation];
        while let Some(id) = work.pop() {
            if std::mem::replace(&mut seen[id], true) {
                continue;
            }
            for &call in &self.callers[id] {
                let inst = self.module.instruction(call);
                if inst.opcode != Opcode::Call || body::obstacle(self.module, call).is_some() {
                    continue;
                }
                let is_call = |&outer: &InstructionId| self.module.instruction(outer).opcode == Opcode::Call;
                if self.callers[inst.parent].iter().any(is_call) {
                    work.push(inst.parent);
                } else {
                    outermost.insert(call);
                }
            }
        }
        outermost.into_iter().collect()
    }
}
