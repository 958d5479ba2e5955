//! Ordered maps and sets whose keys are hashed the cheap way: ids of one module need no defence against chosen collisions, and the order is that of insertion.

use rustc_hash::FxBuildHasher;

/// A map in order of insertion.
pub(crate) type IndexMap<K, V> = indexmap::IndexMap<K, V, FxBuildHasher>;
/// A set in order of insertion.
pub(crate) type IndexSet<T> = indexmap::IndexSet<T, FxBuildHasher>;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_order_is_that_of_insertion() {
        let numbers = [7_u64, 1 << 40, 3, u64::MAX, 0];
        assert!(numbers.into_iter().collect::<IndexSet<_>>().into_iter().eq(numbers));
        assert!(numbers.into_iter().map(|number| (number, ())).collect::<IndexMap<_, _>>().into_keys().eq(numbers));
    }
}
