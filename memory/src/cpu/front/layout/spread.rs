//! Spreading the rules: an operation that cannot change layouts makes its result in the layout of its operands, and a rule on an operand
//! reaches the array it consists of, if no other rule got there before.
//!
//! The order decides: rules are spread depth first, the youngest first.
//!
//! Source: `LayoutAssignment::RunOnComputation`, `PropagateConstraints`, `PropagateOperandConstraint`, `PropagateBufferConstraint`,
//! `ChooseOutputLayoutFromOperandLayout`, `CalculateComputationLayout` (xla/service/layout_assignment.cc).

use hlo_ir::shape::{ArrayShape, Dims, Layout};
use hlo_ir::{AttrKey, ComputationId, Opcode};
use smallvec::smallvec;

use super::super::cx::{Cx, Id};
use super::super::dims::{align_layouts, inverse, ones_moved, true_rank};
use super::order::Order;
use super::points::{Buffer, Leaves, Points, arrays};
use super::rules::{Force, Layouts, Program, Rule, Rules, layout_of};
use crate::Target;

/// Rounds over all computations: in the first, layouts flow out of the callees; in the second, they are imposed.
const ROUNDS: usize = 2;

/// Rules spread per array and operand before a computation is left as it is: conflicting mandatory rules might chase each other.
const MOST_STEPS_EACH: usize = 64;

impl Rules<'_, '_> {
    /// Finds the layouts of all arrays and operands. The rules of the entry are the same in every round unless those of its callees changed.
    pub(super) fn solve(&mut self, computations: &[ComputationId]) {
        let mut entry_saw = None;
        for round in 0..ROUNDS {
            for &computation in computations {
                if computation == self.cx.entry() {
                    let sees = Some(self.of_callees(computations));
                    if entry_saw == sees {
                        continue;
                    }
                    entry_saw = sees;
                }
                self.forget(computation);
                self.solve_computation(computation, round > 0);
            }
        }
    }

    /// What computations other than the entry have come to, which is all that the entry is told of them.
    fn of_callees(&self, computations: &[ComputationId]) -> Vec<(Option<Program>, bool)> {
        let callees = computations.iter().filter(|&&computation| computation != self.cx.entry());
        callees.map(|&computation| (self.programs[computation].clone(), self.mismatched[computation])).collect()
    }

    /// Forgets the rules on a computation.
    fn forget(&mut self, computation: ComputationId) {
        self.points.made_in(computation).for_each(|buffer| self.making[buffer] = None);
        for id in self.cx.list(computation) {
            self.wanting.forget(id);
        }
    }

    fn solve_computation(&mut self, computation: ComputationId, later: bool) {
        self.add_mandatory(computation, later);
        if self.target == Target::Gpu {
            self.add_gpu(computation);
        } else {
            self.add_cpu(computation);
        }
        self.add_custom_calls(computation);
        let mut left = MOST_STEPS_EACH * (self.cx.slots(computation) + self.points.made_in(computation).len());
        self.spread(&mut left);
        for buffer in self.points.made_in(computation) {
            if self.making[buffer].is_none() {
                let layout = Order::Rows(self.points.made[buffer].rank);
                self.make(buffer, &layout, Force::WISH);
                self.spread(&mut left);
            }
        }
        if (!later && computation != self.cx.entry()) || self.mismatched[computation] {
            self.note_program(computation);
        }
    }

    /// Remembers the layouts that parameters and result have come to have.
    fn note_program(&mut self, computation: ComputationId) {
        let made = |id: Id| -> Layouts { self.points.leaves(id).iter().map(|&buffer| self.layout(buffer)).collect() };
        let parameters = self.cx.parameters(computation).into_iter().map(made).collect();
        let mut result = made(self.cx.root(computation));
        if let (true, Some(old)) = (self.mismatched[computation], &self.programs[computation]) {
            result.clone_from(&old.result);
        }
        self.programs.set(computation, Some(Program { parameters, result }));
    }

    /// The layout an array is made in.
    pub(super) fn layout(&self, buffer: Buffer) -> Order {
        layout_of(&self.points, &self.making, buffer)
    }

    fn spread(&mut self, left: &mut usize) {
        // What is left over when there were too many steps is forgotten.
        self.waiting.clear();
        loop {
            let mut added = std::mem::take(&mut self.added);
            for rule in added.drain(..) {
                if self.is_first(rule) { self.waiting.push_front(rule) } else { self.waiting.push_back(rule) }
            }
            // With its memory.
            self.added = added;
            let Some(rule) = self.waiting.pop_front() else { return };
            let Some(less) = left.checked_sub(1) else { return };
            *left = less;
            match rule {
                Rule::Making(buffer) => self.spread_making(buffer),
                Rule::Wanting(id, slot) => self.spread_wanting(id, slot),
                Rule::Result(computation) => {
                    let root = self.cx.root(computation);
                    let layouts = self.programs[computation].as_ref().map(|program| program.result.clone());
                    self.reach(root, &layouts.unwrap_or_default());
                }
            }
        }
    }

    fn is_first(&self, rule: Rule) -> bool {
        match rule {
            Rule::Making(buffer) => self.making[buffer].as_ref().is_none_or(|rule| rule.force.first),
            Rule::Wanting(id, slot) => self.wanting.of(id)[slot].as_ref().is_none_or(|rule| rule.force.first),
            Rule::Result(_) => true,
        }
    }

    /// Asks for the arrays of a value in these layouts.
    fn reach(&mut self, id: Id, layouts: &[Order]) {
        for (buffer, layout) in Leaves::from_slice(self.points.leaves(id)).into_iter().zip(layouts) {
            let by = self.points.made[buffer].by;
            let pair = self.cx.opcode(by) == Opcode::Reduce && self.cx.shape(by).as_tuple().is_some();
            if !pair {
                self.make(buffer, layout, Force::WISH);
            }
        }
    }

    fn spread_wanting(&mut self, id: Id, slot: usize) {
        let cx = self.cx;
        let operand = cx.operand(id, slot);
        if arrays(cx.shape(operand)).iter().all(|array| array.rank() <= 1) {
            return;
        }
        let Some(layouts) = self.wanting.of(id)[slot].as_ref().map(|rule| rule.layouts.clone()) else { return };
        self.reach(operand, &layouts);
        self.reach_aliases(id, slot, &layouts);
        if cx.array(operand).is_none() {
            return;
        }
        let tuple = cx.array(id).is_none();
        if (changes_layout(cx, id) && tuple && cx.opcode(id) != Opcode::Reduce) || Points::forwards(cx, id) {
            return;
        }
        let layout = &layouts[0];
        if !changes_layout(cx, id) || cx.opcode(id) == Opcode::Reduce {
            self.agree(id, operand, layout);
            return;
        }
        for buffer in Leaves::from_slice(self.points.leaves(id)) {
            if self.points.made[buffer].rank <= 1 {
                continue;
            }
            if let Some(result) = result_layout(cx, id, operand, &layout.dims()) {
                let mandatory = cx.opcode(id) == Opcode::Transpose;
                self.make(buffer, &Order::of(&result), Force { mandatory, first: spreads_first(cx, id) });
            }
        }
    }

    /// A custom call makes its result over an operand in that operand's layout.
    fn reach_aliases(&mut self, id: Id, slot: usize, layouts: &[Order]) {
        for (output, operand, _) in super::aliases(self.cx, id) {
            if let (true, Some(&buffer)) = (operand == slot, self.points.leaves(id).get(output)) {
                self.make(buffer, &layouts[0], Force { first: false, ..Force::WISH });
            }
        }
    }

    /// Operands and results of one rank share a layout.
    fn agree(&mut self, id: Id, operand: Id, layout: &Order) {
        let (cx, rank) = (self.cx, self.cx.rank(operand));
        if cx.opcode(id) == Opcode::Concatenate {
            let dim = cx.dimensions(id)[0] as usize;
            let size = |id: Id| cx.dims(id).get(dim).copied();
            if cx.operands(id).iter().any(|&sibling| size(sibling) > size(operand)) {
                return;
            }
        }
        for slot in 0..cx.operands(id).len() {
            let sibling = cx.operand(id, slot);
            if sibling != operand && cx.array(sibling).is_some_and(|array| array.rank() == rank) && rank > 1 {
                self.want(id, slot, smallvec![layout.clone()], Force::MANDATORY);
            }
        }
        for buffer in Leaves::from_slice(self.points.leaves(id)) {
            let made = &self.points.made[buffer];
            if made.by == id && made.rank == rank && rank > 1 {
                self.make(buffer, layout, Force::MANDATORY);
            }
        }
    }

    fn spread_making(&mut self, buffer: Buffer) {
        let (cx, id, rank) = (self.cx, self.points.made[buffer].by, self.points.made[buffer].rank);
        let layout = self.layout(buffer);
        if rank > 1 && !changes_layout(cx, id) {
            for slot in 0..cx.operands(id).len() {
                let fits = |array: &ArrayShape| array.rank() == rank;
                if cx.array(cx.operand(id, slot)).is_some_and(fits) {
                    self.want(id, slot, smallvec![layout.clone()], Force::MANDATORY);
                }
            }
        } else if rank > 1 && cx.opcode(id) == Opcode::Broadcast && cx.rank(cx.operand(id, 0)) > 1 {
            let dims = cx.dimensions(id);
            let order = layout.dims();
            let inner = order.iter().filter_map(|dim| dims.iter().position(|other| other == dim));
            let inner: Dims = inner.map(|dim| dim as i64).collect();
            self.want(id, 0, smallvec![Order::of(&inner)], Force { first: false, ..Force::MANDATORY });
        } else if rank > 1 && self.target == Target::Gpu {
            self.spread_to_operands(buffer, &layout);
        }
        if self.target == Target::Gpu {
            self.spread_to_uses(buffer, &layout);
        }
        self.reach_parameter(buffer, &layout);
    }

    /// What a loop body makes for an element of its result, it may as well be given.
    fn reach_parameter(&mut self, buffer: Buffer, layout: &Order) {
        let (cx, id, leaf) = (self.cx, self.points.made[buffer].by, self.points.made[buffer].leaf);
        let computation = cx.parent(id);
        let root = cx.root(computation);
        let is_body = self.is_body[computation];
        if !is_body || cx.opcode(root) != Opcode::Tuple || !cx.is_user(id, root) {
            return;
        }
        let Some(index) = cx.operands(root).iter().position(|&operand| operand == id) else { return };
        let Some(&parameter) = cx.parameters(computation).first() else { return };
        let at = super::points::first_at(cx.shape(parameter), &[index as i64]) + leaf;
        if let Some(&element) = self.points.leaves(parameter).get(at) {
            self.make(element, layout, Force::WISH);
        }
    }
}

/// Whether an operation may make its result in another layout than its operands have.
///
/// Source: `LayoutAssignment::InstructionCanChangeLayout`.
pub(super) fn changes_layout(cx: &Cx<'_>, id: Id) -> bool {
    use Opcode as O;
    matches!(
        cx.opcode(id),
        O::BatchNormGrad
            | O::BatchNormInference
            | O::BatchNormTraining
            | O::Bitcast
            | O::Broadcast
            | O::Call
            | O::Conditional
            | O::Constant
            | O::Convolution
            | O::Copy
            | O::CopyStart
            | O::CopyDone
            | O::CustomCall
            | O::Domain
            | O::Dot
            | O::Fusion
            | O::Gather
            | O::GetDimensionSize
            | O::GetTupleElement
            | O::Infeed
            | O::Iota
            | O::Outfeed
            | O::Parameter
            | O::PartitionId
            | O::RaggedDot
            | O::Recv
            | O::RecvDone
            | O::Reduce
            | O::ReplicaId
            | O::Reshape
            | O::DynamicReshape
            | O::Rng
            | O::RngBitGenerator
            | O::RngGetAndUpdateState
            | O::Send
            | O::SendDone
            | O::AfterAll
            | O::Transpose
            | O::Tuple
            | O::AsyncStart
            | O::AsyncUpdate
            | O::AsyncDone
    )
}

/// Whether the neighbours of the result hear of its layout before others.
///
/// Source: `InstructionShouldPropagateDepthFirst`.
pub(super) fn spreads_first(cx: &Cx<'_>, id: Id) -> bool {
    match cx.opcode(id) {
        Opcode::Gather | Opcode::Scatter | Opcode::Transpose => true,
        Opcode::Reshape => {
            let operand = cx.operand(id, 0);
            cx.rank(operand) == 1 || ones_moved(&cx.dims(operand), &cx.dims(id)).is_some()
        }
        _ => false,
    }
}

/// The layout of the result that makes a reshape or a transpose free.
fn result_layout(cx: &Cx<'_>, id: Id, operand: Id, layout: &Dims) -> Option<Dims> {
    match cx.opcode(id) {
        Opcode::Reshape => {
            let (from, to) = (cx.arr(operand), cx.arr(id));
            if true_rank(&from) == 1 && true_rank(&to) == 1 {
                return None;
            }
            let layout = Layout { minor_to_major: layout.clone(), suffix: "".into() };
            align_layouts(&ArrayShape { layout: Some(layout), ..from }, &to.dims)
        }
        Opcode::Transpose => {
            let back = inverse(&cx.inst(id).ints(&AttrKey::Dimensions).iter().copied().collect::<Dims>());
            Some(layout.iter().map(|&dim| back[dim as usize]).collect())
        }
        _ => None,
    }
}
