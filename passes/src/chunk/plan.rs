//! From clusters of loops to findings: block sizes, refusals, and what is said about a rewrite.

use crate::hash::{IndexMap, IndexSet};
use hlo_ir::{ComputationId, InstructionId};
use hlo_memory::size::shape_size;
use hlo_memory::{Bytes, Target};

use super::build::{Built, build};
use super::cache_conflict::{SAVES_LITTLE, fewest_rows, least_saving, only_if_asked};
use super::candidates::{self, Loop, missed};
use super::devices::unfit;
use super::faithful;
use super::planned::Planned;
use super::region::{Block, Region, Source, grow};
use super::savings::{DeadAfter, Identity, Materialized};
use super::sharding::sharded;
use super::sink::{Sink, Sum};
use super::size::{BlockSize, Limits, granule, most_bytes};
use crate::flow::{is_fusible, producer};
use crate::machine::LINE;
use crate::small_programs::{fits_malloc_cache, least_gain, not_asked, possible};
use crate::{Condition, Context, Finding, Grade, Outcome, Reason};

/// Findings about the scatters of one computation.
pub(super) fn find(context: &Context<'_>, computation: ComputationId) -> Vec<Finding> {
    let mut findings = Vec::new();
    let sinks = candidates::sinks(context, computation, &mut findings);
    for cluster in candidates::clusters(context, computation, &sinks, &mut findings) {
        let loops = cluster.into_iter().map(|Loop { sinks, .. }| sinks).collect();
        findings.extend(Planner { context, computation, findings: Vec::new() }.plan(loops));
    }
    findings
}

struct Planner<'a> {
    context: &'a Context<'a>,
    computation: ComputationId,
    findings: Vec<Finding>,
}

impl Planner<'_> {
    /// The findings for one cluster. A loop that cannot be made keeps its operands alive, so the others are planned again without it.
    fn plan(mut self, mut loops: Vec<Vec<&Sink>>) -> Vec<Finding> {
        while !loops.is_empty() {
            let going: Vec<&Sink> = loops.iter().flatten().copied().collect();
            let dead = DeadAfter::of(self.context, self.computation, &going);
            let leaves = self.computed_in_several(&loops, &going);
            let mut planned = Vec::new();
            let mut rest = Vec::new();
            for sinks in &loops {
                match self.plan_loop(sinks, &going, &dead, &leaves) {
                    Ok(plan) => {
                        rest.push(sinks.clone());
                        planned.push(plan);
                    }
                    Err(allowed) => rest.extend(Some(allowed).filter(|sinks| !sinks.is_empty())),
                }
            }
            if planned.len() == loops.len() {
                let finding = self.finding(planned, &dead);
                self.findings.extend(finding);
                break;
            }
            loops = rest;
        }
        self.findings
    }

    /// Instructions that several loops would compute on blocks and that could come out differently in each.
    fn computed_in_several(&self, loops: &[Vec<&Sink>], going: &[&Sink]) -> IndexSet<InstructionId> {
        let mut seen: IndexMap<InstructionId, usize> = IndexMap::default();
        let mut twice = IndexSet::default();
        for (number, sinks) in loops.iter().enumerate() {
            let Ok(region) = grow(self.context, sinks, going, &IndexSet::default(), None) else { continue };
            for op in region.inexact(self.context.module) {
                if *seen.entry(op).or_insert(number) != number {
                    twice.insert(op);
                }
            }
        }
        twice
    }

    /// Plans one loop; `Err` holds the sinks that are left when it cannot be made as it is.
    fn plan_loop<'s>(
        &mut self,
        sinks: &[&'s Sink],
        going: &[&Sink],
        dead: &DeadAfter,
        leaves: &IndexSet<InstructionId>,
    ) -> Result<Planned<'s>, Vec<&'s Sink>> {
        let (allowed, inexact): (Vec<&Sink>, Vec<&Sink>) =
            sinks.iter().partition(|sink| sink.grade(self.context.module, sinks) <= self.context.options.exactness);
        for sink in &inexact {
            let name = &self.context.module.instruction(sink.inst).name;
            let text = "is added to another scatter, which XLA may join with it; a loop could round differently";
            self.miss(sink, Reason { code: "exactness", message: format!("`{name}` {text}") });
        }
        if !inexact.is_empty() {
            return Err(allowed);
        }
        let region = match grow(self.context, sinks, going, leaves, None) {
            Ok(region) => region,
            Err(barrier) => {
                self.miss(sinks[0], Reason { code: barrier.code, message: barrier.text });
                return Err(Vec::new());
            }
        };
        self.withheld(&region);
        if let Some(reason) = sharded(self.context, sinks, &region) {
            self.miss(sinks[0], reason);
            return Err(Vec::new());
        }
        if let Some(reason) = unfit(self.context, sinks, &region) {
            self.miss(sinks[0], reason);
            return Err(Vec::new());
        }
        let held = Materialized::of(self.context, sinks, &region, dead);
        let row_bytes = held.row_bytes(self.context.module, sinks[0].rows);
        let is_reused = fits_malloc_cache(self.context);
        let is_costly = is_reused && self.computes_twice(&region, dead);
        let Some(size) = self.block_size(sinks, &region, row_bytes).filter(|_| !is_costly) else {
            if is_reused {
                self.miss(sinks[0], not_asked(self.context));
            } else if only_if_asked(self.context, sinks, &region) {
                self.miss(sinks[0], Reason { code: "small-gain", message: format!("blocks {SAVES_LITTLE}") });
            }
            return Err(Vec::new());
        };
        Ok(Planned { sinks: sinks.to_vec(), region, size, row_bytes })
    }

    /// Whether the loop would compute what takes long, and is computed outside all the same.
    fn computes_twice(&self, region: &Region, dead: &DeadAfter) -> bool {
        let module = self.context.module;
        let stays = |block: &Block| {
            let op = producer(module, block.value.inst).0;
            let here = region.frames.outermost_call(block.value.frame).unwrap_or(op);
            !is_fusible(module.instruction(op).opcode) && !dead.is_gone(here)
        };
        region.blocks.iter().any(|(block, source)| matches!(source, Source::Computed(_)) && stays(block))
    }
    /// Says which values a loop reads from memory only because the run asks for more exactness.
    fn withheld(&mut self, region: &Region) {
        for (block, source) in &region.blocks {
            let Source::Read(barrier) = source else { continue };
            let instruction = block.value.inst;
            let bytes = shape_size(self.context.module.shape(instruction)).unwrap_or_default();
            let said = self.findings.iter().any(|finding| finding.instruction == instruction);
            if barrier.code == "exactness" && bytes >= self.context.options.min_saving && !said {
                let outcome = Outcome::Missed(Reason { code: barrier.code, message: barrier.text.clone() });
                self.findings.push(Finding { instruction, grade: Grade::HloExact, wasted: bytes, outcome });
            }
        }
    }

    fn miss(&mut self, sink: &Sink, reason: Reason) {
        self.findings.extend(missed(self.context, sink.inst, reason));
    }

    /// The size of a block by the rule of the pass, or `None` if all rows fit one block.
    fn block_size(&self, sinks: &[&Sink], region: &Region, row_bytes: u64) -> Option<BlockSize> {
        // Fewest updates of a block where runs reuse memory: starting an iteration takes about a tenth of the time of so many.
        const FEWEST_OF_SMALL: i64 = 1 << 16;
        // Each reads a line of indices, one of updates and one of a table, and writes that back: those that move as much as the smallest block. Devices make many at a time.
        let on_cpu = self.context.options.target == Target::Cpu;
        let of_block = || (self.context.options.machine().least_block().get() / (4 * LINE)) as i64;
        let fewest_updates = if on_cpu { of_block() } else { 1 };
        let Context { estimate, options, .. } = self.context;
        let by_rule = most_bytes(options.machine(), estimate.floor, sinks.len());
        let inner = sinks.iter().map(|sink| sink.inner).min().unwrap_or(1).max(1);
        let turns = fewest_rows(self.context, sinks, region, row_bytes);
        let is_reused = fits_malloc_cache(self.context);
        // Rows of a batch are put back on one thread.
        if is_reused && sinks.iter().any(|sink| sink.batch_dim.is_some()) {
            return None;
        }
        let fewest_updates = if is_reused { FEWEST_OF_SMALL } else { fewest_updates };
        let least = ((fewest_updates + inner - 1) / inner).max(turns);
        // XLA turns a scatter of a single update into a slice update, into which it fuses the update's arithmetic, with other last bits.
        let fewest = if inner == 1 { 2 } else { faithful::fewest_rows(self.context, region) };
        let limits = Limits {
            target: options.target,
            rows: sinks[0].rows,
            row_bytes,
            granule: granule(options.target, sinks[0].rows, region.granule),
            bytes: options.chunk_bytes.unwrap_or(by_rule),
            least: if options.chunk_bytes.is_some() { fewest } else { least },
            fewest,
        };
        limits.block_size()
    }

    /// The finding for loops that all can be made.
    fn finding(&self, mut planned: Vec<Planned<'_>>, dead: &DeadAfter) -> Option<Finding> {
        let Context { module, options, estimate, .. } = self.context;
        let mut gone: IndexMap<Identity, Bytes> = IndexMap::default();
        let mut kept = Bytes::ZERO;
        for Planned { sinks, region, size, row_bytes } in &planned {
            gone.extend(Materialized::of(self.context, sinks, region, dead).gone(module, region, dead));
            kept = kept.max(Bytes(row_bytes.saturating_mul(size.rows as u64)));
        }
        let wasted = possible(self.context, gone.into_values().sum::<Bytes>()) - kept;
        if wasted < options.min_saving || wasted == Bytes::ZERO {
            return None;
        }
        let instruction = planned[0].sinks[0].inst;
        let (least, part) = least_gain(self.context, estimate.total);
        let worth = least_saving(self.context, planned.iter().map(|plan| (plan.sinks.as_slice(), &plan.region)));
        if wasted < least.max(worth) {
            let message = if wasted < least {
                format!("blocks would save {wasted}, less than {part} of all memory, and cost run time")
            } else {
                format!("blocks {SAVES_LITTLE}")
            };
            let outcome = Outcome::Missed(Reason { code: "small-gain", message });
            return Some(Finding { instruction, grade: Grade::Bitwise, wasted, outcome });
        }
        let grade = planned.iter().map(|plan| plan.grade(self.context)).fold(Grade::Bitwise, Grade::max);
        let note = planned.iter().map(Planned::note).collect::<Vec<_>>().join("; ");
        let conditions = conditions(&planned);
        let Built { patch, grade: behind } = build(self.context, &mut planned)?;
        let grade = grade.max(behind);
        let outcome = Outcome::Rewrite { patch, note, conditions };
        Some(Finding { instruction, grade, wasted, outcome })
    }
}

fn conditions(planned: &[Planned<'_>]) -> Vec<Condition> {
    let structure = |text: &str| Condition { text: text.to_owned(), discharged_by: "structure" };
    let mut conditions = vec![
        structure("updates are applied in their original order: the first row dimension is cut, front to back"),
        structure("every value inside the loop is computed from the same rows by the same operations"),
    ];
    conditions.extend(planned.iter().map(|Planned { size: BlockSize { rows, count, rest }, .. }| Condition {
        text: format!("{count} blocks of {rows} rows and {rest} rows behind them are all rows"),
        discharged_by: "shape",
    }));
    if planned.iter().flat_map(|plan| &plan.sinks).any(|sink| matches!(sink.sum, Sum::Inside(_))) {
        conditions.push(structure("a sum that XLA would take into the scatter is taken into the loop"));
    }
    if planned.iter().any(|plan| plan.sinks.len() > 1) {
        conditions.push(structure("no scatter of a loop depends on another one's result"));
    }
    conditions
}
