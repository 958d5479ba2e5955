//! Where copies may meet, and the search that starts from there.

use std::cmp::Reverse;

use crate::hash::IndexMap;
use hlo_ir::arena::SideTable;
use hlo_ir::{ComputationId, InstructionId, Module, Opcode};
use hlo_memory::Bytes;

use super::chains::{Chain, Chains, joined_values};
use super::isomorphism::Isomorphism;
use super::live_outs::LiveOuts;
use super::lockstep::{Copies, Failure, is_long_enough};
use super::scope::Scope;
use super::sequence::neutral;
use super::{FEWEST_COPIES, Rolled, bytes, is_heavy};
use crate::bounds;
use crate::{Context, Finding, Grade, Outcome, Reason};

/// Instructions on the way to a value that are hashed to find the same place of another copy: few find the first copies of a
/// recurrence too, many tell similar places of one copy apart.
const DEPTHS: [usize; 3] = [2, 3, 5];

/// Values that may stand at the same place of copies, and whether they must hand something from copy to copy to be worth it.
struct Seed {
    values: Vec<InstructionId>,
    recurrence: bool,
}

/// Everything that can be said about unrolled copies in one computation.
pub(super) fn search(context: &Context<'_>, isomorphism: &mut Isomorphism, scope: Scope) -> Vec<Finding> {
    let module = context.module;
    let cones = isomorphism.cones(module, scope.computation);
    let hashes = isomorphism.hashes(module, scope.computation);
    let chains = Chains::new(module, context.users, scope.computation, &cones);
    let mut work = bounds::WORK;
    let mut covered = SideTable::new(false);
    let mut findings = Vec::new();
    for seed in seeds(module, isomorphism, &chains, &cones, scope.computation) {
        if work == 0 || seed.values.iter().all(|&id| covered[id]) {
            continue;
        }
        match line_up(context, isomorphism, &chains, &seed, &mut work) {
            Ok(rolled) => {
                rolled.copies.computed().flat_map(|(_, column)| &column.ids).for_each(|&id| covered.set(id, true));
                rolled.live_outs.links().for_each(|id| covered.set(id, true));
                findings.push(if scope.sharded { sharded(module, &rolled) } else { rolled.finding(context, &hashes) });
            }
            Err(Some(missed)) => findings.push(*missed),
            Err(None) => {}
        }
    }
    findings.retain(|finding| finding.wasted > Bytes::ZERO && finding.wasted >= context.options.min_saving);
    findings
}

/// The copies of a seed, or of the longest part of it that lines up.
fn line_up(
    context: &Context<'_>,
    isomorphism: &mut Isomorphism,
    chains: &Chains,
    seed: &Seed,
    work: &mut usize,
) -> Result<Rolled, Option<Box<Finding>>> {
    let module = context.module;
    let mut values = seed.values.as_slice();
    let mut missed = None;
    for _ in 0..bounds::MAX_ATTEMPTS {
        let mut copies = Copies::new(values.len());
        let grown = copies.grow(module, isomorphism, values.to_vec());
        *work = work.saturating_sub(values.len() * (copies.columns.len() + 1));
        let failure = match grown {
            Ok(_) if seed.recurrence && !copies.is_recurrence() => return Err(None),
            // XLA computes such copies inside their users, without memory of their own.
            Ok(_) if !copies.computed().any(|(_, column)| is_heavy(module.instruction(column.ids[0]).opcode)) => {
                return Err(None);
            }
            Ok(_) => match LiveOuts::new(context, isomorphism, chains, &mut copies) {
                Ok(live_outs) => return Ok(Rolled { copies, live_outs }),
                Err(reason) => Failure { reason, run: 0..0 },
            },
            Err(failure) => failure,
        };
        let trimmed = values.get(failure.run.clone()).unwrap_or_default();
        missed = missed.or_else(|| (!seed.recurrence).then(|| Box::new(refusal(module, values, failure.reason))));
        if !is_long_enough(&failure.run) {
            break;
        }
        values = trimmed;
    }
    Err(missed)
}

fn refusal(module: &Module, values: &[InstructionId], reason: Reason) -> Finding {
    let last = values[values.len() - 1];
    // What the copies hold is not known; their results are the least of it.
    let wasted = Bytes(bytes(module, last).get().saturating_mul(values.len() as u64));
    Finding { instruction: last, grade: Grade::Bitwise, wasted, outcome: Outcome::Missed(reason) }
}

fn sharded(module: &Module, rolled: &Rolled) -> Finding {
    let copies = rolled.copies.len;
    let message = format!("{copies} copies of the same work, whose values may lie across devices");
    let reason = Reason { code: "sharded", message };
    let instruction = rolled.live_outs.owner(&rolled.copies);
    Finding { instruction, grade: Grade::Bitwise, wasted: rolled.wasted(module), outcome: Outcome::Missed(reason) }
}

/// Values that meet in a chain, a `concatenate` or the results, in rows that are computed alike.
pub(super) fn meeting(
    context: &Context<'_>,
    isomorphism: &Isomorphism,
    computation: ComputationId,
) -> Vec<Vec<InstructionId>> {
    let cones = isomorphism.cones(context.module, computation);
    let chains = Chains::new(context.module, context.users, computation, &cones);
    let seeds = seeds(context.module, isomorphism, &chains, &cones, computation);
    seeds.into_iter().filter(|seed| !seed.recurrence).map(|seed| seed.values).collect()
}

/// Where copies may meet, the most telling places first.
fn seeds(
    module: &Module,
    isomorphism: &Isomorphism,
    chains: &Chains,
    cones: &SideTable<InstructionId, u64>,
    computation: ComputationId,
) -> Vec<Seed> {
    let mut seeds: Vec<Seed> = Vec::new();
    let mut add = |values: Vec<InstructionId>, recurrence: bool| {
        if values.len() >= FEWEST_COPIES {
            seeds.push(Seed { values, recurrence });
        }
    };
    let mut longest: Vec<&Chain> = chains.all.iter().filter(|chain| chain.len() + 1 >= FEWEST_COPIES).collect();
    longest.sort_by_key(|chain| Reverse(chain.len()));
    longest.into_iter().flat_map(|chain| joined(module, chain, cones)).for_each(|values| add(values, false));
    let root = module.computation(computation).root;
    for (id, inst) in module.instructions_of(computation) {
        if inst.opcode == Opcode::Concatenate || (inst.opcode == Opcode::Tuple && id == root) {
            for values in classes(inst.operands.iter().copied(), cones) {
                add(values, false);
            }
        }
    }
    let position: SideTable<InstructionId, usize> = positions(module, computation);
    for depth in DEPTHS {
        let near = isomorphism.neighbours(module, computation, depth);
        let arrays = module.instructions_of(computation).filter(|(_, inst)| inst.array().is_some()).map(|(id, _)| id);
        let mut recurring: Vec<Vec<InstructionId>> = classes(arrays, &near);
        recurring.sort_by_key(|values| Reverse(values.last().map_or(0, |&last| position[last])));
        for values in recurring {
            add(values, true);
        }
    }
    seeds
}

/// Where each instruction stands in the text of its computation.
pub(super) fn positions(module: &Module, computation: ComputationId) -> SideTable<InstructionId, usize> {
    let mut position = SideTable::new(0);
    for (number, &id) in module.computation(computation).instructions.iter().enumerate() {
        position.set(id, number);
    }
    position
}

/// Values with equal hashes, in order.
fn classes(
    values: impl Iterator<Item = InstructionId>,
    hashes: &SideTable<InstructionId, u64>,
) -> Vec<Vec<InstructionId>> {
    let mut classes: IndexMap<u64, Vec<InstructionId>> = IndexMap::default();
    values.for_each(|id| classes.entry(hashes[id]).or_default().push(id));
    classes.into_values().collect()
}

/// Values at the same place of copies that a chain joins one after the other, some values each.
fn joined(module: &Module, chain: &Chain, cones: &SideTable<InstructionId, u64>) -> Vec<Vec<InstructionId>> {
    let values = joined_values(chain);
    let first = module.instruction(chain[0].id);
    let can_begin = first.array().is_some_and(|array| neutral(first.opcode, array.element_type).is_some());
    let mut at = usize::from(!can_begin);
    let mut runs: Vec<Vec<InstructionId>> = Vec::new();
    while at < values.len() {
        let repeats = |period: usize| {
            let pairs = values[at..].iter().zip(values.get(at + period..).unwrap_or_default());
            1 + pairs.take_while(|&(&a, &b)| cones[a] == cones[b]).count() / period
        };
        let periods = (1..=bounds::LEVELS).map(|period| (repeats(period), period));
        let candidates = periods.filter(|&(copies, _)| copies >= FEWEST_COPIES);
        // The one that covers most; of equals the shortest.
        let Some((copies, period)) = candidates.max_by_key(|&(copies, period)| (copies * period, Reverse(period)))
        else {
            at += 1;
            continue;
        };
        runs.push(values[at..].iter().copied().step_by(period).take(copies).collect());
        at += copies * period;
    }
    runs
}
