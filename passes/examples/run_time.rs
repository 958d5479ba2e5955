//! Prints the time of a run of each module by the model: `cargo run -p hlo-passes --example run_time -- gpu FILE...`.

#![allow(clippy::print_stdout, reason = "a program for the terminal")]

use hlo_memory::Target;

fn main() {
    let mut arguments = std::env::args().skip(1);
    let target = match arguments.next().as_deref() {
        Some("gpu") => Target::Gpu,
        Some("tpu") => Target::Tpu,
        _ => Target::Cpu,
    };
    for file in arguments {
        let text = std::fs::read_to_string(&file).expect("a file");
        let module = hlo_ir::text::parse(&text).expect("a module");
        let time = hlo_passes::run_time(&module, target, hlo_passes::Machine::of(target));
        println!("{file} {time:?}");
    }
}
