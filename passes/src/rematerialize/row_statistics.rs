//! Statistics of rows that are applied to the rows again, such as the largest number and the sum of a softmax.
//!
//! XLA:GPU makes one kernel of a normalization, which keeps a row in registers: what it reduces on the way is computed without reading the row again. A
//! statistic that is kept is written by a kernel of its own, which reads all rows, and the late kernel that is given it does not keep its rows either.
//!
//! Source: `SoftmaxRewriterTriton` (xla/service/gpu/transforms/softmax_rewriter_triton.cc).

// Tests: `passes/tests/rematerialize.rs`.

use hlo_ir::arena::SideTable;
use hlo_ir::{ArrayShape, AttrKey, ComputationId, InstructionId, Opcode};
use hlo_memory::{Target, cpu};

use crate::Context;

/// The statistics of a computation, and what follows from them row by row.
pub(super) struct RowStatistics {
    rows: SideTable<InstructionId, Option<InstructionId>>,
}

impl RowStatistics {
    pub(super) fn of(context: &Context<'_>, computation: ComputationId) -> Self {
        let mut found = Self { rows: SideTable::new(None) };
        if context.options.target == Target::Gpu {
            found.follow(context, computation);
            found.drop_unapplied(context, computation);
        }
        found
    }
    /// The rows that this is a statistic of.
    pub(super) fn rows_of(&self, id: InstructionId) -> Option<InstructionId> {
        self.rows[id]
    }
    /// Notes reductions of rows, and what has as many elements and follows from one.
    fn follow(&mut self, context: &Context<'_>, computation: ComputationId) {
        let module = context.module;
        for (id, inst) in module.instructions_of(computation) {
            let rows = match inst.opcode {
                Opcode::Reduce => inst.operands.first().copied().filter(|&rows| {
                    let array = module.instruction(rows).array().filter(|array| cpu::fits_registers(array));
                    array.is_some_and(|array| inst.ints(&AttrKey::Dimensions) == [array.rank() as i64 - 1])
                        && inst.array().is_some()
                }),
                opcode if passes_rows_on(opcode) => {
                    let of = inst.operands.iter().copied().find(|&of| self.rows[of].is_some());
                    of.filter(|&of| elements(context, of) == elements(context, id)).and_then(|of| self.rows[of])
                }
                _ => None,
            };
            self.rows.set(id, rows);
        }
    }
    /// Forgets statistics that are not repeated along their rows.
    fn drop_unapplied(&mut self, context: &Context<'_>, computation: ComputationId) {
        let mut applied: SideTable<InstructionId, bool> = SideTable::new(false);
        for &id in context.module.computation(computation).instructions.iter().rev() {
            let Some(rows) = self.rows[id] else { continue };
            let repeats = |&user: &InstructionId| {
                let inst = context.module.instruction(user);
                inst.opcode == Opcode::Broadcast && elements(context, user) == elements(context, rows)
                    || self.rows[user] == Some(rows) && applied[user]
            };
            let is_applied = context.users.get(id).iter().any(repeats);
            applied.set(id, is_applied);
        }
        for &id in &context.module.computation(computation).instructions {
            if !applied[id] {
                self.rows.set(id, None);
            }
        }
    }
}

fn passes_rows_on(opcode: Opcode) -> bool {
    opcode.is_elementwise() || matches!(opcode, Opcode::Reshape | Opcode::Bitcast | Opcode::Broadcast)
}

fn elements(context: &Context<'_>, id: InstructionId) -> Option<u64> {
    context.module.instruction(id).array().and_then(ArrayShape::elements)
}
