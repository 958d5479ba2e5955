//! Comparisons of floats in total order become comparisons of integers with the same order.
//!
//! Source: `ComparisonExpander` (xla/hlo/transforms/expanders/comparison_expander.cc).

use hlo_ir::{AttrKey, ElementType, Opcode};

use super::super::build::share;
use super::super::cx::{Cx, Id};
use super::super::value::Scalar;
use super::super::visit::each;

/// Expands every total-order comparison of floats; returns whether there was one.
pub(crate) fn run(cx: &mut Cx<'_>) -> bool {
    each(cx, Opcode::Compare, expand)
}

fn expand(cx: &mut Cx<'_>, id: Id) -> Option<Id> {
    let (a, b) = cx.both(id, Opcode::Compare)?;
    let total = cx.inst(id).word(&AttrKey::CompareType) == Some("TOTALORDER");
    if !total || !cx.element_type(a).is_float() {
        return None;
    }
    let element_type = match cx.element_type(a).bits() {
        8 => ElementType::S8,
        16 => ElementType::S16,
        32 => ElementType::S32,
        _ => ElementType::S64,
    };
    let wide = share(cx.arr(a).with_element_type(element_type));
    let (_, most) = element_type.integer_range()?;
    let zero = cx.constant(id, element_type, Scalar::Int(0));
    let zero = cx.broadcast(id, wide.clone(), zero, &[]);
    let most = cx.constant(id, element_type, Scalar::Int(most));
    let most = cx.broadcast(id, wide, most, &[]);
    let (a, b) = (ordered(cx, id, a, zero, most), ordered(cx, id, b, zero, most));
    let direction = cx.inst(id).word(&AttrKey::Direction)?.to_owned();
    Some(cx.compare(id, a, b, &direction))
}

/// The bits of a float as an integer that is ordered like it: negative numbers have their bits flipped.
fn ordered(cx: &mut Cx<'_>, at: Id, value: Id, zero: Id, most: Id) -> Id {
    let shape = cx.shape(most).clone();
    let bits = cx.elementwise(at, shape.clone(), Opcode::BitcastConvert, &[value]);
    let flipped = cx.elementwise(at, shape.clone(), Opcode::Xor, &[most, bits]);
    let negative = cx.compare(at, bits, zero, "LT");
    cx.elementwise(at, shape, Opcode::Select, &[negative, flipped, bits])
}
