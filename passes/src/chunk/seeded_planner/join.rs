//! Two plans made into one: each computes on blocks of its own dimension, and what only one of them can make, it makes for the other.
//!
//! ```text
//! %d = f32[n,n] ...                                loop over rows:     %u = sum of rows of g(%d)
//! %u = f32[n] reduce(g(%d)), dimensions={1}   =>   loop over columns:  %v = sum of columns of h(%d, %u)
//! %v = f32[n] reduce(h(%d, %u)), dimensions={0}
//! ```

use crate::hash::{IndexMap, IndexSet};
use hlo_ir::InstructionId;
use hlo_ir::arena::SideTable;

use super::graph::Graph;
use super::loop_partition::Plan;
use crate::chunk::sink::{Kind, Sink};

/// Both plans together: what one would have to write only for the other is computed again instead. `None` if that spares nothing.
pub(super) fn join(graph: &Graph<'_>, one: &Plan, other: &Plan) -> Option<Plan> {
    let spared = one.spared(other);
    if spared.is_empty() {
        return None;
    }
    let repeats_shape = one.repeats_shape || other.repeats_shape;
    let (mut one, mut other) = (Side::new(graph, one, &spared), Side::new(graph, other, &spared));
    other.leaves_to(&one);
    one.provides(&other)?;
    other.provides(&one)?;
    let loops = in_order(graph, one.loops.into_iter().chain(other.loops).filter(|each| !each.sinks.is_empty()))?;
    let mut members = other.plan.members.clone();
    members.extend(one.plan.members.iter().map(|(&value, &cut)| (value, cut)));
    let mut joined =
        Plan { members, loops: Vec::new(), allowed: Vec::new(), wanted: IndexMap::default(), repeats_shape };
    for Loop { sinks, allowed } in loops {
        joined.loops.push(sinks);
        joined.allowed.push(allowed);
    }
    (joined.loops.len() > 1).then_some(joined)
}

struct Loop {
    sinks: Vec<Sink>,
    allowed: SideTable<InstructionId, bool>,
}

impl Loop {
    /// What the loop reads or needs whole.
    fn leaves(&self, graph: &Graph<'_>) -> IndexSet<InstructionId> {
        let mut leaves = IndexSet::default();
        let mut seen = SideTable::new(false);
        let mut work: Vec<InstructionId> = Vec::new();
        for sink in &self.sinks {
            match sink.kind {
                Kind::Write { .. } => work.push(sink.inst),
                _ => work.extend(graph.operands(sink.inst)),
            }
        }
        while let Some(value) = work.pop() {
            let op = graph.op(value);
            if !self.allowed[op] {
                leaves.insert(value);
            } else if !std::mem::replace(&mut seen[op], true) {
                work.extend(graph.operands(op));
            }
        }
        leaves
    }
}

/// One of the two plans, as it changes.
struct Side<'a, 'm> {
    graph: &'a Graph<'m>,
    plan: &'a Plan,
    loops: Vec<Loop>,
}

impl<'a, 'm> Side<'a, 'm> {
    /// The plan without writing what is spared: later loops compute it again.
    fn new(graph: &'a Graph<'m>, plan: &'a Plan, spared: &IndexSet<InstructionId>) -> Self {
        let pairs = plan.loops.iter().zip(&plan.allowed);
        let loops = pairs.map(|(sinks, allowed)| Loop { sinks: sinks.clone(), allowed: allowed.clone() }).collect();
        let mut side = Self { graph, plan, loops };
        for &value in spared {
            let written = side.loops.iter().position(|each| each.sinks.iter().any(|sink| sink.inst == value));
            side.drop_sink(value);
            for each in side.loops.iter_mut().skip(written.unwrap_or(usize::MAX)) {
                each.allowed.set(graph.op(value), true);
            }
        }
        side
    }

    fn drop_sink(&mut self, inst: InstructionId) {
        self.loops.iter_mut().for_each(|each| each.sinks.retain(|sink| sink.inst != inst));
    }
    /// Everything that stands in memory after the loops.
    fn made(&self) -> IndexSet<InstructionId> {
        self.loops.iter().flat_map(|each| &each.sinks).map(|sink| sink.inst).collect()
    }
    fn forbid(&mut self, values: &IndexSet<InstructionId>) {
        for each in &mut self.loops {
            values.iter().for_each(|&value| each.allowed.set(self.graph.op(value), false));
        }
    }

    /// Writes a member in the first loop that computes it; later loops read it. `None` if no loop does.
    fn write(&mut self, value: InstructionId) -> Option<()> {
        if self.made().contains(&value) {
            return Some(());
        }
        let op = self.graph.op(value);
        let first = self.loops.iter().position(|each| each.allowed[op])?;
        let cut = self.plan.members.get(&value)?;
        self.loops[first].sinks.push(Sink::plain(value, self.plan.rows(0), cut.rows, Kind::Write { dim: cut.dim }));
        self.loops[first + 1..].iter_mut().for_each(|each| each.allowed.set(op, false));
        Some(())
    }
    /// What the other plan makes is read.
    fn leaves_to(&mut self, other: &Self) {
        let made = other.made();
        made.iter().for_each(|&inst| self.drop_sink(inst));
        self.forbid(&made);
    }
    /// Writes the members that the other plan cannot compute and needs.
    fn provides(&mut self, other: &Self) -> Option<()> {
        let made = other.made();
        let needed: Vec<InstructionId> = other.loops.iter().flat_map(|each| each.leaves(self.graph)).collect();
        let own = needed.into_iter().filter(|value| self.plan.members.contains_key(value) && !made.contains(value));
        own.collect::<Vec<_>>().into_iter().try_for_each(|value| self.write(value))
    }
}

/// The loops, each behind those whose results it needs; `None` if they need each other's.
fn in_order(graph: &Graph<'_>, loops: impl Iterator<Item = Loop>) -> Option<Vec<Loop>> {
    let mut left: Vec<(Loop, SideTable<InstructionId, bool>)> = loops
        .map(|each| {
            let needed = hlo_ir::graph::cone(graph.module, each.leaves(graph));
            (each, needed)
        })
        .collect();
    let mut ordered = Vec::new();
    while !left.is_empty() {
        let waits =
            |at: usize, other: usize| at != other && left[other].0.sinks.iter().any(|sink| left[at].1[sink.inst]);
        let next = (0..left.len()).find(|&at| !(0..left.len()).any(|other| waits(at, other)))?;
        ordered.push(left.remove(next).0);
    }
    Some(ordered)
}
