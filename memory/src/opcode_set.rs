//! Sets of opcodes: what a computation can hold, so that a pass need not look through one that it has nothing to do in.

use hlo_ir::Opcode;

const WORDS: usize = 4;

/// A set of opcodes, one bit each.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct OpcodeSet([u64; WORDS]);

impl OpcodeSet {
    /// The set of these opcodes.
    pub(super) const fn of(opcodes: &[Opcode]) -> Self {
        let mut set = Self([0; WORDS]);
        let mut at = 0;
        while at < opcodes.len() {
            set.0[opcodes[at] as usize / 64] |= 1 << (opcodes[at] as usize % 64);
            at += 1;
        }
        set
    }
    /// Adds an opcode.
    pub(crate) fn add(&mut self, opcode: Opcode) {
        self.0[opcode as usize / 64] |= 1 << (opcode as usize % 64);
    }
    /// Whether the opcode is in the set.
    pub(crate) fn has(self, opcode: Opcode) -> bool {
        self.0[opcode as usize / 64] & (1 << (opcode as usize % 64)) != 0
    }
    /// Whether the sets have an opcode in common.
    pub(super) fn meets(self, other: Self) -> bool {
        self.0.iter().zip(other.0).any(|(a, b)| a & b != 0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_set_holds_what_was_added() {
        let mut set = OpcodeSet::default();
        set.add(Opcode::While);
        assert!(set.has(Opcode::While) && !set.has(Opcode::Add));
        assert!(set.meets(OpcodeSet::of(&[Opcode::Add, Opcode::While])));
        assert!(!set.meets(OpcodeSet::of(&[Opcode::Add, Opcode::Unknown])));
    }
}
