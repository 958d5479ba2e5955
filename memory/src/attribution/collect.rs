//! Reads the attribution off an assignment.

use super::groups::{self, Groups};
use super::{Attribution, Gap, Holder, Point, Role, points, scratch};
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
            hidden: scratch::hidden(assignment),
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
        let arguments = assignment.argument_names();
        for held in held {
            let origin = assignment.origin(held);
            let (name, bytes) = (&origin.instruction, held.bytes.get());
            let is_copy = origin.op_name.as_ref().is_some_and(|name| arguments.contains(name));
            let unnamed = format!("({})", nameless(held.role, is_copy));
            let source = origin.source.unwrap_or_else(|| unnamed.clone());
            if held.role == Role::Temporary {
                temporaries.add(source.clone(), name, bytes);
                used += held.bytes;
            }
            by_source.add(source, name, bytes);
            let path = origin.op_name.as_deref().filter(|_| held.role.argument().is_none() && !is_copy);
            let path = path.map_or(unnamed, |name| groups::path(name).to_owned());
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

/// What buffers without a source line are called. A temporary that carries an argument's name was made from it by the compiler.
const fn nameless(role: Role, is_copy: bool) -> &'static str {
    match role {
        Role::Argument { .. } => "arguments",
        Role::Constant => "constants",
        _ if is_copy => "copies of arguments",
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
