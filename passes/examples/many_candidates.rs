//! Times one step of a search with a thousand candidates on a large module: up to the first rewrite that lowers the peak.
//!
//! ```text
//! cargo run --release -p hlo-passes --example many_candidates -- [LAYERS] [FILLERS]
//! ```
//!
//! Every layer counts by a scatter whose indices and updates are arrays of their own, which a block loop would avoid, and does some
//! elementwise work; layers read the counts of the layer before. The layers differ in size, so that few of them own the peak.
#![allow(clippy::print_stdout, clippy::unwrap_used, reason = "a developer's tool")]

use std::fmt::Write as _;
use std::time::Instant;

use hlo_memory::{Bytes, Estimator, ModelEstimator};
use hlo_passes::{Options, manager};

fn main() {
    let mut args = std::env::args().skip(1).map(|text| text.parse::<usize>().unwrap());
    let (layers, fillers) = (args.next().unwrap_or(1000), args.next().unwrap_or(30));
    let mut module = hlo_ir::text::parse(&text(layers, fillers)).unwrap();
    let estimator = ModelEstimator::default();
    let passes = manager::default_pipeline();
    let start = Instant::now();
    let before = estimator.estimate(&module).unwrap().total;
    println!("one estimate: {:?}", start.elapsed());
    let start = Instant::now();
    // A budget just below ends the search with the first step.
    let options = Options { budget: Some(before - Bytes(1)), ..Options::default() };
    let report = manager::run(&mut module, &passes, &options, &estimator).unwrap();
    let statistics = &report.statistics;
    println!("{} instructions, {:?} in all", statistics.instructions.0, start.elapsed());
    println!("{} estimates: {:?}", statistics.estimates.count, statistics.estimates.time);
    println!("{} patches: {:?}", statistics.patches.count, statistics.patches.time);
    for pass in &statistics.passes {
        let (found, tried, made) = (pass.findings, pass.tried, pass.made);
        println!(
            "{}: {} searches {:?}, {found} findings, {tried} tried, {made} made",
            pass.name, pass.searches.count, pass.searches.time
        );
    }
    println!("{} -> {}", report.before.total, report.after.total);
}

/// The module.
fn text(layers: usize, fillers: usize) -> String {
    let mut text = String::from(
        "HloModule many\n\nadd {\n  a = s32[] parameter(0)\n  b = s32[] parameter(1)\n  ROOT s = s32[] add(a, b)\n}\n\nENTRY main {\n",
    );
    let mut line = |text_line: String| writeln!(text, "  {text_line}").unwrap();
    line("x = s32[4194304]{0} parameter(0)".into());
    line("one = s32[] constant(1)".into());
    line("zero = s32[] constant(0)".into());
    line("count.0 = s32[256]{0} broadcast(zero), dimensions={}".into());
    for k in 1..=layers {
        let rows = 65536 * (1 + k * 61 % 64);
        line(format!("part.{k} = s32[{rows}]{{0}} slice(x), slice={{[0:{rows}]}}"));
        line(format!("first.{k} = s32[1]{{0}} slice(count.{}), slice={{[0:1]}}", k - 1));
        line(format!("scalar.{k} = s32[] reshape(first.{k})"));
        line(format!("bias.{k} = s32[{rows}]{{0}} broadcast(scalar.{k}), dimensions={{}}"));
        line(format!("sum.{k}.0 = s32[{rows}]{{0}} add(part.{k}, bias.{k})"));
        for f in 1..=fillers {
            let opcode = ["add", "xor", "maximum"][f % 3];
            line(format!("sum.{k}.{f} = s32[{rows}]{{0}} {opcode}(sum.{k}.{}, part.{k})", f - 1));
        }
        line(format!("indices.{k} = s32[{rows},1]{{1,0}} reshape(sum.{k}.{fillers})"));
        line(format!("updates.{k} = s32[{rows}]{{0}} broadcast(one), dimensions={{}}"));
        line(format!(
            "count.{k} = s32[256]{{0}} scatter(count.{}, indices.{k}, updates.{k}), update_window_dims={{}}, inserted_window_dims={{0}}, scatter_dims_to_operand_dims={{0}}, index_vector_dim=1, to_apply=add",
            k - 1
        ));
    }
    line(format!("ROOT out = s32[256]{{0}} negate(count.{layers})"));
    text + "}\n"
}
