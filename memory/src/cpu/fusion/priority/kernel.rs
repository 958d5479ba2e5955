//! What a kernel computes and reads: how often each value behind its result is computed, counted from the result towards what it reads.
//!
//! Work that is the same for elementwise readers is done once. What reads otherwise asks for elements of its own.
//!
//! Source: `GpuHloCostAnalysis::FusionCalculateUtilizations` (xla/service/gpu/model/gpu_hlo_cost_analysis.cc) and the utilizations of `HloCostAnalysis`
//! (xla/service/hlo_cost_analysis.cc).

// Tests: `memory/tests/devices.rs`.

use std::collections::BinaryHeap;

use hlo_ir::arena::SideTable;
use hlo_ir::{ComputationId, InstructionId, Opcode};
use smallvec::SmallVec;

use super::super::super::graph::{Graph, Order};
use super::super::super::traffic::bytes;
use super::super::super::traits;
use super::facts::{self, Facts};
use super::{cycles, places, reduction, rows};
use crate::hash::IndexSet;

/// Operands of elementwise instructions behind which transposes are looked for (`allowed_operand_count` of `FindHero`).
const MOST_OPERANDS: usize = 3;

/// Numbers of the values that others are computed beside.
pub(super) type Beside = SmallVec<[u32; 4]>;

/// A kernel, by what it writes.
#[derive(Clone, Debug)]
pub(super) struct Kernel {
    /// Cycles of its floating-point units, two for each that takes one.
    pub(super) operations: f64,
    /// Instructions that are emitted.
    pub(super) code: f64,
    /// Bytes written.
    pub(super) written: f64,
    /// Blocks of threads.
    pub(super) blocks: f64,
    /// Whether a sum of more than a few numbers is inside.
    pub(super) reduces: bool,
    /// Whether it keeps rows in registers: a [normalization](mod@super::diamonds) is inside.
    pub(super) keeps_rows: bool,
    /// How many values it computes otherwise than row by row, or of rows that do not fit into registers.
    pub(super) not_by_row: u32,
    /// Whether a transpose is inside that reads neighbouring elements from places that are far from each other.
    pub(super) transposes: bool,
    /// Transposes that lie behind its result but for elementwise work. The kernel goes through tiles if there is one, which it reads in order.
    pub(super) tiled_transposes: u32,
    pub(super) reads: SmallVec<[Read; 8]>,
    /// How often all of the value with this number is computed.
    pub(super) times: Vec<f64>,
    /// Nanoseconds without the launch, once they are known.
    pub(super) time: f64,
}

/// An array that a kernel reads.
#[derive(Clone, Debug)]
pub(super) struct Read {
    pub(super) of: InstructionId,
    /// How often all of it is read.
    pub(super) times: f64,
    /// How often it would be emitted.
    pub(super) code: f64,
    /// What it is read beside: the first number is that of the result.
    pub(super) beside: Beside,
}

impl Kernel {
    pub(super) fn read(&self, of: InstructionId) -> Option<&Read> {
        self.reads.iter().find(|read| read.of == of)
    }
    /// Whether it reads neighbouring elements from places that are far from each other.
    pub(super) fn is_scattered(&self) -> bool {
        self.transposes && self.tiled_transposes != 1
    }
    /// The same if it makes a value itself that it reads.
    pub(super) fn is_scattered_with(&self, value: &Self, read: &Read) -> bool {
        let tiled = self.tiled_transposes + if read.beside.contains(&0) { value.tiled_transposes } else { 0 };
        (self.transposes || value.transposes) && tiled != 1
    }
}

/// A value in a kernel that is looked at.
#[derive(Debug)]
struct Node {
    beside: Beside,
    times: f64,
    code: f64,
}

/// The kernels of a computation, while it is decided which values are made where they are read.
pub(super) struct Kernels<'a> {
    graph: &'a Graph,
    order: Order<InstructionId>,
    facts: Facts,
    place: SideTable<InstructionId, u32>,
    made: SideTable<InstructionId, bool>,
    /// What a normalization computes of the rows that its kernel keeps, and whether there is a normalization.
    of_rows: SideTable<InstructionId, bool>,
    has_rows: bool,
    /// Operations of the kernels that took in others. Each brings its own copy of what several compute: XLA merges copies (`HloCSE`) only behind this fusion.
    ///
    /// Source: `FusionPipeline` (xla/service/gpu/fusion_pipeline.cc).
    taken_in: SideTable<InstructionId, Option<f64>>,
    /// The node of a value in the kernel that is looked at, and that kernel's number.
    node: SideTable<InstructionId, (u32, u32)>,
    looked_at: u32,
}

impl<'a> Kernels<'a> {
    pub(super) fn new(graph: &'a Graph, computation: ComputationId) -> Self {
        let order = graph.post_order(computation);
        let mut place = SideTable::new(0);
        for (at, &id) in order.iter().enumerate() {
            place.set(id, at as u32);
        }
        Self {
            graph,
            facts: facts::of(graph, &order),
            order,
            place,
            made: SideTable::new(false),
            of_rows: SideTable::new(false),
            has_rows: false,
            taken_in: SideTable::new(None),
            node: SideTable::new((0, 0)),
            looked_at: 0,
        }
    }

    pub(super) fn order(&self) -> Order<InstructionId> {
        self.order.clone()
    }

    /// What the cost model asks of the instructions.
    pub(super) fn facts(&self) -> &Facts {
        &self.facts
    }

    pub(super) fn make_where_read(&mut self, id: InstructionId) {
        self.made.set(id, true);
    }

    /// Notes what a kernel makes of the rows that it keeps.
    pub(super) fn make_of_rows(&mut self, id: InstructionId) {
        self.made.set(id, true);
        self.of_rows.set(id, true);
        self.has_rows = true;
    }

    /// Notes how many operations the kernel that writes `root` makes, now that it takes in another.
    pub(super) fn take_in(&mut self, root: InstructionId, operations: f64) {
        if self.has_rows {
            self.taken_in.set(root, Some(operations));
        }
    }

    pub(super) fn is_made(&self, id: InstructionId) -> bool {
        self.made[id]
    }

    pub(super) fn into_made(self) -> SideTable<InstructionId, bool> {
        self.made
    }

    /// The kernel that writes `root`.
    pub(super) fn build(&mut self, root: InstructionId) -> Kernel {
        self.looked_at += 1;
        let mut nodes: Vec<Node> = Vec::new();
        let mut open: BinaryHeap<u32> = BinaryHeap::new();
        let first = self.node_of(root, &mut nodes, &mut open);
        nodes[first].times = 1.0;
        nodes[first].code = 1.0;
        nodes[first].beside.push(0);
        let mut kernel = Kernel {
            operations: 0.0,
            code: 0.0,
            written: written(self.graph, root) as f64,
            blocks: reduction::blocks(self.graph, root),
            reduces: false,
            keeps_rows: self.has_rows && self.keeps_rows(root),
            not_by_row: 0,
            transposes: false,
            tiled_transposes: self.tiled_transposes(root),
            reads: SmallVec::new(),
            times: Vec::new(),
            time: 0.0,
        };
        while let Some(place) = open.pop() {
            let id = self.order[place as usize];
            let at = self.node[id].1 as usize;
            let (times, code) = nodes[at].beside.iter().fold((0.0, 0.0), |(times, code), &other| {
                (times + nodes[other as usize].times, code + nodes[other as usize].code)
            });
            if id != root && !self.made[id] {
                let beside = nodes[at].beside.clone();
                kernel.reads.push(Read { of: id, times, code, beside });
                continue;
            }
            let fact = &self.facts[id];
            kernel.operations += times * fact.operations;
            kernel.code += code;
            kernel.reduces |= fact.is_long && !self.of_rows[id];
            kernel.not_by_row += u32::from(!rows::is_computed_by_row(self.graph, id));
            kernel.transposes |= fact.is_scattered;
            let is_beside = kernel.keeps_rows || fact.keeps_places;
            self.pass_on(id, is_beside, (times, code), &mut nodes, &mut open);
        }
        if kernel.keeps_rows {
            kernel.operations = self.taken_in[root].unwrap_or(kernel.operations);
        }
        kernel.times = nodes.iter().map(|node| node.times).collect();
        kernel
    }

    /// Whether a normalization is inside of the kernel that writes `root`.
    fn keeps_rows(&self, root: InstructionId) -> bool {
        let mut open: SmallVec<[InstructionId; 16]> = SmallVec::from_slice(&[root]);
        let mut seen: IndexSet<InstructionId> = IndexSet::default();
        while let Some(id) = open.pop() {
            if self.of_rows[id] {
                return true;
            }
            open.extend(self.graph.operands(id).iter().copied().filter(|&of| self.made[of] && seen.insert(of)));
        }
        false
    }

    /// Transposes behind `root` in its kernel but for elementwise work.
    ///
    /// Source: `FindHero`, `IsIntermediate` (xla/codegen/ir_emission_utils.cc).
    fn tiled_transposes(&self, root: InstructionId) -> u32 {
        let mut found = 0;
        let mut open: SmallVec<[InstructionId; 16]> = SmallVec::from_slice(&[root]);
        let mut seen: IndexSet<InstructionId> = IndexSet::default();
        while let Some(id) = open.pop() {
            if places::moves_rows(self.graph, id) {
                found += 1;
                continue;
            }
            let is_passed = traits::is_elementwise_alone(self.graph, id) || self.graph.opcode(id) == Opcode::Bitcast;
            if is_passed && self.graph.operands(id).len() <= MOST_OPERANDS {
                open.extend(self.graph.operands(id).iter().copied().filter(|&of| self.made[of] && seen.insert(of)));
            }
        }
        found
    }

    /// Counts what `id` asks of its operands.
    fn pass_on(
        &mut self,
        id: InstructionId,
        is_beside: bool,
        (times, code): (f64, f64),
        nodes: &mut Vec<Node>,
        open: &mut BinaryHeap<u32>,
    ) {
        let at = self.node[id].1 as usize;
        for (number, &operand) in self.graph.operands(id).iter().enumerate() {
            let other = self.node_of(operand, nodes, open);
            if is_beside {
                let beside = nodes[at].beside.clone();
                for root in beside {
                    if !nodes[other].beside.contains(&root) {
                        nodes[other].beside.push(root);
                    }
                }
                continue;
            }
            let elements = self.facts[operand].elements;
            let asked = (times * share_read(self.graph, id, number) * elements).ceil() / elements;
            if !nodes[other].beside.contains(&(other as u32)) {
                nodes[other].beside.push(other as u32);
            }
            nodes[other].times += asked;
            nodes[other].code += code;
        }
    }

    fn node_of(&mut self, id: InstructionId, nodes: &mut Vec<Node>, open: &mut BinaryHeap<u32>) -> usize {
        let (kernel, at) = self.node[id];
        if kernel == self.looked_at {
            return at as usize;
        }
        self.node.set(id, (self.looked_at, nodes.len() as u32));
        nodes.push(Node { beside: Beside::new(), times: 0.0, code: 0.0 });
        open.push(self.place[id]);
        nodes.len() - 1
    }
}

/// Bytes that a kernel with this result writes.
fn written(graph: &Graph, root: InstructionId) -> u64 {
    match graph.opcode(root) {
        Opcode::DynamicUpdateSlice => bytes(graph, graph.operand(root, 1)),
        _ => bytes(graph, root),
    }
}

/// How often an instruction that is no elementwise one reads all of an operand.
fn share_read(graph: &Graph, id: InstructionId, number: usize) -> f64 {
    use Opcode as O;
    let elements = |id| traits::elements(graph, id).max(1) as f64;
    let of_result = || elements(id) / elements(graph.operand(id, number));
    match graph.opcode(id) {
        O::Broadcast => of_result(),
        O::Slice | O::DynamicSlice | O::Gather if number == 0 => of_result(),
        O::DynamicUpdateSlice if number == 0 => 0.0,
        O::ReduceWindow if 2 * number < graph.operands(id).len() => of_result() * cycles::window_size(graph, id),
        O::Reduce if 2 * number >= graph.operands(id).len() => elements(id),
        _ => 1.0,
    }
}
