//! Compares one stage of the XLA:CPU model with what XLA did, over a directory of XLA's own pass dumps.
//!
//! ```text
//! XLA_FLAGS="--xla_dump_to=DIR --xla_dump_hlo_as_text --xla_dump_hlo_pass_re=.*" python program.py
//! cargo run -p hlo-memory --example stage -- STAGE DIR [PART-OF-NAME] [--show] [--print] [--total]
//! ```
//!
//! XLA's dump before the stage goes in; our result is compared with XLA's dump after it. Dumps exist only where a pass changed
//! something, so the expected result is the input itself when XLA wrote none. `--show` prints what differs,
//! `--print` our module. With `--total` all later stages run too, and the bytes of the result are compared with XLA's report.
#![allow(clippy::print_stdout, clippy::print_stderr, clippy::unwrap_used, reason = "a developer's tool")]

mod canon;
mod dumps;

use std::collections::BTreeMap;

use canon::{Canon, live_outside_fusions};
use hlo_ir::Module;

fn main() {
    let mut args: Vec<String> = std::env::args().skip(1).collect();
    let mut flag = |name: &str| {
        let found = args.iter().any(|arg| arg == name);
        args.retain(|arg| arg != name);
        found
    };
    let options = Options { show: flag("--show"), print: flag("--print"), total: flag("--total") };
    let [stage, directory, rest @ ..] = args.as_slice() else {
        let names: Vec<_> = hlo_memory::cpu::stage_names().collect();
        eprintln!("usage: stage STAGE DIR [PART-OF-NAME] [--show] [--print] [--total]; stages: {}", names.join(", "));
        std::process::exit(2);
    };
    let part = rest.first().map_or("", String::as_str);
    let (mut same, mut total) = (0, 0);
    for pair in dumps::pairs(directory, stage).into_iter().filter(|pair| pair.name.contains(part)) {
        total += 1;
        match if options.total { check_total(stage, &pair) } else { check(stage, &pair, &options) } {
            Ok(()) => same += 1,
            Err(why) => println!("{}: {why}", pair.name),
        }
    }
    println!("{stage}: {same} of {total} equal");
}

/// What to do and to say beside the count.
struct Options {
    show: bool,
    print: bool,
    total: bool,
}

/// Runs the stage and all that follow; compares the bytes of the result with XLA's report.
fn check_total(stage: &str, pair: &dumps::Pair) -> Result<(), String> {
    let report = std::fs::read_to_string(pair.report.as_ref().ok_or("no report")?).map_err(|e| e.to_string())?;
    let expected: u64 = report
        .lines()
        .find_map(|line| line.strip_prefix("Total bytes: ")?.split(' ').next()?.parse().ok())
        .ok_or("no total in the report")?;
    let module = hlo_memory::cpu::run_from(stage, &read(&pair.input)?).ok_or("no such stage")?;
    let total = hlo_memory::assignment::assign(&module).map_err(|e| e.to_string())?.estimate().total.get();
    if total == expected {
        return Ok(());
    }
    Err(format!("{total} instead of {expected} bytes, {:+.2} %", (total as f64 / expected as f64 - 1.0) * 100.0))
}

fn check(stage: &str, pair: &dumps::Pair, options: &Options) -> Result<(), String> {
    let input = read(&pair.input)?;
    let expected = read(&pair.expected)?;
    let ours = hlo_memory::cpu::run_stage(stage, &input).ok_or("no such stage")?;
    if options.print {
        println!("{}", hlo_ir::text::print(&ours));
    }
    let (ours_canon, expected_canon) = (Canon::new(&ours), Canon::new(&expected));
    if stage == "schedule" {
        return same_order((&ours, &ours_canon), (&expected, &expected_canon), options.show);
    }
    let difference = differences((&ours, &ours_canon), (&expected, &expected_canon));
    if difference.is_empty() {
        return Ok(());
    }
    if options.show {
        for line in &difference {
            println!("  {line}");
        }
    }
    Err(format!("{} instructions differ", difference.len()))
}

fn read(path: &std::path::Path) -> Result<Module, String> {
    let text = std::fs::read_to_string(path).map_err(|e| e.to_string())?;
    hlo_ir::text::parse(&text).map_err(|e| format!("{}: {:?}", path.display(), e.first()))
}

/// Instructions outside fusions that only one side has.
fn differences(ours: (&Module, &Canon<'_>), expected: (&Module, &Canon<'_>)) -> Vec<String> {
    let mut count: BTreeMap<u64, (i64, String)> = BTreeMap::new();
    for (sign, (module, canon)) in [(1, ours), (-1, expected)] {
        for id in live_outside_fusions(module) {
            for (inst, body) in module.instructions_of(id) {
                let entry = count.entry(canon.of[inst]).or_default();
                entry.0 += sign;
                let operands: Vec<_> = body.operands.iter().map(|&o| module.instruction(o).name.as_str()).collect();
                let name = (&module.computation(id).name, &body.name);
                entry.1 =
                    format!("{}/{} = {} {}({})", name.0, name.1, body.shape, body.opcode_name(), operands.join(", "));
            }
        }
    }
    count
        .into_values()
        .filter(|(sign, _)| *sign != 0)
        .map(|(sign, text)| format!("{} {text}", if sign > 0 { "ours" } else { "XLA " }))
        .collect()
}

/// Whether each computation runs the same instructions in the same order.
fn same_order(ours: (&Module, &Canon<'_>), expected: (&Module, &Canon<'_>), show: bool) -> Result<(), String> {
    for id in live_outside_fusions(expected.0) {
        let name = &expected.0.computation(id).name;
        let twin = *ours.0.computation_ids().iter().find(|&&c| ours.0.computation(c).name == *name).ok_or("missing")?;
        let sequence = |(module, canon): (&Module, &Canon<'_>), id| -> Vec<(u64, String)> {
            module.instructions_of(id).map(|(inst, body)| (canon.of[inst], body.name.to_string())).collect()
        };
        let (a, b) = (sequence(ours, twin), sequence(expected, id));
        let first = a.iter().zip(&b).position(|(a, b)| a.0 != b.0);
        if a.len() != b.len() || first.is_some() {
            if show {
                a.iter().zip(&b).for_each(|(a, b)| println!("  {:40} {}", a.1, b.1));
            }
            return Err(format!("order of {name} differs at {first:?}"));
        }
    }
    Ok(())
}
