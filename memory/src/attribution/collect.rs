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
        for held in held {
            let origin = assignment.origin(held);
            let (name, bytes) = (&origin.instruction, held.bytes.get());
            let unnamed = format!("({})", nameless(held.role, origin.op_name.as_deref()));
            let source = origin.source.unwrap_or_else(|| unnamed.clone());
            if held.role == Role::Temporary {
                temporaries.add(source.clone(), name, bytes);
                used += held.bytes;
            }
            by_source.add(source, name, bytes);
            let path = origin
                .op_name
                .as_deref()
                .map(groups::path)
                .filter(|_| origin.op_name.as_deref().is_some_and(|name| name.contains('/')));
            let path = path.filter(|_| held.role.argument().is_none()).map_or(unnamed, str::to_owned);
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

/// What buffers without a source line are called. JAX names operations `jit(f)/...` and arguments as the program writes them, so a temporary
/// that carries an argument's name was made from it by the compiler.
fn nameless(role: Role, op_name: Option<&str>) -> &'static str {
    match role {
        Role::Argument { .. } => "arguments",
        Role::Constant => "constants",
        _ if op_name.is_some_and(|name| !name.contains('/')) => "copies of arguments",
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
