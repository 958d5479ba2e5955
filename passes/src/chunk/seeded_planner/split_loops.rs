//! Splits a loop of scatters that share little, where each runs faster in a loop of its own.

use crate::hash::IndexSet;
use hlo_ir::InstructionId;
use hlo_ir::arena::SideTable;

use super::loop_partition::Plan;
use crate::Context;
use crate::chunk::cache_conflict::{may_split, should_split};
use crate::chunk::candidates::components;
use crate::chunk::region::{Region, grow};
use crate::chunk::sink::Sink;

/// What a loop may compute.
type Allowed = SideTable<InstructionId, bool>;

/// Gives scatters loops of their own where that is faster.
pub(super) fn split(context: &Context<'_>, plan: &mut Plan) {
    for index in (0..plan.loops.len()).rev() {
        let groups = groups(context, &plan.loops[index], &plan.allowed[index]);
        if groups.len() > 1 {
            let allowed = plan.allowed[index].clone();
            plan.allowed.splice(index..=index, groups.iter().map(|_| allowed.clone()));
            plan.loops.splice(index..=index, groups);
        }
    }
}

/// The sinks of a loop, in groups that share one.
fn groups(context: &Context<'_>, sinks: &[Sink], allowed: &Allowed) -> Vec<Vec<Sink>> {
    if sinks.len() < 2 || !sinks.iter().all(|sink| may_split(context, sink)) {
        return Vec::new();
    }
    let grown = |sink| grow(context, &[sink], &[sink], &IndexSet::default(), Some(allowed)).ok();
    let Some(regions) = sinks.iter().map(grown).collect::<Option<Vec<Region>>>() else { return Vec::new() };
    let alone: Vec<(&Sink, Region)> = sinks.iter().zip(regions).collect();
    let together =
        |one: &(&Sink, Region), other: &(&Sink, Region)| !should_split(context, [(one.0, &one.1), (other.0, &other.1)]);
    let groups = components(alone, together);
    groups.into_iter().map(|group| group.into_iter().map(|(sink, _)| sink.clone()).collect()).collect()
}
