//! Computes large values block by block in a loop, so that they never exist at full size.
//!
//! Waste: programs seldom have the indices and updates of a scatter. They compute them: wrap negative indices, join columns, convert,
//! broadcast a constant. XLA holds the computed arrays in memory at full size, because it does not fuse producers into a scatter. For
//! 2^33 rows of three `s32` indices that is 96 GiB of indices and 32 GiB of updates beside 96 GiB of input.
//!
//! ```text
//! y = scatter(x, indices(p), updates(q))   =>   for k in 0..K:  x = scatter(x, indices(rows k of p), updates(rows k of q))
//! ```
//!
//! The loop is a `while` that carries a counter, the scattered array and what stands in memory. Inside it, everything between the values
//! in memory and the scatter is computed again, on one block of rows. Which values can be computed block by block, and which rows
//! of their operands that takes, is decided by dimension flow with one rule per opcode, not by the look of the program. A value
//! without a rule stands in memory and is read block by block.
//!
//! Sound because each row of indices and updates is computed by the same operations from the same rows, and updates are applied in their original
//! order. The blocks cut the first row dimension of the indices (or a batching dimension) and run from front to back.
//!
//! Grade: bitwise while the loop holds integer work, data movement and elementwise operations. It is hlo-exact when the loop holds a float
//! reduction, a contraction or a transform, which `--exactness=bitwise` leaves in memory instead. It is hlo-exact, too, when the loop parts a
//! product of floats from a sum, which compilers join into one operation where they share a kernel.
//!
//! A block of such a loop has the largest power of two (or divisor) of rows whose values fit a thousandth of the program's arguments and outputs,
//! but at least 1 MiB and at most 64 MiB; `--chunk-bytes` sets another limit. Where several scatters share a loop on CPU, which runs them side by
//! side block by block, it is at least 4 MiB or a sixteenth. Rows behind the last full block are applied behind the loop. Scatters of equal row
//! count that share producers and do not depend on each other share a loop.
//!
//! An `add` behind a scatter of floats is taken into the loop, because XLA would take it into the scatter; where that is not
//! certain, the grade is hlo-exact.
//!
//! Scatters are not the only large consumers. Loops are also grown from the largest values outwards, and everything that flows along with one of
//! their dimensions is computed on blocks. These are elementwise operations, products along batch and free dimensions, reductions over other
//! dimensions, gathers, sorts of rows, `while` loops that treat every row alone, and others. Such a loop ends in
//!
//! - a scatter: sound because updates keep their order, as above;
//! - an array that is needed whole, into which each block is written (`dynamic-update-slice`): sound because each row is written exactly once, by the
//!   block that holds it;
//! - a reduction over the rows: sound because results of blocks are joined by the reduction's own operation, starting from its neutral element. For
//!   integers it is bitwise, for float minima and maxima hlo-exact; sums and products of floats change their order, which takes
//!   `--exactness=reassociate`;
//! - a contraction of the rows, with the same grades: sound because the sum of all products is the sum of what the blocks sum up to;
//! - a `while` that treats its rows independently and sums over them, such as the gradient of a scan: each block goes on from the sums of the blocks before
//!   (micro-batches), with the same grades. Sound because each iteration adds linear functions of sums over the rows and nothing else looks at these.
//!
//! All ends that share producers share a loop. What one dimension cannot end is computed again in a second loop over another dimension, if
//! that costs at most a twentieth of the work, and only if no comparison, rounding or sort follows a value that could round differently
//! in the two loops. The more memory is saved, the more of it may be computed again, as long as that costs less than the memory traffic that is saved,
//! or with products little more: `docs/how-it-works.md#what-a-rewrite-may-cost` has the bounds. Where a `--budget` is missed there is none.
//!
//! A block of a loop that is grown so takes a sixteenth of arguments and outputs, between 4 and 64 MiB. Fewer, larger blocks are made where starting
//! iterations, adding to accumulators or reading whole operands would cost more than 30 % of the work itself. That share is 15 % on CPU for products
//! in programs below 1 GiB, and 10 % on GPU. No loop is made where that is not possible. `--chunk-bytes` overrides all of this.
//!
//! On XLA:TPU blocks are whole tiles of 1024 rows and there are at most 4096 of them; on XLA:GPU, which takes time to compile for each iteration, at
//! most 16384. XLA:TPU cannot slice beyond row 2,147,483,647, and copies what is cut at a dimension shorter than a tile: no loops there.
//!
//! On CPU, programs that need less than 32 MiB beside arguments and results win no time by needing less. Their blocks are larger, so that iterations
//! take a tenth of the work itself; gains below a quarter of all memory are left, and rows of a batch are not put back block by block. This does not
//! hold if a `--budget` is missed, or `--objective=memory` or `--chunk-bytes` is given.
//!
//! Stays away from scheduled modules, from scatters whose operands already stand in memory, from those whose rows fit one block, and from gains
//! below a twentieth of all memory. Remarks say why a chance is missed:
//!
//! - `call` (callers compute an operand; inline-calls helps), `control` (control dependencies), `dynamic-shape`;
//! - `exactness` (see above), `granule` (no block size fits all values), `sharded` (the rows may lie across devices), `small-gain`;
//! - on TPU `outer-product`, `short-rows` and `wide-rows`;
//! - or the rule of dimension flow that failed, such as `concatenated`, `sorted`, `reshape` or `window`.

// Tests: `passes/tests/chunk.rs`, `passes/tests/chunk_across_devices.rs`, `passes/tests/chunk_batches.rs`, `passes/tests/chunk_corpus.rs`,
// `passes/tests/chunk_grades.rs`, `passes/tests/chunk_loops.rs`, `passes/tests/chunk_manual.rs`, `passes/tests/chunk_planner.rs`, `passes/tests/chunk_situations.rs`,
// `passes/tests/chunk_targets.rs`, `passes/tests/chunk_time.rs`, `passes/tests/legal.rs`, `passes/tests/same_terms.rs`, `passes/tests/traps.rs`,
// `tests/traps.rs`.

mod accumulate;
mod apply;
mod bf16_accumulator;
mod build;
mod cache_conflict;
mod candidates;
mod convolve;
mod devices;
mod emit;
mod excess;
mod faithful;
mod fp_contraction;
mod plan;
mod planned;
mod read;
mod region;
mod row_order;
mod savings;
mod seeded_planner;
mod sharding;
mod sink;
mod size;
mod sum;
mod wide_epilogue;

use crate::hash::IndexSet;
use hlo_ir::{ComputationId, Module, Opcode, graph};

use crate::{Context, Finding, Pass, PassKind, flow};

/// The pass; see the module's text.
#[derive(Clone, Copy, Debug, Default)]
pub struct Chunk;

impl Pass for Chunk {
    fn name(&self) -> &'static str {
        "chunk"
    }
    fn summary(&self) -> &'static str {
        "compute large values block by block in a loop, so that they never exist at full size"
    }
    crate::explanation!("chunk.rs");
    fn kind(&self) -> PassKind {
        PassKind::Rewrite
    }
    fn may_cost_time(&self) -> bool {
        false
    }
    fn makes_blocks(&self) -> bool {
        true
    }
    fn find(&self, context: &Context<'_>) -> Vec<Finding> {
        // In a scheduled module the compiler's own decisions have been taken already.
        if context.module.is_scheduled() {
            return Vec::new();
        }
        let running = running(context.module);
        let scatters = running.iter().flat_map(|&computation| plan::find(context, computation));
        // What callers do with the results of a called computation shows once the call is inlined.
        let callers = graph::callers(context.module);
        let called = |id: &ComputationId| callers[*id].iter().any(|&call| flow::is_transparent(context.module, call));
        let apart = running.iter().filter(|id| !called(id));
        scatters.chain(apart.flat_map(|&computation| seeded_planner::find(context, computation))).collect()
    }
}

/// Computations that run as such: the entry and what it reaches through calls, loops and branches, but not combiners or fusions.
fn running(module: &Module) -> IndexSet<ComputationId> {
    let mut found = IndexSet::from_iter([module.entry()]);
    let mut next = 0;
    while let Some(&computation) = found.get_index(next) {
        next += 1;
        for (_, inst) in module.instructions_of(computation) {
            if matches!(inst.opcode, Opcode::Call | Opcode::While | Opcode::Conditional) {
                found.extend(inst.called_computations());
            }
        }
    }
    found
}
