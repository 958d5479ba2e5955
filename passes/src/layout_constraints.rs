//! Constrains rows that loops read to the row-major layout, where XLA:GPU would copy whole arrays to another one.
//!
//! Waste: XLA:GPU gives the operands and results of collectives a layout in which the gathered or scattered dimension is the major-most one. Layout assignment propagates it from a
//! row to the array that a loop slices it from, and copies all of that array to the new layout in front of the loop. The weights of all layers, or what they save for their
//! gradients, then stand in memory twice.
//!
//! ```text
//! loop (.., %w):                                         loop (.., %w):
//!   %row = f32[1,N,M] dynamic-slice(%w, %t, 0, 0)   =>     %slice = f32[1,N,M] dynamic-slice(%w, %t, 0, 0)
//!   %all = f32[1,N,8M] all-gather(%row)                    %row = f32[1,N,M]{2,1,0} custom-call(%slice), custom_call_target="LayoutConstraint"
//!                                                          %all = f32[1,N,8M] all-gather(%row)
//! ```
//!
//! Layout assignment takes the call away and copies a row at a time where a kernel wants another layout. The model of XLA:GPU takes rows that loops read to be
//! row-major where devices exchange values, and sees nothing of this change. So this pass is asked behind all others, when something was rewritten, as passes for speed are.
//!
//! Sound because the call changes no value. Grade: hlo-exact, since kernels that read another layout may add in another order.
//!
//! Stays away from
//!
//! - other targets than GPU, scheduled modules, and programs that are yet to be divided among devices;
//! - programs without collectives: no copy of this kind was found in any;
//! - arrays of less than a hundredth of all memory;
//! - what stands in fusions and in the functions of reductions.
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
        "constrain rows that loops read to the row-major layout"
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
            && !users.any(|&user| row_major::is_constraint(module.instruction(user)))
    };
    let run = crate::roll::running(module);
    let instructions = run.into_iter().flat_map(|computation| module.instructions_of(computation));
    instructions.filter(|&(id, inst)| is_read(id, inst)).map(|(id, _)| id).collect()
}

fn finding(context: &Context<'_>, rows: &[InstructionId]) -> Option<Finding> {
    let module = context.module;
    let mut patch = Patch::new(module);
    for &row in rows {
        let inst = module.instruction(row);
        let constrained = patch.add(inst.parent, row_major::constraint(row, inst.array()?));
        patch.set_origin(constrained, row);
        patch.replace(row, constrained);
    }
    let note = match rows {
        [_] => "a row is read in the row-major layout, so that its array is not copied to another one".to_owned(),
        rows => format!(
            "{} rows are read in the row-major layout, so that their arrays are not copied to another one",
            rows.len()
        ),
    };
    let text = "a layout constraint changes no value".to_owned();
    let conditions = vec![Condition { text, discharged_by: "structure" }];
    let outcome = Outcome::Rewrite { patch, note, conditions };
    Some(Finding { instruction: *rows.first()?, grade: Grade::HloExact, wasted: Bytes::ZERO, outcome })
}
