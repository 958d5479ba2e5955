//! A point of the curve of memory against time.

// Tests: `tests/judge.rs`.

use hlo_memory::Bytes;
use hlo_passes::Grade;

/// One form of the program.
#[derive(Clone, PartialEq, Debug)]
pub struct Point {
    /// Its peak.
    pub total: Bytes,
    /// Estimated time of a run in seconds.
    pub seconds: f64,
    /// Whether the iterations of all loops are known; of others one counts.
    pub is_certain: bool,
    /// How many rewrites it has.
    pub rewrites: usize,
    /// The weakest grade of them; `None` of the program as it was written.
    pub grade: Option<Grade>,
    /// What its last rewrite does and where, in words.
    pub step: String,
}

/// The curve as a table, times beside that of the program as it was written.
pub(crate) fn table(points: &[Point]) -> String {
    let original = points.first().map_or(1.0, |point| point.seconds);
    let line = |point: &Point| {
        let times = if original > 0.0 { point.seconds / original } else { 1.0 };
        let grade = point.grade.map(|grade| format!(" ({}, rewrite {})", grade.name(), point.rewrites));
        format!(
            "{:>12}  {:>9.3} ms  {times:>5.2}x  {}{}\n",
            point.total.to_string(),
            point.seconds * 1e3,
            point.step,
            grade.unwrap_or_default()
        )
    };
    let guess = "  loops of which nobody knows how often they run count one iteration\n";
    let is_certain = points.iter().all(|point| point.is_certain);
    points.iter().map(line).chain((!is_certain).then(|| guess.to_owned())).collect()
}
