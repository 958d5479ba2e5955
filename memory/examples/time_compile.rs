//! Times every stage of the XLA:CPU model on one module.
//!
//! ```text
//! cargo run --release -p hlo-memory --example time_compile -- FILE [ROUNDS]
//! ```
#![allow(clippy::print_stdout, clippy::unwrap_used, reason = "a developer's tool")]

use std::time::Instant;

fn main() {
    let mut args = std::env::args().skip(1);
    let text = std::fs::read_to_string(args.next().expect("a file")).unwrap();
    let rounds: u32 = args.next().map_or(1, |text| text.parse().unwrap());
    let module = hlo_ir::text::parse(&text).unwrap();
    println!("{} instructions", module.live_instructions().count());
    let start = Instant::now();
    for _ in 0..rounds {
        hlo_memory::cpu::compile(&module).unwrap();
    }
    println!("all stages: {:?}", start.elapsed() / rounds);
    for (name, time) in hlo_memory::cpu::time_stages(&module) {
        println!("{name:10} {time:?}");
    }
}
