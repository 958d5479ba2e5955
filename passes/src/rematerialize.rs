//! Computes again, shortly before it is used, what a program computes early and uses late.
//!
//! Waste: a training step keeps, from the forward to the backward pass, every value that a gradient reads: of each layer the products, their
//! normalisations, activations, masks and scores, though most follow from a few of them by operations that take less time than memory.
//!
//! ```text
//! %h = f32[64,8] dot(%x, %w)                     %h = f32[64,8] dot(%x, %w)
//! %a = f32[64,8] tanh(%h)                        %a = f32[64,8] tanh(%h)
//! ... the other layers, and their gradients      ... the other layers, and their gradients
//! ROOT %g = dot(%da, %a)                    =>   %late = f32[64,8] select(%never, zeros, %h)
//!                                                %again = f32[64,8] tanh(%late)
//!                                                ROOT %g = dot(%da, %again)
//! ```
//!
//! In each computation the place is looked for which most bytes wait across: *early* is what is computed before it, *late* what is computed behind it,
//! by the length of the longest chain of operands. What is early is cut into segments where few bytes go from one operation to the next: between layers.
//! For each value of a segment that is used late there are two ways: it is kept, or computed again from values of its segment and kept ones. The cheapest choice is
//! a minimum cut (`recompute/cut.rs`) between the bytes kept and the time of computing again, both as memory traffic (`cost.rs`). What a segment computes again
//! waits for the gradient that arrives there, by a tie as `tie` makes it, so that neither XLA's scheduler nor its merging of equal instructions undoes it. On GPU and TPU
//! the first that uses the gradient reads it behind that barrier: XLA's algebraic simplifier drops operands of a barrier that nothing reads behind it.
//!
//! On GPU the largest number and the sum of a row are computed again with the row, as in a softmax. XLA's kernel keeps the row in registers, finds both on the way, and
//! would read all rows once more to write them.
//!
//! A byte that is kept costs what reading it takes, and writing it if it does not stand in memory anyway. Where memory counts for more than its traffic, more values are
//! computed again, up to products, layer by layer. Without a budget the search measures the time of each choice (`run_time`), and takes none with which the program
//! takes longer than `--max-slowdown` promises, in all segments or in some. On GPU and TPU, where loops would save the memory too, it takes none with which the program
//! takes longer than loops may. Where a budget is missed it takes what meets it. Of that no more segments stay than the budget asks for, the first ones.
//!
//! Sound because a value that is computed again is made by the same operations from the same operands, none of which has a side effect, and because it
//! waits only for values that are not computed from it. Grade: bitwise if no float operation is made again, else hlo-exact: a compiler may contract a multiply and an add
//! in one kernel and not in the other.
//!
//! Stays away from
//!
//! - scheduled modules, and computations across which less than a hundredth of all memory waits;
//! - values that are results, loops, calls of libraries and exchanges between devices;
//! - what follows from parameters by elementwise operations in less time than reading it takes, which XLA computes where it is used.

// Tests: `passes/tests/rematerialize.rs`.

mod choose;
mod emit;
mod row_statistics;

use hlo_memory::Bytes;

use crate::objective::least_saving;
use crate::recompute::cut::MEMORY_PRICES;
use crate::recompute::layers::{Layers, PARTS};
use crate::{Condition, Context, Finding, Grade, Outcome, Pass, PassKind};
use choose::Plan;

/// The pass.
#[derive(Clone, Copy, Debug, Default)]
pub struct Rematerialize;

impl Pass for Rematerialize {
    fn name(&self) -> &'static str {
        "rematerialize"
    }
    fn summary(&self) -> &'static str {
        "compute early values again where they are used late"
    }
    crate::explanation!("rematerialize.rs");
    fn kind(&self) -> PassKind {
        PassKind::Rewrite
    }
    fn recomputes(&self) -> bool {
        true
    }
    fn find(&self, context: &Context<'_>) -> Vec<Finding> {
        in_all(context, in_computation).flatten().collect()
    }
    fn has_parts(&self) -> bool {
        true
    }
    fn find_parts(&self, context: &Context<'_>) -> Vec<Vec<Finding>> {
        in_all(context, parts_in_computation).flatten().collect()
    }
}

/// What is found in each computation, among what is stored and among all.
fn in_all<T>(context: &Context<'_>, find: fn(&Context<'_>, &Layers<'_>, Bytes) -> T) -> impl Iterator<Item = T> {
    let computations = if context.module.is_scheduled() { Vec::new() } else { crate::roll::local(context.module) };
    let least = least_saving(context);
    // What is not stored is computed again anyway. But it may be stored where others are computed again, so that a choice among all may be better.
    let views = context.stored().map(Some).into_iter().chain([None]);
    let asked = views.flat_map(move |stored| computations.clone().into_iter().map(move |at| (at, stored)));
    asked.filter_map(move |(at, stored)| Some(find(context, &Layers::of(context, at, least, stored)?, least)))
}

/// What can be done in a computation, for each worth of memory at which it is more than for the one before.
fn plans(context: &Context<'_>, layers: &Layers<'_>) -> Vec<Plan> {
    let mut plans: Vec<Plan> =
        MEMORY_PRICES.iter().filter_map(|&worth| choose::plan(context, layers, worth as f64)).collect();
    plans.dedup_by(|later, earlier| later.saved <= earlier.saved);
    plans
}

fn in_computation(context: &Context<'_>, layers: &Layers<'_>, least: Bytes) -> Vec<Finding> {
    let mut plans = plans(context, layers);
    if !context.misses_goal() {
        plans = plans.iter().flat_map(|plan| PARTS.map(|of| plan.part(context, layers, of))).collect();
        plans.dedup_by(|later, earlier| later.again == earlier.again);
    }
    findings(context, layers, least, &plans)
}

/// The plan that saves most, segment by segment; and all plans, each segment by segment from the one before it on.
fn parts_in_computation(context: &Context<'_>, layers: &Layers<'_>, least: Bytes) -> Vec<Vec<Finding>> {
    let plans = plans(context, layers);
    let Some(most) = plans.last() else { return Vec::new() };
    let before = [None].into_iter().chain(plans.iter().map(Some));
    let from_less = plans.iter().zip(before).flat_map(|(plan, less)| plan.parts(context, layers, less));
    let ways: [Vec<Plan>; 2] = [most.parts(context, layers, None), from_less.collect()];
    ways.iter().map(|parts| findings(context, layers, least, parts)).collect()
}

fn findings(context: &Context<'_>, layers: &Layers<'_>, least: Bytes, plans: &[Plan]) -> Vec<Finding> {
    plans.iter().filter(|plan| plan.saved >= least).filter_map(|plan| finding(context, layers, plan)).collect()
}

fn finding(context: &Context<'_>, layers: &Layers<'_>, plan: &Plan) -> Option<Finding> {
    let written = emit::patch(context, layers, plan)?;
    let (values, segments) = (written.values, written.segments);
    let grade = if written.is_exact { Grade::Bitwise } else { Grade::HloExact };
    if grade > context.options.exactness {
        return None;
    }
    let condition = |text: &str| Condition { text: text.to_owned(), discharged_by: "structure" };
    let conditions = vec![
        condition("a value is computed again by the same operations from the same operands, without side effects"),
        condition("no value waits for something that is computed from it"),
    ];
    let plural = if segments == 1 { "" } else { "s" };
    let note = format!("{values} values of {segments} segment{plural} are computed again where they are used");
    let outcome = Outcome::Rewrite { patch: written.patch, note, conditions };
    Some(Finding { instruction: written.owner, grade, wasted: plan.saved, outcome })
}
