//! Ordered maps and sets whose keys are hashed the cheap way: ids and names of one module need no defence against chosen collisions.

// Tests: `memory/tests/predict.rs`.

use rustc_hash::FxBuildHasher;

/// A map in order of insertion.
pub(crate) type IndexMap<K, V> = indexmap::IndexMap<K, V, FxBuildHasher>;
/// A set in order of insertion.
pub(crate) type IndexSet<T> = indexmap::IndexSet<T, FxBuildHasher>;
