//! Ordered maps and sets whose keys are hashed the cheap way: ids of one module need no defence against chosen collisions, and the order is that of insertion.

use rustc_hash::FxBuildHasher;

/// A map in order of insertion.
pub(crate) type IndexMap<K, V> = indexmap::IndexMap<K, V, FxBuildHasher>;
/// A set in order of insertion.
pub(crate) type IndexSet<T> = indexmap::IndexSet<T, FxBuildHasher>;
