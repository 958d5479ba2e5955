//! Indices that only their stack kept in memory keep a place there.
//!
//! XLA:CPU puts the columns of indices together inside the kernel of a gather if nothing else reads them, and does so three times for every number
//! that is looked up by three columns, which takes several times as long as with the indices in memory. Where the stack of such indices is
//! dropped the gather is their only reader, so it takes them from a call that XLA does not inline.
//!
//! Source: `xla/service/instruction_fusion.cc`; `xla/codegen/emitters/elemental_hlo_to_mlir.cc` (gather).

use crate::hash::IndexSet;
use hlo_ir::edit::Patch;
use hlo_ir::graph::Users;
use hlo_ir::{InstructionId, Module, Opcode};
use hlo_memory::Target;

use crate::Options;
use crate::fusion_barrier::read_through_identity;
use crate::loops::Stacks;

/// Keeps the rows of `dropped` in memory that are put together for one gather.
pub(super) fn keep(module: &Module, patch: &mut Patch, stacks: &Stacks, dropped: &[usize], options: &Options) {
    if options.target != Target::Cpu || module.is_partitioned() {
        return;
    }
    let users = Users::of(module);
    let rows: IndexSet<InstructionId> = dropped.iter().map(|&at| stacks.list[at].row.inst).collect();
    for row in rows {
        if let Some(gather) = only_gather(module, &users, row) {
            read_through_identity(module, gather, 1, patch);
        }
    }
}

/// The gather that looks up by `row`, if that is put together of several arrays and read by nothing else but what stacks it or hands it out.
fn only_gather(module: &Module, users: &Users, row: InstructionId) -> Option<InstructionId> {
    let stacks_it =
        |opcode: Opcode| matches!(opcode, Opcode::Reshape | Opcode::Call | Opcode::Tuple | Opcode::DynamicUpdateSlice);
    let mut readers = users.get(row).iter().filter(|&&id| !stacks_it(module.instruction(id).opcode));
    let (Some(&gather), None) = (readers.next(), readers.next()) else { return None };
    let inst = module.instruction(gather);
    let is_joined = module.instruction(row).opcode == Opcode::Concatenate && module.instruction(row).operands.len() > 1;
    let looks_up = inst.opcode == Opcode::Gather && inst.operands[1] == row;
    (is_joined && looks_up).then_some(gather)
}
