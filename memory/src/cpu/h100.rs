//! The GPU that is modelled: NVIDIA's H100 SXM, by its data sheet.

// Tests: `memory/tests/device_calls.rs`, `memory/tests/devices.rs`.

/// Bytes of memory a nanosecond.
pub(crate) const BANDWIDTH: f64 = 3352.32;
/// Bytes of the second-level cache.
pub(crate) const CACHE: f64 = 52_428_800.0;
/// Multiprocessors, their floating-point units, and cycles of these a nanosecond.
pub(crate) const CORES: f64 = 132.0;
pub(crate) const UNITS: f64 = 128.0;
pub(crate) const CLOCK: f64 = 1.98;
