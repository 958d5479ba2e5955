//! Which scatters become which loops.

use hlo_ir::{AttrKey, ComputationId, InstructionId, Module, Opcode};
use hlo_memory::Bytes;
use hlo_memory::size::array_size;
use indexmap::IndexSet;

use super::build::build;
use super::region::{Block, Region, Source, grow};
use super::sink::Sink;
use super::size::{BlockSize, Limits};
use super::sum::{Sum, settle_sums};
use super::waste::{Dying, Waste, waste};
use crate::flow::{Value, producer};
use crate::{Condition, Context, Finding, Grade, Outcome, Reason};

/// Findings about the scatters of one computation.
pub(super) fn find(context: &Context<'_>, computation: ComputationId) -> Vec<Finding> {
    let scatters = context.module.instructions_of(computation).filter(|(_, inst)| inst.opcode == Opcode::Scatter);
    let mut findings = Vec::new();
    let mut sinks = Vec::new();
    for (id, _) in scatters {
        match Sink::of(context.module, id) {
            Ok(sink) => sinks.extend(sink),
            Err(reason) => findings.extend(missed(context, id, reason)),
        }
    }
    settle_sums(context.module, context.users, &mut sinks, context.options.exactness);
    for group in independent(context.module, &sinks) {
        for members in connected(context, &group, &mut findings) {
            findings.extend(plan(context, computation, &members));
        }
    }
    findings
}

/// Sinks of equal row count, none of which depends on another: each list can become one loop.
fn independent<'s>(module: &Module, sinks: &'s [Sink]) -> Vec<Vec<&'s Sink>> {
    let mut groups: Vec<Vec<&Sink>> = Vec::new();
    for sink in sinks {
        let apart = |member: &&Sink| !sink.needs(module, member) && !member.needs(module, sink);
        let fits = |group: &&mut Vec<&Sink>| group[0].rows == sink.rows && group.iter().all(apart);
        match groups.iter_mut().find(fits) {
            Some(group) => group.push(sink),
            None => groups.push(vec![sink]),
        }
    }
    groups
}

/// Splits a group into loops: members whose regions meet belong together; members that gain nothing are left out.
fn connected<'s>(context: &Context<'_>, group: &[&'s Sink], findings: &mut Vec<Finding>) -> Vec<Vec<&'s Sink>> {
    let mut loops: Vec<(Vec<&Sink>, IndexSet<Value>)> = Vec::new();
    for &sink in group {
        let region = match grow(context, &[sink], group) {
            Ok(region) => region,
            Err(barrier) => {
                let reason = Reason { code: barrier.code, message: barrier.text };
                findings.extend(missed(context, sink.scatter, reason));
                continue;
            }
        };
        let dying = Dying::of(context, context.module.instruction(sink.scatter).parent, group);
        if waste(context, &region, sink.rows, &dying).gone == Bytes::ZERO {
            findings.extend(blocked(context, sink, &region));
            continue;
        }
        let mut values: IndexSet<Value> = region.blocks.keys().map(|block| block.value).collect();
        let mut members = vec![sink];
        let (touching, apart): (Vec<_>, Vec<_>) =
            loops.into_iter().partition(|(_, others)| others.iter().any(|value| values.contains(value)));
        loops = apart;
        for (mut others, more) in touching.into_iter().rev() {
            others.append(&mut members);
            members = others;
            values.extend(more);
        }
        loops.push((members, values));
    }
    loops.into_iter().map(|(members, _)| members).collect()
}

/// The findings for one loop.
fn plan(context: &Context<'_>, computation: ComputationId, sinks: &[&Sink]) -> Vec<Finding> {
    let (allowed, inexact): (Vec<&Sink>, Vec<&Sink>) =
        sinks.iter().partition(|sink| sink.grade(sinks) <= context.options.exactness);
    let refused = inexact.iter().filter_map(|sink| {
        let name = &context.module.instruction(sink.scatter).name;
        let message =
            format!("`{name}` is added to another scatter, which XLA may join with it; a loop could round differently");
        missed(context, sink.scatter, Reason { code: "exactness", message })
    });
    let mut findings: Vec<Finding> = refused.collect();
    if inexact.is_empty() {
        findings.extend(plan_loop(context, computation, sinks));
    } else if !allowed.is_empty() {
        findings.extend(plan(context, computation, &allowed));
    }
    findings
}

/// The loop for `sinks`, or why there is none.
fn plan_loop(context: &Context<'_>, computation: ComputationId, sinks: &[&Sink]) -> Option<Finding> {
    let first = sinks[0];
    let mut region = match grow(context, sinks, sinks) {
        Ok(region) => region,
        Err(barrier) => {
            return missed(context, first.scatter, Reason { code: barrier.code, message: barrier.text });
        }
    };
    if let Some(reason) = sharded(context.module, &region) {
        return missed(context, first.scatter, reason);
    }
    let waste = waste(context, &region, first.rows, &Dying::of(context, computation, sinks));
    let size = block_size(context, sinks, &region, waste)?;
    let kept = Bytes(waste.row_bytes.saturating_mul(size.rows as u64));
    let wasted = waste.gone - kept;
    let smallest = Bytes(context.estimate.total.get() / 20);
    if wasted < context.options.min_saving || wasted == Bytes::ZERO {
        return None;
    }
    if wasted < smallest {
        let message = format!("blocks would save {wasted}, less than a twentieth of all memory, and cost run time");
        let outcome = Outcome::Missed(Reason { code: "small-gain", message });
        return Some(Finding { instruction: first.scatter, grade: Grade::Bitwise, wasted, outcome });
    }
    let patch = build(context.module, context.options.target, sinks, &mut region, size);
    let outcome = Outcome::Rewrite { patch, note: note(sinks, size), conditions: conditions(sinks, size) };
    let grade = sinks.iter().map(|sink| sink.grade(sinks)).fold(region.grade, Grade::max);
    Some(Finding { instruction: first.scatter, grade, wasted, outcome })
}

fn note(sinks: &[&Sink], size: BlockSize) -> String {
    let rest = if size.rest > 0 { format!(", then {} rows", size.rest) } else { String::new() };
    let shared = if sinks.len() > 1 { format!(", {} scatters in one loop", sinks.len()) } else { String::new() };
    format!("{} blocks of {} rows{rest}{shared}", size.count, size.rows)
}

fn conditions(sinks: &[&Sink], size: BlockSize) -> Vec<Condition> {
    let structure = |text: String| Condition { text, discharged_by: "structure" };
    let mut conditions = vec![
        structure("updates are applied in their original order: the first row dimension is cut, front to back".into()),
        structure("every value inside the loop is computed from the same rows by the same operations".into()),
        Condition {
            text: format!(
                "{} blocks of {} rows and {} rows behind them are all rows",
                size.count, size.rows, size.rest
            ),
            discharged_by: "shape",
        },
    ];
    if sinks.iter().any(|sink| matches!(sink.sum, Sum::Inside(_))) {
        conditions.push(structure("a sum that XLA would take into the scatter is taken into the loop".into()));
    }
    if sinks.len() > 1 {
        conditions.push(structure("no scatter of the loop depends on another one's result".into()));
    }
    conditions
}

/// The size of a block by the rule of the pass, or `None` if all rows fit one block.
fn block_size(context: &Context<'_>, sinks: &[&Sink], region: &Region, waste: Waste) -> Option<BlockSize> {
    const FEWEST_UPDATES: i64 = 1 << 12;
    const MIB: u64 = 1 << 20;
    let by_rule = Bytes((context.estimate.floor.get() / 1024).clamp(MIB, 64 * MIB));
    let inner = sinks.iter().map(|sink| sink.inner).min().unwrap_or(1);
    let least = (FEWEST_UPDATES + inner - 1) / inner.max(1);
    let limits = Limits {
        rows: sinks[0].rows,
        row_bytes: waste.row_bytes,
        granule: region.granule,
        bytes: context.options.chunk_bytes.unwrap_or(by_rule),
        least: if context.options.chunk_bytes.is_some() { 1 } else { least },
    };
    limits.block_size()
}

/// Cutting a dimension that lies across devices would fetch every block from all of them. In a partitioned module each value read in
/// blocks must say that the dimension is not cut, and no value of the region may say that it is.
fn sharded(module: &Module, region: &Region) -> Option<Reason> {
    if module.num_partitions() <= 1 {
        return None;
    }
    let refuse = |block: &Block, why: &str| {
        let name = &module.instruction(block.value.inst).name;
        let message = format!("`{name}` {why}, and blocks of a dimension that lies across devices cost memory");
        Some(Reason { code: "sharded", message })
    };
    for (block, source) in &region.blocks {
        let (op, _) = producer(module, block.value.inst);
        let inst = module.instruction(op);
        let proof = inst.raw(&AttrKey::Sharding).map(|text| cuts(text, block.dim));
        match (source, proof) {
            (_, Some(true)) => return refuse(block, "is cut along the rows"),
            (Source::Read(_) | Source::ReadThrough(..), None) => return refuse(block, "has no sharding annotation"),
            _ => {}
        }
    }
    None
}

/// Whether a sharding may cut dimension `dim`; an annotation that is not understood counts as a cut.
fn cuts(sharding: &str, dim: usize) -> bool {
    let text = sharding.trim_matches(['{', '}']);
    if matches!(text.split_whitespace().next(), Some("replicated" | "manual")) {
        return false;
    }
    let tiles = text.strip_prefix("devices=[").and_then(|rest| rest.split(']').next());
    tiles.and_then(|tiles| tiles.split(',').nth(dim)).is_none_or(|tile| tile.trim() != "1")
}

/// Nothing would disappear: a missed chance only if an operand of the sink is large, dies, and stands in memory for want of a rule.
fn blocked(context: &Context<'_>, sink: &Sink, region: &Region) -> Option<Finding> {
    let reason = region.roots.concat().iter().find_map(|root| match region.blocks.get(root)? {
        Source::Read(barrier) if !matches!(barrier.code, "leaf" | "opaque" | "needed-outside") => {
            Some(Reason { code: barrier.code, message: barrier.text.clone() })
        }
        _ => None,
    })?;
    missed(context, sink.scatter, reason)
}

/// A finding without rewrite, if enough bytes are at stake: the sink's operands that are not parameters.
fn missed(context: &Context<'_>, scatter: InstructionId, reason: Reason) -> Option<Finding> {
    let inst = context.module.instruction(scatter);
    let inputs = hlo_ir::ScatterDims::input_count(inst.operands.len());
    let made = inst.operands[inputs.min(inst.operands.len())..].iter().map(|&id| context.module.instruction(id));
    let made = made.filter(|operand| !matches!(operand.opcode, Opcode::Parameter | Opcode::GetTupleElement));
    let wasted: Bytes = made.filter_map(|operand| array_size(operand.array()?)).sum();
    let outcome = Outcome::Missed(reason);
    let finding = Finding { instruction: scatter, grade: Grade::Bitwise, wasted, outcome };
    (wasted >= context.options.min_saving && wasted > Bytes::ZERO).then_some(finding)
}
