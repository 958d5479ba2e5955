//! Reads rows of large arrays as they lie in memory, where XLA:GPU would turn the whole arrays first.
//!
//! Waste: XLA:GPU gathers and scatters between devices along the dimension that changes slowest in memory, and gives what leads there an order to suit. The order goes on from a
//! row to the array that a loop takes it from: XLA copies all of it in front of the loop, as if only this order would do. The weights of sixteen layers, or what they save for
//! their gradients, then stand in memory twice.
//!
//! ```text
//! loop (.., %w):                                         loop (.., %w):
//!   %row = f32[1,N,M] dynamic-slice(%w, %t, 0, 0)   =>     %lies = f32[1,N,M] dynamic-slice(%w, %t, 0, 0)
//!   %all = f32[1,8N,M] all-gather(convert(%row))           %row = f32[1,N,M]{2,1,0} custom-call(%lies), custom_call_target="LayoutConstraint"
//!                                                          %all = f32[1,8N,M] all-gather(convert(%row))
//! ```
//!
//! XLA takes the call away when it has given every value an order, and turns rows where a kernel reads them. The model of XLA:GPU does not choose orders: it takes every array
//! to lie as the program writes it, and sees nothing of this change. So this pass is asked behind all others, when something was rewritten, as passes for speed are.
//!
//! Sound because the call changes no value. Grade: hlo-exact, since kernels that read another order may add in another one.
//!
//! Stays away from
//!
//! - other targets than GPU, scheduled modules, and programs that are yet to be divided among devices;
//! - programs in which devices exchange nothing: no copy of this kind was found in any;
//! - arrays of less than a hundredth of all memory.
//!
//! Source: `GpuLayoutAssignment::AddBackendConstraints` (xla/service/gpu/transforms/layout_assignment.cc), `LayoutAssignment` (xla/service/layout_assignment.cc).

// Tests: `passes/tests/layout_constraints.rs`.

use hlo_ir::edit::Patch;
use hlo_ir::{Instruction, InstructionId, Opcode, row_major};
use hlo_memory::{Bytes, Target, size};

use crate::objective::NEGLIGIBLE;
use crate::{Condition, Context, Finding, Grade, Outcome, Pass, PassKind};

/// The pass.
#[derive(Clone, Copy, Debug, Default)]
pub struct LayoutConstraints;

impl Pass for LayoutConstraints {
    fn name(&self) -> &'static str {
        "layout-constraints"
    }
    fn summary(&self) -> &'static str {
        "read rows of large arrays as they lie in memory"
    }
    crate::explanation!("layout_constraints.rs");
    fn kind(&self) -> PassKind {
        PassKind::Speed
    }
    fn may_cost_time(&self) -> bool {
        false
    }
    fn is_unseen(&self) -> bool {
        true
    }
    fn find(&self, context: &Context<'_>) -> Vec<Finding> {
        let module = context.module;
        let is_meant = context.options.target == Target::Gpu && !module.is_scheduled() && !context.is_partitioned();
        if !is_meant || !module.live_instructions().any(|(_, inst)| inst.opcode.is_collective()) {
            return Vec::new();
        }
        let least = Bytes(context.estimate.total_with_scratch().get() / NEGLIGIBLE);
        finding(context, &rows(context, least)).into_iter().collect()
    }
}

/// Rows of arrays of so many bytes, or more, that loops read, or functions that they call.
fn rows(context: &Context<'_>, least: Bytes) -> Vec<InstructionId> {
    let module = context.module;
    let is_large = |id: InstructionId| {
        let array = module.instruction(id);
        let state = if array.opcode == Opcode::GetTupleElement { array.operands[0] } else { id };
        let is_handed_in = module.instruction(state).opcode == Opcode::Parameter && array.parent != module.entry();
        is_handed_in && array.array().and_then(size::array_size).is_some_and(|bytes| bytes >= least)
    };
    let is_read = |id: InstructionId, inst: &Instruction| {
        let mut users = context.users.get(id).iter();
        inst.opcode == Opcode::DynamicSlice
            && is_large(inst.operands[0])
            && !users.any(|&user| row_major::is_fixed(module.instruction(user)))
    };
    module.live_instructions().filter(|&(id, inst)| is_read(id, inst)).map(|(id, _)| id).collect()
}

fn finding(context: &Context<'_>, rows: &[InstructionId]) -> Option<Finding> {
    let module = context.module;
    let mut patch = Patch::new(module);
    for &row in rows {
        let inst = module.instruction(row);
        let fixed = patch.add(inst.parent, row_major::fixed(row, inst.array()?));
        patch.set_origin(fixed, row);
        patch.replace(row, fixed);
    }
    let note = match rows {
        [_] => "a row is read as it lies, so that no array is turned for it".to_owned(),
        rows => format!("{} rows are read as they lie, so that no array is turned for them", rows.len()),
    };
    let text = "a call that fixes the order in memory changes no value".to_owned();
    let conditions = vec![Condition { text, discharged_by: "structure" }];
    let outcome = Outcome::Rewrite { patch, note, conditions };
    Some(Finding { instruction: *rows.first()?, grade: Grade::HloExact, wasted: Bytes::ZERO, outcome })
}
