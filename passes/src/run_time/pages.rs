//! Memory that XLA:CPU asks the system for in every run.
//!
//! Temporaries are one allocation and each result is another. glibc gives what is larger than 32 MiB (`DEFAULT_MMAP_THRESHOLD_MAX`) back to the system at once, so that
//! the next run touches fresh pages, each of which the kernel has to fill with zeros first. An array of 1 GiB took 245 ms to make anew and 30 in the memory
//! of an argument (two cores, jax 0.10.2, 28 November 2026): 0.8 microseconds for a page of 4 KiB.

use hlo_ir::Module;
use hlo_memory::{Bytes, Estimator as _, ModelEstimator};

/// Allocations up to here stay with the process.
const KEPT: u64 = 32 << 20;
/// Bytes that become usable in a second.
const FRESH: f64 = 5e9;

/// Seconds that fresh pages take in a run of a scheduled module; results count as one allocation.
pub(super) fn seconds(module: &Module) -> f64 {
    let Ok(estimate) = ModelEstimator::default().estimate(module) else { return 0.0 };
    let results = estimate.outputs - estimate.aliased;
    let fresh = |bytes: Bytes| if bytes.get() > KEPT { bytes.get() as f64 } else { 0.0 };
    (fresh(estimate.temporaries) + fresh(results)) / FRESH
}
