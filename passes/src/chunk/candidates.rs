//! Which scatters gain from a loop, which share one, and which loops must come together.

// Tests: `passes/tests/chunk_situations.rs`.

use crate::hash::IndexSet;
use hlo_ir::arena::SideTable;
use hlo_ir::graph::{Callers, cone};
use hlo_ir::{ComputationId, InstructionId, Module, Opcode, graph};
use hlo_memory::Bytes;
use hlo_memory::size::array_size;

use super::cache_conflict::should_split;
use super::region::{Region, Source, grow};
use super::savings::{DeadAfter, Identity, Materialized, is_view};
use super::sink::Sink;
use super::sum::settle_sums;
use crate::flow::{Frames, Value, has_rule, is_transparent};
use crate::{Context, Finding, Grade, Outcome, Reason};

/// Scatters that share a loop.
pub(super) struct Loop<'s> {
    /// At least one; in text order.
    pub(super) sinks: Vec<&'s Sink>,
    /// Values that disappear because of it.
    gone: IndexSet<Identity>,
}

/// A loop of one scatter.
struct Single<'s> {
    sink: &'s Sink,
    region: Region,
    /// Values that the loop computes or reads.
    values: IndexSet<Value>,
    /// Values that disappear because of it.
    gone: IndexSet<Identity>,
}

/// The scatters of a computation that can be sinks; a finding for each that cannot.
pub(super) fn sinks(context: &Context<'_>, computation: ComputationId, findings: &mut Vec<Finding>) -> Vec<Sink> {
    let root = context.module.computation(computation).root;
    let mut sinks = Vec::new();
    for (id, inst) in context.module.instructions_of(computation) {
        let dead = context.users.get(id).is_empty() && id != root;
        if inst.opcode != Opcode::Scatter || dead {
            continue;
        }
        match Sink::of(context.module, id) {
            Ok(sink) => sinks.extend(sink),
            Err(reason) => findings.extend(missed(context, id, reason)),
        }
    }
    settle_sums(context, &mut sinks);
    sinks
}

/// Loops, in clusters. A value needed by two loops disappears only if both are made, so loops that let the same value disappear come
/// together; one loop for all their scatters is not always possible, because one may need another's result.
pub(super) fn clusters<'s>(
    context: &Context<'_>,
    computation: ComputationId,
    sinks: &'s [Sink],
    findings: &mut Vec<Finding>,
) -> Vec<Vec<Loop<'s>>> {
    let singles = gaining(context, computation, sinks, findings);
    let mut loops: Vec<Loop<'s>> = Vec::new();
    for group in independent(context.module, singles) {
        let meets = |a: &Single<'_>, b: &Single<'_>| {
            let each = [(a.sink, &a.region), (b.sink, &b.region)];
            !a.values.is_disjoint(&b.values) && !should_split(context, each)
        };
        loops.extend(components(group, meets).into_iter().map(join));
    }
    components(loops, |a, b| !a.gone.is_disjoint(&b.gone))
}

/// A loop for each sink that gains when all of these are made. A sink that does not gain stays a scatter and keeps its operands alive,
/// so the question is asked again without it.
fn gaining<'s>(
    context: &Context<'_>,
    computation: ComputationId,
    sinks: &'s [Sink],
    findings: &mut Vec<Finding>,
) -> Vec<Single<'s>> {
    let mut going: Vec<&Sink> = sinks.iter().collect();
    // Most computations scatter nothing; looking at all their instructions would be wasted.
    while !going.is_empty() {
        let dead = DeadAfter::of(context, computation, &going);
        let mut loops = Vec::new();
        let mut left_out = Vec::new();
        for &sink in &going {
            match alone(context, sink, &going, &dead) {
                Ok(found) => loops.push(found),
                Err(reason) => left_out.extend(reason.and_then(|reason| missed(context, sink.inst, reason))),
            }
        }
        findings.append(&mut left_out);
        if loops.len() == going.len() {
            return loops;
        }
        going = loops.iter().map(|found| found.sink).collect();
    }
    Vec::new()
}

/// A loop of one sink, or the reason, if there is any to tell, why it would gain nothing.
fn alone<'s>(
    context: &Context<'_>,
    sink: &'s Sink,
    going: &[&Sink],
    dead: &DeadAfter,
) -> Result<Single<'s>, Option<Reason>> {
    let region = grow(context, &[sink], going, &IndexSet::default(), None)
        .map_err(|barrier| Reason { code: barrier.code, message: barrier.text })?;
    let gone = Materialized::of(context, &[sink], &region, dead).gone(context.module, &region, dead);
    if gone.values().copied().sum::<Bytes>() == Bytes::ZERO {
        return Err(blocked(&region));
    }
    if let Some(reason) = handed_in(context.module, sink, &region) {
        return Err(Some(reason));
    }
    let values = region.blocks.keys().map(|block| block.value).collect();
    Ok(Single { sink, region, values, gone: gone.into_keys().collect() })
}

/// A loop made inside a called computation would read whatever callers compute for it at full size, and nothing could change that later;
/// once the call is inlined, the loop computes it on blocks.
fn handed_in(module: &Module, sink: &Sink, region: &Region) -> Option<Reason> {
    let computation = module.instruction(sink.inst).parent;
    if computation == module.entry() {
        return None;
    }
    let callers = graph::callers(module);
    let read = region.blocks.iter().filter(|(_, source)| matches!(source, Source::Read(_)));
    let computed = read.map(|(block, _)| block.value.inst).find(|&id| {
        module
            .instruction(id)
            .parameter_number()
            .is_some_and(|number| computed_for(module, &callers, computation, number))
    })?;
    let (scatter, name) = (&module.instruction(sink.inst).name, &module.instruction(computed).name);
    let message =
        format!("callers compute `{name}` for `{scatter}`; once the call is inlined, a loop can compute it on blocks");
    Some(Reason { code: "call", message })
}

/// Whether some call that can be inlined hands in a computed value as parameter `number`.
fn computed_for(module: &Module, callers: &Callers, computation: ComputationId, number: i64) -> bool {
    callers[computation].iter().filter(|&&call| is_transparent(module, call)).any(|&call| {
        let Some(&argument) = module.instruction(call).operands.get(number as usize) else { return false };
        let mut value = Frames::new(Vec::new()).resolve(module, argument, 0).inst;
        while is_view(module, value) {
            value = module.instruction(value).operands[0];
        }
        let inst = module.instruction(value);
        match inst.parameter_number() {
            Some(number) => inst.parent != module.entry() && computed_for(module, callers, inst.parent, number),
            None => inst.opcode.is_elementwise() || has_rule(inst.opcode),
        }
    })
}

/// Splits sinks by row count, and such that none depends on another of its group.
fn independent<'s>(module: &Module, singles: Vec<Single<'s>>) -> Vec<Vec<Single<'s>>> {
    let mut groups: Vec<Vec<(Single<'s>, SideTable<InstructionId, bool>)>> = Vec::new();
    for single in singles {
        let sink = single.sink;
        let before = cone(module, sink.starts());
        let apart = |(member, before_member): &(Single<'_>, SideTable<InstructionId, bool>)| {
            member.sink.rows == sink.rows && !before[member.sink.inst] && !before_member[sink.inst]
        };
        match groups.iter_mut().find(|group| group.iter().all(apart)) {
            Some(group) => group.push((single, before)),
            None => groups.push(vec![(single, before)]),
        }
    }
    groups.into_iter().map(|group| group.into_iter().map(|(single, _)| single).collect()).collect()
}

/// The connected components of `items`, in the order of their first members.
pub(super) fn components<T>(items: Vec<T>, linked: impl Fn(&T, &T) -> bool) -> Vec<Vec<T>> {
    let mut found: Vec<Vec<T>> = Vec::new();
    for item in items {
        let (touching, apart): (Vec<_>, Vec<_>) =
            found.into_iter().enumerate().partition(|(_, members)| members.iter().any(|member| linked(member, &item)));
        let place = touching.first().map(|(at, _)| *at);
        let mut joined: Vec<T> = touching.into_iter().flat_map(|(_, members)| members).collect();
        joined.push(item);
        let behind = place.unwrap_or(apart.len());
        found = apart.into_iter().map(|(_, members)| members).collect();
        found.insert(behind, joined);
    }
    found
}

fn join(singles: Vec<Single<'_>>) -> Loop<'_> {
    let sinks = singles.iter().map(|single| single.sink).collect();
    Loop { sinks, gone: singles.into_iter().flat_map(|single| single.gone).collect() }
}

/// Nothing would disappear: a missed chance only if an operand of the sink stands in memory for want of a rule.
fn blocked(region: &Region) -> Option<Reason> {
    region.roots.concat().iter().find_map(|root| match region.blocks.get(root)? {
        Source::Read(barrier) if !matches!(barrier.code, "leaf" | "opaque" | "needed-outside") => {
            Some(Reason { code: barrier.code, message: barrier.text.clone() })
        }
        _ => None,
    })
}

/// A finding without rewrite, if enough bytes are at stake: the operands of the scatter that are not parameters.
pub(super) fn missed(context: &Context<'_>, scatter: InstructionId, reason: Reason) -> Option<Finding> {
    let inst = context.module.instruction(scatter);
    let inputs = hlo_ir::ScatterDims::input_count(inst.operands.len());
    let made = inst.operands[inputs.min(inst.operands.len())..].iter().map(|&id| context.module.instruction(id));
    let made = made.filter(|operand| !matches!(operand.opcode, Opcode::Parameter | Opcode::GetTupleElement));
    let wasted: Bytes = made.filter_map(|operand| array_size(operand.array()?)).sum();
    let outcome = Outcome::Missed(reason);
    let finding = Finding { instruction: scatter, grade: Grade::Bitwise, wasted, outcome };
    (wasted >= context.options.min_saving && wasted > Bytes::ZERO).then_some(finding)
}

#[cfg(test)]
mod tests {
    use super::components;

    #[test]
    fn components_keep_the_order_of_their_first_members() {
        let linked = |a: &i32, b: &i32| a % 3 == b % 3;
        assert_eq!(components(vec![1, 2, 4, 3, 5], linked), [vec![1, 4], vec![2, 5], vec![3]]);
        // The last item links two components that were apart.
        let near = |a: &i32, b: &i32| (a - b).abs() <= 1;
        assert_eq!(components(vec![9, 1, 3, 2], near), [vec![9], vec![1, 3, 2]]);
        assert_eq!(components(vec![1, 9, 3, 2], near), [vec![1, 3, 2], vec![9]]);
    }
}
