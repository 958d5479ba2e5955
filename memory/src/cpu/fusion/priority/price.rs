//! How long a kernel takes, in nanoseconds: what it computes and what it reads and writes, of which the shorter is hidden but for a twentieth.
//!
//! Source: `GpuPerformanceModelBase` (xla/service/gpu/model/gpu_performance_model_base.cc) and `GpuPerformanceModel::EstimateRunTimes`
//! (xla/service/gpu/model/gpu_performance_model.cc).

// Tests: `memory/tests/devices.rs`.

use hlo_ir::InstructionId;

use super::facts::{Fact, Facts};
use super::kernel::{Kernel, Read};
use crate::cpu::h100::{BANDWIDTH, CACHE, CLOCK, CORES, UNITS};

/// Beginning a kernel (`kKernelLaunchOverhead`).
pub(super) const LAUNCH: f64 = 1000.0;
/// Bytes that a multiprocessor moves in a cycle.
const TRANSACTION: f64 = 32.0;
/// Bytes of a line of memory, of which a read from scattered places uses one element.
const LINE: f64 = 64.0;
/// How much faster the second-level cache is read than memory (`kL2CacheSpeedup`).
const CACHE_SPEEDUP: f64 = 2.5;
/// Bytes that stay in the first-level caches of all multiprocessors (`kL1CacheSizePerSM`), and how much faster they are read (`kL1CacheSpeedup`).
const NEAR_CACHE: f64 = 2048.0 * CORES;
const NEAR_SPEEDUP: f64 = 8.0;
/// What is hidden of the shorter of computing and moving (`kMemoryComputeParallelism`).
const HIDDEN: f64 = 0.95;

/// The time of a kernel.
pub(super) fn alone(facts: &Facts, kernel: &Kernel) -> f64 {
    let reads = kernel.reads.iter().map(|read| (read.of, read.times * facts[read.of].bytes));
    time(facts, kernel, kernel.operations, kernel.is_scattered(), reads)
}

/// The time of a kernel that makes `value` itself.
pub(super) fn together(facts: &Facts, (value, own): (InstructionId, &Kernel), kernel: &Kernel) -> f64 {
    let Some(read) = kernel.read(value) else { return kernel.time };
    let operations = kernel.operations + own.operations * read.times;
    let is_scattered = kernel.is_scattered_with(own, read);
    let size = |id| facts[id].bytes;
    if own.keeps_rows || kernel.keeps_rows {
        // What is in registers is read once, whatever it is for.
        let others = kernel.reads.iter().filter(|other| other.of != value);
        let more = own.reads.iter().filter(|inner| kernel.read(inner.of).is_none());
        let reads = others.chain(more).map(|read| (read.of, read.times.min(1.0) * size(read.of)));
        return time(facts, kernel, operations, is_scattered, reads);
    }
    let of_kernel = kernel.reads.iter().filter(|other| other.of != value).map(|other| {
        let made =
            own.read(other.of).map_or(0.0, |inner| inner.times * read.times - common(kernel, read, other, inner));
        (other.of, (other.times + made) * size(other.of))
    });
    let of_value = own.reads.iter().filter(|inner| kernel.read(inner.of).is_none());
    let reads = of_kernel.chain(of_value.map(|inner| (inner.of, inner.times * read.times * size(inner.of))));
    time(facts, kernel, operations, is_scattered, reads)
}

/// How often an array is read for the value and for the kernel at the same place.
fn common(kernel: &Kernel, value: &Read, other: &Read, inner: &Read) -> f64 {
    if !inner.beside.contains(&0) {
        return 0.0;
    }
    value.beside.iter().filter(|root| other.beside.contains(root)).map(|&root| kernel.times[root as usize]).sum()
}

fn time(
    facts: &Facts,
    kernel: &Kernel,
    operations: f64,
    is_scattered: bool,
    reads: impl Iterator<Item = (InstructionId, f64)>,
) -> f64 {
    let computed = operations / (CLOCK * 2.0 * UNITS * kernel.blocks.min(CORES));
    let limit = kernel.blocks * CLOCK * TRANSACTION;
    let read: f64 = reads.map(|(id, total)| read_time(&facts[id], total, is_scattered, limit)).sum();
    let moved = read + kernel.written / BANDWIDTH;
    computed + moved - computed.min(moved) * HIDDEN
}

fn read_time(fact: &Fact, total: f64, is_scattered: bool, limit: f64) -> f64 {
    let used = if is_scattered { fact.element / LINE } else { 1.0 };
    let first = fact.bytes.min(total);
    let again = match first {
        first if first < NEAR_CACHE => BANDWIDTH * CACHE_SPEEDUP * NEAR_SPEEDUP,
        first if first < CACHE => BANDWIDTH * CACHE_SPEEDUP,
        _ => BANDWIDTH * used,
    };
    first / (BANDWIDTH * used).min(limit) + (total - first) / again.min(limit)
}
