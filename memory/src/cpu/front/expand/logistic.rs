//! `logistic(x) = 1 / (1 + exp(-x))`
//!
//! Source: `LogisticExpander` (xla/hlo/transforms/expanders/logistic_expander.cc).

use hlo_ir::Opcode;

use super::super::cx::{Cx, Id};
use super::super::visit::each;

/// Expands every logistic; returns whether there was one.
pub(crate) fn run(cx: &mut Cx<'_>) -> bool {
    each(cx, Opcode::Logistic, expand)
}

fn expand(cx: &mut Cx<'_>, id: Id) -> Option<Id> {
    let (operand, shape) = (cx.operand(id, 0), cx.shape(id).clone());
    let one = cx.scalar_like(operand, 1.0);
    let minus = cx.elementwise(id, shape.clone(), Opcode::Negate, &[operand]);
    let exponential = cx.elementwise(id, shape.clone(), Opcode::Exponential, &[minus]);
    let sum = cx.elementwise(id, shape.clone(), Opcode::Add, &[one, exponential]);
    Some(cx.elementwise(id, shape, Opcode::Divide, &[one, sum]))
}
