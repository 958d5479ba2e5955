//! The traps of planning loops over blocks that show on floats and in a running process only: XLA runs both forms. The others are
//! tested in `passes/tests/traps.rs`.
//!
//! Pins `passes/src/chunk.rs`.

#![allow(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]

#[allow(dead_code, reason = "each test binary uses a part of it")]
#[path = "referee/session.rs"]
mod session;

use std::fs;
use std::path::{Path, PathBuf};

use hlo_opt::{Bytes, Grade, Machine, Optimized, Options, Pipeline, optimize};
use serde_json::{Value, json};
use session::{Session, program, workspace};

const COMBINERS: &str = "%sum (a: f32[], b: f32[]) -> f32[] {
  %a = f32[] parameter(0)
  %b = f32[] parameter(1)
  ROOT %r = f32[] add(%a, %b)
}
%most (c: f32[], d: f32[]) -> f32[] {
  %c = f32[] parameter(0)
  %d = f32[] parameter(1)
  ROOT %m = f32[] maximum(%c, %d)
}
";

fn source(lines: &str) -> String {
    format!("HloModule m\n{COMBINERS}\nENTRY %main {{\n{lines}\n}}\n")
}

/// Attention of `rows` queries and keys; `masked` lines turn the scores `%s` into `%q`.
fn attention(rows: u32, masked: &str) -> String {
    attention_and(rows, masked, "ROOT %o", "")
}

/// The same where `more` follows the output, which is called `output`.
fn attention_and(rows: u32, masked: &str, output: &str, more: &str) -> String {
    source(&format!(
        "  %x = f32[{rows},64] parameter(0)
  %y = f32[{rows},64] parameter(1)
  %v = f32[{rows},64] parameter(2)
  %zero = f32[] constant(0)
  %low = f32[] constant(-inf)
  %s = f32[{rows},{rows}] dot(%x, %y), lhs_contracting_dims={{1}}, rhs_contracting_dims={{1}}
{masked}
  %top = f32[{rows}] reduce(%q, %low), dimensions={{1}}, to_apply=%most
  %tops = f32[{rows},{rows}] broadcast(%top), dimensions={{0}}
  %d = f32[{rows},{rows}] subtract(%q, %tops)
  %e = f32[{rows},{rows}] exponential(%d)
  %t = f32[{rows}] reduce(%e, %zero), dimensions={{1}}, to_apply=%sum
  %ts = f32[{rows},{rows}] broadcast(%t), dimensions={{0}}
  %w = f32[{rows},{rows}] divide(%e, %ts)
  {output} = f32[{rows},64] dot(%w, %v), lhs_contracting_dims={{1}}, rhs_contracting_dims={{0}}{more}"
    ))
}

fn rewrite(text: &str, options: &Options) -> Optimized {
    let outcome = optimize(text, &Pipeline::standard(), options).unwrap_or_else(|failure| panic!("{failure}\n{text}"));
    assert!(!outcome.report.rewrites.is_empty(), "nothing was rewritten in\n{text}");
    outcome
}

fn small_blocks(bytes: u64, exactness: Grade) -> Options {
    Options {
        chunk_bytes: Some(Bytes(bytes)),
        min_saving: Bytes(1),
        machine: Some(Machine::without_malloc_cache()),
        exactness,
        advise: false,
        ..Options::default()
    }
}

fn save(folder: &Path, name: &str, text: &str) -> PathBuf {
    let path = folder.join(name);
    fs::write(&path, text).unwrap();
    path
}

/// What XLA makes of both forms on `cases` data sets.
fn compared(folder: &Path, before: &str, after: &str, cases: u32) -> Value {
    let [before, after] = [("before", before), ("after", after)].map(|(name, text)| save(folder, name, text));
    Session::start().ask(&[json!({"cmd": "same", "before": before, "after": after, "cases": cases})]).remove(0)
}

/// A library computes all of it in one call: XLA reports no temporaries at all, and the process takes all scores all the same.
#[test]
fn t02_memory_that_the_compiler_does_not_report_is_charged() {
    let text = attention(4096, "  %q = f32[4096,4096] copy(%s)");
    let outcome = rewrite(&text, &Options::default());
    let (before, after) = (&outcome.report.before, &outcome.report.after);
    let scores = Bytes(4096 * 4096 * 4);
    assert!(
        before.temporaries < Bytes(1 << 10) && before.hidden_scratch == scores,
        "{} {}",
        before.temporaries,
        before.hidden_scratch
    );
    assert!(after.total_with_scratch() < before.total + Bytes(8 << 20), "{} {}", after.total, after.hidden_scratch);
    let folder = workspace("resident");
    let growth = |name: &str, text: &str| {
        let output = program("resident.py").arg(save(&folder, name, text)).output().unwrap();
        let answer: Value = serde_json::from_slice(&output.stdout)
            .unwrap_or_else(|error| panic!("{error}: {}", String::from_utf8_lossy(&output.stderr)));
        Bytes(answer["growth_bytes"].as_u64().unwrap())
    };
    let (grown_before, grown_after) = (growth("before", &text), growth("after", &outcome.text));
    assert!(grown_before >= scores, "the original takes {grown_before}");
    assert!(grown_after < Bytes(scores.get() / 2), "the rewritten program takes {grown_after}");
}

/// A program that magnifies rounding is judged by the results in double precision: the rewritten form may be off by what the original is off,
/// and by no more. (Blocks of fewer than four rows and columns would be off by ten times as much.)
#[test]
fn t13_programs_that_magnify_rounding_are_judged_by_the_truth() {
    let text = source(
        "  %x = f32[8192,64] parameter(0)
  %y = f32[8192,64] parameter(1)
  %much = f32[] constant(8)
  %a = f32[8192,64] cosine(%x)
  %b = f32[8192,64] sine(%y)
  %p = f32[64,64] dot(%a, %b), lhs_contracting_dims={0}, rhs_contracting_dims={0}
  %many = f32[64,64] broadcast(%much), dimensions={}
  %big = f32[64,64] multiply(%p, %many)
  ROOT %s = f32[64,64] sine(%big)",
    );
    let outcome = rewrite(&text, &small_blocks(1 << 16, Grade::HloExact));
    let folder = workspace("magnified");
    let answer = compared(&folder, &text, &outcome.text, 1);
    assert_eq!(
        (&answer["bitwise"], &answer["tolerated"]),
        (&json!(false), &json!(false)),
        "nothing is magnified: {answer}"
    );
    assert_eq!(answer["as_near_the_truth"], json!(true), "{answer}");
    // A mistake as small as a thousandth of one factor is seen in spite of the noise.
    let wrong = outcome.text.replace("constant(8)", "constant(8.008)");
    assert_ne!(wrong, outcome.text);
    let answer = compared(&folder, &text, &wrong, 1);
    assert_eq!(answer["as_near_the_truth"], json!(false), "{answer}");
}

/// Rows that are masked as a whole become NaN, in the same places, also where maxima and sums are joined from blocks. (The data hold no NaN of
/// their own: XLA's library and its own code differ in what the maximum of a NaN is, whichever form they are given.)
#[test]
fn t14_masked_rows_stay_what_they_are() {
    let rows = 128;
    let masked = format!(
        "  %n = s32[{rows}] iota(), iota_dimension=0
  %five = s32[] constant(5)
  %none = s32[] constant(0)
  %fives = s32[{rows}] broadcast(%five), dimensions={{}}
  %nones = s32[{rows}] broadcast(%none), dimensions={{}}
  %rem = s32[{rows}] remainder(%n, %fives)
  %off = pred[{rows}] compare(%rem, %nones), direction=EQ
  %offs = pred[{rows},{rows}] broadcast(%off), dimensions={{0}}
  %lows = f32[{rows},{rows}] broadcast(%low), dimensions={{}}
  %q = f32[{rows},{rows}] select(%offs, %lows, %s)"
    );
    let text = attention(rows, &masked);
    // The columns' maxima and sums of the same weights are joined over blocks of rows.
    let columns = format!(
        "
  %peaks = f32[{rows}] reduce(%q, %low), dimensions={{0}}, to_apply=%most
  %sums = f32[{rows}] reduce(%q, %zero), dimensions={{0}}, to_apply=%sum
  ROOT %all = (f32[{rows},64], f32[{rows}], f32[{rows}]) tuple(%o, %peaks, %sums)"
    );
    let joined = attention_and(rows, &masked, "%o", &columns);
    let folder = workspace("masked");
    for (text, exactness) in [(&text, Grade::HloExact), (&joined, Grade::HloExact), (&joined, Grade::Reassociate)] {
        let outcome = rewrite(text, &small_blocks(1 << 13, exactness));
        let answer = compared(&folder, text, &outcome.text, 2);
        let error = answer["max_rel_error"].as_f64().unwrap();
        assert!(error <= 1e-5 || answer["as_near_the_truth"] == json!(true), "{exactness:?}: {answer}");
    }
}
