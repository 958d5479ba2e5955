//! Rewritten programs are as accurate as their originals, by XLA:CPU and double precision: blocks of 16 bits, NaN and infinities, initial values, single rows.
//!
//! Pins `passes/src/chunk/faithful.rs`, `passes/src/flow/exactness.rs`.

#![allow(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]

#[allow(dead_code, reason = "each test binary uses a part of it")]
#[path = "referee/session.rs"]
mod session;

use std::fs;
use std::path::{Path, PathBuf};

use hlo_opt::{Bytes, Machine, Optimized, Options, Pipeline, optimize};
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
    let options = Options {
        chunk_bytes: Some(Bytes(chunk_bytes)),
        min_saving: Bytes(1),
        machine: Some(Machine::without_malloc_cache()),
        advise: false,
        ..Options::default()
    };
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

/// Scores with an offset, of which the mean of each row is taken away, times a matrix: what is rounded before is off by the offset, not by what is left.
const CENTERED: &str = "  %x = bf16[4,4096,64] parameter(0)
  %y = bf16[4,64,512] parameter(1)
  %v = bf16[4,512,64] parameter(2)
  %p = bf16[4,4096,512] dot(%x, %y), lhs_batch_dims={0}, rhs_batch_dims={0}, lhs_contracting_dims={2}, rhs_contracting_dims={1}
  %off = bf16[] constant(30)
  %offs = bf16[4,4096,512] broadcast(%off), dimensions={}
  %q = bf16[4,4096,512] add(%p, %offs)
  %f = f32[4,4096,512] convert(%q)
  %zero = f32[] constant(0)
  %t = f32[4,4096] reduce(%f, %zero), dimensions={2}, to_apply=%sum
  %n = f32[] constant(512)
  %ns = f32[4,4096] broadcast(%n), dimensions={}
  %m = f32[4,4096] divide(%t, %ns)
  %u = bf16[4,4096] convert(%m)
  %us = bf16[4,4096,512] broadcast(%u), dimensions={0,1}
  %w = bf16[4,4096,512] subtract(%q, %us)
";

/// Kind: 16 bits that blocks would round more often than the program, without a softmax (0.39 of the scale for 0.0023).
#[test]
fn blocks_of_a_normalization_are_rounded_no_more_often() {
    stays_accurate("centered", &source(&format!("{CENTERED}{WEIGHTED}")), 256 << 10);
}

#[test]
fn a_bitwise_run_leaves_what_the_library_keeps_in_32_bits_alone() {
    let text = source(&(softmax("multiply") + WEIGHTED));
    let options = Options {
        exactness: hlo_opt::Grade::Bitwise,
        min_saving: Bytes(1),
        machine: Some(Machine::without_malloc_cache()),
        advise: false,
        ..Options::default()
    };
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

/// Scores that are at least the threshold of their column, what is made of each row of them, and sums of their cosines.
fn thresholds(of_rows: &str) -> String {
    source(&format!(
        "  %x = f32[512,64] parameter(0)
  %y = f32[64,1024] parameter(1)
  %b = f32[1024] parameter(2)
  %z = f32[] constant(0)
  %low = f32[] constant(-inf)
  %p = f32[512,1024] dot(%x, %y), lhs_contracting_dims={{1}}, rhs_contracting_dims={{0}}
  %bs = f32[512,1024] broadcast(%b), dimensions={{1}}
  %r = f32[512,1024] maximum(%p, %bs)
{of_rows}
  %e = f32[512,1024] cosine(%r)
  %u = f32[1024] reduce(%e, %z), dimensions={{0}}, to_apply=%sum
  ROOT %all = (f32[512], f32[1024]) tuple(%t, %u)"
    ))
}

/// Kind: NaN that the library would drop, in a maximum with what is no constant, and in a plain sum behind it.
#[test]
fn scores_above_a_threshold_keep_their_nan() {
    let pooled = "  %m = f32[512,512] reduce-window(%r, %low), window={size=1x2 stride=1x2}, to_apply=%most
  %t = f32[512] reduce(%m, %z), dimensions={1}, to_apply=%sum";
    let summed = "  %t = f32[512] reduce(%r, %z), dimensions={1}, to_apply=%sum";
    for (name, of_rows) in [("pooled", pooled), ("summed", summed)] {
        stays_accurate(name, &thresholds(of_rows), 64 << 10);
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

/// A loss of each row from scores of `bf16`, with `logsumexp` as JAX writes it. The library knows no cosine, so the scores are in memory.
const LOSS: &str = "  %x = bf16[4096,64] parameter(0)
  %u = bf16[64,4096] parameter(1)
  %p = bf16[4096,4096] dot(%x, %u), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  %low = bf16[] constant(-inf)
  %c = bf16[4096,4096] cosine(%p)
  %y = bf16[4096] reduce(%c, %low), dimensions={1}, to_apply=%most_short
  %zero = f32[] constant(0)
  %top = bf16[4096] reduce(%p, %low), dimensions={1}, to_apply=%most_short
  %tops = bf16[4096,4096] broadcast(%top), dimensions={0}
  %s = bf16[4096,4096] subtract(%p, %tops)
  %e = bf16[4096,4096] exponential(%s)
  %f = f32[4096,4096] convert(%e)
  %t = f32[4096] reduce(%f, %zero), dimensions={1}, to_apply=%sum
  %b = bf16[4096] convert(%t)
  %l = bf16[4096] log(%b)
  %a = bf16[4096] add(%l, %top)
  ROOT %r = bf16[4096] subtract(%a, %y)";

#[test]
fn what_the_library_kept_wide_stays_so_behind_a_loop() {
    let text = source(LOSS);
    assert!(rewrite(&text, 256 << 10).text.contains("f32[4096] log("), "the logarithm is rounded");
    let answer = stays_accurate("loss", &text, 256 << 10);
    for row in answer["rows"].as_array().unwrap() {
        // No unit in the last place is granted: rounded one by one, the results are nearly three times as far off.
        assert!(row["new"].as_f64().unwrap() <= 2.0 * row["own"].as_f64().unwrap(), "{answer}");
    }
}

/// A loop over steps `%k` of a state that holds the lines' arrays, in HLO.
fn looped(name: &str, state: &str, steps: i64, lines: &str) -> String {
    format!(
        "%{name}.body (s: {state}) -> {state} {{\n  %s = {state} parameter(0)\n  %k = s32[] get-tuple-element(%s), index=0\n  %one = s32[] constant(1)\n  %next = s32[] add(%k, %one)\n  %zero = s32[] constant(0)\n{lines}}}\n%{name}.more (s: {state}) -> pred[] {{\n  %s = {state} parameter(0)\n  %k = s32[] get-tuple-element(%s), index=0\n  %end = s32[] constant({steps})\n  ROOT %c = pred[] compare(%k, %end), direction=LT\n}}\n"
    )
}

/// The sums of rows of what is larger than zero: computed in front of a loop that reads it step by step, or stacked by a loop before.
fn stacked(stacks: bool) -> String {
    let rows = "  %rows = f32[1,512,512] dynamic-slice(%m, %k, %zero, %zero), dynamic_slice_sizes={1,512,512}
  %row = f32[512,512] reshape(%rows)
  %none = f32[] constant(0)
  %t = f32[512] reduce(%row, %none), dimensions={1}, to_apply=%sum
  %t1 = f32[1,512] reshape(%t)
  %sums = f32[16,512] dynamic-update-slice(%so_far, %t1, %k, %zero)
";
    let summing = "(s32[], f32[16,512], f32[16,512,512])";
    let taken = "  %so_far = f32[16,512] get-tuple-element(%s), index=1\n  %m = f32[16,512,512] get-tuple-element(%s), index=2\n";
    let entry = "  %x = f32[512,512] parameter(0)\n  %w = f32[16,512,512] parameter(1)\n  %zero = s32[] constant(0)\n  %none = f32[] constant(0)\n  %empty = f32[16,512] broadcast(%none), dimensions={}\n  %nones = f32[16,512,512] broadcast(%none), dimensions={}\n";
    if !stacks {
        let body = format!("{taken}{rows}  ROOT %all = {summing} tuple(%next, %sums, %m)\n");
        let end = format!(
            "{entry}  %m = f32[16,512,512] maximum(%w, %nones)\n  %start = {summing} tuple(%zero, %empty, %m)\n  %loop = {summing} while(%start), condition=%sums.more, body=%sums.body\n  ROOT %r = f32[16,512] get-tuple-element(%loop), index=1"
        );
        return source(&end).replacen("ENTRY", &(looped("sums", summing, 16, &body) + "ENTRY"), 1);
    }
    let making = "(s32[], f32[512,512], f32[16,512,512], f32[16,512,512], f32[16,512,512])";
    let make = format!(
        "  %h = f32[512,512] get-tuple-element(%s), index=1
  %w = f32[16,512,512] get-tuple-element(%s), index=2
  %zs = f32[16,512,512] get-tuple-element(%s), index=3
  %ms = f32[16,512,512] get-tuple-element(%s), index=4
  %v = f32[1,512,512] dynamic-slice(%w, %k, %zero, %zero), dynamic_slice_sizes={{1,512,512}}
  %u = f32[512,512] reshape(%v)
  %z = f32[512,512] dot(%h, %u), lhs_contracting_dims={{1}}, rhs_contracting_dims={{0}}
  %none = f32[] constant(0)
  %nones = f32[512,512] broadcast(%none), dimensions={{}}
  %m = f32[512,512] maximum(%z, %nones)
  %z1 = f32[1,512,512] reshape(%z)
  %m1 = f32[1,512,512] reshape(%m)
  %more_z = f32[16,512,512] dynamic-update-slice(%zs, %z1, %k, %zero, %zero)
  %more_m = f32[16,512,512] dynamic-update-slice(%ms, %m1, %k, %zero, %zero)
  ROOT %all = {making} tuple(%next, %h, %w, %more_z, %more_m)
"
    );
    let state = "(s32[], f32[16,512], f32[16,512,512], f32[16,512,512], f32[16,512])";
    let body = format!(
        "{taken}{rows}  %z = f32[16,512,512] get-tuple-element(%s), index=3
  %before = f32[16,512] get-tuple-element(%s), index=4
  %z1 = f32[1,512,512] dynamic-slice(%z, %k, %zero, %zero), dynamic_slice_sizes={{1,512,512}}
  %z2 = f32[512,512] reshape(%z1)
  %c = f32[512,512] cosine(%z2)
  %q = f32[512] reduce(%c, %none), dimensions={{1}}, to_apply=%sum
  %q1 = f32[1,512] reshape(%q)
  %cosines = f32[16,512] dynamic-update-slice(%before, %q1, %k, %zero)
  ROOT %all = {state} tuple(%next, %sums, %m, %z, %cosines)
"
    );
    let end = format!(
        "{entry}  %first = {making} tuple(%zero, %x, %w, %nones, %nones)
  %made = {making} while(%first), condition=%make.more, body=%make.body
  %zs = f32[16,512,512] get-tuple-element(%made), index=3
  %ms = f32[16,512,512] get-tuple-element(%made), index=4
  %start = {state} tuple(%zero, %empty, %ms, %zs, %empty)
  %loop = {state} while(%start), condition=%sums.more, body=%sums.body
  %r = f32[16,512] get-tuple-element(%loop), index=1
  %q = f32[16,512] get-tuple-element(%loop), index=4
  ROOT %both = (f32[16,512], f32[16,512]) tuple(%r, %q)"
    );
    source(&end).replacen(
        "ENTRY",
        &(looped("make", making, 16, &make) + &looped("sums", state, 16, &body) + "ENTRY"),
        1,
    )
}

#[test]
fn what_loops_compute_anew_keeps_its_nan() {
    for (stacks, pass) in [(false, "loop-inputs"), (true, "loop-residuals")] {
        let text = stacked(stacks);
        let outcome = rewrite(&text, 4 << 20);
        assert!(outcome.report.rewrites.iter().any(|rewrite| rewrite.pass == pass), "{:?}", outcome.report.rewrites);
        stays_accurate(pass, &text, 4 << 20);
    }
}

/// Steps of the same work whose results meet in a maximum, some of whose numbers are NaN in every step.
fn steps_that_meet() -> String {
    let step = |k: i64| {
        let end = k + 1;
        format!(
            "  %x{k} = f32[1,8192,64] slice(%x), slice={{[{k}:{end}], [0:8192], [0:64]}}
  %m{k} = f32[8192,64] reshape(%x{k})
  %p{k} = f32[8192,512] dot(%m{k}, %y), lhs_contracting_dims={{1}}, rhs_contracting_dims={{0}}
  %c{k} = f32[8192,512] cosine(%p{k})
  %t{k} = f32[8192] reduce(%c{k}, %none), dimensions={{1}}, to_apply=%sum
  %v{k} = f32[8192] multiply(%t{k}, %w)
"
        )
    };
    let meet = |k: i64, before: &str| format!("  %r{k} = f32[8192] maximum({before}, %v{k})\n");
    let mut lines = "  %x = f32[6,8192,64] parameter(0)\n  %y = f32[64,512] parameter(1)\n  %w = f32[8192] parameter(2)\n  %none = f32[] constant(0)\n".to_owned();
    lines.extend((0..6).map(step));
    lines.push_str(&meet(1, "%v0"));
    lines.extend((2..6).map(|k| meet(k, &format!("%r{}", k - 1))));
    lines.push_str("  ROOT %r = f32[8192] copy(%r5)");
    source(&lines)
}

#[test]
fn rolled_steps_keep_their_nan() {
    let text = steps_that_meet();
    let outcome = rewrite(&text, 4 << 20);
    assert!(outcome.report.rewrites.iter().any(|rewrite| rewrite.pass == "roll"), "{:?}", outcome.report.rewrites);
    stays_accurate("rolled", &text, 4 << 20);
}

#[test]
fn initial_values_of_small_blocks_count_once() {
    let lines = |t: &str, initial: &str, combiner: &str| {
        format!(
            "  %x = {t}[4096] parameter(0)
  %y = {t}[64] parameter(1)
  %xs = {t}[4096,64] broadcast(%x), dimensions={{0}}
  %ys = {t}[4096,64] broadcast(%y), dimensions={{1}}
  %p = {t}[4096,64] multiply(%xs, %ys)
  %s = {t}[4096,64] sine(%p)
  %i = {t}[] {initial}
  ROOT %r = {t}[4096] reduce(%s, %i), dimensions={{1}}, to_apply={combiner}"
        )
    };
    let (sum, wide) = (lines("f32", "constant(50)", "%sum"), lines("f64", "parameter(2)", "%sum_wide"));
    for (name, lines) in [("initial-sum", sum), ("initial-wide", wide)] {
        let text = source(&lines);
        let answer = asked(name, "same", &text, &rewrite(&text, 4 << 10).text);
        assert!(answer["tolerated"] == json!(true), "{answer}");
    }
}

/// Sums of columns that start from a number, and sums that are scattered as soon as they are made.
const STARTED: [(&str, &str); 2] = [
    (
        "initial-columns",
        "  %x = f32[4096] parameter(0)
  %y = f32[64] parameter(1)
  %xs = f32[64,4096] broadcast(%x), dimensions={1}
  %ys = f32[64,4096] broadcast(%y), dimensions={0}
  %p = f32[64,4096] multiply(%xs, %ys)
  %s = f32[64,4096] sine(%p)
  %i = f32[] constant(50)
  ROOT %r = f32[4096] reduce(%s, %i), dimensions={0}, to_apply=%sum",
    ),
    (
        "initial-scattered",
        "  %t = f32[128] parameter(0)
  %x = f32[4096] parameter(1)
  %y = f32[64] parameter(2)
  %k = s32[4096,1] parameter(3)
  %xs = f32[4096,64] broadcast(%x), dimensions={0}
  %ys = f32[4096,64] broadcast(%y), dimensions={1}
  %p = f32[4096,64] multiply(%xs, %ys)
  %s = f32[4096,64] sine(%p)
  %i = f32[] constant(50)
  %r = f32[4096] reduce(%s, %i), dimensions={1}, to_apply=%sum
  ROOT %o = f32[128] scatter(%t, %k, %r), update_window_dims={}, inserted_window_dims={0}, scatter_dims_to_operand_dims={0}, index_vector_dim=1, to_apply=%most",
    ),
];

/// Kind: an initial value that small blocks would count several times, in sums of columns and inside of a loop over updates.
#[test]
fn initial_values_of_other_small_sums_count_once() {
    for (name, lines) in STARTED {
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

/// Kind: blocks of one row that are multiplied with a matrix for each of a batch, or with a vector.
#[test]
fn products_of_a_batch_keep_two_rows_and_a_vector_takes_one() {
    let batch = "  %x = f32[4,64] parameter(0)
  %y = f32[10000] parameter(1)
  %v = f32[4,10000,8] parameter(2)
  %xs = f32[4,64,10000] broadcast(%x), dimensions={0,1}
  %ys = f32[4,64,10000] broadcast(%y), dimensions={2}
  %p = f32[4,64,10000] add(%xs, %ys)
  %s = f32[4,64,10000] cosine(%p)
  ROOT %r = f32[4,64,8] dot(%s, %v), lhs_batch_dims={0}, rhs_batch_dims={0}, lhs_contracting_dims={2}, rhs_contracting_dims={1}";
    let vector = "  %x = f32[256] parameter(0)
  %y = f32[10000] parameter(1)
  %v = f32[10000] parameter(2)
  %xs = f32[256,10000] broadcast(%x), dimensions={0}
  %ys = f32[256,10000] broadcast(%y), dimensions={1}
  %p = f32[256,10000] multiply(%xs, %ys)
  %s = f32[256,10000] sine(%p)
  ROOT %r = f32[256] dot(%v, %s), lhs_contracting_dims={0}, rhs_contracting_dims={1}";
    for (name, lines, shape) in [("rows-of-a-batch", batch, "f32[4,2,8]"), ("rows-by-a-vector", vector, "f32[1]")] {
        let text = source(lines);
        let outcome = rewrite(&text, 16 << 10);
        assert!(outcome.text.contains(&format!("{shape} dot(")), "{}", outcome.text);
        let answer = asked(name, "same", &text, &outcome.text);
        assert!(answer["tolerated"] == json!(true), "{answer}");
    }
}

/// Random programs of an ordinary run, and the minutes they may take. Long runs are in docs/measured/log.md.
const RANDOM_HALVES: &str = "3";
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
