//! What is known about the sign of a value, and rules that only need that.

use hlo_ir::Opcode;

use super::super::cx::{Cx, Id};
use super::super::value::Scalar;

/// Whether no element can be negative (or NaN).
///
/// Source: `AlgebraicSimplifierVisitor::IsNonNegative`.
pub(super) fn is_non_negative(cx: &Cx<'_>, id: Id) -> bool {
    use Opcode as O;
    if cx.operands(id).iter().any(|&operand| cx.element_type(operand).is_complex()) {
        return false;
    }
    let operand = |index| is_non_negative(cx, cx.operand(id, index));
    match cx.opcode(id) {
        O::Multiply => cx.operand(id, 0) == cx.operand(id, 1),
        O::Abs | O::Exponential | O::Iota => true,
        O::Broadcast | O::Power => operand(0),
        O::Constant => cx.scalar(id).is_some_and(|value| match value {
            Scalar::Int(value) => value >= 0,
            Scalar::Float(value) => !value.is_sign_negative() && !value.is_nan(),
            Scalar::Complex(..) => false,
        }),
        O::Minimum => operand(0) && operand(1),
        O::Maximum => operand(0) || operand(1),
        O::Select => operand(1) && operand(2),
        _ => false,
    }
}

/// `abs(A) = A` where `A` is not negative.
pub(super) fn abs(cx: &mut Cx<'_>, id: Id) -> Option<Id> {
    let operand = cx.operand(id, 0);
    is_non_negative(cx, operand).then_some(operand)
}

/// `-(-A) = A`, `not(not(A)) = A`
pub(super) fn twice(cx: &mut Cx<'_>, id: Id) -> Option<Id> {
    let inner = cx.of(cx.operand(id, 0), cx.opcode(id))?;
    cx.if_same(id, inner)
}

/// Whether this is a float constant, or the broadcast of one, that is plus or minus a power of two.
pub(super) fn is_power_of_two(cx: &Cx<'_>, id: Id) -> bool {
    let constant = cx.of(id, Opcode::Broadcast).unwrap_or(id);
    match cx.scalar(constant) {
        Some(Scalar::Float(value)) => value.is_normal() && value.to_bits() << 12 == 0,
        _ => false,
    }
}
