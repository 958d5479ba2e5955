//! How many rows a block has.

// Tests: `passes/tests/chunk_time.rs`.

use hlo_memory::cpu::LONGEST_TILE;
use hlo_memory::{Bytes, Target};

use crate::Machine;
use crate::bounds;
use crate::objective::NEGLIGIBLE;

/// The blocks of a loop: `count` blocks of `rows` rows, then `rest` rows.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(super) struct BlockSize {
    /// Rows per block.
    pub(super) rows: i64,
    /// Iterations of the loop.
    pub(super) count: i64,
    /// Rows that are left for the end; fewer than `rows`.
    pub(super) rest: i64,
}

/// What limits the size of a block.
#[derive(Clone, Copy, Debug)]
pub(super) struct Limits {
    /// The compiler that takes the loop.
    pub(super) target: Target,
    /// Rows in all.
    pub(super) rows: i64,
    /// Bytes that the values of a block take per row.
    pub(super) row_bytes: u64,
    /// Blocks have a multiple of this many rows.
    pub(super) granule: i64,
    /// Most bytes of one block.
    pub(super) bytes: Bytes,
    /// Fewest rows that are worth an iteration.
    pub(super) least: i64,
    /// Fewest rows that any block may have, the rest included.
    pub(super) fewest: i64,
}

/// Most iterations of one loop. On CPU their overhead shows beyond it; the time that XLA:GPU compiles grows with each of them where it
/// knows their number, and XLA:TPU keeps blocks of a hundred MiB out of its main memory, so that small ones are not needed.
const fn most_blocks(target: Target) -> i64 {
    match target {
        Target::Cpu => 1 << 16,
        Target::Gpu => 1 << 14,
        Target::Tpu => 1 << 12,
    }
}

/// Bytes of the largest block: beyond, starting an iteration takes no time that counts on any machine, and each block would be fetched from memory anyway.
pub(super) const LARGEST_BLOCK: u64 = 64 << 20;

/// Most bytes of a block of a loop of `scatters`, where arguments and results take `floor`.
pub(super) fn most_bytes(machine: &Machine, floor: Bytes, scatters: usize) -> Bytes {
    let least = machine.least_block().get();
    // XLA:CPU runs them side by side, and one waits for the other at the end of each block: they need larger ones.
    let side_by_side = machine.target == Target::Cpu && scatters > 1;
    let least = if side_by_side { (floor.get() / 16).clamp(least, least.saturating_mul(4)) } else { least };
    Bytes((floor.get() / 1024).clamp(least, least.max(LARGEST_BLOCK)))
}

/// Blocks have a multiple of this many rows: a TPU keeps long dimensions in tiles of 1024 at most, and a block of whole tiles needs no copy.
/// One tile more or less matters to nobody in a block of many.
pub(super) fn granule(target: Target, rows: i64, granule: i64) -> i64 {
    let tiled = granule.checked_mul(LONGEST_TILE / crate::flow::gcd(granule, LONGEST_TILE)).unwrap_or(granule);
    if target == Target::Tpu && rows / tiled >= NEGLIGIBLE as i64 { tiled } else { granule }
}

impl Limits {
    /// The largest power of two of rows within the limits. When it leaves a rest, the largest divisor that is more than half of the
    /// limit, if there is one. `None` if everything fits one block.
    pub(super) fn block_size(&self) -> Option<BlockSize> {
        let by_bytes = (self.bytes.get() / self.row_bytes.max(1)).try_into().unwrap_or(i64::MAX);
        let most = by_bytes.max(self.least).max(ceil(self.rows, most_blocks(self.target))).max(self.granule);
        if self.rows <= most {
            return None;
        }
        // At least two blocks: a loop of one is none.
        let most = most.min(self.rows / 2).max(self.granule);
        let power = 1 << most.ilog2();
        if self.rows % power == 0 && power % self.granule == 0 {
            return self.split(power);
        }
        let few = ceil(self.rows, most);
        let even = |count: &i64| self.rows % count == 0 && (self.rows / count) % self.granule == 0;
        if let Some(count) = (few..=few.saturating_mul(2).min(most_blocks(self.target))).find(even) {
            return self.split(self.rows / count);
        }
        self.split(if power >= self.granule { power - power % self.granule } else { self.granule })
    }

    /// Blocks of `rows` rows, or of slightly fewer or more where the rest would be too small.
    fn split(&self, rows: i64) -> Option<BlockSize> {
        // A block that is one granule smaller leaves a rest that is larger by the number of blocks, so two or three tries do.
        let tries = bounds::MAX_ATTEMPTS as i64;
        let fits = |rows: &i64| {
            let rest = self.rows % rows;
            *rows >= self.fewest && *rows < self.rows && (rest == 0 || rest >= self.fewest)
        };
        let fewer = (0..tries).map(|step| rows - step * self.granule).take_while(|&rows| rows > 0);
        let more = (1..tries).map(|step| rows + step * self.granule).take_while(|&rows| rows <= self.rows / 2);
        let rows = fewer.chain(more).find(fits)?;
        Some(BlockSize { rows, count: self.rows / rows, rest: self.rows % rows })
    }
}

/// `a / b` for positive numbers, rounded up.
fn ceil(a: i64, b: i64) -> i64 {
    a / b + i64::from(a % b != 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: u64 = 1 << 20;

    fn size(rows: i64, row_bytes: u64, granule: i64, bytes: u64, least: i64) -> Option<(i64, i64, i64)> {
        let limits = Limits { target: Target::Cpu, rows, row_bytes, granule, bytes: Bytes(bytes), least, fewest: 2 };
        limits.block_size().map(|size| (size.rows, size.count, size.rest))
    }

    #[test]
    fn a_power_of_two_is_cut_into_powers_of_two() {
        assert_eq!(size(1 << 33, 16, 1, 64 * MIB, 4096), Some((1 << 22, 2048, 0)));
    }

    #[test]
    fn a_divisor_spares_the_rest() {
        assert_eq!(size(3_000_000, 16, 1, MIB, 4096), Some((62_500, 48, 0)));
    }

    #[test]
    fn a_prime_leaves_a_rest() {
        assert_eq!(size(8_589_934_609, 16, 1, 64 * MIB, 4096), Some((1 << 22, 2048, 17)));
        assert_eq!(size(7, 16, 1, 32, 1), None, "blocks of two and of three leave a single row");
        assert_eq!(size(11, 16, 1, 64, 1), Some((4, 2, 3)));
    }

    #[test]
    fn one_block_is_no_loop() {
        assert_eq!(size(4096, 16, 1, 1, 4096), None);
        assert_eq!(size(4097, 16, 1, 1, 4096), Some((2047, 2, 3)), "no rest of one row");
        assert_eq!(size(1, 16, 1, 1, 1), None);
    }

    #[test]
    fn blocks_are_multiples_of_the_granule() {
        assert_eq!(size(1000, 1, 10, 64, 1), Some((50, 20, 0)));
        assert_eq!(size(70, 1, 70, 1, 1), None);
        assert_eq!(size(140, 1, 70, 1, 1), Some((70, 2, 0)));
    }

    #[test]
    fn scatters_side_by_side_have_larger_blocks() {
        let most = |target, floor, scatters| most_bytes(Machine::of(target), Bytes(floor * MIB), scatters).get() / MIB;
        assert_eq!([1, 2].map(|scatters| most(Target::Cpu, 80, scatters)), [1, 4]);
        assert_eq!([8, 32].map(|floor| most(Target::Cpu, floor, 2)), [1, 2], "a sixteenth of a small program");
        assert_eq!([1, 2].map(|scatters| most(Target::Cpu, 12 << 10, scatters)), [12, 12]);
        assert_eq!(most(Target::Tpu, 80, 2), 1, "where kernels run one after another");
        assert_eq!(most(Target::Gpu, 80, 2), 128, "where an iteration takes as long as moving 32 MiB");
        assert_eq!(most(Target::Cpu, 1 << 20, 1), 64);
    }

    #[test]
    fn iterations_are_bounded() {
        let (rows, count, _) = size(1 << 40, 1 << 20, 1, MIB, 1).expect("many rows");
        assert_eq!((rows, count), (1 << 24, 1 << 16));
    }
}
