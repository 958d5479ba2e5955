//! The objective of a run: minimum memory, memory that costs little run time, or memory that costs none.

// Tests: `passes/tests/budget.rs`, `passes/tests/chunk_targets.rs`.

use hlo_memory::Bytes;

use crate::Context;

/// Largest slowdown of a program by values that are computed again, by default and where loops in their place cost no more: what `--max-slowdown` promises
/// (docs/getting-started.md).
pub const MAX_SLOWDOWN: f64 = 1.05;

/// A part of a peak, as a divisor, that is worth time: a twentieth, as much as a run may be slower for memory.
pub(crate) const MATTERS: u64 = 20;
/// A part of a peak, as a divisor, below which differences are ignored. Estimates are off by about as much (docs/measured/scoreboard.md).
pub(crate) const NEGLIGIBLE: u64 = 100;

/// Fewest bytes that are worth a change: no [`NEGLIGIBLE`] part of all memory, and no less than the user asks for.
pub(crate) fn least_saving(context: &Context<'_>) -> Bytes {
    let all = context.estimate.total_with_scratch().get();
    Bytes(all / NEGLIGIBLE).max(context.options.min_saving).max(Bytes(1))
}

/// Memory that every machine has to spare. Programs that need less are not made slower, unless the user asks for less memory.
pub(crate) const ALWAYS_AVAILABLE: Bytes = Bytes(128 << 20);

/// What rewrites may cost, as far as no budget says it.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub enum Objective {
    /// Minimum memory, whatever run time it costs.
    Memory,
    /// Memory that costs little run time: up to [`MAX_SLOWDOWN`] where values are computed again, or what loops in their place may cost, otherwise as each pass documents.
    #[default]
    Balanced,
    /// Memory that costs no run time: no step of the search makes the program slower, by estimate.
    Time,
}

impl Objective {
    /// The spelling in flags.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Memory => "memory",
            Self::Balanced => "balanced",
            Self::Time => "time",
        }
    }
}
