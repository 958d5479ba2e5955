//! Uses of values, with the place inside the operand that is read.

use hlo_ir::InstructionId;

use crate::assignment::flow::Flow;
use crate::assignment::shape_positions::ShapePosition;
use crate::assignment::uses::reads;
use crate::assignment::values::ValueId;

/// One operand that reads a value. Instructions are those of the analysed module.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct PlacedUse {
    /// The reading instruction.
    pub(super) user: InstructionId,
    /// Its operand number.
    pub(super) operand: usize,
    /// Position inside the operand's shape, in pre-order.
    pub(super) offset: u32,
}

/// All uses of a value; see [`Flow::uses`].
pub(super) fn placed_uses(flow: &Flow<'_>, value: ValueId) -> Vec<PlacedUse> {
    let root_of = |id: InstructionId| flow.module.computation(flow.module.instruction(id).parent).root;
    let roots: Vec<InstructionId> = flow
        .values
        .positions(value)
        .map(|place| flow.places.owner(place))
        .filter(|&owner| root_of(owner) == owner)
        .collect();
    let mut uses = Vec::new();
    for place in flow.values.positions(value) {
        let (owner, offset) = (flow.places.owner(place), flow.places.offset(place));
        for user in flow.users.get(owner) {
            let inst = flow.module.instruction(user);
            if reads(inst.opcode, offset > 0) || roots.contains(&user) {
                let operands = flow.users.numbers(flow.module, user, owner).into_iter();
                uses.extend(operands.map(|operand| PlacedUse { user, operand, offset }));
            }
        }
    }
    uses
}

/// Whether a value appears at a root of `computation`.
pub(super) fn is_root_of(flow: &Flow<'_>, value: ValueId, root: InstructionId) -> bool {
    flow.values.positions(value).any(|place: ShapePosition| flow.places.owner(place) == root)
}
