//! Shardings that the program leaves open: taken over from neighbours, data movement first, until nothing changes.
//!
//! Source: Shardy's propagation (shardy/dialect/sdy/transforms/propagation): `OpPriorityPropagationPass`, and the worklist of MLIR's greedy
//! rewriter, from which what changed last is taken first.

use hlo_ir::{AttrKey, ComputationId, Opcode};

use super::factors::Kind;
use super::sharding::{self, Mesh, Sharding, Stated};
use super::spread;
use super::values::{Node, READS, Value, World};
use crate::cpu::front::cx::{Cx, Id};
use crate::cpu::graph::Rare;
use crate::hash::IndexMap;

/// What is known of the arrays of a program.
#[derive(Default)]
pub(super) struct Shardings {
    of: IndexMap<Value, Stated>,
    /// What readers ask for; `None` if two ask for different things.
    asked: IndexMap<Value, Option<Stated>>,
}

/// In which direction an instruction hands shardings on.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Direction {
    None,
    /// From operands to results.
    Forward,
    /// From results to operands.
    Backward,
    Both,
}

impl Shardings {
    /// Reads what the program states about its arrays and propagates it. `None` if a statement is not understood, or what follows from it.
    pub(super) fn of(cx: &Cx<'_>, world: &World, mesh: &Mesh, entry: ComputationId) -> Option<Self> {
        let mut found = Self::default();
        let nodes = world.nodes(cx, entry);
        found.state_all(cx, world, mesh, entry)?;
        if !found.of.is_empty() {
            Propagation::of(&nodes).run((cx, mesh), &nodes, &mut found)?;
        }
        Some(found)
    }

    /// The sharding of an array; whole if nothing divides it.
    pub(super) fn get(&self, cx: &Cx<'_>, value: Value) -> Sharding {
        let rank = || World::array(cx, value).map_or(0, hlo_ir::shape::ArrayShape::rank);
        self.of.get(&value).map_or_else(|| Sharding::whole(rank()), |stated| stated.sharding.clone())
    }

    /// The sharding in which something is to be returned, if the program says so.
    pub(super) fn wanted(&self, value: Value) -> Option<Sharding> {
        Some(self.of.get(&value)?.sharding.clone())
    }

    /// The axes of each dimension, and whether more may come.
    pub(super) fn state_of(&self, value: Value, rank: usize) -> Stated {
        let open = || Stated { sharding: Sharding::whole(rank), open: vec![true; rank] };
        self.of.get(&value).cloned().unwrap_or_else(open)
    }

    pub(super) fn set(&mut self, value: Value, stated: Stated) {
        self.of.insert(value, stated);
    }

    /// Where Shardy's meshes are named its statements count, and XLA's beside them say the same in other words.
    fn state_all(&mut self, cx: &Cx<'_>, world: &World, mesh: &Mesh, entry: ComputationId) -> Option<()> {
        let mut open = vec![entry];
        while let Some(computation) = open.pop() {
            for &id in cx.post_order(computation).iter() {
                self.state(cx, world, mesh, id)?;
                if matches!(cx.opcode(id), Opcode::While | Opcode::Conditional) {
                    open.extend(cx.callees(id));
                }
            }
        }
        for (value, wanted) in std::mem::take(&mut self.asked) {
            if let (Some(wanted), false) = (wanted, self.of.contains_key(&value)) {
                self.set(value, wanted);
            }
        }
        let root = cx.inst(world.root());
        if !mesh.is_named() && root.raw(&AttrKey::Sharding).is_some() {
            let elements = match root.shape.as_tuple() {
                Some(_) => Stated::of_elements(root, mesh)?,
                None => vec![Stated::of(root, mesh)?],
            };
            for (number, stated) in elements.into_iter().enumerate() {
                self.set(Value::Read(world.root(), READS + number), stated);
            }
        }
        Some(())
    }

    /// What a custom call of Shardy, or an attribute, says about an instruction and its operands.
    fn state(&mut self, cx: &Cx<'_>, world: &World, mesh: &Mesh, id: Id) -> Option<()> {
        let inst = cx.inst(id);
        match target(cx, id) {
            Some("xla.sdy.GlobalToLocalShape") => {
                let wanted = sharding::all_in(inst, "xla.sdy.in_shardings")?;
                for (number, wanted) in wanted.into_iter().enumerate().take(cx.operands(id).len()) {
                    self.ask(cx, world.operand(cx, id, number), &wanted);
                }
            }
            Some("xla.sdy.LocalToGlobalShape") => {
                for (leaf, given) in sharding::all_in(inst, "xla.sdy.out_shardings")?.into_iter().enumerate() {
                    self.set(Value::Of(id, leaf), given);
                }
            }
            Some("SPMDFullToShardShape") => self.set(Value::Of(id, 0), Stated::closed(Sharding::whole(cx.rank(id)))),
            Some("xla.sdy.FuncResultSharding") => {
                let wanted = sharding::all_in(inst, "xla.sdy.sharding")?.into_iter().next()?;
                self.set(Value::Of(id, 0), wanted);
            }
            Some("Sharding" | "SPMDShardToFullShape") => {
                let is_manual = inst.raw(&AttrKey::Sharding).is_some_and(|text| text.trim() == "{manual}");
                let stated =
                    if is_manual { Stated::closed(Sharding::whole(cx.rank(id))) } else { Stated::of(inst, mesh)? };
                self.set(Value::Of(id, 0), stated.clone());
                if target(cx, id) == Some("Sharding") && !stated.open.contains(&true) {
                    self.ask(cx, world.operand(cx, id, 0), &stated);
                }
            }
            None if states_its_own(cx, mesh, id) => self.set(Value::Of(id, 0), Stated::of(inst, mesh)?),
            _ => {}
        }
        Some(())
    }

    /// What is to be read divided is made so, if it is no element of a loop and nothing else is said of it.
    ///
    /// Source: `ApplyShardingConstraintsPass`.
    fn ask(&mut self, cx: &Cx<'_>, value: Value, wanted: &Stated) {
        let carried = |id| matches!(cx.opcode(id), Opcode::While | Opcode::Conditional | Opcode::OptBarrier);
        if matches!(value, Value::Of(id, _) if carried(id)) {
            return;
        }
        let asked = self.asked.entry(value).or_insert_with(|| Some(wanted.clone()));
        if asked.as_ref() != Some(wanted) {
            *asked = None;
        }
    }
}

/// Which places read or make a value, and how often one is read.
struct Propagation {
    around: IndexMap<Value, Vec<usize>>,
    reads: IndexMap<Value, usize>,
}

impl Propagation {
    fn of(nodes: &[Node]) -> Self {
        let mut found = Self { around: IndexMap::default(), reads: IndexMap::default() };
        for (at, node) in nodes.iter().enumerate() {
            for &value in node.results.iter().chain(&node.operands) {
                found.around.entry(value).or_default().push(at);
            }
            for &value in &node.operands {
                *found.reads.entry(value).or_default() += 1;
            }
        }
        found
    }

    fn run(&self, around: (&Cx<'_>, &Mesh), nodes: &[Node], found: &mut Shardings) -> Option<()> {
        let cx = around.0;
        for priority in 0..PRIORITIES {
            let mut waiting: Vec<usize> = (0..nodes.len()).rev().collect();
            let mut waits = vec![true; nodes.len()];
            let returned = (0..nodes.len()).filter(|&at| is_returned(cx, &nodes[at]));
            for at in returned {
                spread::through(around, &nodes[at], &|_| Direction::Both, found)?;
            }
            while let Some(at) = waiting.pop() {
                waits[at] = false;
                let node = &nodes[at];
                if !is_near(node, found) {
                    continue;
                }
                let direction = |kind| self.direction(cx, node, kind, priority);
                for value in spread::through(around, node, &direction, found)? {
                    for &near in self.around.get(&value).into_iter().flatten().filter(|&&near| near != at) {
                        if !std::mem::replace(&mut waits[near], true) {
                            waiting.push(near);
                        }
                    }
                }
            }
        }
        Some(())
    }

    /// Source: `opPropagationSchedule` (op_priority_propagation.cc).
    fn direction(&self, cx: &Cx<'_>, node: &Node, kind: Kind, priority: usize) -> Direction {
        let opcode = cx.opcode(node.at);
        let once = || node.operands.iter().all(|value| self.reads.get(value).is_none_or(|&reads| reads <= 1));
        if node.is_edge {
            return Direction::Both;
        }
        let passes =
            opcode.is_elementwise() || matches!(opcode, Opcode::Transpose | Opcode::Reshape | Opcode::CustomCall);
        let slices = matches!(opcode, Opcode::DynamicSlice | Opcode::DynamicUpdateSlice);
        let early = priority > 0 || once();
        let along = kind == Kind::Along || priority > 2;
        match (opcode, priority) {
            (Opcode::Broadcast, 2 | 3) => Direction::Backward,
            (Opcode::Broadcast, 0 | 1) => Direction::None,
            (_, 0 | 1) if early && passes => Direction::Both,
            (_, 0 | 1) if early && slices => Direction::Forward,
            (_, 0 | 1) => Direction::None,
            _ if passes || along => Direction::Both,
            _ if slices => Direction::Forward,
            _ => Direction::None,
        }
    }
}

/// Levels at which more and more kinds of instructions hand shardings on.
const PRIORITIES: usize = 5;

/// Whether anything is known of a value at a place.
fn is_near(node: &Node, found: &Shardings) -> bool {
    node.operands.iter().chain(&node.results).any(|value| found.of.contains_key(value))
}

/// Whether this is what the program returns: propagation starts from there.
fn is_returned(cx: &Cx<'_>, node: &Node) -> bool {
    target(cx, node.at) == Some("xla.sdy.FuncResultSharding") || matches!(node.results[..], [Value::Read(..)])
}

/// Whether an instruction that makes an array says how it is divided.
fn states_its_own(cx: &Cx<'_>, mesh: &Mesh, id: Id) -> bool {
    let inst = cx.inst(id);
    let may = cx.may_have(id, Rare::Sharding) || cx.may_have(id, Rare::Frontend);
    let shardy = || inst.raw(&AttrKey::FrontendAttributes).is_some_and(|text| text.contains("xla.sdy.sharding="));
    let plain = || !mesh.is_named() && inst.raw(&AttrKey::Sharding).is_some();
    may && inst.array().is_some() && cx.opcode(id) != Opcode::GetTupleElement && (shardy() || plain())
}

/// What a custom call calls.
pub(super) fn target<'c>(cx: &'c Cx<'_>, id: Id) -> Option<&'c str> {
    if cx.opcode(id) != Opcode::CustomCall {
        return None;
    }
    cx.inst(id).raw(&AttrKey::CustomCallTarget).map(|target| target.trim_matches('"'))
}
