//! chunk: applies a scatter block by block, so that its indices and updates never exist at full size.
//!
//! A scatter reads an array of indices and an array of updates. Programs seldom have these arrays: they compute them from smaller or
//! narrower ones (wrapping negative indices, joining columns, converting, broadcasting a constant), and XLA holds the computed arrays
//! in memory at full size, because it does not fuse producers into a scatter. For 2^33 rows of three `s32` indices that is 96 GiB of
//! indices and 32 GiB of updates beside 96 GiB of input.
//!
//! The pass replaces the scatter by a `while` loop over blocks of its rows:
//!
//! ```text
//! before:  y = scatter(x, indices(p), updates(q))
//! after:   for k in 0..K:  x = scatter(x, indices(rows k of p), updates(rows k of q))
//! ```
//!
//! Inside the loop everything between the values that stand in memory and the scatter is computed again, on one block. Which values can
//! be computed block by block, and which rows of their operands that takes, is decided by dimension flow, one rule per opcode, not by the
//! look of the program. What has no rule stands in memory and is read block by block.
//!
//! Results keep every bit as long as the loop contains integer work, data movement and elementwise operations. Updates are applied in
//! their original order: the blocks cut the first row dimension of the indices and run from front to back. When a float reduction, a
//! contraction or a transform is computed on blocks, the rewrite is `hlo-exact`, and `--exactness=bitwise` leaves that value in memory
//! instead.
//!
//! A block has the largest power of two (or divisor) of rows that takes at most a thousandth of the program's arguments and outputs,
//! between 1 MiB and 64 MiB; `--chunk-bytes` overrides this. Rows that no block covers are applied behind the loop. Scatters of equal row
//! count that share producers, and do not depend on each other, share a loop.
//!
//! The pass leaves a scatter alone when nothing large disappears, when a block would hold all rows, or when the gain is below a
//! twentieth of all memory. It says why it cannot act (code of the remark): `batching` (only batching dimensions to cut),
//! `control` (control dependencies), `dynamic-shape`, `granule` (no block size fits all values), `sharded` (the rows lie across
//! devices), `small-gain`, or the rule that failed, such as `concatenated`, `sorted`, `reshape`, `window`.

mod build;
mod emit;
mod plan;
mod region;
mod sink;
mod size;
mod waste;

use hlo_ir::{ComputationId, Module, Opcode};
use indexmap::IndexSet;

use crate::{Context, Finding, Pass, PassKind};

/// The pass; see the module's text.
#[derive(Clone, Copy, Debug, Default)]
pub struct Chunk;

impl Pass for Chunk {
    fn name(&self) -> &'static str {
        "chunk"
    }
    fn summary(&self) -> &'static str {
        "applies a scatter block by block, so that its indices and updates never exist at full size"
    }
    fn explanation(&self) -> &'static str {
        include_str!("mod.rs")
    }
    fn kind(&self) -> PassKind {
        PassKind::Rewrite
    }
    fn find(&self, context: &Context<'_>) -> Vec<Finding> {
        // In a scheduled module the compiler's own decisions have been taken already.
        if context.module.is_scheduled() {
            return Vec::new();
        }
        running(context.module).into_iter().flat_map(|computation| plan::find(context, computation)).collect()
    }
}

/// Computations that run as such: the entry and what it reaches through calls, loops and branches, but not combiners or fusions.
fn running(module: &Module) -> IndexSet<ComputationId> {
    let mut found = IndexSet::from([module.entry()]);
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
