//! Reads the attribution off an assignment.

use hlo_ir::InstructionId;

use super::groups::{self, Groups, Sum};
use super::{Attribution, Gap, Group, Holder, Point, Role, points, scratch};
use crate::assignment::{Assignment, PeakBuffer, Timeline};
use crate::names::{Called, named};
use crate::{Bytes, Estimate};

/// Most buffers listed one by one: a report shows the top of the list, sums count all of them.
pub const HOLDERS: usize = 256;

/// The figures of an assignment and what explains them. `unnamed` says that instructions carry the names they wanted, of which one may stand
/// for several.
pub(crate) fn explained(assignment: &Assignment<'_>, unnamed: bool) -> (Estimate, Attribution) {
    let timeline = assignment.timeline();
    let found = Found::of(assignment, &timeline);
    let words = |called: &dyn Called| {
        let attribution = found.as_ref().map(|found| found.in_words(assignment, &timeline, called));
        (assignment.in_words(&timeline, called), attribution.unwrap_or_default())
    };
    let (words, mut attribution) = named(assignment.module(), unnamed, words);
    let estimate = assignment.figures(&timeline, words);
    if let Some(found) = found {
        attribution.steps = estimate.timeline.len() as u32;
        let gap = &mut attribution.gap;
        (gap.constants, gap.thread_local) = (estimate.constants, estimate.thread_local);
        gap.idle = estimate.temporaries - found.used;
    }
    (estimate, attribution)
}

/// What the attribution consists of, before anything has a name.
struct Found {
    peak_step: u32,
    held: Vec<PeakBuffer>,
    by_source: Vec<Sum>,
    by_path: Vec<Sum>,
    temporaries: Vec<Sum>,
    /// Temporaries in use at the peak.
    used: Bytes,
    hidden_scratch: Vec<(InstructionId, Bytes)>,
}

impl Found {
    /// `None` for a module in which nothing runs.
    fn of(assignment: &Assignment<'_>, timeline: &Timeline) -> Option<Self> {
        let (peak_step, held) = assignment.held_at_peak_of(timeline)?;
        let (mut by_source, mut by_path, mut temporaries) = (Groups::default(), Groups::default(), Groups::default());
        let mut used = Bytes::ZERO;
        let arguments = assignment.argument_names();
        for held in &held {
            let origin = assignment.origin(held);
            let (id, bytes) = (origin.instruction, held.bytes.get());
            let is_copy = origin.op_name.as_ref().is_some_and(|name| arguments.contains(name));
            let unnamed = format!("({})", nameless(held.role, is_copy));
            let source = origin.source.unwrap_or_else(|| unnamed.clone());
            if held.role == Role::Temporary {
                temporaries.add(source.clone(), id, bytes);
                used += held.bytes;
            }
            by_source.add(source, id, bytes);
            let path = origin.op_name.as_deref().filter(|_| held.role.argument().is_none() && !is_copy);
            let path = path.map_or(unnamed, |name| groups::path(name).to_owned());
            by_path.add(path, id, bytes);
        }
        let (by_source, by_path, temporaries) = (by_source.sorted(), by_path.sorted(), temporaries.sorted());
        Some(Self {
            peak_step,
            held,
            by_source,
            by_path,
            temporaries,
            used,
            hidden_scratch: scratch::hidden(assignment),
        })
    }

    /// The attribution but for what the figures say.
    fn in_words(&self, assignment: &Assignment<'_>, timeline: &Timeline, called: &dyn Called) -> Attribution {
        let groups = |sums: &[Sum]| -> Vec<Group> { sums.iter().map(|sum| sum.in_words(called)).collect() };
        let rest = self.held.get(HOLDERS..).unwrap_or_default();
        let holder = |held| -> Holder { assignment.holder(held, self.peak_step, called) };
        Attribution {
            peak_step: self.peak_step,
            holders: self.held.iter().take(HOLDERS).map(holder).collect(),
            unlisted: rest.len(),
            unlisted_bytes: rest.iter().map(|held| held.bytes).sum(),
            by_source: groups(&self.by_source),
            by_path: groups(&self.by_path),
            gap: Gap { temporaries: groups(&self.temporaries), ..Gap::default() },
            hidden_scratch: self
                .hidden_scratch
                .iter()
                .map(|hidden| scratch::in_words(assignment, hidden, called))
                .collect(),
            points: course(assignment, timeline, called),
            ..Attribution::default()
        }
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
fn course(assignment: &Assignment<'_>, timeline: &Timeline, called: &dyn Called) -> Vec<Point> {
    let point = |step: usize| {
        let id = *assignment.schedule().get(step)?;
        let (instruction, computation) = assignment.names(id, called);
        let bytes = Bytes(timeline.bytes[step]);
        Some(Point { step: step as u32, bytes, instruction, computation, source: assignment.source(id) })
    };
    points::steps(&timeline.bytes).into_iter().filter_map(point).collect()
}
