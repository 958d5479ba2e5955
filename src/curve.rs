//! The curve of memory against time (`--curve`): from the program as it was written to the smallest form that is known.
//!
//! Two searches are run, one without a budget and one for as little as can be had, and every form that one of them kept on its way is a point: the peak by the
//! model of memory, the time by the roofline of `hlo_passes::run_time`. Forms that another one beats in both are left out. A run with the peak of a point as
//! its budget ends at that point or lower.

// Tests: `tests/judge.rs`.

use hlo_ir::Module;
use hlo_memory::{Bytes, Estimate, ModelEstimator};
use hlo_passes::manager::{Observer, Rewrite};
use hlo_passes::{Grade, Options, estimate_and_time};

use crate::curve_point::Point;
use crate::report::made_at;
use crate::{Failure, Pipeline, api};

/// Points that a curve has at most.
const MOST_POINTS: usize = 10;

/// The curve of the module in `text`, the fastest form first; the program as it was written is always part of it.
pub fn curve(text: &str, pipeline: &Pipeline, options: &Options) -> Result<Vec<Point>, Failure> {
    curve_of(&api::read(text)?, pipeline, options)
}

/// The same of a legal module.
pub fn curve_of(module: &Module, pipeline: &Pipeline, options: &Options) -> Result<Vec<Point>, Failure> {
    let plain = Options { budget: None, bisect_limit: None, advise: false, ..options.clone() };
    let mut recorder = Recorder { options, grades: Vec::new(), points: Vec::new() };
    let first = api::optimize_read(module.clone(), pipeline, &plain, &mut recorder)?;
    let smallest = Options { budget: Some(floor(&first.report.before)), ..plain };
    api::optimize_read(module.clone(), pipeline, &smallest, &mut recorder)?;
    Ok(thinned(undominated(recorder.points)))
}

/// No program with this interface can need less, so no search for it ends early.
fn floor(before: &Estimate) -> Bytes {
    before.floor - Bytes(1)
}

/// Follows searches and notes every form.
struct Recorder<'a> {
    options: &'a Options,
    /// Of the rewrites that the form has at present.
    grades: Vec<Grade>,
    points: Vec<Point>,
}

impl Recorder<'_> {
    fn note(&mut self, module: &Module, step: String) {
        let model = ModelEstimator { target: self.options.target };
        let (Ok(estimate), Some(time)) = estimate_and_time(module, &model, self.options.machine()) else { return };
        // Where nobody knows how much more a compiler needs, there is no larger figure to say.
        let total = if estimate.slack == Bytes(u64::MAX) { estimate.total } else { estimate.likely() };
        let (seconds, is_certain) = (time.seconds, time.is_certain);
        let (rewrites, grade) = (self.grades.len(), self.grades.iter().max().copied());
        self.points.push(Point { total, seconds, is_certain, rewrites, grade, step });
    }
}

impl Observer for Recorder<'_> {
    fn begun(&mut self, module: &Module) {
        self.grades.clear();
        if self.points.is_empty() {
            self.note(module, "as written".to_owned());
        }
    }
    fn applied(&mut self, number: usize, rewrite: &Rewrite, module: &Module) {
        self.grades.truncate(number - 1);
        self.grades.push(rewrite.grade);
        let Rewrite { pass, instruction, note, .. } = rewrite;
        self.note(module, format!("{pass} {instruction}{}: {note}", made_at(&rewrite.source)));
    }
    fn undone(&mut self, kept: usize) {
        self.grades.truncate(kept);
    }
}

/// The program as it was written, and of the others those that no other one beats in memory and time, the fastest first.
fn undominated(points: Vec<Point>) -> Vec<Point> {
    let mut rest = points.into_iter();
    let mut kept: Vec<Point> = rest.next().into_iter().collect();
    let mut others: Vec<Point> = rest.collect();
    others.sort_by(|a, b| a.seconds.total_cmp(&b.seconds).then(a.total.cmp(&b.total)));
    let mut least = kept.first().map_or(Bytes(u64::MAX), |original| original.total);
    for point in others {
        // Less than a hundredth is no choice.
        if point.total.get() < least.get() - least.get() / 100 {
            least = point.total;
            kept.push(point);
        }
    }
    kept
}

/// At most [`MOST_POINTS`] of them: those go whose next smaller neighbor is nearest, never the first and the last.
fn thinned(mut points: Vec<Point>) -> Vec<Point> {
    while points.len() > MOST_POINTS {
        let step = |at: &usize| points[*at].total.get() as f64 / points[at + 1].total.get().max(1) as f64;
        let nearest = (1..points.len() - 1).min_by(|a, b| step(a).total_cmp(&step(b)));
        points.remove(nearest.expect("there are more than two"));
    }
    points
}

#[cfg(test)]
mod tests {
    use super::*;

    fn point(total: u64, seconds: f64) -> Point {
        Point {
            total: Bytes(total),
            seconds,
            is_certain: true,
            rewrites: 1,
            grade: Some(Grade::Bitwise),
            step: String::new(),
        }
    }

    fn totals(points: &[Point]) -> Vec<u64> {
        points.iter().map(|point| point.total.get()).collect()
    }

    #[test]
    fn forms_that_are_beaten_are_left_out() {
        let points =
            vec![point(100, 1.0), point(90, 1.5), point(80, 1.2), point(80, 1.3), point(70, 2.0), point(120, 0.9)];
        assert_eq!(totals(&undominated(points)), [100, 80, 70]);
        // One that is faster and smaller than the original stands behind it.
        assert_eq!(totals(&undominated(vec![point(100, 1.0), point(50, 0.5)])), [100, 50]);
    }

    #[test]
    fn close_points_go_first() {
        let points: Vec<Point> = (0..13).map(|n| point(1000 - n * n, n as f64)).collect();
        let thin = thinned(points);
        assert_eq!((thin.len(), thin[0].total.get(), thin[9].total.get()), (10, 1000, 856));
        // Those went that lay a few bytes above the next.
        assert_eq!(thin[1].total.get(), 984);
    }
}
