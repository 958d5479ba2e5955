//! Rewritten programs are as accurate as their originals, by XLA:CPU and double precision: blocks of 16 bits, NaN and infinities, initial values, single rows.

#![allow(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]

#[allow(dead_code, reason = "each test binary uses a part of it")]
#[path = "referee/session.rs"]
mod session;

use std::fs;
use std::path::{Path, PathBuf};

use hlo_opt::{Bytes, Optimized, Options, Pipeline, optimize};
use serde_json::{Value, json};
use session::{Session, program, workspace};

/// A module with combiners of `f32`, `f64` and `bf16`.
fn source(lines: &str) -> String {
    let combiner = |name: &str, of: &str, opcode: &str| {
        format!(
            "%{name} (a: {of}[], b: {of}[]) -> {of}[] {{\n  %a = {of}[] parameter(0)\n  %b = {of}[] parameter(1)\n  ROOT %r = {of}[] {opcode}(%a, %b)\n}}\n"
        )
    };
    let all = [
        combiner("sum", "f32", "add"),
        combiner("most", "f32", "maximum"),
        combiner("sum_wide", "f64", "add"),
        combiner("most_short", "bf16", "maximum"),
    ];
    format!("HloModule m\n{}ENTRY %main {{\n{lines}\n}}\n", all.concat())
}

fn rewrite(text: &str, chunk_bytes: u64) -> Optimized {
    let options =
        Options { chunk_bytes: Some(Bytes(chunk_bytes)), min_saving: Bytes(1), advise: false, ..Options::default() };
    let outcome = optimize(text, &Pipeline::standard(), &options).unwrap_or_else(|failure| panic!("{failure}\n{text}"));
    assert!(!outcome.report.rewrites.is_empty(), "nothing was rewritten in\n{text}");
    outcome
}

fn save(folder: &Path, name: &str, text: &str) -> PathBuf {
    let path = folder.join(name);
    fs::write(&path, text).unwrap();
    path
}

/// XLA's answer about both forms of a program.
fn asked(name: &str, command: &str, before: &str, after: &str) -> Value {
    let folder = workspace(name);
    let [before, after] = [("before.hlo", before), ("after.hlo", after)].map(|(file, text)| save(&folder, file, text));
    let answer = Session::start().ask(&[json!({"cmd": command, "before": before, "after": after})]).remove(0);
    assert!(answer.get("error").is_none(), "{answer}");
    answer
}

/// Asserts that a rewritten program is at most twice as far from double precision as its original, and keeps NaN and infinities.
fn stays_accurate(name: &str, text: &str, chunk_bytes: u64) -> Value {
    let answer = asked(name, "accuracy", text, &rewrite(text, chunk_bytes).text);
    assert_eq!((&answer["worse"], &answer["lost"]), (&json!(0), &json!(0)), "{answer}");
    answer
}

/// Scores of four heads that are doubled (or raised), and their softmax `%w` in `bf16`, as PyTorch writes it.
fn softmax(opcode: &str) -> String {
    format!(
        "  %x = bf16[4,4096,64] parameter(0)
  %y = bf16[4,64,512] parameter(1)
  %v = bf16[4,512,64] parameter(2)
  %p = bf16[4,4096,512] dot(%x, %y), lhs_batch_dims={{0}}, rhs_batch_dims={{0}}, lhs_contracting_dims={{2}}, rhs_contracting_dims={{1}}
  %two = bf16[] constant(2)
  %twos = bf16[4,4096,512] broadcast(%two), dimensions={{}}
  %d = bf16[4,4096,512] {opcode}(%p, %twos)
  %low = bf16[] constant(-inf)
  %zero = f32[] constant(0)
  %top = bf16[4,4096] reduce(%d, %low), dimensions={{2}}, to_apply=%most_short
  %tops = bf16[4,4096,512] broadcast(%top), dimensions={{0,1}}
  %s = bf16[4,4096,512] subtract(%d, %tops)
  %e = bf16[4,4096,512] exponential(%s)
  %f = f32[4,4096,512] convert(%e)
  %t = f32[4,4096] reduce(%f, %zero), dimensions={{2}}, to_apply=%sum
  %u = bf16[4,4096] convert(%t)
  %ts = bf16[4,4096,512] broadcast(%u), dimensions={{0,1}}
  %w = bf16[4,4096,512] divide(%e, %ts)
"
    )
}

const WEIGHTED: &str = "  ROOT %o = bf16[4,4096,64] dot(%w, %v), lhs_batch_dims={0}, rhs_batch_dims={0}, lhs_contracting_dims={2}, rhs_contracting_dims={1}";
const SQUARED: &str = "  %g = f32[4,4096,512] convert(%w)
  %h = f32[4,4096,512] multiply(%g, %g)
  ROOT %o = f32[4,4096] reduce(%h, %zero), dimensions={2}, to_apply=%sum";

#[test]
fn blocks_of_16_bits_are_computed_in_32_where_the_library_does_so() {
    for (name, opcode, end) in [("short-attention", "multiply", WEIGHTED), ("short-squares", "add", SQUARED)] {
        let answer = stays_accurate(name, &source(&(softmax(opcode) + end)), 256 << 10);
        // With every rounding it is off by a tenth.
        let own = answer["rows"][2]["own"].as_f64().unwrap();
        assert!(own < 0.01, "the library rounds too, so nothing is tested: {answer}");
    }
}

#[test]
fn a_bitwise_run_leaves_what_the_library_keeps_in_32_bits_alone() {
    let text = source(&(softmax("multiply") + WEIGHTED));
    let options =
        Options { exactness: hlo_opt::Grade::Bitwise, min_saving: Bytes(1), advise: false, ..Options::default() };
    let outcome = optimize(&text, &Pipeline::standard(), &options).unwrap();
    let answer = asked("short-bitwise", "same", &text, &outcome.text);
    assert_eq!(answer["bitwise"], json!(true), "{answer}");
}

/// What is larger than zero of rows that are computed, its largest number in pairs of columns, and where it is.
fn rectified(opcode: &str) -> String {
    source(&format!(
        "  %x = f32[512,64] parameter(0)
  %y = f32[64,1024] parameter(1)
  %z = f32[] constant(0)
  %low = f32[] constant(-inf)
  %zs = f32[512,1024] broadcast(%z), dimensions={{}}
  %p = f32[512,1024] dot(%x, %y), lhs_contracting_dims={{1}}, rhs_contracting_dims={{0}}
  %r = f32[512,1024] {opcode}(%p, %zs)
  %m = f32[512,512] reduce-window(%r, %low), window={{size=1x2 stride=1x2}}, to_apply=%most
  %t = f32[512] reduce(%m, %z), dimensions={{1}}, to_apply=%sum
  %c = f32[512,1024] cosine(%r)
  %u = f32[1024] reduce(%c, %z), dimensions={{0}}, to_apply=%sum
  ROOT %all = (f32[512], f32[1024]) tuple(%t, %u)"
    ))
}

#[test]
fn no_block_goes_to_the_library_that_drops_nan() {
    for opcode in ["maximum", "minimum"] {
        stays_accurate("rectified", &rectified(opcode), 64 << 10);
    }
}

#[test]
fn the_step_of_a_convolutional_network_keeps_its_nan() {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../shared/faults/keras-cnn-step.hlo");
    let Ok(text) = fs::read_to_string(&file) else { return eprintln!("{} is not here", file.display()) };
    let outcome = optimize(&text, &Pipeline::standard(), &Options::default()).unwrap();
    let answer = asked("network", "same", &text, &outcome.text);
    assert!(answer["tolerated"] == json!(true), "{answer}");
}

#[test]
fn initial_values_of_small_blocks_count_once() {
    let sum = "  %x = f32[4096] parameter(0)
  %y = f32[64] parameter(1)
  %xs = f32[4096,64] broadcast(%x), dimensions={0}
  %ys = f32[4096,64] broadcast(%y), dimensions={1}
  %p = f32[4096,64] multiply(%xs, %ys)
  %s = f32[4096,64] sine(%p)
  %i = f32[] constant(50)
  ROOT %r = f32[4096] reduce(%s, %i), dimensions={1}, to_apply=%sum";
    let wide = sum.replace("f32", "f64").replace("%sum", "%sum_wide").replace("constant(50)", "parameter(2)");
    for (name, lines) in [("initial-sum", sum), ("initial-wide", wide.as_str())] {
        let text = source(lines);
        let answer = asked(name, "same", &text, &rewrite(&text, 4 << 10).text);
        assert!(answer["tolerated"] == json!(true), "{answer}");
    }
}

#[test]
fn products_keep_two_rows_where_one_would_be_added_up_term_by_term() {
    for columns in [8, 64] {
        let text = source(&format!(
            "  %x = f32[256] parameter(0)
  %y = f32[10000] parameter(1)
  %v = f32[10000,{columns}] parameter(2)
  %xs = f32[256,10000] broadcast(%x), dimensions={{0}}
  %ys = f32[256,10000] broadcast(%y), dimensions={{1}}
  %p = f32[256,10000] add(%xs, %ys)
  %s = f32[256,10000] cosine(%p)
  ROOT %r = f32[256,{columns}] dot(%s, %v), lhs_contracting_dims={{1}}, rhs_contracting_dims={{0}}"
        ));
        let outcome = rewrite(&text, 16 << 10);
        assert!(outcome.text.contains(&format!("f32[2,{columns}] dot(")), "{}", outcome.text);
        let answer = asked("rows", "same", &text, &outcome.text);
        assert!(answer["tolerated"] == json!(true), "{answer}");
    }
}

/// Random programs of an ordinary run, and the minutes they may take. Long runs are in docs/testing.md.
const RANDOM_HALVES: &str = "6";
const RANDOM_MINUTES: &str = "1";

#[test]
fn random_programs_of_16_bits_stay_accurate() {
    let mut run = program("random_halves.py");
    run.args([
        "--tool",
        env!("CARGO_BIN_EXE_hlo-opt"),
        "--count",
        RANDOM_HALVES,
        "--seed",
        "1",
        "--minutes",
        RANDOM_MINUTES,
    ]);
    let output = run.output().unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{said}{}", String::from_utf8_lossy(&output.stderr));
}
