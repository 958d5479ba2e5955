//! Memory that XLA:CPU asks the system for in every run.
//!
//! Temporaries are one allocation and each result is another. The C library gives large ones back to the system at once, so that the next run gets other pages, each of
//! which the kernel has to fill with zeros first. How large, and how long that takes, are rows of the machine.

use hlo_memory::{Bytes, Estimate};

use crate::Machine;

/// Seconds that fresh pages take in a run; results count as one allocation.
pub(super) fn seconds(estimate: &Estimate, machine: &Machine) -> f64 {
    let Some(rate) = machine.fresh_bytes_per_second else { return 0.0 };
    let results = estimate.outputs - estimate.aliased;
    let fresh = |bytes: Bytes| if bytes > machine.malloc_cache { bytes.get() as f64 } else { 0.0 };
    (fresh(estimate.temporaries) + fresh(results)) / rate as f64
}

#[cfg(test)]
mod tests {
    use hlo_ir::text;
    use hlo_memory::{Target, estimate};

    use super::*;

    /// Milliseconds of a program with a temporary of so many MiB on a machine.
    fn milliseconds(mib: u64, target: Target) -> u64 {
        let source = format!(
            "HloModule m, is_scheduled=true\n\nENTRY main {{\n  x = f32[] parameter(0)\n  b = f32[{0}] broadcast(x), dimensions={{}}\n  ROOT s = f32[8] slice(b), slice={{[0:8]}}\n}}\n",
            mib << 18
        );
        let module = text::parse(&source).expect("a module");
        (seconds(&estimate(&module, Target::Cpu).expect("an estimate"), Machine::of(target)) * 1e3).round() as u64
    }

    #[test]
    fn what_goes_back_to_the_system_is_filled_with_zeros_each_time() {
        assert_eq!([32, 64, 1024].map(|mib| milliseconds(mib, Target::Cpu)), [0, 10, 157]);
        assert_eq!(milliseconds(1024, Target::Gpu), 0);
    }
}
