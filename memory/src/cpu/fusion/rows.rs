//! Kernels of whole rows on XLA:GPU: a reduction of rows, and what reads its result over the same rows, as in a softmax or a normalization, become one
//! kernel that keeps a row in registers. It reads the rows once, and writes its result beside them: they are read before and behind the reduction.
//!
//! Source: `PriorityFusionQueue` (xla/service/gpu/transforms/priority_fusion.cc) asks `EstimateRunTimeForTriton`
//! (xla/service/gpu/model/gpu_indexing_performance_model.cc), for which a row that does not fit into registers takes forever. What it saves is
//! reading the rows again, so that a reduction joins where the kernel reads all that is reduced anyway.

// Tests: `memory/tests/devices.rs`.

use hlo_ir::arena::SideTable;
use hlo_ir::{AttrKey, InstructionId, Opcode};
use smallvec::SmallVec;

use super::super::graph::Graph;
use super::super::traits;

/// The largest row, padded to powers of two: four tenths of the 65,536 registers of a block (`DoesTileFitsInRegisters`).
const LONGEST_ROW: u64 = 26_214;
type Stack = SmallVec<[InstructionId; 16]>;

/// A kernel that would need more instructions than this is not looked into.
const MOST_INSTRUCTIONS: usize = 256;

/// What is looked at in a graph, so that nothing is looked at twice.
#[derive(Debug)]
pub(super) struct Rows {
    /// The last search in which an instruction was looked at.
    seen: SideTable<InstructionId, u32>,
    /// The number of the search under way.
    search: u32,
    /// Instructions that it may still look at.
    left: usize,
}

impl Rows {
    pub(super) const fn new() -> Self {
        Self { seen: SideTable::new(0), search: 0, left: 0 }
    }

    /// Whether `producer` becomes part of a kernel of rows: a value of each row, or what the kernel computes of its rows.
    pub(super) fn joins(&mut self, graph: &Graph, producer: InstructionId, consumer: InstructionId) -> bool {
        let Some(space) = Space::of(graph, consumer) else { return false };
        if graph.is_root(producer) || !is_row_work(graph, producer) {
            return false;
        }
        if space.is_covered_by(graph, producer) {
            return graph.user_count(producer) == 1 && is_kernel_of_rows(graph, consumer, &space);
        }
        space.has_value_of_rows(graph, producer)
            && self.is_computed_from_rows(graph, &space, producer)
            && self.reads_all(graph, &space, producer, consumer)
    }

    fn begin(&mut self) {
        self.search += 1;
        self.left = MOST_INSTRUCTIONS;
    }

    /// Whether this is seen for the first time, and not too much was seen.
    fn is_new(&mut self, id: InstructionId) -> bool {
        let is_new = self.left > 0 && self.seen[id] != self.search;
        if is_new {
            self.seen.set(id, self.search);
            self.left -= 1;
        }
        is_new
    }

    /// Whether a value of each row is a reduction of rows, or computed from such elementwise.
    fn is_computed_from_rows(&mut self, graph: &Graph, space: &Space, value: InstructionId) -> bool {
        let (rows, mut stack) = (traits::elements(graph, value), Stack::from_slice(&[value]));
        self.begin();
        while let Some(id) = stack.pop() {
            if space.is_reduced_by(graph, id) {
                return true;
            }
            if traits::elements(graph, id) == rows && is_row_work(graph, id) && self.is_new(id) {
                stack.extend_from_slice(graph.operands(id));
            }
        }
        false
    }

    /// Whether `consumer` reads all that `value` is made of, its reductions of rows included, as far as that is larger than a row and a column.
    fn reads_all(&mut self, graph: &Graph, space: &Space, value: InstructionId, consumer: InstructionId) -> bool {
        let is_large = |id| traits::elements(graph, id) > space.largest();
        let (mut wanted, mut stack) = (Stack::new(), Stack::from_slice(&[value]));
        self.begin();
        while let Some(id) = stack.pop() {
            if !self.is_new(id) {
                continue;
            }
            let is_reduction = graph.opcode(id) == Opcode::Reduce;
            if is_row_work(graph, id) && (!is_reduction || space.is_reduced_by(graph, id)) {
                stack.extend_from_slice(graph.operands(id));
            } else if is_large(id) {
                wanted.push(id);
            }
        }
        if self.left == 0 || wanted.is_empty() {
            return false;
        }
        self.begin();
        // A small value is only made of smaller ones, its reductions aside.
        let mut stack: Stack = graph.operands(consumer).iter().copied().filter(|&id| is_large(id)).collect();
        while let Some(id) = stack.pop().filter(|_| !wanted.is_empty()) {
            if !self.is_new(id) {
                continue;
            }
            if let Some(at) = wanted.iter().position(|&other| other == id) {
                wanted.swap_remove(at);
            } else if is_row_work(graph, id) && graph.opcode(id) != Opcode::Reduce {
                stack.extend(graph.operands(id).iter().copied().filter(|&id| is_large(id)));
            }
        }
        wanted.is_empty()
    }
}

/// The array whose rows a kernel goes through.
struct Space {
    dims: Vec<i64>,
}

impl Space {
    /// The rows of what a kernel writes, or reduces at last.
    fn of(graph: &Graph, kernel: InstructionId) -> Option<Self> {
        let root = if graph.opcode(kernel) == Opcode::Fusion { graph.root(graph.fused(kernel)?) } else { kernel };
        let over = if graph.opcode(root) == Opcode::Reduce { graph.operand(root, 0) } else { root };
        let dims = graph.array(over)?.dims.to_vec();
        let is_row = graph.opcode(root) != Opcode::Reduce || reduced_rows(graph, root).is_some();
        (is_row && dims.len() > 1 && is_row_work(graph, root)).then_some(Self { dims })
    }

    fn is_covered_by(&self, graph: &Graph, id: InstructionId) -> bool {
        graph.array(id).is_some_and(|array| array.dims[..] == self.dims[..])
    }

    /// Whether a reduction goes over rows of the space that fit into registers.
    fn is_reduced_by(&self, graph: &Graph, id: InstructionId) -> bool {
        let fits = |count: usize| {
            let row = self.dims[self.dims.len() - count..].iter();
            row.map(|&size| (size.max(1) as u64).next_power_of_two()).fold(1, u64::saturating_mul) <= LONGEST_ROW
        };
        graph.opcode(id) == Opcode::Reduce
            && self.is_covered_by(graph, graph.operand(id, 0))
            && reduced_rows(graph, id).is_some_and(fits)
    }

    /// Whether `value` has a number for each row.
    fn has_value_of_rows(&self, graph: &Graph, value: InstructionId) -> bool {
        let found = traits::elements(graph, value);
        let mut rows = 1_u64;
        self.dims[..self.dims.len() - 1].iter().any(|&size| {
            rows = rows.saturating_mul(size.max(1) as u64);
            found == rows && rows > 1
        })
    }

    /// The elements of the larger of a row and a column, at least.
    fn largest(&self) -> u64 {
        self.dims.iter().copied().max().unwrap_or(1) as u64
    }
}

/// How many dimensions a reduction of one array reduces, if those are its last ones.
fn reduced_rows(graph: &Graph, id: InstructionId) -> Option<usize> {
    let rank = graph.array(graph.operand(id, 0))?.rank();
    graph.array(id)?;
    let mut dims = graph.inst(id).ints(&AttrKey::Dimensions).to_vec();
    dims.sort_unstable();
    let first = rank - dims.len();
    dims.iter().enumerate().all(|(at, &dim)| dim == (first + at) as i64).then_some(dims.len())
}

/// What a kernel of rows computes.
fn is_row_work(graph: &Graph, id: InstructionId) -> bool {
    use Opcode as O;
    traits::is_elementwise(graph, id) && graph.opcode(id) != O::Fusion
        || matches!(graph.opcode(id), O::Bitcast | O::Broadcast | O::Reduce | O::Iota)
}

/// Whether a kernel has a reduction of rows inside, other than at its end.
fn is_kernel_of_rows(graph: &Graph, kernel: InstructionId, space: &Space) -> bool {
    let Some(body) = graph.fused(kernel) else { return false };
    let root = graph.root(body);
    graph.list(body).any(|id| id != root && space.is_reduced_by(graph, id))
}
