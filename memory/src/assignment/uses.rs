//! Uses of a value: the operands that read it.
//!
//! Source: `MayUseOperandValue`, `HloValue::ComputeUses` (xla/service/hlo_value.cc).

use hlo_ir::{InstructionId, Opcode};

use super::flow::Flow;
use super::values::ValueId;

/// One operand that reads a value.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Use {
    /// The reading instruction.
    pub(crate) user: InstructionId,
    /// Its operand number.
    pub(crate) operand: usize,
}

/// Whether an instruction reads its operand's own table or array, or, with `nested`, what lies inside an operand tuple.
/// A tuple only stores pointers, and a tuple element or copy of a tuple does not touch the elements.
pub(crate) fn reads(opcode: Opcode, nested: bool) -> bool {
    match opcode {
        Opcode::Tuple | Opcode::Domain => false,
        Opcode::GetTupleElement | Opcode::Copy => !nested,
        _ => true,
    }
}

impl Flow<'_> {
    /// All uses of a value. An instruction that only passes the value on counts if it is the root of its computation.
    pub(crate) fn uses(&self, value: ValueId) -> Vec<Use> {
        let is_root = |id: InstructionId| {
            let parent = self.module.instruction(id).parent;
            self.module.computation(parent).root == id
        };
        let roots =
            |id: InstructionId| is_root(id) && self.values.positions(value).any(|place| self.places.owner(place) == id);
        let mut uses = Vec::new();
        for place in self.values.positions(value) {
            let owner = self.places.owner(place);
            let nested = self.places.offset(place) > 0;
            for user in self.users.get(owner) {
                let inst = self.module.instruction(user);
                if reads(inst.opcode, nested) || roots(user) {
                    let operands = self.users.numbers(self.module, user, owner).into_iter();
                    uses.extend(operands.map(|operand| Use { user, operand }));
                }
            }
        }
        uses
    }
}
