//! Keeps what every few steps of a loop begin with, and runs the steps again where their stacks are read.
//!
//! Waste: the gradient of a `scan` stacks what it reads of every step, layers or steps of time, all of them at once. Where each step is computed again from what
//! it begins with (`jax.checkpoint`), that stands there for every step.
//!
//! ```text
//! first loop:   stack_h[t] = h(x); x = f(x)       first loop:   kept[t / 4, rounded up] = x; x = f(x)
//! second loop:  use(stack_h[99 - t])          =>  for each block of 4 steps, the last block first:
//!                                                   loop:  block_h[t] = h(x); x = f(x)     from kept[block]
//!                                                   loop:  use(block_h[3 - t])
//! ```
//!
//! The state at the beginning of each block is kept, a checkpoint, and the second loop becomes a loop over blocks. Each block runs its steps again,
//! with stacks of as many rows as it has steps, and then does the steps of the second loop that read them. The length of a block is the one with
//! which checkpoints and rows of a block take least, about the square root of the steps where both are alike. Steps that are left over are written
//! apart. With blocks of one step no loop stands inside: a layer is computed again in front of its gradient. Blocks may be divided again.
//!
//! Sound because a step that begins with the same values computes the same ones, by the same operations, none of which has a side effect. The loops
//! count from 0 in steps of one. Every row was written in its step and is read, as a whole row, in the steps in opposite order, so that the rows of
//! a block are read together. Nothing else reads the stacks. Grade: bitwise if no float operation is run again, else hlo-exact: a compiler may
//! contract a multiply and an add in one kernel and not in the other.
//!
//! Stays away from scheduled modules, from programs that XLA has yet to divide, from stacks that anything else reads or that are read in another order, and from rows
//! behind exchanges between devices, which would run again. The search measures the time of the whole program (`run_time`) and takes nothing with
//! which it takes longer than `--max-slowdown` promises, unless a budget is missed. Source: Griewank and Walther, "Evaluating Derivatives", 2nd edition, chapter 12
//! (two levels of checkpoints).

// Tests: `passes/tests/loop_checkpoints.rs`.

mod emit;
mod plan;
mod rows;

use hlo_ir::{InstructionId, Opcode};
use hlo_memory::Bytes;

use crate::loops::{self, Stacks};
use crate::recompute::bits::exact;
use crate::{Condition, Context, Finding, Grade, Outcome, Pass, PassKind, Reason};
use plan::Plan;

/// The pass.
#[derive(Clone, Copy, Debug, Default)]
pub struct LoopCheckpoints;

impl Pass for LoopCheckpoints {
    fn name(&self) -> &'static str {
        "loop-checkpoints"
    }
    fn summary(&self) -> &'static str {
        "keep what every few steps of a loop begin with, and run the steps again where their stacks are read"
    }
    crate::explanation!("loop_checkpoints.rs");
    fn kind(&self) -> PassKind {
        PassKind::Rewrite
    }
    fn recomputes(&self) -> bool {
        true
    }
    fn find(&self, context: &Context<'_>) -> Vec<Finding> {
        let module = context.module;
        if module.is_scheduled() || context.is_partitioned() {
            return Vec::new();
        }
        let loops = module.live_instructions().filter(|(_, inst)| inst.opcode == Opcode::While);
        loops.filter_map(|(id, _)| of_loop(context, id)).collect()
    }
}

fn of_loop(context: &Context<'_>, id: InstructionId) -> Option<Finding> {
    let module = context.module;
    let mut stacks = Stacks::of(module, id)?;
    if !loops::is_taken_apart(module, id) {
        return None;
    }
    let readers = loops::readers(module, &stacks);
    let least = context.options.min_saving.max(Bytes(1));
    let Some(plan) = plan::plan(module, &mut stacks, &readers, false).filter(|plan| plan.saved >= least) else {
        let plan = plan::plan(module, &mut stacks, &readers, true).filter(|plan| plan.saved >= least)?;
        let (wasted, outcome) = (plan.saved, Outcome::Missed(exchanges(&plan)));
        return Some(Finding { instruction: id, grade: Grade::HloExact, wasted, outcome });
    };
    let patch = emit::patch(module, &plan)?;
    let grade = if exact(module, &patch) { Grade::Bitwise } else { Grade::HloExact };
    let note = format!(
        "{} steps are run again in blocks of {}, from what each begins with: {} stacks less",
        plan.stacks.rows,
        plan.length,
        plan.dropped.len()
    );
    let (saved, conditions) = (plan.saved, conditions(context, &plan));
    Some(Finding { instruction: id, grade, wasted: saved, outcome: Outcome::Rewrite { patch, note, conditions } })
}

/// Why steps are not run again that exchange values between devices.
fn exchanges(plan: &Plan<'_>) -> Reason {
    let message = format!(
        "running {} steps again in blocks of {} would exchange values between devices once more; what stands behind an exchange can be kept, and only the rest computed again, by a policy of `jax.checkpoint`",
        plan.stacks.rows, plan.length
    );
    Reason { code: "collectives", message }
}

fn conditions(context: &Context<'_>, plan: &Plan<'_>) -> Vec<Condition> {
    let name = |id: InstructionId| &context.module.instruction(id).name;
    let (first, second) = (name(plan.stacks.site), name(plan.reader.site));
    let condition = |text: String| Condition { text, discharged_by: "structure" };
    vec![
        condition(format!("`{first}` counts {} steps and writes one row of each stack in a step", plan.stacks.rows)),
        condition(format!(
            "`{second}` counts as many, reads whole rows in opposite order, and nothing else reads them"
        )),
        condition("steps that are run again have no side effect and exchange nothing between devices".to_owned()),
    ]
}
