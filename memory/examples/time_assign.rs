//! Times buffer assignment on synthetic modules: `time_assign [INSTRUCTIONS] [KIND]`, or on files: `time_assign FILE ...`.
//!
//! Kinds: `train` (layers whose results live until a backward pass reads them), `donated` (the same with thousands of donated
//! parameters), `loops` (while loops that carry wide tuples), `updates` (a long chain of in-place updates).
#![allow(clippy::print_stdout, reason = "this program's product is its table")]

use std::fmt::Write as _;
use std::time::{Duration, Instant};

use hlo_ir::Module;
use hlo_memory::assignment::assign;

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let count = arguments.first().and_then(|text| text.parse::<usize>().ok());
    if let (None, Some(_)) = (count, arguments.first()) {
        for path in &arguments {
            time(path, &std::fs::read_to_string(path).expect("the file can be read"));
        }
        return;
    }
    let count = count.unwrap_or(20_000);
    let wanted = |kind: &str| arguments.get(1).is_none_or(|only| only == kind);
    for (kind, text) in
        [("train", train as fn(usize) -> String), ("donated", donated), ("loops", loops), ("updates", updates)]
    {
        if wanted(kind) {
            time(kind, &text(count));
        }
    }
}

fn time(name: &str, text: &str) {
    let begin = Instant::now();
    let module = hlo_ir::text::parse(text).expect("the generated text is HLO");
    let parsed = begin.elapsed();
    let (assigned, estimated) = best(&module);
    let instructions = module.live_instructions().count();
    let total = assign(&module).expect("the module can be assigned").estimate();
    println!(
        "{name:10} {instructions:8} instructions  parse {parsed:9.1?}  assign {assigned:9.1?}  estimate {estimated:9.1?}  total {} peak {}",
        total.total, total.peak.bytes
    );
}

/// The best of several runs.
fn best(module: &Module) -> (Duration, Duration) {
    let mut best = (Duration::MAX, Duration::MAX);
    let begin = Instant::now();
    while begin.elapsed() < Duration::from_secs(2) {
        let start = Instant::now();
        let assignment = assign(module).expect("the module can be assigned");
        best.0 = best.0.min(start.elapsed());
        let start = Instant::now();
        std::hint::black_box(assignment.estimate());
        best.1 = best.1.min(start.elapsed());
    }
    best
}

const FUSED: &str = "%body (p0: f32[8,128], p1: f32[8,128]) -> f32[8,128] {
  %p0 = f32[8,128]{1,0} parameter(0)
  %p1 = f32[8,128]{1,0} parameter(1)
  %sine = f32[8,128]{1,0} sine(%p0)
  ROOT %sum = f32[8,128]{1,0} add(%sine, %p1)
}

";

/// A forward and a backward pass; every fourth instruction is a fusion of the last result and a residual.
fn layers(count: usize, parameters: usize, donate: bool) -> String {
    let alias: Vec<String> = (0..parameters).map(|k| format!("{{{k}}}: ({k}, {{}}, may-alias)")).collect();
    let alias = if donate { format!(", input_output_alias={{ {} }}", alias.join(", ")) } else { String::new() };
    let mut text = format!("HloModule m, is_scheduled=true{alias}\n\n{FUSED}ENTRY %main {{\n");
    let mut line = |name: String, rest: String| {
        writeln!(text, "  {name} = {rest}").expect("writing to a string succeeds");
        name
    };
    let weights: Vec<String> = (0..parameters)
        .map(|k| line(format!("%w.{k}"), format!("f32[{},128]{{1,0}} parameter({k})", 8 + k % 3)))
        .collect();
    let half = count.saturating_sub(2 * parameters) / 2;
    let mut last = line("%x".into(), "f32[8,128]{1,0} broadcast(%seed), dimensions={}".into());
    let mut kept = Vec::new();
    for k in 0..half {
        let shape = format!("f32[{},128]{{1,0}}", 8 + k % 5);
        let side = line(
            format!("%r.{k}"),
            format!("{shape} custom-call(%{}, {}), custom_call_target=\"f\"", &last[1..], weights[k % parameters]),
        );
        last.clone_from(&side);
        kept.push(side);
    }
    for k in (0..half).rev() {
        let shape = format!("f32[{},128]{{1,0}}", 8 + k % 5);
        last = line(format!("%b.{k}"), format!("{shape} custom-call({last}, {}), custom_call_target=\"g\"", kept[k]));
    }
    let outs: Vec<String> = (0..parameters)
        .map(|k| {
            line(
                format!("%o.{k}"),
                format!("f32[{},128]{{1,0}} custom-call({last}, %w.{k}), custom_call_target=\"u\"", 8 + k % 3),
            )
        })
        .collect();
    let shapes: Vec<String> = (0..parameters).map(|k| format!("f32[{},128]{{1,0}}", 8 + k % 3)).collect();
    writeln!(text, "  ROOT %out = ({}) tuple({})\n}}", shapes.join(", "), outs.join(", "))
        .expect("writing to a string succeeds");
    text.replace("ENTRY %main {\n", "ENTRY %main {\n  %seed = f32[] constant(0)\n")
}

fn train(count: usize) -> String {
    layers(count, 16, false)
}

fn donated(count: usize) -> String {
    layers(count, count / 10, true)
}

/// While loops one after another, each carrying a tuple of fifty arrays.
fn loops(count: usize) -> String {
    let wide = 50;
    let shape = format!("({})", vec!["f32[64]{0}"; wide].join(", "));
    let (mut text, mut main) = ("HloModule m, is_scheduled=true\n\n".to_owned(), String::new());
    let mut last = "%init".to_owned();
    for k in 0..count / (3 * wide) {
        let gte = |at: usize| format!("  %g.{k}.{at} = f32[64]{{0}} get-tuple-element(%p.{k}), index={at}\n");
        let add = |at: usize| format!("  %n.{k}.{at} = f32[64]{{0}} add(%g.{k}.{at}, %g.{k}.{})\n", (at + 1) % wide);
        let new: Vec<String> =
            (0..wide).map(|at| format!("%{}.{k}.{at}", if at % 3 == 0 { "g" } else { "n" })).collect();
        let body: String = (0..wide).map(gte).chain((0..wide).filter(|at| at % 3 != 0).map(add)).collect();
        write!(
            text,
            "%b.{k} {{\n  %p.{k} = {shape} parameter(0)\n{body}  ROOT %t.{k} = {shape} tuple({})\n}}\n\n%c.{k} {{\n  %q.{k} = {shape} parameter(0)\n  ROOT %d.{k} = pred[] constant(false)\n}}\n\n",
            new.join(", ")
        )
        .expect("writing to a string succeeds");
        writeln!(main, "  %while.{k} = {shape} while({last}), condition=%c.{k}, body=%b.{k}")
            .expect("writing succeeds");
        last = format!("%while.{k}");
    }
    let parts: Vec<String> = (0..wide).map(|at| format!("%i.{at}")).collect();
    let start = |at: usize| format!("  %i.{at} = f32[64]{{0}} broadcast(%seed), dimensions={{}}");
    let starts = (0..wide).map(start).collect::<Vec<_>>().join("\n");
    format!(
        "{text}ENTRY %main {{\n  %seed = f32[] constant(0)\n{starts}\n  %init = {shape} tuple({})\n{main}  ROOT %out = f32[64]{{0}} get-tuple-element({last}), index=1\n}}\n",
        parts.join(", ")
    )
}

/// One array updated in place again and again, with a small temporary at each step.
fn updates(count: usize) -> String {
    let mut text = "HloModule m, is_scheduled=true\n\nENTRY %main {\n  %zero = s32[] constant(0)\n  %x = f32[64] parameter(0)\n  %a.0 = f32[65536]{0} broadcast(%x), dimensions={0}\n".to_owned();
    for k in 1..=count / 2 {
        let root = if k == count / 2 { "ROOT " } else { "" };
        write!(
            text,
            "  %s.{k} = f32[64]{{0}} custom-call(%x), custom_call_target=\"f\"\n  {root}%a.{k} = f32[65536]{{0}} dynamic-update-slice(%a.{}, %s.{k}, %zero)\n",
            k - 1
        )
        .expect("writing to a string succeeds");
    }
    text + "}\n"
}
