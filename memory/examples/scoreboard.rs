//! Totals for the scoreboard: reads lines `BEFORE<tab>AFTER` (paths of modules, `-` for none) and prints for each line the total predicted
//! from the first and the total of the scheduled second, or a word that says why there is none.
#![allow(clippy::print_stdout, reason = "this program's product is its table")]

use std::io::BufRead as _;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

use hlo_memory::{Target, estimate};

/// Rows estimated at a time.
const THREADS: usize = 2;

fn main() {
    // A panic of the model is a row of the board, not the end of it.
    std::panic::set_hook(Box::new(|_| {}));
    let rows: Vec<String> = std::io::stdin().lock().lines().map_while(Result::ok).collect();
    let answers: Mutex<Vec<String>> = Mutex::new(vec![String::new(); rows.len()]);
    let next = AtomicUsize::new(0);
    std::thread::scope(|scope| {
        for _ in 0..THREADS {
            scope.spawn(|| {
                loop {
                    let at = next.fetch_add(1, Ordering::Relaxed);
                    let Some(row) = rows.get(at) else { break };
                    let answer = answer(row);
                    answers.lock().unwrap_or_else(PoisonError::into_inner)[at] = answer;
                }
            });
        }
    });
    for answer in answers.into_inner().unwrap_or_else(PoisonError::into_inner) {
        println!("{answer}");
    }
}

/// `PREDICTED<tab>SCHEDULED` of one row.
fn answer(row: &str) -> String {
    let totals: Vec<String> = row.split('\t').map(total).collect();
    totals.join("\t")
}

fn total(path: &str) -> String {
    if path == "-" {
        return "-".to_owned();
    }
    let Ok(text) = std::fs::read_to_string(path) else { return "unreadable".to_owned() };
    let attempt = catch_unwind(AssertUnwindSafe(|| {
        let module = hlo_ir::text::parse(&text).map_err(|_| "no-hlo")?;
        estimate(&module, Target::Cpu).map(|figures| figures.total.get()).map_err(|_| "no-estimate")
    }));
    match attempt {
        Ok(Ok(total)) => total.to_string(),
        Ok(Err(word)) => word.to_owned(),
        Err(_) => "panic".to_owned(),
    }
}
