//! What it costs that windows are cut: a loop over a dimension of what each index fetches walks all indices in every iteration.
//!
//! A window that is cut in blocks of less than a cache line fetches the same lines again for each block. The gradient of a graph layer with
//! 16 features, made in blocks of two of them, ran at 0.4 to 0.7 of its speed.

use hlo_ir::{AttrKey, InstructionId, Opcode};

use super::graph::Graph;
use crate::chunk::region::{Region, Source};
use crate::chunk::turns::LINE;
use crate::flow::producer;

/// Gathers and scatters whose windows a plan cuts: how often they fetch one, and its bytes.
#[derive(Default)]
pub(super) struct Windows(Vec<(u64, u64)>);

impl Windows {
    /// Those of all loops of a plan.
    pub(super) fn of(graph: &Graph<'_>, regions: &[Region]) -> Self {
        let computed = regions.iter().flat_map(|region| &region.blocks).filter_map(|(block, source)| {
            let op = producer(graph.module, block.value.inst).0;
            matches!(source, Source::Computed(_)).then_some((op, block.dim))
        });
        Self(computed.filter_map(|(op, dim)| window(graph, op, dim)).collect())
    }

    /// Memory traffic beyond the original's, of loops of so many blocks.
    fn cost(&self, blocks: f64) -> f64 {
        let beyond = |bytes: u64| (LINE as f64).mul_add(blocks, -(bytes as f64)).max(0.0);
        self.0.iter().map(|&(count, bytes)| 2.0 * count as f64 * beyond(bytes)).sum()
    }

    /// Most blocks that add `allowed` at most where each adds `per_block` anyway.
    pub(super) fn most_blocks(&self, allowed: f64, per_block: f64) -> f64 {
        let most = allowed / per_block;
        if self.cost(most) == 0.0 {
            return most;
        }
        // The windows' own bytes are part of what the original costs; their number alone can be near the largest integer.
        let windows = || self.0.iter().map(|&(count, bytes)| (2.0 * count as f64, bytes as f64));
        let free = windows().map(|(count, bytes)| count * bytes).sum::<f64>();
        let lines = windows().map(|(count, _)| count * LINE as f64).sum::<f64>();
        most.min((allowed + free) / (per_block + lines))
    }
}

/// How many windows an instruction fetches, each of how many bytes, if `dim` of its result is a dimension of them.
fn window(graph: &Graph<'_>, op: InstructionId, dim: usize) -> Option<(u64, u64)> {
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
    cut.then(|| (count, graph.bytes(fetched) / count))
}
