//! The cheapest choice between keeping a value and computing it again from its operands, a minimum cut.
//!
//! Every value that something needs later is kept, at a price, or computed again, at another, from its operands, which are needed then too. What can
//! neither be kept nor computed has no such price. The cheapest choice is a minimum cut between what is given and what is needed. The idea is that of
//! min-cut rematerialization of gradients (Horace He and Shangdi Yu, "Transcending Runtime-Memory Tradeoffs in Checkpointing by being Fusion Aware",
//! MLSys 2023).

use std::collections::VecDeque;
use std::hash::Hash;

use crate::hash::IndexMap;
use petgraph::Direction;
use petgraph::algo::{dinics, tarjan_scc};
use petgraph::graph::{DiGraph, NodeIndex};
use petgraph::visit::EdgeRef;

/// How many times its usual price memory is worth, one after the other: each time four times as much, up to where everything is computed again that can be. (What is worth 16 is
/// every product of less than a thousand `f32`.)
pub(crate) const MEMORY_PRICES: [u64; 5] = [1, 4, 16, 64, 256];
/// More than any sum of prices.
pub(crate) const NEVER: u64 = u64::MAX / 8;

/// Values and their prices: two nodes for each value, before and behind the decision to keep it, and an edge for each price.
pub(crate) struct Network<V> {
    graph: DiGraph<(), u64>,
    nodes: IndexMap<V, [NodeIndex; 2]>,
    /// What cannot be computed again.
    source: NodeIndex,
    /// What is needed.
    sink: NodeIndex,
}

/// What the cheapest choice does with the values of a network; all others are not needed.
pub(crate) struct Chosen<V> {
    /// What is kept.
    pub(crate) kept: Vec<V>,
    /// What is computed again.
    pub(crate) again: Vec<V>,
}

impl<V: Copy + Eq + Hash> Network<V> {
    pub(crate) fn new() -> Self {
        let mut graph = DiGraph::new();
        let (source, sink) = (graph.add_node(()), graph.add_node(()));
        Self { graph, nodes: IndexMap::default(), source, sink }
    }
    /// The nodes of a value, and whether they are new.
    fn nodes(&mut self, value: V) -> ([NodeIndex; 2], bool) {
        if let Some(&nodes) = self.nodes.get(&value) {
            return (nodes, false);
        }
        let nodes = [self.graph.add_node(()), self.graph.add_node(())];
        self.nodes.insert(value, nodes);
        (nodes, true)
    }
    /// Notes that a value is needed later, and says whether the network has not seen it before.
    pub(crate) fn need(&mut self, value: V) -> bool {
        let ([_, kept], new) = self.nodes(value);
        self.graph.add_edge(kept, self.sink, NEVER);
        new
    }
    /// What keeping a value costs.
    pub(crate) fn keep(&mut self, value: V, price: u64) {
        let ([needed, kept], _) = self.nodes(value);
        self.graph.add_edge(needed, kept, price.min(NEVER));
    }
    /// What computing a value again costs, its operands apart.
    pub(crate) fn compute(&mut self, value: V, price: u64) {
        let ([needed, _], _) = self.nodes(value);
        self.graph.add_edge(self.source, needed, price.min(NEVER));
    }
    /// Notes that `value` is computed from `operand`, and says whether the network has not seen that before.
    pub(crate) fn follows(&mut self, value: V, operand: V) -> bool {
        let ([needed, _], _) = self.nodes(value);
        let ([_, behind], new) = self.nodes(operand);
        self.graph.add_edge(behind, needed, NEVER);
        new
    }
    /// Of the pairs of a value and what it follows from: where a value follows from itself, what it follows from is kept.
    pub(crate) fn break_cycles(&mut self, pairs: &[[V; 2]]) {
        let mut ring = vec![0; self.graph.node_count()];
        for (number, nodes) in tarjan_scc(&self.graph).iter().enumerate() {
            for node in nodes {
                ring[node.index()] = number;
            }
        }
        for &[value, from] in pairs {
            let [value, from] = [value, from].map(|value| self.nodes[&value][0]);
            if ring[value.index()] == ring[from.index()] {
                self.graph.add_edge(self.source, from, NEVER);
            }
        }
    }
    /// The cheapest choice; of several the one that computes least.
    pub(crate) fn choose(&self) -> Chosen<V> {
        let needed = self.reaching_the_sink();
        let mut chosen = Chosen { kept: Vec::new(), again: Vec::new() };
        for (&value, [before, behind]) in &self.nodes {
            match (needed[before.index()], needed[behind.index()]) {
                (false, true) => chosen.kept.push(value),
                (true, _) => chosen.again.push(value),
                (false, false) => {}
            }
        }
        chosen
    }
    /// The nodes from which more could flow to the sink, behind a greatest flow.
    fn reaching_the_sink(&self) -> Vec<bool> {
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
        reaches
    }
}
