//! Which rows a loop stacks: the fewest bytes from which everything that is read follows, a minimum cut.
//!
//! Every value of a step is stored, in a stack, or computed again from its operands. Storing costs its bytes, computing a little for each
//! number, and what cannot be computed again must be stored where something needs it. The cheapest choice is a minimum cut between
//! what cannot be computed again and the rows that are read. The idea is that of min-cut rematerialization of gradients
//! (Horace He and Shangdi Yu, "Transcending Runtime-Memory Tradeoffs in Checkpointing by being Fusion Aware", MLSys 2023).

use std::collections::VecDeque;

use hlo_ir::{ElementType, InstructionId, Module, Opcode};
use hlo_memory::{Target, size};
use indexmap::IndexMap;
use petgraph::Direction;
use petgraph::algo::{dinics, tarjan_scc};
use petgraph::graph::{DiGraph, NodeIndex};
use petgraph::visit::EdgeRef;

use super::cone::{Node, node};
use super::grow::Outlets;
use super::products::multiplications;
use super::readers::Readers;
use super::stacks::{Stack, Stacks};
use crate::flow::{Value, is_slow};
use crate::{Grade, Options};

/// What a stacked byte costs, where a simple operation on one number costs [`OPERATION`]: a row of `f32` is worth 64 operations, about what
/// writing and reading it takes beside operations that a kernel shares.
const STORED: u64 = 64;
/// What a simple operation on one number costs.
const OPERATION: u64 = 4;
/// What a multiplication of a product costs, with its addition: a row of `f32` is worth a contraction of 256 numbers.
const MULTIPLICATION: u64 = 1;
/// How much more a function costs, or a movement of data that no kernel takes in.
const SLOW: u64 = 4;
/// More than any sum of prices.
const NEVER: u64 = u64::MAX / 8;

/// What is weighed against each other.
#[derive(Clone, Copy, Debug)]
pub(super) struct Prices {
    /// Whether products may be computed again.
    pub(super) products: bool,
    /// How many times its usual price a stacked byte costs: more where memory is asked for at the cost of run time.
    pub(super) memory: u64,
}

/// The stacks to drop, by index; stacks to add are put behind those that are there.
pub(super) fn choose(
    module: &Module,
    stacks: &mut Stacks,
    readers: &Readers,
    options: &Options,
    outlets: &Outlets,
    prices: Prices,
) -> Vec<usize> {
    let is_read = |index: usize| readers.list.iter().any(|reader| reader.reads.iter().any(|read| read.stack == index));
    let may_go = |at: usize| !(options.exactness == Grade::Bitwise && stacks.list[at].is_rounded());
    let droppable: Vec<usize> = (0..stacks.list.len()).filter(|&at| readers.only_read[at] && may_go(at)).collect();
    let sinks: Vec<usize> = droppable.iter().copied().filter(|&at| is_read(at)).collect();
    let mut network = Network::new(prices);
    network.grow(module, stacks, &sinks, &droppable, options, outlets);
    let mut dropped = sinks;
    for value in network.cut() {
        match droppable.iter().find(|&&at| stacks.list[at].row == value) {
            Some(kept) => dropped.retain(|at| at != kept),
            None => stacks.add(module, value),
        }
    }
    dropped
}

/// The values of a step: two nodes for each, before and behind the decision to store it, and an edge for each price.
struct Network {
    graph: DiGraph<(), u64>,
    nodes: IndexMap<Value, [NodeIndex; 2]>,
    /// What cannot be computed again.
    source: NodeIndex,
    /// What is read.
    sink: NodeIndex,
    prices: Prices,
}

impl Network {
    fn new(prices: Prices) -> Self {
        let mut graph = DiGraph::new();
        let (source, sink) = (graph.add_node(()), graph.add_node(()));
        Self { graph, nodes: IndexMap::new(), source, sink, prices }
    }

    /// The nodes of a value, and whether they are new.
    fn nodes(&mut self, value: Value) -> ([NodeIndex; 2], bool) {
        if let Some(&nodes) = self.nodes.get(&value) {
            return (nodes, false);
        }
        let nodes = [self.graph.add_node(()), self.graph.add_node(())];
        self.nodes.insert(value, nodes);
        (nodes, true)
    }

    /// Adds what the rows of `sinks` follow from.
    fn grow(
        &mut self,
        module: &Module,
        stacks: &mut Stacks,
        sinks: &[usize],
        droppable: &[usize],
        options: &Options,
        outlets: &Outlets,
    ) {
        let exact = options.exactness == Grade::Bitwise;
        let mut work: Vec<Value> = Vec::new();
        let mut steps: Vec<[Value; 2]> = Vec::new();
        for &at in sinks {
            let row = stacks.list[at].row;
            let ([_, stored], new) = self.nodes(row);
            self.graph.add_edge(stored, self.sink, NEVER);
            work.extend(new.then_some(row));
        }
        while let Some(value) = work.pop() {
            let ([needed, stored], _) = self.nodes(value);
            let found = node(module, stacks, value, droppable);
            let has_stack = droppable.iter().any(|&at| stacks.list[at].row == value);
            let is_new = || module.instruction(value.inst).opcode != Opcode::Reshape;
            let can_stack = has_stack || (is_new() && outlets.reach(module, &stacks.body.frames, value));
            let storing =
                if can_stack { storing(module, value.inst, options.target, self.prices.memory) } else { NEVER };
            self.graph.add_edge(needed, stored, storing);
            match found {
                Some(Node::Row(_) | Node::Given(_) | Node::GivenRow(_) | Node::Counter) => {}
                Some(Node::Before(_, next)) => {
                    steps.push([value, next]);
                    self.compute(value, computing(module, value.inst, self.prices.products), [next], &mut work);
                }
                Some(Node::Operation(operands)) if !(exact && computes_floats(module, value.inst)) => {
                    self.compute(value, computing(module, value.inst, self.prices.products), operands, &mut work);
                }
                _ => {
                    self.graph.add_edge(self.source, needed, NEVER);
                }
            }
        }
        self.end_in_rows(&steps);
    }

    /// Lets a value be computed again from `operands`, at a price.
    fn compute(&mut self, value: Value, price: u64, operands: impl IntoIterator<Item = Value>, work: &mut Vec<Value>) {
        let ([needed, _], _) = self.nodes(value);
        self.graph.add_edge(self.source, needed, price);
        for operand in operands.into_iter().filter(|_| price < NEVER) {
            let ([_, behind], new) = self.nodes(operand);
            self.graph.add_edge(behind, needed, NEVER);
            work.extend(new.then_some(operand));
        }
    }

    /// What follows from itself, one step before, could be followed back to the beginning: a row of it must be stored, and from that row the next
    /// step's follows. `steps`: what a step begins with, and what the step before made it from.
    fn end_in_rows(&mut self, steps: &[[Value; 2]]) {
        let mut ring = vec![0; self.graph.node_count()];
        for (number, nodes) in tarjan_scc(&self.graph).iter().enumerate() {
            for node in nodes {
                ring[node.index()] = number;
            }
        }
        for [before, next] in steps {
            let [before, next] = [before, next].map(|value| self.nodes[value][0]);
            if ring[before.index()] == ring[next.index()] {
                self.graph.add_edge(self.source, next, NEVER);
            }
        }
    }

    /// The values to store: of all cheapest choices the one nearest to what is read, which computes least.
    fn cut(&self) -> Vec<Value> {
        let (_, flows) = dinics(&self.graph, self.source, self.sink);
        let mut reaches = vec![false; self.graph.node_count()];
        reaches[self.sink.index()] = true;
        let mut work = VecDeque::from([self.sink]);
        while let Some(at) = work.pop_front() {
            let before = self.graph.edges_directed(at, Direction::Incoming);
            let before = before.filter(|edge| flows[edge.id().index()] < *edge.weight()).map(|edge| edge.source());
            let back = self.graph.edges_directed(at, Direction::Outgoing);
            let back = back.filter(|edge| flows[edge.id().index()] > 0).map(|edge| edge.target());
            for next in before.chain(back) {
                if !std::mem::replace(&mut reaches[next.index()], true) {
                    work.push_back(next);
                }
            }
        }
        let is_stored = |[needed, stored]: [NodeIndex; 2]| !reaches[needed.index()] && reaches[stored.index()];
        self.nodes.iter().filter(|(_, nodes)| is_stored(**nodes)).map(|(&value, _)| value).collect()
    }
}

/// What stacking a row costs. A `bf16` counts as an `f32` on CPU, where XLA widens the whole array before the loop that reads it.
fn storing(module: &Module, id: InstructionId, target: Target, times: u64) -> u64 {
    let array = module.instruction(id).array().filter(|array| !array.is_dynamic());
    let widened = array.map(|array| match array.element_type {
        ElementType::Bf16 if target == Target::Cpu => array.with_element_type(ElementType::F32),
        _ => array.clone(),
    });
    let bytes = widened.as_ref().and_then(size::array_size);
    bytes.map_or(NEVER, |bytes| bytes.0.saturating_mul(STORED.saturating_mul(times)).min(NEVER))
}

/// What computing a value once more costs, its operands apart.
fn computing(module: &Module, id: InstructionId, products: bool) -> u64 {
    let inst = module.instruction(id);
    let times = match inst.opcode {
        Opcode::Dot if products => return multiplications(module, id).saturating_mul(MULTIPLICATION).min(NEVER),
        Opcode::Dot => return NEVER,
        Opcode::Constant | Opcode::Iota | Opcode::Broadcast | Opcode::Reshape => 0,
        Opcode::Transpose | Opcode::Concatenate | Opcode::Slice => SLOW,
        _ if is_slow(module, id) => SLOW,
        _ => 1,
    };
    let elements = inst.array().and_then(hlo_ir::ArrayShape::elements).unwrap_or(NEVER);
    elements.saturating_mul(OPERATION * times).min(NEVER)
}

/// Whether a value is computed with floats, so that computing it elsewhere may round otherwise.
fn computes_floats(module: &Module, id: InstructionId) -> bool {
    !super::emit::keeps_bits(module.instruction(id), |operand| module.instruction(operand))
}

impl Stacks {
    /// A stack of a value that has none yet, behind all others.
    fn add(&mut self, module: &Module, value: Value) {
        let row = module.instruction(value.inst).array().expect("only arrays have a price");
        let dims = [self.rows].into_iter().chain(row.dims.iter().copied());
        let array = hlo_ir::ArrayShape::new(row.element_type, dims);
        let element = self.initial.len() + self.list.len() - self.known;
        let number = self.list[0].number;
        self.list.push(Stack { element, array, row: value, number });
    }
}
