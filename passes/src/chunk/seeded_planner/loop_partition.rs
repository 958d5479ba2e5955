//! From what could be computed on blocks to what should be: the large values and the small ones between them, in as many loops as their
//! dependences demand.

use std::collections::BTreeSet;

use crate::hash::{IndexMap, IndexSet};
use hlo_ir::InstructionId;
use hlo_ir::arena::SideTable;

use super::dim_propagation::{Cut, Flow, PropagatedDims};
#[cfg(doc)]
use super::graph::Graph;
use crate::Grade;
use crate::chunk::savings::is_view;
use crate::chunk::sink::{Kind, Sink};
use crate::flow::{OperandFlow, exactness, is_transparent};

/// What is computed on blocks, and where it goes.
pub(super) struct Plan {
    /// Values computed on blocks only, written or not, with their cut.
    pub(super) members: IndexMap<InstructionId, Cut>,
    /// The sinks of each loop, in the order of the loops.
    pub(super) loops: Vec<Vec<Sink>>,
    /// What each loop may compute.
    pub(super) allowed: Vec<SideTable<InstructionId, bool>>,
    /// For each member, whether results of the computation need it, and who else needs more of it than blocks.
    pub(super) wanted: IndexMap<InstructionId, LiveOut>,
    /// Whether it is offered only beside another one that does the same at another place.
    pub(super) repeats_shape: bool,
}

/// Who needs a member beyond the blocks of its plan.
#[derive(Clone, Default)]
pub(super) struct LiveOut {
    /// Something that is not followed, or a later loop of the plan.
    outside_loops: bool,
    /// These instructions, which another plan could compute on other blocks.
    by: IndexSet<InstructionId>,
}

impl LiveOut {
    /// Whether a loop has to write the member.
    fn is_written(&self) -> bool {
        self.outside_loops || !self.by.is_empty()
    }
}

impl Plan {
    /// Rows of a loop.
    pub(super) fn rows(&self, index: usize) -> i64 {
        self.loops[index][0].rows
    }
    fn written(&self) -> IndexSet<InstructionId> {
        let writes = self.loops.iter().flatten().filter(|sink| matches!(sink.kind, Kind::Write { .. }));
        writes.map(|sink| sink.inst).collect()
    }
    fn makes(&self, op: InstructionId) -> bool {
        self.allowed.iter().any(|allowed| allowed[op]) || self.loops.iter().flatten().any(|sink| sink.inst == op)
    }
    /// Whether a member is needed by nothing but blocks of this plan and blocks of `other`.
    fn is_covered(&self, value: InstructionId, other: &Self) -> bool {
        let Some(wanted) = self.wanted.get(&value) else { return true };
        let inside = |op: &InstructionId| {
            let theirs = other.wanted.get(&value).is_some_and(|theirs| !theirs.by.contains(op));
            theirs && other.makes(*op)
        };
        !wanted.outside_loops && other.members.contains_key(&value) && wanted.by.iter().all(inside)
    }
    /// What one of two plans would have to write only for the other, which can compute it again instead.
    pub(super) fn spared(&self, other: &Self) -> IndexSet<InstructionId> {
        let (own, theirs) = (self.written(), other.written());
        let spared = |value: &InstructionId| self.is_covered(*value, other) && other.is_covered(*value, self);
        own.union(&theirs).copied().filter(spared).collect()
    }
}

struct Closure<'a, 'b, 'm> {
    flow: &'a Flow<'b, 'm>,
    reach: &'a PropagatedDims,
    least: u64,
    /// Whether a later loop computes again what can round differently there, rather than reading what an earlier one wrote.
    again: bool,
    /// What is looked at; everything if there is none.
    part: Option<Values>,
    /// A plan whose loops run before: what they make is there.
    before: Option<&'a Plan>,
    members: IndexMap<InstructionId, Cut>,
    sinks: IndexMap<InstructionId, Sink>,
    /// The loop that computes an instruction of the plan, or after which another one can run.
    level: SideTable<InstructionId, usize>,
}

/// Which values belong to something.
type Values = SideTable<InstructionId, bool>;

/// Most loops of one plan.
const MOST_LOOPS: usize = 3;

/// The plan for everything of at least `least` bytes that was reached. Where that would need too many loops, as where each layer of a model needs all rows
/// of the layer before, there is a plan for each part of it, in computations that are [short enough](Graph::has_few_instructions). With `again`, later loops of a plan
/// read nothing that they can compute again.
pub(super) fn close(flow: &Flow<'_, '_>, reach: &PropagatedDims, least: u64, again: bool) -> Partitioned {
    let whole = Closure::new(flow, reach, least, again).grown();
    match whole.plan() {
        Ok(plan) => Partitioned { plans: plan.into_iter().collect(), is_too_long: false },
        Err(TooManyLoops) if flow.graph.has_few_instructions() => {
            let part = |part| Closure { part: Some(part), ..Closure::new(flow, reach, least, again) }.grown();
            let plans = whole.parts().into_iter().filter_map(|values| part(values).plan().ok().flatten()).collect();
            Partitioned { plans, is_too_long: true }
        }
        Err(TooManyLoops) => Partitioned { plans: Vec::new(), is_too_long: false },
    }
}

/// The plans for what was reached.
pub(super) struct Partitioned {
    pub(super) plans: Vec<Plan>,
    /// Whether all of it together would need too many loops, in a computation that is short enough to look further.
    pub(super) is_too_long: bool,
}

/// The plan for everything that was reached, behind the loops of another plan.
pub(super) fn close_behind(
    flow: &Flow<'_, '_>,
    reach: &PropagatedDims,
    least: u64,
    again: bool,
    before: &Plan,
) -> Option<Plan> {
    Closure { before: Some(before), ..Closure::new(flow, reach, least, again) }.grown().plan().ok().flatten()
}

/// A plan would need more than [`MOST_LOOPS`].
struct TooManyLoops;

impl<'a, 'b, 'm> Closure<'a, 'b, 'm> {
    fn new(flow: &'a Flow<'b, 'm>, reach: &'a PropagatedDims, least: u64, again: bool) -> Self {
        let (members, sinks, level) = (IndexMap::default(), IndexMap::default(), SideTable::new(0));
        Closure { flow, reach, least, again, part: None, before: None, members, sinks, level }
    }
    /// Of what was reached, or of a part of it, what is worth computing on blocks.
    fn grown(mut self) -> Self {
        self.choose();
        self.set_levels();
        self
    }
}

impl Closure<'_, '_, '_> {
    /// Whether a value belongs to the part that is looked at.
    fn is_part(&self, value: InstructionId) -> bool {
        self.part.as_ref().is_none_or(|part| part[value])
    }
    /// Large members that read each other, each with the small members that are computed in the same loops.
    fn parts(&self) -> Vec<Values> {
        let graph = self.flow.graph;
        let is_big = |value: InstructionId| self.flow.is_big(value, self.least);
        let mut members: Vec<InstructionId> = self.members.keys().copied().collect();
        members.sort_unstable_by_key(|&value| graph.place(value));
        let mut group: IndexMap<InstructionId, usize> = IndexMap::default();
        let mut groups: Vec<IndexSet<InstructionId>> = Vec::new();
        for &value in members.iter().filter(|&&value| is_big(value)) {
            group.insert(value, groups.len());
            groups.push(IndexSet::from_iter([value]));
            for operand in self.reach.links(graph.op(value)) {
                let Some(&other) = group.get(operand).filter(|&&other| other != group[&value]) else { continue };
                let (from, into) = (group[&value].max(other), group[&value].min(other));
                let moved = std::mem::take(&mut groups[from]);
                moved.iter().for_each(|&value| _ = group.insert(value, into));
                groups[into].extend(moved);
            }
        }
        let with_small = |large: IndexSet<InstructionId>| {
            let levels: BTreeSet<usize> = large.iter().map(|&value| self.level[graph.op(value)]).collect();
            let mut part = Values::new(false);
            for &value in &members {
                let small = !is_big(value) && levels.contains(&self.level[graph.op(value)]);
                part.set(value, small || large.contains(&value));
            }
            part
        };
        groups.into_iter().filter(|large| !large.is_empty()).map(with_small).collect()
    }
    /// Operands of a sink in the blocks in which they were reached.
    fn sink_links(&self, sink: &Sink) -> Vec<InstructionId> {
        let cut = self.flow.cut_values(sink);
        let reached = cut.into_iter().filter(|(value, dim)| {
            self.reach.cuts.get(value).is_some_and(|cut| cut.dim == *dim && cut.rows == sink.map)
        });
        reached.map(|(value, _)| value).collect()
    }

    /// Large values, small ones that read them, and whatever lies between two of these or between one and a sink.
    fn choose(&mut self) {
        let graph = self.flow.graph;
        let big = |value: &InstructionId| self.is_part(*value) && self.flow.is_big(*value, self.least);
        let is_left = |sink: &&Sink| !self.before.is_some_and(|before| before.makes(sink.inst));
        let sinks: Vec<&Sink> =
            self.reach.sinks.values().filter(|sink| self.sink_links(sink).iter().any(big)).filter(is_left).collect();
        let mut need: IndexSet<InstructionId> = IndexSet::default();
        let mut reached: Vec<InstructionId> =
            self.reach.cuts.keys().copied().filter(|&value| self.is_part(value)).collect();
        reached.sort_unstable_by_key(|&value| graph.place(value));
        for &value in &reached {
            if big(&value) || (!self.flow.free[value] && self.reach.links(graph.op(value)).iter().any(big)) {
                need.insert(value);
            }
        }
        // Downwards from the needed ones, then upwards: what both meet lies between.
        let mut after = need.clone();
        for &value in &reached {
            if self.reach.links(graph.op(value)).iter().any(|operand| after.contains(operand)) {
                after.insert(value);
            }
        }
        let mut before: IndexSet<InstructionId> = need.clone();
        before.extend(sinks.iter().flat_map(|sink| self.sink_links(sink)));
        for &value in reached.iter().rev() {
            if before.contains(&value) {
                before.extend(self.reach.links(graph.op(value)));
            }
        }
        let members: IndexMap<InstructionId, Cut> = self
            .reach
            .cuts
            .iter()
            .filter(|(value, _)| after.contains(*value) && before.contains(*value) && self.is_part(**value))
            .map(|(&value, &cut)| (value, cut))
            .collect();
        let sinks = sinks.into_iter().map(|sink| (sink.inst, sink.clone())).collect();
        self.members = members;
        self.sinks = sinks;
    }

    fn is_member(&self, op: InstructionId) -> bool {
        self.flow.first_of(&self.members, op).is_some()
    }

    /// A sink is complete only after its loop; so is a member that is needed whole. Levels count only between the first and the last
    /// instruction of the plan.
    fn set_levels(&mut self) {
        let graph = self.flow.graph;
        let planned = self.members.keys().map(|&value| graph.op(value)).chain(self.sinks.keys().copied());
        let places: Vec<usize> = planned.map(|op| graph.number(op)).collect();
        let (Some(&first), Some(&last)) = (places.iter().min(), places.iter().max()) else { return };
        let (mut is_member, mut is_sink) = (SideTable::new(false), SideTable::new(false));
        self.members.keys().for_each(|&value| is_member.set(value, true));
        self.sinks.keys().for_each(|&op| is_sink.set(op, true));
        for &op in &graph.ops[first..=last] {
            let is_made = graph.results(op).iter().any(|&value| is_member[value]);
            let is_own = is_sink[op] || is_made;
            let inside: Vec<InstructionId> = match is_sink[op].then(|| &self.sinks[&op]) {
                Some(sink) => self.sink_links(sink),
                None if is_made => self.blocks(op),
                None => Vec::new(),
            };
            if !is_own && self.before.is_some_and(|before| before.makes(op)) {
                continue;
            }
            let level = graph.operands(op).iter().map(|operand| {
                let below = graph.op(*operand);
                let in_loop = is_member[*operand] || is_sink[below];
                let same = inside.contains(operand) && is_member[*operand] && !self.is_whole(op, *operand);
                self.level[below] + usize::from(in_loop && !same)
            });
            let level = level.max().unwrap_or(0);
            self.level.set(op, level);
        }
    }
    /// Whether a member or a sink needs all of an operand, perhaps besides blocks of it.
    fn is_whole(&self, op: InstructionId, value: InstructionId) -> bool {
        match self.sinks.get(&op) {
            Some(sink) => self.reads_whole(op, sink, value),
            None => self.needs_whole(op, value),
        }
    }
    /// Operands of a member of which it needs blocks, in whatever form.
    fn blocks(&self, op: InstructionId) -> Vec<InstructionId> {
        let Some((value, cut)) = self.flow.first_of(&self.members, op) else { return Vec::new() };
        let flows = self.flow.pull(value, cut.dim).unwrap_or_default();
        let operands = self.flow.graph.operands(op).iter().zip(&*flows);
        operands.filter(|(_, flow)| matches!(flow, OperandFlow::Block { .. })).map(|(&operand, _)| operand).collect()
    }

    /// Who needs a member beyond blocks: if anybody does, it has to be written.
    fn wanted(&self, value: InstructionId) -> LiveOut {
        let graph = self.flow.graph;
        let level = self.level[graph.op(value)];
        let again = self.again || exactness(graph.module, graph.module.instruction(graph.op(value))) == Grade::Bitwise;
        let mut wanted = LiveOut { outside_loops: graph.is_outside(value), by: IndexSet::default() };
        for &(user, _) in graph.uses(value) {
            let inside = match self.sinks.get(&user) {
                Some(sink) => self.sink_links(sink).contains(&value) && !self.reads_whole(user, sink, value),
                None => self.is_member(user) && self.blocks(user).contains(&value) && !self.needs_whole(user, value),
            };
            if !inside {
                wanted.by.insert(user);
            }
            wanted.outside_loops |= inside && self.level[user] > level && !again;
        }
        wanted
    }
    fn needs_whole(&self, op: InstructionId, value: InstructionId) -> bool {
        let Some((first, cut)) = self.flow.first_of(&self.members, op) else { return true };
        let flows = self.flow.pull(first, cut.dim).unwrap_or_default();
        let mut operands = self.flow.graph.operands(op).iter().zip(&*flows);
        operands.any(|(&operand, flow)| operand == value && *flow == OperandFlow::Whole)
    }
    /// Whether a sink reads `value` in another place than where it is cut.
    fn reads_whole(&self, op: InstructionId, sink: &Sink, value: InstructionId) -> bool {
        let places = self.flow.graph.operands(op).iter().filter(|&&operand| operand == value).count();
        let cut = self.flow.cut_values(sink).iter().filter(|(operand, _)| *operand == value).count();
        places > cut
    }

    /// Members that others need, too, and that only rename memory that stands outside of the loops: nothing has to write them.
    fn views_of_inputs(&self, wanted: &IndexMap<InstructionId, LiveOut>) -> IndexSet<InstructionId> {
        let graph = self.flow.graph;
        let mut views: Vec<InstructionId> = Vec::new();
        let mut members: Vec<InstructionId> = self.members.keys().copied().collect();
        members.sort_unstable_by_key(|&value| graph.place(value));
        for value in members {
            let &[of, ..] = graph.operands(graph.op(value)) else { continue };
            if is_view(graph.module, graph.op(value)) && (!self.members.contains_key(&of) || views.contains(&of)) {
                views.push(value);
            }
        }
        let mut outside = IndexSet::default();
        for &value in views.iter().rev() {
            let is_needed =
                graph.uses(value).iter().flat_map(|&(user, _)| graph.results(user)).any(|user| outside.contains(user));
            if is_needed || wanted[&value].is_written() {
                outside.insert(value);
            }
        }
        outside
    }

    /// The plan; none if it would be empty, or write what a loop could go on with if a call were inlined.
    fn plan(&self) -> Result<Option<Plan>, TooManyLoops> {
        let graph = self.flow.graph;
        let mut members = self.members.clone();
        let mut wanted: IndexMap<InstructionId, LiveOut> =
            members.keys().map(|&value| (value, self.wanted(value))).collect();
        let outside = self.views_of_inputs(&wanted);
        members.retain(|value, _| !outside.contains(value));
        wanted.retain(|value, _| !outside.contains(value));
        let written: IndexSet<InstructionId> =
            wanted.iter().filter(|(_, wanted)| wanted.is_written()).map(|(&value, _)| value).collect();
        let ends = written.iter().map(|&value| graph.op(value)).chain(self.sinks.keys().copied());
        let levels: BTreeSet<usize> = ends.map(|op| self.level[op]).collect();
        if levels.is_empty() {
            return Ok(None);
        }
        if levels.len() > MOST_LOOPS {
            return Err(TooManyLoops);
        }
        let mut plan = Plan { members, loops: Vec::new(), allowed: Vec::new(), wanted, repeats_shape: false };
        for level in levels {
            let here = |op: InstructionId| self.level[op] == level;
            let writes = written.iter().filter(|&&value| here(graph.op(value))).map(|&value| {
                let Cut { dim, rows } = plan.members[&value];
                Sink::plain(value, self.reach.total, rows, Kind::Write { dim })
            });
            let sinks: Vec<Sink> = self.sinks.values().filter(|sink| here(sink.inst)).cloned().chain(writes).collect();
            let mut allowed = self.flow.free.clone();
            for &value in plan.members.keys() {
                let op = graph.op(value);
                let done = written.contains(&value) && self.level[op] < level;
                allowed.set(op, self.level[op] <= level && !done);
            }
            plan.loops.push(sinks);
            plan.allowed.push(allowed);
        }
        let hidden = |value: &InstructionId| {
            let mut users = graph.uses(*value).iter();
            users.any(|&(user, _)| is_transparent(graph.module, user)) && self.flow.is_big(*value, self.least)
        };
        // Once the call is inlined, the loop can go on where it would now have to write.
        let hidden = written.iter().any(hidden);
        Ok((!hidden).then_some(plan))
    }
}
