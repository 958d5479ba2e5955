//! What runs the result: one description for each machine, from which times are priced.
//!
//! The tables below are the machines that the project was measured on, or their data sheets where nothing was measured; each says which. A file can replace them
//! (`--machine FILE`), and `python -m hlo_opt.xla calibrate` measures one.

use hlo_ir::ElementType;
use hlo_memory::{Bytes, Target};
use smol_str::SmolStr;

/// A machine as far as prices ask for it. Times are nanoseconds, rates are per second.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Machine {
    /// What people call it, as in `--target gpu:h100`.
    pub name: SmolStr,
    /// The compiler for it.
    pub target: Target,
    /// Memory of one device. On CPU it is whatever the host has.
    pub memory: Option<Bytes>,
    /// Bytes read and written by an elementwise operation over an array far larger than caches.
    pub bytes_per_second: u64,
    /// The largest operand that a loop finds in a cache when it reads it again.
    pub cache: Bytes,
    /// Bytes in a second that are copied from the device to its host, or back. On CPU both are one memory.
    pub link_bytes_per_second: u64,
    /// What starting one more kernel takes.
    pub kernel: u64,
    /// What an iteration of a loop takes beside its kernels.
    pub iteration: u64,
    /// Multiplications and additions, two for each pair of elements, of large products of matrices.
    pub operations: Operations,
    /// Additions and the like of `f32`, outside of products.
    pub arithmetic: u64,
    /// Exponentials and the like.
    pub transcendentals: u64,
    /// Bytes in a second that the system hands to a run anew, filled with zeros; `None` where runs keep the memory of those before them.
    pub fresh_bytes_per_second: Option<u64>,
    /// The largest allocation that runs keep from those before them, where others come anew.
    pub malloc_cache: Bytes,
    /// With this many rows, a product takes twice what its operations would take; 0 where reading the other matrix is all that they wait for.
    pub few_rows: u64,
}

/// Operations per second of products, by the type of their elements.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Operations {
    /// `f64`, and `c64`, `c128`.
    pub f64: u64,
    /// `f32` as the compiler multiplies it by default, and integers.
    pub f32: u64,
    /// `bf16`, `f16` and smaller.
    pub bf16: u64,
}

/// Largest overhead of launching the kernels of a block, as a part of the time that moving the block takes. Loops over blocks may take 1.25 times the program's time by
/// default, and launches are what they add, so this is a quarter.
pub(crate) const MAX_LAUNCH_OVERHEAD: f64 = 0.25;

/// Bytes that a CPU takes from memory at once.
pub(crate) const LINE: u64 = 64;
/// Floats of 32 bits that a CPU computes with at once: 256 bits, in which LLVM computes on x86 unless told otherwise.
pub(crate) const VECTOR: i64 = 8;

/// How much faster than its memory a GPU reads its second cache. Source: `kL2CacheSpeedup` (xla/service/gpu/model/gpu_performance_model_base.cc).
const CACHE_SPEEDUP: f64 = 2.5;

const GIGA: u64 = 1_000_000_000;
const TERA: u64 = 1000 * GIGA;
const MIB: u64 = 1 << 20;

/// Two cores of a server, on which run times of this project were measured (docs/measured/log.md, "Figures behind constants"). Operations of products are those with which prices
/// were fitted to run times of programs. Most of what a kernel takes is for threads that wait for each other. glibc gives back what is larger than 32 MiB
/// (`DEFAULT_MMAP_THRESHOLD_MAX`).
const CPU: Machine = Machine {
    name: SmolStr::new_static("cpu"),
    target: Target::Cpu,
    memory: None,
    bytes_per_second: 25 * GIGA,
    cache: Bytes(4 * MIB),
    link_bytes_per_second: 25 * GIGA,
    kernel: 10_000,
    iteration: 0,
    operations: Operations { f64: 125 * GIGA, f32: 250 * GIGA, bf16: 250 * GIGA },
    // Polynomials of some sixteen operations stand for exponentials.
    arithmetic: 100 * GIGA,
    transcendentals: 25 * GIGA / 4,
    fresh_bytes_per_second: Some(4096 * GIGA / 600),
    malloc_cache: Bytes(32 * MIB),
    few_rows: 64,
};

/// NVIDIA's data sheets for memory; of the bandwidths that they name three quarters, of the operations seven tenths, and half of the second cache, which has two sides.
/// An H200 reaches these shares and more, and takes as long for an iteration and for a kernel of a loop (docs/measured/log.md, "Figures behind constants").
/// The link is PCIe of the generation that the data sheet names, in one direction.
const fn gpu(
    name: &'static str,
    [memory, bytes_per_second, cache, link_bytes_per_second]: [u64; 4],
    [bf16, f64, f32]: [u64; 3],
) -> Machine {
    Machine {
        name: SmolStr::new_static(name),
        target: Target::Gpu,
        memory: Some(Bytes(memory)),
        bytes_per_second,
        cache: Bytes(cache),
        link_bytes_per_second,
        kernel: 2_000,
        iteration: 9_000,
        operations: Operations { f64, f32: bf16 / 2, bf16 },
        // The data sheet counts a multiplication with its addition as two.
        arithmetic: f32 / 2,
        // Sixteen a clock in each of some hundred processors.
        transcendentals: 3 * TERA,
        fresh_bytes_per_second: None,
        malloc_cache: Bytes::ZERO,
        few_rows: 0,
    }
}

/// Google's data sheets. A cache is the memory for vectors but for 16 MiB, which XLA keeps for its kernels (`xla_tpu_scoped_vmem_limit_kib`), and of that half: a kernel
/// reads an array and writes one. Products of `f32` are made of `bf16` by default. What a kernel and an iteration take was not measured. The link is that of
/// "How To Scale Your Model" (jax-ml.github.io/scaling-book, chapter 2).
const fn tpu(name: &'static str, memory: u64, bytes_per_second: u64, cache: u64, bf16: u64) -> Machine {
    Machine {
        name: SmolStr::new_static(name),
        target: Target::Tpu,
        memory: Some(Bytes(memory)),
        bytes_per_second,
        cache: Bytes(cache),
        link_bytes_per_second: 15 * GIGA,
        kernel: 0,
        iteration: 300,
        operations: Operations { f64: bf16 / 64, f32: bf16, bf16 },
        // No data sheet names it: as many for each exponential as on GPUs, whose processors make 128 and 16 a clock.
        arithmetic: 8 * TERA,
        transcendentals: TERA,
        fresh_bytes_per_second: None,
        malloc_cache: Bytes::ZERO,
        few_rows: 0,
    }
}

/// All that are known, the first of each target being what it means alone.
static MACHINES: [Machine; 9] = [
    CPU,
    gpu("h100", [80 * GIGA, 2500 * GIGA, 25 * MIB, 48 * GIGA], [700 * TERA, 45 * TERA, 47 * TERA]),
    gpu("h200", [141 * GIGA, 3700 * GIGA, 25 * MIB, 48 * GIGA], [700 * TERA, 45 * TERA, 47 * TERA]),
    gpu("a100", [80 * GIGA, 1500 * GIGA, 20 * MIB, 24 * GIGA], [220 * TERA, 13 * TERA, 13 * TERA]),
    gpu("b200", [180 * GIGA, 6000 * GIGA, 63 * MIB, 48 * GIGA], [1600 * TERA, 28 * TERA, 56 * TERA]),
    tpu("v5e", 16 * GIGA, 819 * GIGA, 56 * MIB, 197 * TERA),
    tpu("v4", 32 * GIGA, 1228 * GIGA, 8 * MIB, 275 * TERA),
    tpu("v5p", 95 * GIGA, 2765 * GIGA, 24 * MIB, 459 * TERA),
    tpu("v6e", 32 * GIGA, 1640 * GIGA, 56 * MIB, 918 * TERA),
];

impl Machine {
    /// The machine that is meant by a target alone: two cores, an H100 or a TPU v5e.
    pub fn of(target: Target) -> &'static Self {
        MACHINES.iter().find(|machine| machine.target == target).expect("every target has a machine")
    }
    /// The CPU, if runs kept no memory of those before them: small programs are treated like large ones.
    #[must_use]
    pub fn without_malloc_cache() -> Self {
        Self { malloc_cache: Bytes::ZERO, ..CPU }
    }
    /// The machine of this name for a target.
    pub fn named(target: Target, name: &str) -> Option<&'static Self> {
        Self::known(target).find(|machine| machine.name == name)
    }
    /// The machines of a target that have names.
    pub fn known(target: Target) -> impl Iterator<Item = &'static Self> {
        MACHINES.iter().filter(move |machine| machine.target == target)
    }
    /// Bytes of memory traffic that take as long as so many nanoseconds.
    pub fn traffic(&self, nanoseconds: u64) -> f64 {
        self.bytes_per_second as f64 * nanoseconds as f64 / GIGA as f64
    }
    /// Bytes of memory traffic that take as long as moving so many that stand in the cache: nothing where kernels wait for other things.
    pub(crate) fn cached_traffic(&self, bytes: f64) -> f64 {
        if self.target == Target::Gpu { bytes / CACHE_SPEEDUP } else { 0.0 }
    }
    /// Bytes of a block below which starting an iteration with its kernel takes more than [`MAX_LAUNCH_OVERHEAD`] of what moving the block takes: a power of two.
    pub fn least_block(&self) -> Bytes {
        let bytes = (self.traffic(self.iteration + self.kernel) / MAX_LAUNCH_OVERHEAD).max(1.0) as u64;
        Bytes(bytes.next_power_of_two())
    }
    /// Bytes of memory traffic that take as long as starting four kernels, or of a block that is worth one more kernel because of what it is spared: a power of two.
    pub(crate) fn moved_while_starting(&self) -> Bytes {
        Bytes(((self.traffic(self.kernel) / MAX_LAUNCH_OVERHEAD).max(1.0) as u64).next_power_of_two())
    }
    /// Bytes of a block that is worth a kernel of its own where computing it inside another one takes four times as long as moving it, as without vectors: a power of two.
    pub(crate) fn least_kernel(&self) -> Bytes {
        Bytes(((self.traffic(self.kernel) * MAX_LAUNCH_OVERHEAD).max(1.0) as u64).next_power_of_two())
    }
    /// Bytes of memory traffic that take as long as one multiplication and addition of elements of this type.
    pub fn product_traffic(&self, element: ElementType) -> f64 {
        let rate = match element {
            ElementType::F64 | ElementType::C64 | ElementType::C128 => self.operations.f64,
            element if element.is_float() && element.bits() <= 16 => self.operations.bf16,
            _ => self.operations.f32,
        };
        2.0 * self.bytes_per_second as f64 / rate as f64
    }
    /// The same of one addition and the like outside of products.
    pub fn arithmetic_traffic(&self) -> f64 {
        self.bytes_per_second as f64 / self.arithmetic as f64
    }
    /// The same of an exponential and the like.
    pub fn transcendental_traffic(&self) -> f64 {
        self.bytes_per_second as f64 / self.transcendentals as f64
    }
    /// Additions and the like that take as long as writing a float of 32 bits and reading it again.
    pub(crate) fn operations_of_a_float(&self) -> usize {
        (8.0 / self.arithmetic_traffic()) as usize
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_those_of_their_target() {
        assert_eq!(Machine::of(Target::Gpu).name, "h100");
        assert_eq!(Machine::named(Target::Tpu, "v5p").map(|machine| machine.memory), Some(Some(Bytes(95 * GIGA))));
        assert_eq!(Machine::named(Target::Tpu, "h100"), None);
    }

    #[test]
    fn blocks_pay_for_their_iteration() {
        let mib = |target| Machine::of(target).least_block().get() / MIB;
        assert_eq!([Target::Cpu, Target::Gpu, Target::Tpu].map(mib), [1, 128, 1]);
    }

    #[test]
    fn time_is_traffic() {
        let cpu = Machine::of(Target::Cpu);
        let thousandths = |traffic: f64| (traffic * 1e3).round() as u64;
        assert_eq!(thousandths(cpu.traffic(cpu.kernel)), 250_000_000);
        let products = [ElementType::F64, ElementType::F32, ElementType::Bf16];
        assert_eq!(products.map(|element| thousandths(cpu.product_traffic(element))), [400, 200, 200]);
        assert_eq!([cpu.arithmetic_traffic(), cpu.transcendental_traffic()].map(thousandths), [250, 4000]);
    }
}
