//! Programs so small that loops cost run time and win none.
//!
//! XLA:CPU asks for all temporaries of a run at once, and gives them back behind it. The C library keeps what is given back, up to 32 MiB in one piece
//! (`DEFAULT_MMAP_THRESHOLD_MAX` in glibc's malloc.c); a larger piece goes back to the system, and each run pays for its pages again. Of 206 programs
//! on one machine, those that needed more ran at 0.95 to 6 times their speed as loops over blocks (all but three), those that needed less at 0.6 to 1.5.

use hlo_memory::{Bytes, Target};

use super::outward::is_urgent;
use crate::{Context, Finding, Options, Outcome, Reason};

/// Temporaries that cost nothing from one run to the next.
const KEPT: Bytes = Bytes(32 << 20);

/// Whether a program is left alone for its run time. Who sets a size of blocks, misses a budget, or asks for less than the usual savings wants memory.
pub(super) fn is_small(context: &Context<'_>) -> bool {
    let options = context.options;
    let beside = context.before.get().saturating_sub(context.estimate.floor.get());
    let asked =
        options.chunk_bytes.is_some() || options.min_saving < Options::default().min_saving || is_urgent(context);
    options.target == Target::Cpu && beside < KEPT.get() && !asked
}

/// A finding of such a program: what could be saved, and why it is not.
pub(super) fn left_alone(finding: Finding) -> Finding {
    let Outcome::Rewrite { note, .. } = &finding.outcome else { return finding };
    let message = format!(
        "less than {KEPT} lie above the floor, which the system's allocator keeps from run to run: loops would only take time ({note}); \
         a `--budget` or `--chunk-bytes` makes them"
    );
    let outcome = Outcome::Missed(Reason { code: "small-gain", message });
    Finding { outcome, ..finding }
}
