//! Lets every device compute only its own part of a value that all devices compute alike.
//!
//! Waste: code that runs on every device (`shard_map`, `pmap`) often computes a whole array from replicated arguments and then takes the
//! rows that belong to the device: every device computes, and holds, all rows.
//!
//! ```text
//! %all = f32[8,64] sort(%x), dimensions={1}           %start = s32[] clamp(0, %own, 6)
//! %own = s32[] multiply(%device, 2)              =>   %rows = f32[2,64] dynamic-slice(%x, %start, 0)
//! %mine = f32[2,64] dynamic-slice(%all, %own, 0)      %mine = f32[2,64] sort(%rows), dimensions={1}
//! ```
//!
//! The slice moves up through every instruction that works row by row and that nothing else reads, to what stands in memory anyway.
//! Sound because each row of the result is computed by the same instructions from the same rows (dimension flow), and the start is clamped
//! as `dynamic-slice` clamps it. Grade: bitwise for integer work, movement, elementwise operations and sorts; hlo-exact where a float
//! reduction or product of matrices works on fewer rows, or a product of floats meets a sum that may now share its kernel.
//!
//! Stays away from slices whose start does not follow from `partition-id` or `replica-id`, from values that something else reads as a whole,
//! from values that lie across devices (outside of manual code), and from scheduled modules. Kept only if the estimated peak falls.
//! Remark: `needs-all-rows` names the instruction that a part cannot be computed through.

// Tests: `passes/tests/own_slice.rs`.

mod block;
mod plan;

use hlo_ir::{AttrKey, ComputationId, InstructionId, Module, Opcode};
use hlo_memory::{Bytes, size};

use crate::flow::{exactness_on_blocks, feeds_sum, float_product, is_float_sum, is_rounded};
use crate::{Condition, Context, Finding, Grade, Outcome, Pass, PassKind, Reason};
use plan::Plan;

/// The pass; see the module's text.
#[derive(Clone, Copy, Debug, Default)]
pub struct OwnSlice;

impl Pass for OwnSlice {
    fn name(&self) -> &'static str {
        "own-slice"
    }
    fn summary(&self) -> &'static str {
        "compute on each device only its own part of what all compute alike"
    }
    crate::explanation!("own_slice.rs");
    fn kind(&self) -> PassKind {
        PassKind::Rewrite
    }
    fn find(&self, context: &Context<'_>) -> Vec<Finding> {
        if context.module.is_scheduled() {
            return Vec::new();
        }
        let local = crate::roll::local(context.module);
        local.into_iter().flat_map(|computation| in_computation(context, computation)).collect()
    }
}

/// A `dynamic-slice` that takes rows of one dimension, at a place that follows from the number of the device.
#[derive(Clone, Copy, Debug)]
struct Own {
    slice: InstructionId,
    dim: usize,
    rows: i64,
}

fn in_computation(context: &Context<'_>, computation: ComputationId) -> Vec<Finding> {
    let module = context.module;
    let device = block::depends_on_device(module, computation);
    let values = module.instructions_of(computation).filter(|(_, inst)| inst.array().is_some());
    let sliced = values.filter_map(|(id, _)| {
        let users = context.users.get(id);
        let own: Option<Vec<Own>> = users.iter().map(|&user| own(module, id, user, &device)).collect();
        own.filter(|own| !own.is_empty()).map(|own| (id, own))
    });
    sliced.filter_map(|(id, own)| finding(context, id, &own)).collect()
}

/// What `user` takes of `value`, if it is a slice of its own.
fn own(
    module: &Module,
    value: InstructionId,
    user: InstructionId,
    device: &hlo_ir::arena::SideTable<InstructionId, bool>,
) -> Option<Own> {
    let inst = module.instruction(user);
    let (&first, starts) = inst.operands.split_first()?;
    if inst.opcode != Opcode::DynamicSlice || first != value || starts.contains(&value) {
        return None;
    }
    let (from, to) = (&module.instruction(value).array()?.dims, &inst.array()?.dims);
    let mut cut = (0..to.len()).filter(|&dim| to[dim] != from[dim]);
    let (dim, None) = (cut.next()?, cut.next()) else { return None };
    starts.get(dim).is_some_and(|&start| device[start]).then_some(Own { slice: user, dim, rows: to[dim] })
}

fn finding(context: &Context<'_>, value: InstructionId, own: &[Own]) -> Option<Finding> {
    let module = context.module;
    let array = module.instruction(value).array()?;
    let dim = own[0].dim;
    let taken: i64 = own.iter().map(|own| own.rows).sum();
    if own.iter().any(|own| own.dim != dim) || taken >= array.dims[dim] || is_made_elsewhere(module, value) {
        return None;
    }
    let bytes = size::shape_size(module.shape(value))?.get();
    let wasted = Bytes(bytes - bytes / array.dims[dim] as u64 * taken as u64);
    let outcome = match Plan::new(context, value, dim) {
        Err(barrier) => Outcome::Missed(Reason {
            code: "needs-all-rows",
            message: format!(
                "every device computes all of `{}` and reads a part: {barrier}",
                module.instruction(value).name
            ),
        }),
        Ok(plan) => {
            let patch = block::patch(module, &plan, own)?;
            let note = format!(
                "each device computes {} of {} rows ({} instructions)",
                taken,
                array.dims[dim],
                plan.computed.len()
            );
            let grade = grade(context, value, &plan);
            return keep(context, Finding { instruction: value, grade, wasted, outcome: rewrite(patch, note) });
        }
    };
    keep(context, Finding { instruction: value, grade: Grade::Bitwise, wasted, outcome })
}

fn keep(context: &Context<'_>, finding: Finding) -> Option<Finding> {
    (finding.wasted >= context.options.min_saving && finding.wasted > Bytes::ZERO).then_some(finding)
}

fn rewrite(patch: hlo_ir::edit::Patch, note: String) -> Outcome {
    let condition = |text: &str, discharged_by| Condition { text: text.to_owned(), discharged_by };
    let conditions = vec![
        condition("every row is computed by itself from rows of what stands in memory", "shape"),
        condition("nothing reads the other rows", "structure"),
    ];
    Outcome::Rewrite { patch, note, conditions }
}

/// Values that no instruction of this computation computes: a slice of them is all there is to read.
fn is_made_elsewhere(module: &Module, value: InstructionId) -> bool {
    let opcode = module.instruction(value).opcode;
    matches!(opcode, Opcode::Parameter | Opcode::Constant | Opcode::GetTupleElement | Opcode::Iota)
}

/// The strictest grade that all instructions allow on fewer rows; a product at the border may now share a kernel with a sum, and a
/// short float there may no longer be rounded.
fn grade(context: &Context<'_>, value: InstructionId, plan: &Plan) -> Grade {
    let module = context.module;
    let computed = plan.computed.keys().copied();
    let own =
        computed.clone().map(|id| exactness_on_blocks(module, module.instruction(id))).max().unwrap_or(Grade::Bitwise);
    let outside = |id: InstructionId| !plan.computed.contains_key(&id);
    let mut sums = computed.filter(|&id| is_float_sum(module, id));
    let enters = sums.any(|sum| {
        let mut terms = module.instruction(sum).operands.iter().filter_map(|&term| float_product(module, term));
        terms.any(outside)
    });
    let reads = plan.computed.keys().flat_map(|&id| &module.instruction(id).operands).copied();
    let rounds = reads.filter(|&id| outside(id)).chain([value]).any(|id| is_rounded(module, id));
    if enters || rounds || feeds_sum(module, context.users, value) { own.max(Grade::HloExact) } else { own }
}

/// Whether an annotation says more of a value than that this code runs on every device.
fn is_annotated(module: &Module, id: InstructionId) -> bool {
    let inst = module.instruction(id);
    let sharded = inst.raw(&AttrKey::Sharding).is_some_and(|text| !text.contains("manual"));
    sharded || inst.raw(&AttrKey::FrontendAttributes).is_some_and(|text| text.contains("sharding"))
}
