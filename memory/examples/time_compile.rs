//! Times every stage of the XLA:CPU model on modules, in processor time of the main thread where the system tells it: other programs do not
//! count, nor does the second thread that analyses of large modules use. A whole estimate is timed by the clock on the wall too.
//!
//! ```text
//! cargo run --release -p hlo-memory --example time_compile -- [--stages] FILE ...
//! ```
#![allow(clippy::print_stdout, clippy::unwrap_used, reason = "a developer's tool")]

use std::time::{Duration, Instant};

use hlo_ir::Module;
use hlo_memory::{Estimate, Target};

fn main() {
    let mut args: Vec<String> = std::env::args().skip(1).collect();
    let stages = args.iter().any(|arg| arg == "--stages");
    args.retain(|arg| arg != "--stages");
    let begun = Instant::now();
    let clock = move || processor_time().unwrap_or_else(|| begun.elapsed());
    for path in args {
        let module = hlo_ir::text::parse(&std::fs::read_to_string(&path).unwrap()).unwrap();
        let (start, wall) = (clock(), Instant::now());
        let estimate = hlo_memory::estimate(&module, Target::Cpu).unwrap();
        let (time, wall) = (clock().saturating_sub(start), wall.elapsed());
        println!("{path}: {}, {:.3} s by the clock", row(&module, &estimate, time), wall.as_secs_f64());
        if stages && !module.is_scheduled() {
            for (name, time) in hlo_memory::cpu::time_stages(&module, &clock) {
                println!("{name:10} {time:?}");
            }
            println!("{}", largest(&hlo_memory::cpu::compile(&module).unwrap()));
        }
    }
}

/// The sizes of the largest computations, in instructions.
fn largest(module: &Module) -> String {
    let size = |&id: &hlo_ir::ComputationId| module.computation(id).instructions.len();
    let mut sizes: Vec<usize> = module.computation_ids().iter().map(size).collect();
    sizes.sort_unstable_by(|a, b| b.cmp(a));
    format!("{} computations, the largest of {:?} instructions", sizes.len(), &sizes[..sizes.len().min(8)])
}

fn row(module: &Module, estimate: &Estimate, time: Duration) -> String {
    let count = module.live_instructions().count();
    format!(
        "{count} instructions, {} bytes in {} steps, {:.3} s, {:.1} us an instruction",
        estimate.total,
        estimate.timeline.len(),
        time.as_secs_f64(),
        time.as_secs_f64() * 1e6 / count as f64
    )
}

/// Processor time of this thread so far.
fn processor_time() -> Option<Duration> {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").ok()?;
    Some(Duration::from_nanos(text.split(' ').next()?.parse().ok()?))
}
