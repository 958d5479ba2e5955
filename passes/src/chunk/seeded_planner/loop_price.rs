//! What loops over independent rows cost, as memory traffic: what their iterations compute, and what each block adds to that.

// Tests: `passes/tests/chunk_time.rs`, `passes/tests/chunk_loops.rs`.

use crate::hash::IndexMap;
use hlo_ir::{AttrKey, DotDims, InstructionId, Opcode};

use super::dim_propagation::Flow;
use super::graph::Graph;
use crate::Machine;
use crate::chunk::region::{Region, Source};
use crate::cost::{Costs, multiplications};
use crate::flow::{is_fusible, producer};
use crate::loops::{Counted, RowLoop};

/// Prices of the loops that regions compute on blocks.
pub(super) struct LoopPrices {
    /// By loop, what it takes in all and what each block adds.
    prices: IndexMap<InstructionId, Price>,
    /// The loops that are sinks, and none of whose results are computed otherwise.
    sinks: Vec<InstructionId>,
}

#[derive(Clone, Copy)]
struct Price {
    work: f64,
    per_block: f64,
}

impl LoopPrices {
    pub(super) fn of(flow: &Flow<'_, '_>, regions: &[Region]) -> Self {
        let graph = flow.graph;
        let machine = flow.context.options.machine();
        let mut found = Self { prices: IndexMap::default(), sinks: Vec::new() };
        for region in regions {
            for row_loop in &region.sums {
                let looping = row_loop.looping;
                found.prices.insert(looping, price(graph, machine, row_loop));
                found.sinks.push(looping);
            }
            for (block, source) in &region.blocks {
                let op = producer(graph.module, block.value.inst).0;
                let computed = matches!(source, Source::Computed(_));
                if computed && let Some(row_loop) = region.row_loop(block.value.inst, block.dim) {
                    found.prices.entry(op).or_insert_with(|| price(graph, machine, &row_loop));
                    found.sinks.retain(|&sink| sink != op);
                }
            }
        }
        found
    }
    /// What a loop takes; `None` of what is none.
    pub(super) fn work(&self, op: InstructionId) -> Option<f64> {
        self.prices.get(&op).map(|price| price.work)
    }
    /// What the loops take that are only sinks.
    pub(super) fn of_sinks(&self) -> f64 {
        self.sinks.iter().filter_map(|sink| self.work(*sink)).sum()
    }
    /// What each block adds to what the loops take.
    pub(super) fn per_block(&self) -> f64 {
        self.prices.values().map(|price| price.per_block).sum()
    }
}

/// How many iterations a loop makes, one if nobody knows.
pub(super) fn steps(graph: &Graph<'_>, row_loop: &RowLoop) -> u64 {
    let steps = Counted::of(graph.module, row_loop.looping).and_then(|counted| counted.steps);
    steps.and_then(|steps| u64::try_from(steps).ok()).unwrap_or(1).max(1)
}

/// The price of a loop: in each iteration of each block its kernels start, what is the same for all rows is read, sums are added to, and products have fewer rows.
fn price(graph: &Graph<'_>, machine: &Machine, row_loop: &RowLoop) -> Price {
    let module = graph.module;
    let steps = steps(graph, row_loop) as f64;
    let computed = row_loop.body.nodes.keys().map(|(value, _)| module.instruction(value.inst).opcode);
    let kernels = computed.filter(|&opcode| stands(opcode)).count() as u64 + 1;
    let started = machine.traffic(machine.iteration + machine.kernel * kernels);
    let read: f64 = row_loop.wholes().map(|element| touched(graph, machine, row_loop, element, steps)).sum();
    let added: f64 = row_loop.sums().map(|element| 3.0 * touched(graph, machine, row_loop, element, steps)).sum();
    let products: f64 = row_loop.blocks().into_iter().map(|(id, dim, _)| few_rows(graph, machine, id, dim)).sum();
    let inst = module.instruction(row_loop.looping);
    let body = inst.computation(&AttrKey::Body);
    let computed = body.map_or(0.0, |body| Costs::new(module, machine).at_least(body));
    let inside: f64 = row_loop.inside().map(|inner| price(graph, machine, inner).per_block).sum();
    // What each block takes the loop as it is takes once.
    let per_block = steps * (started + products + inside) + read + added;
    Price { work: steps * computed + per_block, per_block }
}

/// What a product of matrices takes beyond its operations where a dimension of its rows or columns is cut, however few of them a block has.
fn few_rows(graph: &Graph<'_>, machine: &Machine, id: InstructionId, dim: usize) -> f64 {
    let module = graph.module;
    let inst = module.instruction(id);
    let (Some(dims), Some(array), Some(work)) =
        (DotDims::of(inst), inst.array(), multiplications(module, id, machine.target))
    else {
        return 0.0;
    };
    let Some(left) = module.instruction(inst.operands[0]).array() else { return 0.0 };
    let (batches, end) = (dims.lhs_batch.len(), left.rank() - dims.lhs_contracting.len());
    let side = if dim < end { batches..end } else { end..array.rank() };
    let rows: i64 = if side.contains(&dim) { side.map(|dim| array.dims[dim].max(1)).product() } else { return 0.0 };
    machine.product_traffic(array.element_type) * work as f64 * machine.few_rows as f64 / rows as f64
}

/// Whether an instruction is a kernel of its own, or the end of one.
fn stands(opcode: Opcode) -> bool {
    !is_fusible(opcode) && !matches!(opcode, Opcode::GetTupleElement | Opcode::Parameter | Opcode::Constant)
}

/// Traffic of an element that every block reads or adds to, in all iterations: once of rows that iterations take, else all of it each time.
fn touched(graph: &Graph<'_>, machine: &Machine, row_loop: &RowLoop, element: usize, steps: f64) -> f64 {
    let bytes = graph.bytes(row_loop.starts[element]);
    let traffic = if bytes > machine.cache.get() { bytes as f64 } else { machine.cached_traffic(bytes as f64) };
    if row_loop.takes_rows_of(graph.module, element) { bytes as f64 } else { steps * traffic }
}
