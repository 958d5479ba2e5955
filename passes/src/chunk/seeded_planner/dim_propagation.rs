//! What can be computed on the same blocks as a value: the flow of one of its dimensions, towards users and large operands.

use std::cell::RefCell;
use std::rc::Rc;

use crate::hash::IndexMap;
use hlo_ir::arena::SideTable;
use hlo_ir::{AttrKey, InstructionId, Opcode, ScatterDims};

use super::graph::Graph;
use crate::chunk::sink::{Kind, Sink, contracted_with};
use crate::flow::{Barrier, Flows, OperandFlow, RowLoop, Rows, exactness_on_blocks, is_product, producer, pull};
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

/// Answers for one computation: flow questions are asked again and again.
pub(super) struct Flow<'a, 'm> {
    pub(super) context: &'a Context<'m>,
    pub(super) graph: &'a Graph<'m>,
    pub(super) free: SideTable<InstructionId, bool>,
    pulls: RefCell<IndexMap<(InstructionId, usize), Pull>>,
}

impl<'a, 'm> Flow<'a, 'm> {
    pub(super) fn new(context: &'a Context<'m>, graph: &'a Graph<'m>) -> Self {
        Self { context, graph, free: graph.free(), pulls: RefCell::default() }
    }
    /// What a block of dimension `dim` of the results of `op` needs; `None` if it cannot or must not be computed.
    pub(super) fn pull(&self, op: InstructionId, dim: usize) -> Pull {
        if let Some(known) = self.pulls.borrow().get(&(op, dim)) {
            return known.clone();
        }
        let flows = match self.graph.module.instruction(op).opcode {
            Opcode::While => self.pull_loop(op, dim),
            _ => pull(self.graph.module, op, dim),
        };
        let flows: Pull = flows.ok().map(Into::into);
        self.pulls.borrow_mut().insert((op, dim), flows.clone());
        flows
    }
    /// A loop over independent rows, if all of its results that are used are cut.
    fn pull_loop(&self, op: InstructionId, dim: usize) -> Flows {
        let barrier = || Barrier { code: "loop", text: "the loop does not treat its rows independently".into() };
        let results = self.graph.results(op);
        let elements = results.iter().map(|&result| producer(self.graph.module, result).1);
        let elements: Vec<usize> = elements.filter_map(|index| usize::try_from(index?).ok()).collect();
        let row_loop = elements.first().and_then(|&first| RowLoop::of(self.graph.module, op, first, dim));
        let row_loop = row_loop.filter(|row_loop| elements.iter().all(|&element| row_loop.cuts(element)));
        row_loop.map(|row_loop| row_loop.flows()).ok_or_else(barrier)
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
            let Some(flows) = self.pull(op, cut.dim) else { continue };
            // The results of one instruction are cut alike.
            for &result in self.graph.results(op) {
                reach.cuts.insert(result, cut);
            }
            for &result in self.graph.results(op) {
                for &(user, number) in self.graph.uses(result) {
                    self.forward(&mut reach, &mut work, (user, number), cut, least);
                }
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
            let flows = self.pull(op, cut.dim).filter(|_| self.graph.results(op).first() == Some(&value))?;
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
        let Some(&result) = self.graph.results(user).first() else { return };
        for dim in 0..self.graph.dims(result).len() {
            let Some(flows) = self.pull(user, dim) else { continue };
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
            for (operand, dim) in sink.cut_operands(self.graph.module) {
                let number = self.graph.module.instruction(user).operands.iter().position(|&id| id == operand);
                let value = number.map_or(operand, |number| self.graph.operands(user)[number]);
                if self.is_big(value, least) {
                    work.push((value, Cut { dim, rows: cut.rows }));
                }
            }
            reach.sinks.insert(user, sink);
        }
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
