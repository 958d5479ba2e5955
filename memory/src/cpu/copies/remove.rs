//! Copies go again where source and result can share a buffer because their values are never alive at the same time.
//!
//! Source: `CopyInsertion::RemoveUnnecessaryCopies` (xla/service/copy_insertion.cc), `CopyRemover` (xla/service/copy_removal.cc),
//! `HloOrdering::UsesBeforeValueDefinition` (xla/hlo/analysis/hlo_ordering.cc).

use hlo_ir::arena::SideTable;
use hlo_ir::{AttrKey, InstructionId, Opcode, Shape};

use super::super::fusion::control_flow_computations;
use super::super::graph::{Graph, Skeleton, Snapshot};
use super::lists::Lists;
use super::ordering::{Constraint, Ordering};
use super::uses::{PlacedUse, is_root_of, placed_uses};
use crate::assignment::aliases::Buffers;
use crate::assignment::flow::Flow;
use crate::assignment::values::ValueId;
use crate::parallel::join;

/// Removes copies until none can go. The copy instructions stay behind without users. Returns a skeleton of the graph, if one was made.
pub(super) fn run(graph: &mut Graph) -> Option<Skeleton> {
    let is_copy = |id| graph.opcode(id) == Opcode::Copy;
    if !control_flow_computations(graph).into_iter().any(|computation| graph.list(computation).any(is_copy)) {
        return None;
    }
    let mut skeleton = graph.skeleton(None);
    let snapshot = &skeleton.snapshot;
    let flow = Flow::beside(&snapshot.module, &skeleton.paths);
    let large = snapshot.module.is_large();
    let (buffers, ordering) = join(large, || Buffers::of(&flow), || Ordering::of(&flow));
    let lists = Lists::of(&flow, &buffers, &ordering);
    let copies = copies(graph, snapshot, &flow);
    let mut remover = Remover { snapshot, flow: &flow, ordering, lists, copies };
    let mut computations = graph.computation_order().to_vec();
    computations.sort_unstable();
    let candidates: Vec<InstructionId> = computations
        .into_iter()
        .filter(|&computation| graph.has_seen_in(computation, Opcode::Copy))
        .flat_map(|computation| graph.list(computation).collect::<Vec<_>>())
        .filter(|&id| remover.copies[id].is_some())
        .collect();
    let mut changed = Vec::new();
    let mut again = true;
    while again {
        again = false;
        for &copy in &candidates {
            if remover.copies[copy].is_some() && remover.try_remove(graph, copy) {
                changed.push(copy);
                changed.extend(graph.control_successors(copy));
                changed.extend(graph.users(copy));
                graph.drop_control(copy);
                graph.replace_all_uses(copy, graph.operand(copy, 0));
                again = true;
            }
        }
    }
    skeleton.follow(graph, &changed);
    Some(skeleton)
}

/// The values a copy reads and defines.
#[derive(Clone, Copy, Debug)]
struct Copied {
    source: ValueId,
    result: ValueId,
}

/// All copies between known values, by instruction of the graph.
fn copies(graph: &Graph, snapshot: &Snapshot, flow: &Flow<'_>) -> SideTable<InstructionId, Option<Copied>> {
    let mut table = SideTable::new(None);
    for &id in flow.places.order().iter().filter(|&&id| snapshot.module.instruction(id).opcode == Opcode::Copy) {
        let source =
            flow.places.root(snapshot.module.instruction(id).operands[0]).and_then(|place| flow.values.at(place));
        let result = flow.places.root(id).and_then(|place| flow.values.at(place));
        let original = snapshot.to_graph[hlo_ir::arena::Id::index(id)];
        let equal = graph.shape(original) == graph.shape(graph.operand(original, 0));
        if let (Some(source), Some(result), true) = (source, result, equal) {
            table.set(original, Some(Copied { source, result }));
        }
    }
    table
}

struct Remover<'a> {
    snapshot: &'a Snapshot,
    flow: &'a Flow<'a>,
    ordering: Ordering<'a>,
    lists: Lists<'a>,
    copies: SideTable<InstructionId, Option<Copied>>,
}

impl Remover<'_> {
    /// Joins the buffers of source and result if their values do not interfere; whether the copy can go.
    fn try_remove(&mut self, graph: &Graph, copy: InstructionId) -> bool {
        let Some(Copied { source, result }) = self.copies[copy] else { return false };
        if self.lists.follower(source) == result {
            // Source and result already share one buffer.
        } else if self.lists.is_head(result) {
            let next = self.lists.next(result);
            if self.feeds_one_scatter_twice(graph, source, next)
                || !self.all_before(graph, Some(source), next)
                || !self.all_before(graph, Some(self.lists.leader(result)), self.lists.next(source))
            {
                return false;
            }
            self.lists.splice_after(result, source);
        } else if self.lists.is_tail(source) {
            let first = self.lists.follower(source);
            if !self.all_before(graph, self.lists.previous(result), Some(first))
                || !self.all_before(graph, Some(source), self.lists.next(result))
            {
                return false;
            }
            self.lists.splice_after(first, self.lists.leader(result));
        } else {
            return false;
        }
        self.forget(copy, result);
        true
    }

    /// The copy is gone: its source takes over its uses, other copies among them.
    fn forget(&mut self, copy: InstructionId, result: ValueId) {
        let instruction = self.snapshot.in_module(copy).expect("copies are part of the analysed module");
        let (source, moved) = self.lists.remove(result, instruction);
        for a_use in moved {
            let user = self.snapshot.to_graph[hlo_ir::arena::Id::index(a_use.user)];
            if let Some(other) = &mut self.copies[user] {
                other.source = source;
            }
        }
        self.copies.set(copy, None);
    }

    /// Whether every value up to `last`, backwards through its list, is dead before each value from `first` on is defined.
    fn all_before(&self, graph: &Graph, last: Option<ValueId>, first: Option<ValueId>) -> bool {
        let mut later = first;
        while let Some(value) = later {
            let mut earlier = last;
            while let Some(other) = earlier {
                if !self.live_range_before(graph, other, value) {
                    return false;
                }
                earlier = self.lists.previous(other);
            }
            later = self.lists.next(value);
        }
        true
    }

    /// Whether `a` is certainly dead when `b` is defined.
    fn live_range_before(&self, graph: &Graph, a: ValueId, b: ValueId) -> bool {
        let uses = self.lists.uses(a);
        if uses.is_empty() {
            return self.ordering.is_defined_before(a, b);
        }
        let parent = self.snapshot.module.instruction(self.ordering.definition(b)).parent;
        let root = self.snapshot.module.computation(parent).root;
        !is_root_of(self.flow, a, root) && self.uses_before(graph, uses, b)
    }

    fn uses_before(&self, graph: &Graph, uses: &[PlacedUse], value: ValueId) -> bool {
        let mut branches = Branches::default();
        uses.iter().all(|a_use| self.use_before(graph, a_use, value, &mut branches))
    }

    /// Whether a use is certainly over when `value` is defined.
    fn use_before(&self, graph: &Graph, a_use: &PlacedUse, value: ValueId, branches: &mut Branches) -> bool {
        let definition = self.ordering.definition(value);
        match self.ordering.constraint(a_use.user, definition) {
            Constraint::Same if self.shares(graph, a_use, value) => return true,
            Constraint::Before => return true,
            Constraint::ExclusiveAfter if !branches.escapes => {
                branches.exclusive = true;
                return true;
            }
            _ => {}
        }
        let module = &self.snapshot.module;
        match module.instruction(a_use.user).opcode {
            Opcode::While => {
                if self.ordering.is_inside_callee(definition, a_use.user, &AttrKey::Body) {
                    return true;
                }
                if self.ordering.is_inside_callee(definition, a_use.user, &AttrKey::Condition) {
                    return module.instruction(definition).opcode == Opcode::Parameter;
                }
            }
            Opcode::Call if self.ordering.is_inside_callee(definition, a_use.user, &AttrKey::ToApply) => return true,
            Opcode::Conditional if self.before_branches(a_use, value, branches) => return true,
            _ => {}
        }
        module.instruction(definition).opcode == Opcode::While
            && [AttrKey::Body, AttrKey::Condition]
                .iter()
                .any(|key| self.ordering.is_inside_callee(a_use.user, definition, key))
    }

    /// A conditional reads its operands before its branches run, unless a loop around it may carry what a branch defines back into another.
    fn before_branches(&self, a_use: &PlacedUse, value: ValueId, branches: &mut Branches) -> bool {
        let module = &self.snapshot.module;
        let definition = self.ordering.definition(value);
        let inst = module.instruction(a_use.user);
        for branch in inst.called_computations() {
            if self.ordering.is_inside(definition, branch) {
                if !self.is_defined_by(inst.operands[a_use.operand]) {
                    let at_root = |other: &PlacedUse| {
                        module.computation(module.instruction(other.user).parent).root == other.user
                    };
                    branches.escapes |= placed_uses(self.flow, value).iter().any(at_root);
                }
                if !branches.exclusive {
                    return true;
                }
            }
        }
        definition == a_use.user
    }

    /// Whether the instruction defines the value of its whole result itself.
    fn is_defined_by(&self, id: InstructionId) -> bool {
        let place = self.flow.places.root(id);
        place
            .is_some_and(|place| self.flow.values.at(place).is_some_and(|value| self.flow.values.place(value) == place))
    }

    /// Whether the instruction that uses an operand and defines `value` may write the one over the other.
    fn shares(&self, graph: &Graph, a_use: &PlacedUse, value: ValueId) -> bool {
        let user = self.snapshot.to_graph[hlo_ir::arena::Id::index(a_use.user)];
        let Some(&operand) = graph.operands(user).get(a_use.operand) else { return false };
        let operands: Option<Vec<InstructionId>> =
            graph.operands(user).iter().map(|&id| self.snapshot.in_module(id)).collect();
        let place = self.snapshot.in_module(operand).and_then(|id| self.flow.places.root(id));
        let (Some(operands), Some(place)) = (operands, place) else { return false };
        let readers = graph.user_count(operand);
        self.flow.can_share_now(place.plus(a_use.offset), self.flow.values.place(value), &operands, readers)
    }

    /// Of several copies of one value that feed one scatter of several arrays, only one can go.
    fn feeds_one_scatter_twice(&self, graph: &Graph, source: ValueId, next: Option<ValueId>) -> bool {
        let Some(next) = next else { return false };
        let scatter = self.ordering.definition(next);
        let id = self.snapshot.to_graph[hlo_ir::arena::Id::index(scatter)];
        let inner = graph.fused(id).map_or(id, |body| graph.root(body));
        graph.opcode(inner) == Opcode::Scatter
            && matches!(graph.shape(inner).as_ref(), Shape::Tuple(_))
            && self.lists.uses(source).iter().any(|a_use| a_use.user == scatter)
    }
}

/// What the uses looked at so far say about the branches of a conditional.
#[derive(Default)]
struct Branches {
    /// A use and the definition are in branches that exclude each other.
    exclusive: bool,
    /// The defined value leaves its branch.
    escapes: bool,
}
