//! Reads the attribution off an assignment.

use super::groups::{self, Groups};
use super::{Attribution, Gap, Holder, Point, Role, points};
use crate::assignment::{Assignment, Held};
use crate::{Bytes, Estimate};

/// Most buffers listed one by one: a report shows the top of the list, sums count all of them.
pub const HOLDERS: usize = 256;

impl Attribution {
    /// The attribution of an assignment whose figures are `estimate`.
    pub fn of(assignment: &Assignment<'_>, estimate: &Estimate) -> Self {
        let Some((peak_step, held)) = assignment.held_at_peak() else { return Self::default() };
        let holders: Vec<Holder> = held.iter().take(HOLDERS).map(|held| assignment.holder(held, peak_step)).collect();
        let rest = held.get(HOLDERS..).unwrap_or_default();
        let mut attribution = Self {
            peak_step,
            steps: estimate.timeline.len() as u32,
            holders,
            unlisted: rest.len(),
            unlisted_bytes: rest.iter().map(|held| held.bytes).sum(),
            points: course(assignment, &estimate.timeline),
            ..Self::default()
        };
        attribution.sum(assignment, estimate, &held);
        attribution
    }
    /// Sums by line and by path, and the gap.
    fn sum(&mut self, assignment: &Assignment<'_>, estimate: &Estimate, held: &[Held]) {
        let (mut by_source, mut by_path, mut temporaries) = (Groups::default(), Groups::default(), Groups::default());
        let mut used = Bytes::ZERO;
        for held in held {
            let origin = assignment.origin(held);
            let (name, bytes) = (&origin.instruction, held.bytes.get());
            let source = origin.source.unwrap_or_else(|| format!("({})", nameless(held.role)));
            if held.role == Role::Temporary {
                temporaries.add(source.clone(), name, bytes);
                used += held.bytes;
            }
            by_source.add(source, name, bytes);
            let path = match (&origin.op_name, held.role) {
                (Some(op_name), Role::Output | Role::Temporary | Role::InOutput) => groups::path(op_name).to_owned(),
                _ => format!("({})", nameless(held.role)),
            };
            by_path.add(path, name, bytes);
        }
        self.by_source = by_source.sorted();
        self.by_path = by_path.sorted();
        self.gap = Gap {
            temporaries: temporaries.sorted(),
            idle: estimate.temporaries - used,
            constants: estimate.constants,
            thread_local: estimate.thread_local,
        };
    }
}

/// What buffers without a source line are called.
const fn nameless(role: Role) -> &'static str {
    match role {
        Role::Argument { .. } => "arguments",
        Role::Constant => "constants",
        Role::Output | Role::Temporary | Role::InOutput => "no source line",
    }
}

/// Memory over the program.
fn course(assignment: &Assignment<'_>, timeline: &[Bytes]) -> Vec<Point> {
    let point = |step: usize| {
        let place = assignment.step(step as u32)?;
        Some(Point {
            step: step as u32,
            bytes: timeline[step],
            instruction: place.instruction,
            computation: place.computation,
            source: place.source,
        })
    };
    points::steps(timeline).into_iter().filter_map(point).collect()
}
