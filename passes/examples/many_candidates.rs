//! Times one step of a search with a thousand candidates on a large module: bounds for all of them, estimates for those that could win, up to
//! the first rewrite that lowers the peak. How long passes look for candidates is not in it.
//!
//! ```text
//! cargo run --release -p hlo-passes --example many_candidates -- [LAYERS] [FILLERS]
//! ```
//!
//! Every layer counts by a scatter whose updates come out of a sort; the one made-up candidate of a layer lets the scatter read what the
//! sort reads. Layers follow each other and differ in size, so that few of them own the peak.
#![allow(clippy::print_stdout, clippy::unwrap_used, reason = "a developer's tool")]

use std::fmt::Write as _;
use std::time::{Duration, Instant};

use hlo_ir::Opcode;
use hlo_ir::edit::Patch;
use hlo_memory::{Bytes, Estimator, ModelEstimator};
use hlo_passes::{Context, Finding, Grade, Options, Outcome, Pass, PassKind, manager};

fn main() {
    let mut args = std::env::args().skip(1).map(|text| text.parse::<usize>().unwrap());
    let (layers, fillers) = (args.next().unwrap_or(1000), args.next().unwrap_or(44));
    let mut module = hlo_ir::text::parse(&text(layers, fillers)).unwrap();
    let estimator = ModelEstimator::default();
    let begun = Instant::now();
    let clock = move || processor_time().unwrap_or_else(|| begun.elapsed());
    let start = clock();
    let before = estimator.estimate(&module).unwrap().total;
    println!("one estimate: {:?} of processor time", clock().saturating_sub(start));
    // A budget just below ends the search with the first step.
    let options = Options { budget: Some(before - Bytes(1)), ..Options::default() };
    let passes: Vec<Box<dyn Pass>> = vec![Box::new(Shortcut)];
    let start = clock();
    let report = manager::run(&mut module, &passes, &options, &estimator).unwrap();
    let (statistics, pass) = (&report.statistics, &report.statistics.passes[0]);
    println!(
        "{} instructions, {} candidates, {} tried, {} estimates: {:?} of processor time; {} -> {}",
        statistics.instructions.0,
        pass.findings / pass.searches.count.max(1),
        pass.tried,
        statistics.estimates.count,
        clock().saturating_sub(start),
        report.before.total,
        report.after.total
    );
}

/// Processor time of this thread so far.
fn processor_time() -> Option<Duration> {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").ok()?;
    Some(Duration::from_nanos(text.split(' ').next()?.parse().ok()?))
}

/// Lets what reads a sort read what the sort reads: no sound rewrite, but one that saves an array.
struct Shortcut;

impl Pass for Shortcut {
    fn name(&self) -> &'static str {
        "shortcut"
    }
    fn summary(&self) -> &'static str {
        "leaves out sorts"
    }
    fn explanation(&self) -> &'static str {
        "Leaves out sorts."
    }
    fn kind(&self) -> PassKind {
        PassKind::Rewrite
    }
    fn find(&self, context: &Context<'_>) -> Vec<Finding> {
        let sorts = context.module.live_instructions().filter(|(_, inst)| inst.opcode == Opcode::Sort);
        let finding = |(id, inst): (_, &hlo_ir::Instruction)| {
            let mut patch = Patch::new(context.module);
            patch.replace(id, inst.operands[0]);
            patch.remove(id);
            let wasted = hlo_memory::size::shape_size(&inst.shape).unwrap_or_default();
            let outcome = Outcome::Rewrite { patch, note: "no sort".to_owned(), conditions: Vec::new() };
            Finding { instruction: id, grade: Grade::Bitwise, wasted, outcome }
        };
        sorts.map(finding).collect()
    }
}

/// The module.
fn text(layers: usize, fillers: usize) -> String {
    let mut text = String::from(
        "HloModule many\n\nadd {\n  a = s32[] parameter(0)\n  b = s32[] parameter(1)\n  ROOT s = s32[] add(a, b)\n}\n\nless {\n  c = s32[] parameter(0)\n  d = s32[] parameter(1)\n  ROOT l = pred[] compare(c, d), direction=LT\n}\n\nENTRY main {\n",
    );
    let mut line = |words: String| writeln!(text, "  {words}").unwrap();
    line("x = s32[4194304]{0} parameter(0)".into());
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
        line(format!("sorted.{k} = s32[{rows}]{{0}} sort(sum.{k}.{fillers}), dimensions={{0}}, to_apply=less"));
        line(format!("indices.{k} = s32[{rows},1]{{1,0}} reshape(part.{k})"));
        line(format!(
            "count.{k} = s32[256]{{0}} scatter(count.{}, indices.{k}, sorted.{k}), update_window_dims={{}}, inserted_window_dims={{0}}, scatter_dims_to_operand_dims={{0}}, index_vector_dim=1, to_apply=add",
            k - 1
        ));
    }
    line(format!("ROOT out = s32[256]{{0}} negate(count.{layers})"));
    text + "}\n"
}
