//! Computes again, in the loop that reads them, what a loop stacks for it though it follows from what it stacks anyway.
//!
//! Waste: the gradient of a `scan` stores, step by step, every elementwise intermediate of the step: for `gelu` the product of the layer and five
//! functions of it, each as large as all activations together.
//!
//! ```text
//! first loop:   stack_h[t] = h = dot(x, w[t])            first loop:   stack_h[t] = h = dot(x, w[t])
//!               stack_a[t] = tanh(h)               =>
//! second loop:  use(stack_h[t], stack_a[t])              second loop:  use(stack_h[t], tanh(stack_h[t]))
//! ```
//!
//! Which rows are stacked is chosen anew (`cut.rs`): the fewest bytes from which all rows that are read follow, by elementwise operations and data
//! movement. They follow from rows of stacks, from what the loop only forwards, from the row that the step reads of an array it forwards, and from
//! the number of the step. A value that has no stack yet gets one where that takes fewer bytes: what a step begins with instead of all that it
//! computes, the sums of rows instead of what they are spread to. What a step begins with is what the step before made: row `t - 1` of that, or, in
//! the first step, what the loop begins with. So a recurrent network stacks its state once, and not before and behind each step. The operations are
//! written anew at every place that reads a row of a dropped stack; what the reading loop does not carry yet takes the place of such a stack in its
//! state. Which row that is does not matter: row `t` of each stack comes from step `t`.
//!
//! Sound because every row was written: the loop counts from 0 to the length of the stacks in steps of one and writes row `t` in step `t`, or all
//! rows from the last to the first. Every reader takes one whole row, and the operations have no side effect.
//!
//! Grade: bitwise if no float operation is written anew and no row of floats is read elsewhere than before, else hlo-exact. A compiler may contract
//! a multiply and an add that it did not see together before, or another one than before in a kernel that reads its operands from elsewhere.
//!
//! Where the loop keeps only a mask of one byte per element (`relu`), the mask stays: keeping the product instead would take four times as much.
//! Dots are computed again where the loops take little longer for it: scores of attention, not layers. The search measures the time of the whole program
//! (`run_time`) and takes nothing with which it takes longer than `--max-slowdown` promises, unless a budget is missed.
//! Reductions and other costly operations never are: their results are stacked or nothing behind them is dropped. Values inside calls are handed
//! out where the call's computation has no other caller. Stays away from scheduled modules, from loops whose counter is not plain, from stacks that
//! anything else reads, and from reading loops that share their body with others (without a remark: nothing is known to be lost).

// Tests: `passes/tests/loop_residuals.rs`.

mod cone;
mod cut;
mod emit;
mod grow;
mod indices;
mod rows;
mod slots;

use hlo_ir::edit::Patch;
use hlo_ir::{InstructionId, Module, Opcode};
use hlo_memory::{Bytes, size};

use crate::MAX_SLOWDOWN;
use crate::cost::Costs;
use crate::loops::{self, Order, Readers, Stack, Stacks};
use crate::objective::NEGLIGIBLE;
use crate::recompute::bits::exact;
use crate::recompute::cut::MEMORY_PRICES;
use crate::{Condition, Context, Finding, Grade, Options, Outcome, Pass, PassKind};
use cut::Prices;
use grow::Stackable;

/// The pass.
#[derive(Clone, Copy, Debug, Default)]
pub struct LoopResiduals;

impl Pass for LoopResiduals {
    fn name(&self) -> &'static str {
        "loop-residuals"
    }
    fn summary(&self) -> &'static str {
        "stack the fewest bytes from which a later loop can compute what it reads"
    }
    crate::explanation!("loop_residuals.rs");
    fn kind(&self) -> PassKind {
        PassKind::Rewrite
    }
    fn is_timed(&self) -> bool {
        true
    }
    fn find(&self, context: &Context<'_>) -> Vec<Finding> {
        let module = context.module;
        if module.is_scheduled() {
            return Vec::new();
        }
        let loops = module.live_instructions().filter(|(_, inst)| inst.opcode == Opcode::While);
        loops.filter_map(|(id, _)| of_loop(context, id)).filter(|finding| worth(finding, context)).collect()
    }
}

fn worth(finding: &Finding, context: &Context<'_>) -> bool {
    finding.wasted >= context.options.min_saving && finding.wasted > Bytes::ZERO
}

/// What can be dropped of one loop's stacks.
fn of_loop(context: &Context<'_>, id: InstructionId) -> Option<Finding> {
    let (module, options) = (context.module, context.options);
    let mut stacks = Stacks::of(module, id)?;
    let readers = loops::readers(module, &stacks);
    if readers.list.is_empty() {
        return None;
    }
    let missing = options.goal().map_or(Bytes::ZERO, |goal| options.peak(context.estimate) - goal);
    let change = change(module, &mut stacks, &readers, options, missing)?;
    let more = if change.added == 0 { String::new() } else { format!(", from {} more", change.added) };
    let note = format!(
        "{} of {} stacks of {} rows are computed again where they are read{more}",
        change.dropped, stacks.known, stacks.rows
    );
    let conditions = conditions(module, &stacks, change.looks_back);
    let grade = if change.is_exact { Grade::Bitwise } else { Grade::HloExact };
    Some(Finding {
        instruction: id,
        grade,
        wasted: change.saved,
        outcome: Outcome::Rewrite { patch: change.patch, note, conditions },
    })
}

/// A change of a loop's stacks.
struct Change {
    patch: Patch,
    /// How many stacks go, and how many come.
    dropped: usize,
    added: usize,
    saved: Bytes,
    /// Whether all bits stay.
    is_exact: bool,
    /// Whether a row may follow from that of the step before.
    looks_back: bool,
}

impl Change {
    fn new(module: &Module, stacks: &Stacks, patch: Patch, dropped: &[usize]) -> Self {
        let bytes = |stack: &Stack| size::array_size(&stack.array).unwrap_or(Bytes::ZERO);
        let (old, new) = stacks.list.split_at(stacks.known);
        let gone: Bytes = dropped.iter().map(|&index| bytes(&old[index])).sum();
        let come: Bytes = new.iter().map(bytes).sum();
        let is_exact = exact(module, &patch) && !dropped.iter().any(|&index| old[index].is_rounded());
        let saved = Bytes(gone.0.saturating_sub(come.0));
        Self { patch, dropped: dropped.len(), added: new.len(), saved, is_exact, looks_back: stacks.looks_back }
    }

    /// Whether this saves clearly more than another change, by a hundredth.
    fn beats(&self, other: Option<&Self>) -> bool {
        other.is_none_or(|other| self.saved.0 > other.saved.0 + other.saved.0 / NEGLIGIBLE)
    }
}

/// The change that saves most: any while bytes are `missing` to a budget, from there on those with which the loops take little longer. If none can be made as a whole,
/// what can be of one without new stacks.
fn change(
    module: &Module,
    stacks: &mut Stacks,
    readers: &Readers,
    options: &Options,
    missing: Bytes,
) -> Option<Change> {
    let stackable = Stackable::of(module, stacks);
    let mut prices = Prices { costs: Costs::new(module, options.machine()), target: options.target, memory: 1 };
    let allowed = allowed(module, stacks, readers, &prices);
    let mut best: Option<Change> = None;
    for memory in MEMORY_PRICES {
        prices.memory = memory;
        let misses_goal = best.as_ref().map_or(Bytes::ZERO, |best| best.saved) < missing;
        let slower = if misses_goal { u64::MAX } else { allowed };
        best = at_price(module, stacks, readers, options, &stackable, &prices, slower)
            .filter(|change| change.beats(best.as_ref()))
            .or(best);
    }
    best.or_else(|| {
        stacks.begin(false);
        let stackable = Stackable::default();
        prices.memory = 1;
        let chosen = cut::choose(module, stacks, readers, options, &stackable, &prices);
        let (patch, dropped) = emit::patch(module, stacks, readers, &stackable, chosen.dropped, options)?;
        Some(Change::new(module, stacks, patch, &dropped))
    })
}

/// What a step may take longer without a budget, as bytes of traffic: a part of what the operations of the loops take, which is less than the loops take.
fn allowed(module: &Module, stacks: &Stacks, readers: &Readers, prices: &Prices<'_>) -> u64 {
    let first = module.instruction(stacks.body.parameter).parent;
    let bodies = readers.list.iter().map(|reader| reader.body).chain([first]);
    (bodies.map(|body| prices.costs.at_least(body)).sum::<f64>() * (MAX_SLOWDOWN - 1.0)) as u64
}

/// The change that saves most at one price of memory, with rows that follow from those of the step before or without, if a step takes no more than `slower` longer.
fn at_price(
    module: &Module,
    stacks: &mut Stacks,
    readers: &Readers,
    options: &Options,
    stackable: &Stackable,
    prices: &Prices<'_>,
    slower: u64,
) -> Option<Change> {
    let mut best: Option<Change> = None;
    for looks_back in [false, true] {
        stacks.begin(looks_back);
        let chosen = cut::choose(module, stacks, readers, options, stackable, prices);
        if chosen.slower > slower {
            continue;
        }
        let made = emit::patch(module, stacks, readers, stackable, chosen.dropped.clone(), options);
        let change = made.filter(|(_, dropped)| *dropped == chosen.dropped);
        let change = change.map(|(patch, dropped)| Change::new(module, stacks, patch, &dropped));
        best = change.filter(|change| change.beats(best.as_ref())).or(best);
    }
    best
}

fn conditions(module: &Module, stacks: &Stacks, looks_back: bool) -> Vec<Condition> {
    let name = &module.instruction(stacks.site).name;
    let row = match stacks.order {
        Order::Forward => "t".to_owned(),
        Order::Backward => format!("{} - t", stacks.rows - 1),
    };
    let condition = |text: String| Condition { text, discharged_by: "structure" };
    let mut conditions = vec![
        condition(format!("`{name}` counts from 0 to {} and writes row {row} of each stack in step t", stacks.rows)),
        condition("every reader of a dropped stack takes one whole row".to_owned()),
        condition("a dropped row follows from stacked rows by operations on elements and movement of data".to_owned()),
    ];
    if looks_back {
        let text =
            "what a step begins with is what the step before made, or, in the first one, what the loop begins with";
        conditions.push(condition(text.to_owned()));
    }
    conditions
}
