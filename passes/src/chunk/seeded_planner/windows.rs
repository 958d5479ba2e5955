//! What it costs that windows are cut: a loop over a dimension of what each index fetches walks all indices in every iteration, and one over columns
//! all rows.
//!
//! A window that is cut in blocks of less than a cache line fetches the same lines again for each block, so such loops run slower. Kernels start
//! anew for each row, so what is computed of such an array counts like it. The measurements stand in docs/measured/log.md, "Figures behind constants".

use hlo_ir::{AttrKey, InstructionId, Opcode};
use hlo_memory::Target;

use super::dim_propagation::Flow;
use super::graph::Graph;
use super::loop_partition::Plan;
use super::loop_price::steps;
use crate::chunk::region::{Region, Source};
use crate::chunk::sink::Kind;
use crate::flow::producer;
use crate::machine::LINE;

/// Bytes that lie together and are cut.
struct Window {
    /// How many of them there are.
    count: u64,
    /// The bytes of one.
    bytes: u64,
    /// Bytes that come from memory at once for a block of it: a cache line, or the window if its neighbours come along.
    line: u64,
    /// How often each byte is read or written.
    times: u64,
}

impl Window {
    fn accesses(&self) -> f64 {
        self.count as f64 * self.times as f64
    }
}

/// Windows of gathers and scatters, and rows of arrays read and written and of what is computed in such rows, that a plan cuts.
pub(super) struct Windows(Vec<Window>);

impl Windows {
    /// Those of all loops of a plan. Rows count on CPU, where they were measured.
    pub(super) fn of(flow: &Flow<'_, '_>, plan: &Plan, regions: &[Region]) -> Self {
        let (graph, for_cpu) = (flow.graph, flow.context.options.target == Target::Cpu);
        let blocks = || regions.iter().flat_map(|region| &region.blocks);
        let fetched = blocks().filter_map(|(block, source)| {
            let op = producer(graph.module, block.value.inst).0;
            let computed = matches!(source, Source::Computed(_));
            computed.then(|| window(graph, op, block.dim)).flatten()
        });
        // In each step of a loop.
        let inside = regions.iter().flat_map(Region::row_loops).flat_map(|row_loop| {
            let steps = steps(graph, row_loop);
            row_loop.blocks().into_iter().filter_map(move |(id, dim, _)| {
                let window = window(graph, id, dim)?;
                Some(Window { times: window.times.saturating_mul(steps), ..window })
            })
        });
        let read = blocks().filter_map(|(block, source)| {
            let read = matches!(source, Source::Read(_));
            read.then(|| row(graph, block.value.inst, block.dim, 1)).flatten()
        });
        let written = plan.loops.iter().flatten().filter_map(|sink| match sink.kind {
            // A line that is written in part is read before.
            Kind::Write { dim } => row(graph, sink.inst, dim, 2),
            _ => None,
        });
        let held = blocks().filter_map(|(block, source)| {
            let held = matches!(source, Source::Computed(_)) && graph.is_held(block.value.inst);
            held.then(|| row(graph, block.value.inst, block.dim, 1)).flatten()
        });
        let mut rows: Vec<Window> = read.chain(written).filter(|_| for_cpu).collect();
        let like_memory: Vec<Window> =
            held.filter(|held| rows.iter().any(|row| (row.count, row.bytes) == (held.count, held.bytes))).collect();
        rows.extend(like_memory);
        Self(fetched.chain(inside).chain(rows).collect())
    }

    /// Memory traffic beyond the original's, of loops of so many blocks.
    fn cost(&self, blocks: f64) -> f64 {
        let beyond = |window: &Window| (window.line as f64).mul_add(blocks, -(window.bytes as f64)).max(0.0);
        self.0.iter().map(|window| window.accesses() * beyond(window)).sum()
    }

    /// Most blocks that add `allowed` at most where each adds `per_block` anyway.
    pub(super) fn most_blocks(&self, allowed: f64, per_block: f64) -> f64 {
        let most = allowed / per_block;
        if self.cost(most) == 0.0 {
            return most;
        }
        // The windows' own bytes are part of what the original costs; their number alone can be near the largest integer.
        let sum = |of: fn(&Window) -> u64| self.0.iter().map(|window| window.accesses() * of(window) as f64).sum();
        let (free, lines): (f64, f64) = (sum(|window| window.bytes), sum(|window| window.line));
        most.min((allowed + free) / (per_block + lines))
    }
}

/// The rows of an array in front of a dimension.
fn row(graph: &Graph<'_>, value: InstructionId, dim: usize, times: u64) -> Option<Window> {
    let count = graph.dims(value).get(..dim)?.iter().map(|&size| size.max(1) as u64).fold(1, u64::saturating_mul);
    let bytes = graph.bytes(value) / count;
    (count > 1).then_some(Window { count, bytes, line: LINE.min(bytes), times })
}

/// The windows that an instruction fetches, if `dim` of its result is a dimension of them.
fn window(graph: &Graph<'_>, op: InstructionId, dim: usize) -> Option<Window> {
    let inst = graph.module.instruction(op);
    // The array that has the windows as dimensions: a gather's result, or the updates of a scatter.
    let (fetched, key, cut) = match inst.opcode {
        Opcode::Gather => (op, AttrKey::OffsetDims, inst.ints(&AttrKey::OffsetDims).contains(&(dim as i64))),
        Opcode::Scatter => {
            let updates = *inst.operands.last()?;
            let others = [AttrKey::InsertedWindowDims, AttrKey::InputBatchingDims];
            (updates, AttrKey::UpdateWindowDims, !others.iter().any(|key| inst.ints(key).contains(&(dim as i64))))
        }
        _ => return None,
    };
    let sizes = graph.dims(fetched);
    let outside = (0..sizes.len()).filter(|&dim| !inst.ints(&key).contains(&(dim as i64)));
    let count = outside.map(|dim| sizes[dim].max(1) as u64).fold(1, u64::saturating_mul);
    cut.then(|| Window { count, bytes: graph.bytes(fetched) / count, line: LINE, times: 2 })
}
