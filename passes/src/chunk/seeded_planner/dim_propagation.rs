//! What can be computed on the same blocks as a value: the flow of one of its dimensions, towards users and large operands.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::sync::Arc;

use crate::hash::IndexMap;
use hlo_ir::arena::SideTable;
use hlo_ir::{AttrKey, InstructionId, Opcode, ScatterDims};

use super::graph::{Graph, carried};
use crate::chunk::sink::{Kind, Sink, contracted_with, grade_of};
use crate::flow::{OperandFlow, Rows, exactness_on_blocks, is_product, pull, result_of};
use crate::loops::{Role, RowLoop};
use crate::{Context, Grade};

/// The dimension in which a value is cut, and which of its rows belong to which rows of the loop.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Cut {
    pub(super) dim: usize,
    pub(super) rows: Rows,
}

/// Everything that flows along with a value.
pub(super) struct PropagatedDims {
    /// Rows of the loop.
    pub(super) total: i64,
    /// Values that can be computed on blocks.
    pub(super) cuts: IndexMap<InstructionId, Cut>,
    /// By instruction of which blocks can be computed: the operands that are needed in the very blocks in which they were reached.
    links: IndexMap<InstructionId, Vec<InstructionId>>,
    /// Instructions in which the cut dimension ends.
    pub(super) sinks: IndexMap<InstructionId, Sink>,
}

impl PropagatedDims {
    /// Operands of an instruction that are needed in the very blocks in which they were reached; none if it was not reached.
    pub(super) fn links(&self, op: InstructionId) -> &[InstructionId] {
        self.links.get(&op).map_or(&[], Vec::as_slice)
    }
}

/// What a block needs of each operand, if it can be computed.
type Pull = Option<Rc<[OperandFlow]>>;

/// Loops over independent rows, if they are, by the element of their state that is cut, and its dimension.
type KnownLoops = IndexMap<(InstructionId, usize, usize), Option<Arc<RowLoop>>>;

/// Answers for one computation: flow questions are asked again and again.
pub(super) struct Flow<'a, 'm> {
    pub(super) context: &'a Context<'m>,
    pub(super) graph: &'a Graph<'m>,
    pub(super) free: SideTable<InstructionId, bool>,
    pulls: RefCell<IndexMap<(InstructionId, usize), Pull>>,
    /// Whether rows are followed through loops that have them in several dimensions or sum over them; and whether there are any.
    through_loops: bool,
    meets_loops: Cell<bool>,
    row_loops: RefCell<KnownLoops>,
}

impl<'a, 'm> Flow<'a, 'm> {
    pub(super) fn new(context: &'a Context<'m>, graph: &'a Graph<'m>, through_loops: bool) -> Self {
        let (pulls, row_loops, meets_loops) = (RefCell::default(), RefCell::default(), Cell::new(false));
        Self { context, graph, free: graph.free(), pulls, through_loops, meets_loops, row_loops }
    }
    /// Whether rows were not followed because they lead through such loops.
    pub(super) fn meets_loops(&self) -> bool {
        self.meets_loops.get()
    }
    /// What a block of dimension `dim` of a value needs of the operands of what computes it; `None` if it cannot or must not be computed.
    pub(super) fn pull(&self, value: InstructionId, dim: usize) -> Pull {
        if let Some(known) = self.pulls.borrow().get(&(value, dim)) {
            return known.clone();
        }
        let op = self.graph.op(value);
        let flows = match self.graph.module.instruction(op).opcode {
            Opcode::While => self.loop_of(value, dim).map(|row_loop| row_loop.flows()),
            _ => pull(self.graph.module, op, dim).ok(),
        };
        let flows: Pull = flows.map(Into::into);
        self.pulls.borrow_mut().insert((value, dim), flows.clone());
        flows
    }
    /// The loop over independent rows that makes a value, cut in a dimension.
    fn loop_of(&self, value: InstructionId, dim: usize) -> Option<Arc<RowLoop>> {
        let (op, element) = result_of(self.graph.module, value)?;
        self.row_loop(op, element, dim)
    }
    /// A loop over independent rows, of which an element is cut in a dimension. Results that do not depend on the rows are still read from the loop as it is, of
    /// which nothing else stays, unless sums are taken from it.
    fn row_loop(&self, op: InstructionId, element: usize, dim: usize) -> Option<Arc<RowLoop>> {
        let key = (op, element, dim);
        if let Some(known) = self.row_loops.borrow().get(&key) {
            return known.clone();
        }
        let module = self.graph.module;
        let is_read_apart = |id: &InstructionId| {
            let inst = module.instruction(*id);
            inst.opcode == Opcode::GetTupleElement && inst.array().is_some()
        };
        let apart = self.context.users.get(op).iter().all(is_read_apart) && !self.graph.is_root(op);
        // What the run does in blocks is to have blocks of another size, and no blocks of its own.
        let stands_for_loop = self.context.stands_for_loop(op);
        let found = match self.context.row_loops.plain(module, key) {
            None if stands_for_loop && self.through_loops => self.context.row_loops.of(module, key),
            plain => plain,
        };
        self.meets_loops.set(self.meets_loops.get() || (found.is_none() && stands_for_loop));
        let found = found.filter(|row_loop| {
            let role = |&result| result_of(module, result).map(|(_, element)| row_loop.roles()[element]);
            let results = self.graph.results(op);
            let sums = row_loop.sums().next().is_some();
            let may_sum = grade_of(module, row_loop) <= self.context.options.exactness && apart;
            let depends = |result| !matches!(role(result), None | Some(Role::Whole));
            !sums || (may_sum && results.iter().all(depends))
        });
        self.row_loops.borrow_mut().insert(key, found.clone());
        found
    }
    /// The results of an instruction that are cut where one of them is, each with its dimension. Those of a loop may have their rows in different ones.
    fn cut_together(&self, value: InstructionId, cut: Cut) -> Vec<(InstructionId, Cut)> {
        let op = self.graph.op(value);
        let results = self.graph.results(op).iter();
        let Some(row_loop) = self.loop_of(value, cut.dim).filter(|_| self.is_loop(op)) else {
            return results.map(|&result| (result, cut)).collect();
        };
        let of_loop = |&result: &InstructionId| {
            row_loop.cut_of(self.graph.module, result).map(|dim| (result, Cut { dim, ..cut }))
        };
        results.filter_map(of_loop).collect()
    }
    fn is_loop(&self, op: InstructionId) -> bool {
        self.graph.module.instruction(op).opcode == Opcode::While
    }
    /// The first result of an instruction that is among these, with its cut.
    pub(super) fn first_of(
        &self,
        cuts: &IndexMap<InstructionId, Cut>,
        op: InstructionId,
    ) -> Option<(InstructionId, Cut)> {
        self.graph.results(op).iter().find_map(|value| cuts.get(value).map(|&cut| (*value, cut)))
    }
    /// Whether an instruction may be computed on blocks at all.
    fn may_move(&self, op: InstructionId) -> bool {
        let inst = self.graph.module.instruction(op);
        inst.control_predecessors().is_empty()
            && exactness_on_blocks(self.graph.module, inst) <= self.context.options.exactness
            && self.graph.results(op).iter().all(|&value| !self.graph.dims(value).is_empty())
    }
    /// Whether a value is worth following: large and not free.
    pub(super) fn is_big(&self, value: InstructionId, least: u64) -> bool {
        self.graph.bytes(value) >= least
            && !self.free[value]
            && !matches!(self.graph.module.instruction(value).opcode, Opcode::Parameter | Opcode::Constant)
    }

    /// Follows dimension `dim` of `seed` through everything of at least `least` bytes, and through whatever reads it.
    pub(super) fn reach(&self, seed: InstructionId, dim: usize, least: u64) -> PropagatedDims {
        let total = self.graph.dims(seed)[dim];
        let mut reach =
            PropagatedDims { total, cuts: IndexMap::default(), links: IndexMap::default(), sinks: IndexMap::default() };
        let mut work = vec![(seed, Cut { dim, rows: Rows::IDENTITY })];
        while let Some((value, cut)) = work.pop() {
            let op = self.graph.op(value);
            if reach.cuts.contains_key(&value) || !self.may_move(op) {
                continue;
            }
            let Some(flows) = self.pull(value, cut.dim) else { continue };
            let together = self.cut_together(value, cut);
            reach.cuts.extend(together.iter().copied());
            for (result, cut) in together {
                for &(user, number) in self.graph.uses(result) {
                    self.forward(&mut reach, &mut work, (user, number), cut, least);
                }
            }
            if let Some(row_loop) = self.loop_of(value, cut.dim).filter(|_| self.is_loop(op)) {
                self.end_in_loop(&mut reach, &mut work, (row_loop, cut.rows), least);
            }
            for (&operand, &flow) in self.graph.operands(op).iter().zip(&*flows) {
                if let Some(below) = self.below(operand, cut.rows, flow, total)
                    && self.is_big(operand, least)
                {
                    work.push((operand, below));
                }
            }
        }
        reach.links = self.links(&reach);
        reach
    }

    fn links(&self, reach: &PropagatedDims) -> IndexMap<InstructionId, Vec<InstructionId>> {
        let linked = |(&value, cut): (&InstructionId, &Cut)| {
            let op = self.graph.op(value);
            let is_first = self.first_of(&reach.cuts, op).is_some_and(|(first, _)| first == value);
            let flows = self.pull(value, cut.dim).filter(|_| is_first)?;
            let is_reached = |(&operand, &flow): (&InstructionId, &OperandFlow)| {
                let below = self.below(operand, cut.rows, flow, reach.total)?;
                (reach.cuts.get(&operand) == Some(&below)).then_some(operand)
            };
            Some((op, self.graph.operands(op).iter().zip(&*flows).filter_map(is_reached).collect()))
        };
        reach.cuts.iter().filter_map(linked).collect()
    }

    /// How an operand is cut when a block of the result asks for `flow`.
    pub(super) fn below(&self, operand: InstructionId, rows: Rows, flow: OperandFlow, total: i64) -> Option<Cut> {
        let OperandFlow::Block { dim, step } = flow else { return None };
        let rows = rows.then(step)?;
        rows.covers(total, *self.graph.dims(operand).get(dim)?).then_some(Cut { dim, rows })
    }

    fn forward(
        &self,
        reach: &mut PropagatedDims,
        work: &mut Vec<(InstructionId, Cut)>,
        (user, number): (InstructionId, usize),
        cut: Cut,
        least: u64,
    ) {
        if self.is_loop(user) {
            return self.enter_loop(reach, work, (user, number), cut, least);
        }
        let Some(&result) = self.graph.results(user).first() else { return };
        for dim in 0..self.graph.dims(result).len() {
            let Some(flows) = self.pull(result, dim) else { continue };
            let Some(&OperandFlow::Block { dim: from, step }) = flows.get(number) else { continue };
            if from == cut.dim
                && let Some(rows) = cut.rows.before(step)
                && rows.covers(reach.total, self.graph.dims(result)[dim])
            {
                work.push((result, Cut { dim, rows }));
                return;
            }
        }
        if reach.sinks.contains_key(&user) {
            return;
        }
        if let Some(sink) = self.sink(user, number, cut, reach.total) {
            self.end_in(reach, work, sink, least);
        }
    }

    /// Follows rows into a loop that treats them independently.
    fn enter_loop(
        &self,
        reach: &mut PropagatedDims,
        work: &mut Vec<(InstructionId, Cut)>,
        (user, number): (InstructionId, usize),
        cut: Cut,
        least: u64,
    ) {
        let Some(row_loop) = self.row_loop(user, number, cut.dim).filter(|_| self.may_move(user)) else { return };
        let result = |&result: &InstructionId| {
            row_loop.cut_of(self.graph.module, result).map(|dim| (result, Cut { dim, ..cut }))
        };
        match self.graph.results(user).iter().find_map(result) {
            Some(result) => work.push(result),
            None => self.end_in_loop(reach, work, (row_loop, cut.rows), least),
        }
    }

    /// Notes a loop that sums over the rows as a sink, unless it is one.
    fn end_in_loop(
        &self,
        reach: &mut PropagatedDims,
        work: &mut Vec<(InstructionId, Cut)>,
        (row_loop, rows): (Arc<RowLoop>, Rows),
        least: u64,
    ) {
        let sums = row_loop.sums().next().is_some();
        if sums && !reach.sinks.contains_key(&row_loop.looping) {
            let sink = Sink::of_loop(row_loop, reach.total, rows);
            self.end_in(reach, work, sink, least);
        }
    }

    /// Notes a sink, and follows its large operands.
    fn end_in(&self, reach: &mut PropagatedDims, work: &mut Vec<(InstructionId, Cut)>, sink: Sink, least: u64) {
        for (value, dim) in self.cut_values(&sink) {
            if self.is_big(value, least) {
                work.push((value, Cut { dim, rows: sink.map }));
            }
        }
        reach.sinks.insert(sink.inst, sink);
    }

    /// The arrays behind the cut operands of a sink.
    pub(super) fn cut_values(&self, sink: &Sink) -> Vec<(InstructionId, usize)> {
        let operands = carried(self.graph.module, sink.inst);
        let value = |(operand, dim): (InstructionId, usize)| {
            let number = operands.iter().position(|&id| id == operand)?;
            Some((self.graph.operands(sink.inst)[number], dim))
        };
        sink.cut_operands(self.graph.module).into_iter().filter_map(value).collect()
    }

    /// The sink that `user` is for blocks of its operand `number`.
    fn sink(&self, user: InstructionId, number: usize, cut: Cut, total: i64) -> Option<Sink> {
        let module = self.graph.module;
        let inst = module.instruction(user);
        if !inst.control_predecessors().is_empty() {
            return None;
        }
        let kind = match inst.opcode {
            Opcode::Scatter => {
                let inputs = ScatterDims::input_count(inst.operands.len());
                let sink = Sink::of(module, user).ok().flatten()?;
                let Kind::Scatter { index_dim, update_dim } = sink.kind else { return None };
                let fits = match number.checked_sub(inputs)? {
                    0 => cut.dim == index_dim,
                    _ => cut.dim == update_dim,
                };
                let plain = fits && sink.batch_dim.is_none() && !cut.rows.is_reversed();
                return plain.then_some(Sink { rows: total, map: cut.rows, ..sink });
            }
            Opcode::Reduce if number == 0 && inst.ints(&AttrKey::Dimensions).contains(&(cut.dim as i64)) => {
                Kind::Reduce { dim: cut.dim }
            }
            opcode if is_product(opcode) => contracted_with(module, user, number, cut.dim)?,
            _ => return None,
        };
        let sink = Sink::plain(user, total, cut.rows, kind);
        let grade = sink.grade(module, &[]);
        (grade < Grade::Assume && grade <= self.context.options.exactness).then_some(sink)
    }
}
