//! Reproducible random numbers and arrays.

use hlo_ir::ArrayShape;

use super::tensor::Tensor;

/// A small generator (splitmix64).
pub(crate) struct Random(pub(crate) u64);

impl Random {
    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }
    /// A number in `[low, high)`.
    pub(crate) fn range(&mut self, low: i64, high: i64) -> i64 {
        low + (self.next() % (high - low) as u64) as i64
    }
    /// One of the given values.
    pub(crate) fn pick<T: Clone>(&mut self, values: &[T]) -> T {
        values[self.range(0, values.len() as i64) as usize].clone()
    }
    /// Often `whole`, else a number in `[least, whole]`.
    pub(crate) fn some_of(&mut self, whole: i64, least: i64) -> i64 {
        if self.range(0, 2) == 0 { whole } else { self.range(least, whole + 1) }
    }
    /// An array with elements in `[-9, 10)`.
    pub(crate) fn tensor(&mut self, shape: &ArrayShape) -> Tensor {
        Tensor::build(shape, |_| self.range(-9, 10))
    }
}
