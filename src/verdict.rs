//! What the compiler said, for people (lines of the summary) and for programs (a part of the JSON report).

// Tests: `tests/judge.rs`.

use hlo_memory::Bytes;
use serde::Serialize;

use crate::answer::{Answer, Attempt, Verdict};

/// The peaks by the compiler, and every form it was asked about where one answer was not enough.
pub(crate) fn lines(verdict: &Verdict) -> String {
    let [before, after] = [&verdict.before, &verdict.after].map(said);
    let judge = verdict.judge;
    let first = match verdict.attempts.as_slice() {
        [] => format!("  by {judge}: peak {before}\n"),
        _ if verdict.bounds.limit == Some(0) => {
            format!("  by {judge}: peak {before}; no rewritten form is kept\n")
        }
        _ => format!("  by {judge}: peak {before} -> {after}\n"),
    };
    let needed = verdict.attempts.len() > 1 || verdict.bounds.limit == Some(0);
    verdict.attempts.iter().filter(|_| needed).fold(first, |lines, attempt| lines + &attempted(attempt))
}

/// A figure with its source and time, or why there is none.
fn said(answer: &Answer) -> String {
    let Some(figures) = answer.figures() else { return format!("none ({})", answer.refusal().unwrap_or_default()) };
    let time = figures.seconds.map(|seconds| format!(" in an estimated {:.3} ms", seconds * 1e3));
    let source = if matches!(answer, Answer::Predicted(_)) { " (predicted)" } else { "" };
    format!("{}{source}{}", figures.total, time.unwrap_or_default())
}

fn attempted(attempt: &Attempt) -> String {
    let plural = if attempt.rewrites == 1 { "" } else { "s" };
    let budget = attempt.bounds.budget.map(|budget| format!(", the model being asked for {budget}"));
    let (count, budget) = (attempt.rewrites, budget.unwrap_or_default());
    let slow = if attempt.is_slow { ", slower than --max-slowdown allows" } else { "" };
    format!("  tried {count} rewrite{plural}{budget}: {}{slow}\n", said(&attempt.answer))
}

/// The verdict in a JSON report.
#[derive(Serialize)]
pub(crate) struct JsonVerdict<'a> {
    judge: &'static str,
    before: JsonAnswer<'a>,
    after: JsonAnswer<'a>,
    attempts: Vec<JsonAttempt<'a>>,
    rewrite_limit: Option<usize>,
    model_budget_bytes: Option<u64>,
}

#[derive(Serialize)]
struct JsonAnswer<'a> {
    total_bytes: Option<u64>,
    is_predicted: bool,
    seconds: Option<f64>,
    refusal: Option<&'a str>,
}

#[derive(Serialize)]
struct JsonAttempt<'a> {
    rewrites: usize,
    model_budget_bytes: Option<u64>,
    is_slow: bool,
    answer: JsonAnswer<'a>,
}

impl<'a> From<&'a Verdict> for JsonVerdict<'a> {
    fn from(verdict: &'a Verdict) -> Self {
        let attempt = |attempt: &'a Attempt| JsonAttempt {
            rewrites: attempt.rewrites,
            model_budget_bytes: attempt.bounds.budget.map(Bytes::get),
            is_slow: attempt.is_slow,
            answer: answer(&attempt.answer),
        };
        Self {
            judge: verdict.judge,
            before: answer(&verdict.before),
            after: answer(&verdict.after),
            attempts: verdict.attempts.iter().map(attempt).collect(),
            rewrite_limit: verdict.bounds.limit,
            model_budget_bytes: verdict.bounds.budget.map(Bytes::get),
        }
    }
}

fn answer(answer: &Answer) -> JsonAnswer<'_> {
    let figures = answer.figures();
    JsonAnswer {
        total_bytes: figures.map(|figures| figures.total.get()),
        is_predicted: matches!(answer, Answer::Predicted(_)),
        seconds: figures.and_then(|figures| figures.seconds),
        refusal: answer.refusal(),
    }
}
