//! What the user wants: as little memory as can be had, memory that costs little time, or memory that costs none.

// Tests: `passes/tests/budget.rs`, `passes/tests/chunk_targets.rs`.

use hlo_memory::Bytes;

/// How many times as slow a program may become where nobody asks for memory at the cost of run time: what `--max-slowdown` promises (docs/getting-started.md).
pub const MAX_SLOWDOWN: f64 = 1.05;

/// A part of a peak, as a divisor, that is worth time: a twentieth, as much as a run may be slower for memory.
pub(crate) const MATTERS: u64 = 20;
/// A part of a peak, as a divisor, that matters to nobody. Estimates are off by about as much (docs/measured/scoreboard.md).
pub(crate) const NEGLIGIBLE: u64 = 100;

/// Memory that is at hand wherever programs run: those that need less had better be fast, unless somebody asks for memory.
pub(crate) const AT_HAND: Bytes = Bytes(128 << 20);

/// What rewrites may cost, as far as no budget says it.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub enum Objective {
    /// As little memory as can be had, whatever it costs in time.
    Memory,
    /// Memory that costs little time: [`MAX_SLOWDOWN`] where values are computed again, and what each pass says.
    #[default]
    Balanced,
    /// Memory that costs none: no step of a search takes the program longer, by estimate.
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
