//! How fast a dump is read and printed: `speed FILE [ROUNDS]`. One line of JSON: CPU seconds of each round, the process's high-water mark of
//! memory after reading, verifying, and printing, in bytes. `tests/referee/speed.py` puts XLA's figures beside it.

use std::error::Error;
use std::hint::black_box;
use std::io::{self, Write as _};
use std::{env, fs};

use hlo_ir::{text, verify};
use serde_json::json;

/// CPU seconds of this process so far.
fn cpu_seconds() -> Result<f64, Box<dyn Error>> {
    let fields = fs::read_to_string("/proc/self/schedstat")?;
    let nanoseconds: u64 = fields.split(' ').next().ok_or("no time in schedstat")?.parse()?;
    Ok(nanoseconds as f64 / 1e9)
}

/// The most memory this process ever had, in bytes.
fn peak_bytes() -> Result<u64, Box<dyn Error>> {
    let status = fs::read_to_string("/proc/self/status")?;
    let line = status.lines().find(|line| line.starts_with("VmHWM:")).ok_or("no high-water mark in status")?;
    let kibibytes: u64 = line.split_whitespace().nth(1).ok_or("no number in the high-water mark")?.parse()?;
    Ok(kibibytes * 1024)
}

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = env::args().collect();
    let file = arguments.get(1).ok_or("the name of a dump expected")?;
    let rounds: usize = arguments.get(2).map_or(Ok(1), |text| text.parse())?;
    let source = fs::read_to_string(file)?;
    let (mut parse, mut check, mut print, mut peaks) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
    let mut instructions = 0;
    for _ in 0..rounds {
        let start = cpu_seconds()?;
        let module = text::parse(&source).map_err(|mut problems| problems.remove(0))?;
        let parsed = cpu_seconds()?;
        peaks.push(peak_bytes()?);
        black_box(verify::verify(&module));
        let verified = cpu_seconds()?;
        peaks.push(peak_bytes()?);
        black_box(text::print(&module));
        print.push(cpu_seconds()? - verified);
        peaks.push(peak_bytes()?);
        parse.push(parsed - start);
        check.push(verified - parsed);
        instructions = module.instruction_count();
    }
    // Later rounds reuse the memory of the first.
    let peaks = &peaks[..3];
    let found = json!({"bytes": source.len(), "instructions": instructions, "parse": parse, "verify": check, "print": print, "peaks": peaks});
    writeln!(io::stdout(), "{found}")?;
    Ok(())
}
