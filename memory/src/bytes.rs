//! A number of bytes: saturating arithmetic, one way to print it.

// Tests: `tests/cli.rs`.

use std::fmt;
use std::iter::Sum;
use std::ops::{Add, AddAssign, Sub};

/// A number of bytes. Arithmetic saturates: a size beyond 2^64 prints as the largest number instead of wrapping.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct Bytes(pub u64);

impl Bytes {
    /// No bytes.
    pub const ZERO: Self = Self(0);
    /// The plain number.
    pub const fn get(self) -> u64 {
        self.0
    }
    /// Rounded up to a multiple of `alignment`.
    #[must_use]
    pub const fn align_to(self, alignment: u64) -> Self {
        Self(self.0.div_ceil(alignment).saturating_mul(alignment))
    }
}

impl Add for Bytes {
    type Output = Self;
    fn add(self, other: Self) -> Self {
        Self(self.0.saturating_add(other.0))
    }
}

impl AddAssign for Bytes {
    fn add_assign(&mut self, other: Self) {
        *self = *self + other;
    }
}

impl Sub for Bytes {
    type Output = Self;
    fn sub(self, other: Self) -> Self {
        Self(self.0.saturating_sub(other.0))
    }
}

impl Sum for Bytes {
    fn sum<I: Iterator<Item = Self>>(iter: I) -> Self {
        iter.fold(Self::ZERO, Add::add)
    }
}

impl fmt::Display for Bytes {
    /// `96.07 GiB`, `1.50 KiB`, `12 B`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const UNITS: [&str; 6] = ["KiB", "MiB", "GiB", "TiB", "PiB", "EiB"];
        if self.0 < 1024 {
            return write!(f, "{} B", self.0);
        }
        let power = (self.0.ilog2() / 10) as usize;
        write!(f, "{:.2} {}", self.0 as f64 / (1_u64 << (10 * power)) as f64, UNITS[power - 1])
    }
}
