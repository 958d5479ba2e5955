//! Bytes that a kernel reads and writes.
//!
//! Arrays that fit a cache are taken to be found there, but for arguments and results of the program; on GPU that is read faster, elsewhere at no cost. Of what is sliced or gathered a kernel reads the slice, of
//! what is updated in place it writes the update. What stands outside of the main memory takes no traffic of it.

// Tests: `passes/src/run_time.rs`.

use hlo_ir::{InstructionId, Module, Opcode};
use hlo_memory::size;

use crate::Machine;

/// What kernels read and write, of one operand or the result.
pub(super) struct Traffic<'a> {
    pub module: &'a Module,
    pub machine: &'a Machine,
    /// Whether what is read or written is an argument or a result of the program.
    pub is_in_memory: bool,
}

impl Traffic<'_> {
    /// Bytes read of an array of which a kernel needs this part.
    pub(super) fn read(&self, array: InstructionId, part: f64) -> f64 {
        self.traffic(array, self.bytes(array) * part)
    }

    /// Bytes that a kernel writes whose result is `root`.
    pub(super) fn written(&self, root: InstructionId) -> f64 {
        use Opcode as O;
        let inst = self.module.instruction(root);
        let operand = |index: usize| inst.operands.get(index).copied();
        match inst.opcode {
            O::Tuple => inst.operands.iter().map(|&part| self.written(part)).sum(),
            O::Bitcast => operand(0).map_or(0.0, |inner| self.written(inner)),
            O::DynamicUpdateSlice => operand(1).map_or(0.0, |update| self.traffic(root, self.bytes(update))),
            // Rows are read, added to and written.
            O::Scatter => 2.0 * inst.operands.last().map_or(0.0, |&updates| self.traffic(root, self.bytes(updates))),
            O::Parameter => 0.0,
            _ => self.traffic(root, self.bytes(root)),
        }
    }

    /// Traffic of so many bytes of `whole`. What fits a cache is moved once at most: when it comes from memory or has to get there.
    fn traffic(&self, whole: InstructionId, moved: f64) -> f64 {
        let all = self.bytes(whole);
        if all > self.machine.cache.get() as f64 {
            moved
        } else if self.is_in_memory {
            moved.min(all)
        } else {
            self.machine.cached_traffic(moved)
        }
    }

    fn bytes(&self, id: InstructionId) -> f64 {
        let shape = self.module.shape(id);
        if size::is_elsewhere(shape) { 0.0 } else { size::shape_size(shape).map_or(0.0, |bytes| bytes.get() as f64) }
    }
}
