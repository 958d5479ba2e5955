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
use petgraph::graph::{DiGraph, EdgeIndex, NodeIndex};
use petgraph::unionfind::UnionFind;
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
    /// The nodes from which more could flow to the sink, behind a greatest flow. Parts of the network that only the source and the sink join have flows of their own:
    /// layers of a program, since what one needs of another is kept.
    fn reaching_the_sink(&self) -> Vec<bool> {
        let mut parts = UnionFind::new(self.graph.node_count());
        let is_end = |node: NodeIndex| node == self.source || node == self.sink;
        for edge in self.graph.edge_references().filter(|edge| !is_end(edge.source()) && !is_end(edge.target())) {
            parts.union(edge.source(), edge.target());
        }
        let mut edges: IndexMap<NodeIndex, Vec<EdgeIndex>> = IndexMap::default();
        for edge in self.graph.edge_references() {
            let inner = if is_end(edge.source()) { edge.target() } else { edge.source() };
            edges.entry(parts.find(inner)).or_default().push(edge.id());
        }
        let mut reaches = vec![false; self.graph.node_count()];
        for part in edges.values() {
            self.mark_reaching_the_sink(part, &mut reaches);
        }
        reaches
    }
    /// The same of one part, given its edges.
    fn mark_reaching_the_sink(&self, edges: &[EdgeIndex], reaches: &mut [bool]) {
        let mut part: DiGraph<NodeIndex, u64> = DiGraph::with_capacity(edges.len() + 2, edges.len());
        let [source, sink] = [self.source, self.sink].map(|end| part.add_node(end));
        let mut nodes = IndexMap::from_iter([(self.source, source), (self.sink, sink)]);
        for (ends, &price) in
            edges.iter().filter_map(|&edge| self.graph.edge_endpoints(edge).zip(self.graph.edge_weight(edge)))
        {
            let mut inner = |end| *nodes.entry(end).or_insert_with(|| part.add_node(end));
            let (from, to) = (inner(ends.0), inner(ends.1));
            part.add_edge(from, to, price);
        }
        let (_, flows) = dinics(&part, source, sink);
        let mut seen = vec![false; part.node_count()];
        seen[sink.index()] = true;
        let mut work = VecDeque::from([sink]);
        while let Some(at) = work.pop_front() {
            let before = part.edges_directed(at, Direction::Incoming);
            let before = before.filter(|edge| flows[edge.id().index()] < *edge.weight()).map(|edge| edge.source());
            let back = part.edges_directed(at, Direction::Outgoing);
            let back = back.filter(|edge| flows[edge.id().index()] > 0).map(|edge| edge.target());
            for next in before.chain(back) {
                if !std::mem::replace(&mut seen[next.index()], true) {
                    reaches[part[next].index()] = true;
                    work.push_back(next);
                }
            }
        }
    }
}
