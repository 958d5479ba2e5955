//! Bytes that a kernel reads and writes.
//!
//! Arrays that fit a cache are taken to be found there, but for arguments and results of the program. Of what is sliced or gathered a kernel reads the slice, of
//! what is updated in place it writes the update.

// Tests: `passes/src/run_time.rs`.

use hlo_ir::graph::Users;
use hlo_ir::{InstructionId, Module, Opcode};
use hlo_memory::{Bytes, size};

/// What kernels read and write, of one operand or the result.
pub(super) struct Traffic<'a> {
    pub module: &'a Module,
    pub users: &'a Users,
    pub cache: Bytes,
    /// Whether what is read or written is an argument or a result of the program.
    pub is_in_memory: bool,
}

impl Traffic<'_> {
    /// Bytes read of an operand of a fusion.
    pub(super) fn read(&self, parameter: InstructionId) -> f64 {
        let whole = self.traffic(parameter, parameter);
        self.users.get(parameter).iter().map(|&user| self.read_by(parameter, user)).sum::<f64>().min(whole)
    }

    /// Bytes that `user` reads of `operand`.
    pub(super) fn read_by(&self, operand: InstructionId, user: InstructionId) -> f64 {
        use Opcode as O;
        let inst = self.module.instruction(user);
        let is_first = inst.operands.first() == Some(&operand);
        match inst.opcode {
            O::Slice | O::DynamicSlice | O::Gather if is_first => self.traffic(operand, user),
            O::DynamicUpdateSlice | O::Scatter if is_first => 0.0,
            O::Bitcast | O::Reshape => {
                let through = self.users.get(user).iter().map(|&next| self.read_by(user, next)).sum::<f64>();
                let whole = self.traffic(operand, operand);
                if self.users.get(user).is_empty() { whole } else { through.min(whole) }
            }
            _ => self.traffic(operand, operand),
        }
    }

    /// Bytes that a kernel writes whose result is `root`.
    pub(super) fn written(&self, root: InstructionId) -> f64 {
        use Opcode as O;
        let inst = self.module.instruction(root);
        let operand = |index: usize| inst.operands.get(index).copied();
        match inst.opcode {
            O::Tuple => inst.operands.iter().map(|&part| self.written(part)).sum(),
            O::Bitcast => operand(0).map_or(0.0, |inner| self.written(inner)),
            O::DynamicUpdateSlice => operand(1).map_or(0.0, |update| self.traffic(root, update)),
            // Rows are read, added to and written.
            O::Scatter => 2.0 * inst.operands.last().map_or(0.0, |&updates| self.traffic(root, updates)),
            O::Parameter => 0.0,
            _ => self.traffic(root, root),
        }
    }

    /// Traffic of the elements of `part` where they stand in `whole`. What fits a cache is moved once at most: when it comes from memory or has to get there.
    fn traffic(&self, whole: InstructionId, part: InstructionId) -> f64 {
        let bytes = |id| size::shape_size(self.module.shape(id)).map_or(0.0, |bytes| bytes.get() as f64);
        let (all, moved) = (bytes(whole), bytes(part));
        if all > self.cache.get() as f64 {
            moved
        } else if self.is_in_memory {
            moved.min(all)
        } else {
            0.0
        }
    }
}
