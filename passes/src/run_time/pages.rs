//! Memory that XLA:CPU asks the system for in every run.
//!
//! Temporaries are one allocation and each result is another. glibc gives what is larger than 32 MiB (`DEFAULT_MMAP_THRESHOLD_MAX`) back to the system at once, so that
//! the next run touches fresh pages, each of which the kernel has to fill with zeros first. An array of 1 GiB takes 164 to 185 ms to make anew and
//! 18 to 32 in the memory of an argument (two cores, `tests/referee/scalar_times.py`, jax 0.10.2, 28 November 2026): 0.6 microseconds for a page of 4 KiB.

use hlo_memory::{Bytes, Estimate};

/// Allocations up to here stay with the process.
const KEPT: u64 = 32 << 20;
/// Bytes that become usable in a second: pages by the time of one.
const FRESH: f64 = 4096.0 / 0.6e-6;

/// Seconds that fresh pages take in a run; results count as one allocation.
pub(super) fn seconds(estimate: &Estimate) -> f64 {
    let results = estimate.outputs - estimate.aliased;
    let fresh = |bytes: Bytes| if bytes.get() > KEPT { bytes.get() as f64 } else { 0.0 };
    (fresh(estimate.temporaries) + fresh(results)) / FRESH
}

#[cfg(test)]
mod tests {
    use hlo_ir::text;
    use hlo_memory::{Target, estimate};

    use super::*;

    /// Milliseconds of a program with a temporary of so many MiB.
    fn milliseconds(mib: u64) -> u64 {
        let source = format!(
            "HloModule m, is_scheduled=true\n\nENTRY main {{\n  x = f32[] parameter(0)\n  b = f32[{0}] broadcast(x), dimensions={{}}\n  ROOT s = f32[8] slice(b), slice={{[0:8]}}\n}}\n",
            mib << 18
        );
        let module = text::parse(&source).expect("a module");
        (seconds(&estimate(&module, Target::Cpu).expect("an estimate")) * 1e3).round() as u64
    }

    #[test]
    fn what_goes_back_to_the_system_is_filled_with_zeros_each_time() {
        assert_eq!([32, 64, 1024].map(milliseconds), [0, 10, 157]);
    }
}
