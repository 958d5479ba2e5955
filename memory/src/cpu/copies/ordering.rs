//! Which of two instructions must run first, whatever the schedule: by dependencies, through the computations that call each other.
//!
//! Source: `HloOrdering`, `DependencyHloOrdering` (xla/hlo/analysis/hlo_ordering.cc).

use std::cell::RefCell;
use std::rc::Rc;

use hlo_ir::arena::SideTable;
use hlo_ir::{AttrKey, ComputationId, InstructionId, Module, Opcode};
use smallvec::SmallVec;

use crate::assignment::flow::Flow;
use crate::assignment::values::ValueId;
use crate::reachability::Reachability;

/// What is known about the order of `a` and `b`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Constraint {
    /// They are one instruction.
    Same,
    /// `a` ends before `b` starts, or is inside `b`, or in a branch that counts as earlier.
    Before,
    /// `a` is in a branch that excludes, and counts as later than, the branch of `b`.
    ExclusiveAfter,
    /// `a` runs after `b`.
    After,
    /// Nothing.
    Unordered,
}

/// The order that dependencies impose on one module.
pub(super) struct Ordering<'a> {
    flow: &'a Flow<'a>,
    module: &'a Module,
    /// Position in the post-order of the instruction's computation.
    position: SideTable<InstructionId, u32>,
    /// What depends on what, by computation and position; analysed when first asked for.
    reach: RefCell<SideTable<ComputationId, Option<Rc<Reachability>>>>,
}

impl<'a> Ordering<'a> {
    pub(super) fn of(flow: &'a Flow<'a>) -> Self {
        let mut position = SideTable::new(0);
        for &computation in flow.module.computation_ids() {
            for (index, &id) in flow.module.computation(computation).instructions.iter().enumerate() {
                position.set(id, index as u32);
            }
        }
        Self { flow, module: flow.module, position, reach: RefCell::new(SideTable::new(None)) }
    }

    /// What the module says about the order of `a` and `b`.
    pub(super) fn constraint(&self, a: InstructionId, b: InstructionId) -> Constraint {
        if a == b {
            return Constraint::Same;
        }
        let Some((outer_a, outer_b)) = self.common_callers(a, b) else { return Constraint::Unordered };
        if outer_a == outer_b {
            return self.inside_one(outer_a, a, b);
        }
        if self.depends(outer_b, outer_a) {
            return Constraint::Before;
        }
        if self.depends(outer_a, outer_b) { Constraint::After } else { Constraint::Unordered }
    }

    /// `a` and `b` are `outer` itself or run inside it.
    fn inside_one(&self, outer: InstructionId, a: InstructionId, b: InstructionId) -> Constraint {
        let inst = self.module.instruction(outer);
        match inst.opcode {
            Opcode::While => {
                let within = |id, key| inst.computation(key).is_some_and(|callee| self.is_inside(id, callee));
                let condition_first = within(a, &AttrKey::Condition) && within(b, &AttrKey::Body);
                if condition_first { Constraint::Before } else { Constraint::Unordered }
            }
            Opcode::Conditional => {
                let branch = |id| inst.called_computations().position(|branch| self.is_inside(id, branch));
                match (branch(a), branch(b)) {
                    (Some(_), None) => Constraint::Before,
                    (None, Some(_)) => Constraint::After,
                    (Some(a), Some(b)) if a < b => Constraint::Before,
                    (Some(a), Some(b)) if a > b => Constraint::ExclusiveAfter,
                    _ => Constraint::Unordered,
                }
            }
            _ => Constraint::Unordered,
        }
    }

    /// The instruction and its callers, up to the entry.
    fn callers(&self, id: InstructionId) -> SmallVec<[InstructionId; 8]> {
        let mut chain = SmallVec::from_slice(&[id]);
        let mut at = id;
        while let Some(caller) = self.flow.classes.caller(self.module.instruction(at).parent) {
            chain.push(caller);
            at = caller;
        }
        chain
    }

    /// The nearest callers of both that stand in one computation.
    fn common_callers(&self, a: InstructionId, b: InstructionId) -> Option<(InstructionId, InstructionId)> {
        let parent = |id: InstructionId| self.module.instruction(id).parent;
        if parent(a) == parent(b) {
            return Some((a, b));
        }
        let (chain_a, chain_b) = (self.callers(a), self.callers(b));
        let mut common = None;
        for (&x, &y) in chain_a.iter().rev().zip(chain_b.iter().rev()) {
            if parent(x) != parent(y) {
                break;
            }
            common = Some((x, y));
            if x != y {
                break;
            }
        }
        common
    }

    /// Whether `id` stands in `computation` or in something it calls.
    pub(super) fn is_inside(&self, id: InstructionId, computation: ComputationId) -> bool {
        self.callers(id).iter().any(|&caller| self.module.instruction(caller).parent == computation)
    }

    /// Whether `id` stands inside a computation that `caller` names by `key`.
    pub(super) fn is_inside_callee(&self, id: InstructionId, caller: InstructionId, key: &AttrKey) -> bool {
        let inner = self.module.instruction(caller).computation(key);
        inner.is_some_and(|inner| self.is_inside(id, inner))
    }

    /// Whether `id` needs `on`, an instruction of the same computation, to have run.
    fn depends(&self, id: InstructionId, on: InstructionId) -> bool {
        let (at, wanted) = (self.position[id], self.position[on]);
        if wanted >= at {
            return false;
        }
        let computation = self.module.instruction(id).parent;
        let mut known = self.reach.borrow_mut();
        let reach = known[computation].get_or_insert_with(|| Rc::new(self.reach_in(computation)));
        reach.needs_to_run(at as usize, wanted as usize)
    }

    fn reach_in(&self, computation: ComputationId) -> Reachability {
        let list = &self.module.computation(computation).instructions;
        Reachability::of(list.len(), |index, needs| {
            let inst = self.module.instruction(list[index]);
            needs.extend(inst.operands.iter().chain(inst.control_predecessors()).map(|&before| self.position[before]));
        })
    }

    /// Whether value `a` certainly exists before value `b` does.
    ///
    /// Source: `HloOrdering::IsDefinedBefore`.
    pub(super) fn is_defined_before(&self, a: ValueId, b: ValueId) -> bool {
        let (def_a, def_b) = (self.definition(a), self.definition(b));
        let inst = |id: InstructionId| self.module.instruction(id);
        let is_argument = |id| inst(id).opcode == Opcode::Parameter && inst(id).parent == self.module.entry();
        if is_argument(def_b) || is_argument(def_a) {
            return !is_argument(def_b);
        }
        let is_phi = |value, id, opcode| self.flow.values.is_phi(value) && inst(id).opcode == opcode;
        let (phi_a, phi_b) = (is_phi(a, def_a, Opcode::Parameter), is_phi(b, def_b, Opcode::Parameter));
        if phi_a && !phi_b && self.is_inside(def_b, inst(def_a).parent) {
            return true;
        }
        if phi_b && self.is_inside(def_a, inst(def_b).parent) {
            return false;
        }
        if is_phi(b, def_b, Opcode::While) || is_phi(b, def_b, Opcode::Conditional) {
            let mut callees = inst(def_b).called_computations();
            if callees.any(|callee| self.is_inside(def_a, callee)) {
                return true;
            }
        }
        self.constraint(def_a, def_b) == Constraint::Before
    }

    /// The instruction that defines a value.
    pub(super) fn definition(&self, value: ValueId) -> InstructionId {
        self.flow.places.owner(self.flow.values.place(value))
    }
}
