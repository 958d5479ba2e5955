//! The part of the graph that decides which values loops and branches forward, as a module: copy insertion asks that before it asks who shares
//! memory with whom, and it is a small part. Most instructions make a value of their own whatever they read, so that those which only others of
//! their kind read can be left out, and the rest stand for themselves without what they read.

use hlo_ir::module::StackTables;
use hlo_ir::{ComputationId, InstructionId, Opcode};
use smol_str::SmolStr;

use super::Graph;
use super::convert::Snapshot;
use super::export::{Export, Source};
use super::skeleton::for_aliases;
use crate::opcode_set::OpcodeSet;

/// Opcodes that forward values of what they read or call, or may do so.
const FORWARDING: OpcodeSet = OpcodeSet::of(&[
    Opcode::AddDependency,
    Opcode::AllReduceDone,
    Opcode::Bitcast,
    Opcode::Call,
    Opcode::Conditional,
    Opcode::CopyDone,
    Opcode::CopyStart,
    Opcode::Domain,
    Opcode::GetTupleElement,
    Opcode::OptBarrier,
    Opcode::Parameter,
    Opcode::RecvDone,
    Opcode::Send,
    Opcode::Tuple,
    Opcode::While,
]);

/// Opcodes that may forward what computations make which nothing else runs, or are not known: where there are any, everything counts.
const OPEN: OpcodeSet = OpcodeSet::of(&[
    Opcode::AllGatherDone,
    Opcode::AllGatherStart,
    Opcode::AsyncDone,
    Opcode::AsyncStart,
    Opcode::AsyncUpdate,
    Opcode::CollectivePermuteDone,
    Opcode::CollectivePermuteStart,
    Opcode::Unknown,
]);

impl Graph {
    /// The values of these computations, which are all that run their instructions one by one, callees first. `None` if the graph holds what
    /// the outline cannot tell.
    pub(crate) fn outline(&self, computations: &[ComputationId]) -> Option<Snapshot> {
        if self.seen.meets(OPEN) {
            return None;
        }
        let lists: Vec<Vec<InstructionId>> = computations.iter().map(|&id| self.outlined(id)).collect();
        let mut export = Export::new(self, computations, lists.iter().map(Vec::len).sum());
        for (&id, list) in computations.iter().zip(&lists) {
            export.body(id, list, SmolStr::default(), Vec::new());
        }
        let source = |id: InstructionId| {
            if self.forwards(id) {
                Source::ours(for_aliases(self.inst(id)))
            } else {
                Source::alone(self.shape(id).clone(), self.opcode(id))
            }
        };
        let instructions = export.make(Vec::new(), source);
        Some(export.finish(self.header(false), StackTables::default(), instructions))
    }

    /// Whether an instruction may forward values of what it reads or calls.
    fn forwards(&self, id: InstructionId) -> bool {
        let opcode = self.opcode(id);
        // Copies forward what is inside a tuple.
        FORWARDING.has(opcode) || (opcode == Opcode::Copy && self.array(id).is_none())
    }

    /// The instructions of a computation that forward values, what they read, and the root, operands first.
    fn outlined(&self, computation: ComputationId) -> Vec<InstructionId> {
        let order = self.post_order(computation);
        let mut read = vec![false; self.slots(computation)];
        read[self.slot(self.root(computation))] = true;
        for &id in order.iter().filter(|&&id| self.forwards(id)) {
            self.operands(id).iter().for_each(|&operand| read[self.slot(operand)] = true);
        }
        order.iter().copied().filter(|&id| self.forwards(id) || read[self.slot(id)]).collect()
    }
}
