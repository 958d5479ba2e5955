//! Computes again, in the loop that reads them, what a loop stacks for it though it follows from what it stacks anyway.
//!
//! Waste: the gradient of a `scan` stores, step by step, every elementwise intermediate of the step: for `gelu` the product of the
//! layer and five functions of it, each as large as all activations together.
//!
//! ```text
//! first loop:   stack_h[t] = h = dot(x, w[t])            first loop:   stack_h[t] = h = dot(x, w[t])
//!               stack_a[t] = tanh(h)               =>
//! second loop:  use(stack_h[t], stack_a[t])              second loop:  use(stack_h[t], tanh(stack_h[t]))
//! ```
//!
//! Which rows are stacked is chosen anew (`cut.rs`): the fewest bytes from which all rows that are read follow, by elementwise operations and
//! data movement, from rows of stacks, from what the loop only hands on, and from the row that the step reads of an array it hands on. A value that has
//! no stack yet gets one where that takes fewer bytes: what a step begins with instead of all that it computes, the sums of rows instead of what they
//! are spread to. The operations are written anew at every place that reads a row of a dropped stack; what the reading loop does not carry
//! yet takes the place of such a stack in its state. Which row that is does not matter: row `t` of each stack comes from step `t`.
//!
//! Sound because the loop counts from 0 to the length of the stacks in steps of one and writes row `t` in step `t`, or all rows from the last
//! to the first, so that every row was written; because every reader takes one whole row; and because the operations have no side effect. Grade: bitwise if no float operation
//! is written anew and no row of floats is read elsewhere than before, else hlo-exact: a compiler may contract a multiply and an add that it did not see
//! together before, or another one than before in a kernel that reads its operands from elsewhere.
//!
//! Where the loop keeps only a mask of one byte per element (`relu`), the mask stays: keeping the product instead would take four times as much.
//! Dots are computed again where they contract little and are few beside those of the loops (`products.rs`): scores of attention, not layers. Reductions
//! and other costly operations never are: their results are stacked or nothing behind them is dropped.
//! Values inside calls are handed out where the call's computation has no other caller. Stays away from scheduled modules, from loops whose
//! counter is not plain, from stacks that anything else reads, and from reading loops that share their body with others
//! (without a remark: nothing is known to be lost).

mod cone;
mod cut;
mod emit;
mod grow;
mod products;
mod readers;
mod slots;
mod stacks;

pub(crate) use stacks::bound;

use hlo_ir::edit::Patch;
use hlo_ir::{InstructionId, Module, Opcode};
use hlo_memory::{Bytes, size};

use crate::{Condition, Context, Finding, Grade, Options, Outcome, Pass, PassKind};
use grow::Outlets;
use readers::Readers;
use stacks::{Order, Stack, Stacks};

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
    fn find(&self, context: &Context<'_>) -> Vec<Finding> {
        let module = context.module;
        if module.is_scheduled() {
            return Vec::new();
        }
        let loops = module.live_instructions().filter(|(_, inst)| inst.opcode == Opcode::While);
        loops
            .filter_map(|(id, _)| of_loop(module, id, context.options))
            .filter(|finding| worth(finding, context))
            .collect()
    }
}

fn worth(finding: &Finding, context: &Context<'_>) -> bool {
    finding.wasted >= context.options.min_saving && finding.wasted > Bytes::ZERO
}

/// What can be dropped of one loop's stacks.
fn of_loop(module: &Module, id: InstructionId, options: &Options) -> Option<Finding> {
    let mut stacks = Stacks::of(module, id)?;
    let readers = readers::of(module, &stacks);
    if readers.list.is_empty() {
        return None;
    }
    let (patch, dropped) = change(module, &mut stacks, &readers, options)?;
    let bytes = |stack: &Stack| size::array_size(&stack.array).unwrap_or(Bytes::ZERO);
    let (old, new) = stacks.list.split_at(stacks.known);
    let saved: Bytes = dropped.iter().map(|&index| bytes(&old[index])).sum();
    let added: Bytes = new.iter().map(bytes).sum();
    let more = if new.is_empty() { String::new() } else { format!(", from {} more", new.len()) };
    let note = format!(
        "{} of {} stacks of {} rows are computed again where they are read{more}",
        dropped.len(),
        old.len(),
        stacks.rows
    );
    let conditions = conditions(module, &stacks);
    let bitwise = emit::exact(module, &patch) && !dropped.iter().any(|&index| old[index].is_rounded());
    let grade = if bitwise { Grade::Bitwise } else { Grade::HloExact };
    let wasted = Bytes(saved.0.saturating_sub(added.0));
    Some(Finding { instruction: id, grade, wasted, outcome: Outcome::Rewrite { patch, note, conditions } })
}

/// The change, and which stacks it drops: with products computed again if they are few, or else without, or else without new stacks.
fn change(module: &Module, stacks: &mut Stacks, readers: &Readers, options: &Options) -> Option<(Patch, Vec<usize>)> {
    let outlets = Outlets::of(module, stacks);
    for products in [true, false] {
        stacks.list.truncate(stacks.known);
        let chosen = cut::choose(module, stacks, readers, options, &outlets, products);
        if !products || products::are_few(module, stacks, readers, &chosen, options) {
            let made = emit::patch(module, stacks, readers, &outlets, chosen.clone());
            if let Some((patch, dropped)) = made.filter(|(_, dropped)| *dropped == chosen) {
                return Some((patch, dropped));
            }
        }
    }
    stacks.list.truncate(stacks.known);
    let outlets = Outlets::default();
    let chosen = cut::choose(module, stacks, readers, options, &outlets, false);
    emit::patch(module, stacks, readers, &outlets, chosen)
}

fn conditions(module: &Module, stacks: &Stacks) -> Vec<Condition> {
    let name = &module.instruction(stacks.site).name;
    let row = match stacks.order {
        Order::Forward => "t".to_owned(),
        Order::Backward => format!("{} - t", stacks.rows - 1),
    };
    let condition = |text: String| Condition { text, discharged_by: "structure" };
    vec![
        condition(format!("`{name}` counts from 0 to {} and writes row {row} of each stack in step t", stacks.rows)),
        condition("every reader of a dropped stack takes one whole row".to_owned()),
        condition("a dropped row follows from stacked rows by operations on elements and movement of data".to_owned()),
    ]
}
