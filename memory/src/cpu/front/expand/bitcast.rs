//! Bits read as elements of another size: narrow elements are cut out of wide ones by shifts, and shifted together to wide ones.
//!
//! Source: `BitcastDtypesExpander` (xla/hlo/transforms/expanders/bitcast_dtypes_expander.cc).

use hlo_ir::{ComputationId, ElementType, Instruction, Opcode, Payload};

use super::super::build::{row_major, share};
use super::super::cx::{Cx, Id};
use super::super::value::Scalar;
use super::super::visit::each;

/// Writes out every `bitcast-convert` between elements of different sizes; returns whether there was one.
pub(crate) fn run(cx: &mut Cx<'_>) -> bool {
    each(cx, Opcode::BitcastConvert, expand)
}

/// The unsigned integer of so many bits.
fn unsigned(bits: u32) -> Option<ElementType> {
    use ElementType as T;
    match bits {
        8 => Some(T::U8),
        16 => Some(T::U16),
        32 => Some(T::U32),
        64 => Some(T::U64),
        _ => None,
    }
}

fn expand(cx: &mut Cx<'_>, id: Id) -> Option<Id> {
    let operand = cx.operand(id, 0);
    let (from, to) = (cx.element_type(operand).storage_bits(), cx.element_type(id).storage_bits());
    let (wide, narrow) = (unsigned(from.max(to))?, unsigned(from.min(to))?);
    let bits = match from.cmp(&to) {
        std::cmp::Ordering::Equal => return None,
        std::cmp::Ordering::Greater => cut(cx, id, operand, wide, narrow),
        std::cmp::Ordering::Less => joined(cx, id, operand, wide, narrow),
    };
    let shape = cx.shape(id).clone();
    Some(cx.elementwise(id, shape, Opcode::BitcastConvert, &[bits]))
}

/// The same bits as unsigned integers of the same size.
fn plain(cx: &mut Cx<'_>, at: Id, operand: Id, element_type: ElementType) -> Id {
    let shape = share(cx.arr(operand).with_element_type(element_type));
    cx.elementwise(at, shape, Opcode::BitcastConvert, &[operand])
}

/// How far each part along the last dimension is from the lowest bit.
fn distances(cx: &mut Cx<'_>, at: Id, like: Id, width: ElementType) -> Id {
    let width = cx.scalar_like(like, f64::from(width.bits()));
    let (shape, last) = (cx.shape(like).clone(), cx.rank(like) as i64 - 1);
    let iota = cx.iota(at, shape, last);
    cx.binary(at, Opcode::Multiply, width, iota)
}

/// The parts of wide elements along a new last dimension.
fn cut(cx: &mut Cx<'_>, id: Id, operand: Id, wide: ElementType, narrow: ElementType) -> Id {
    let (element_type, dims) = (cx.element_type(operand), cx.dims(operand));
    let rank = dims.len() as i64;
    let parts = i64::from(wide.bits() / narrow.bits());
    let with = |last: i64| row_major(element_type, dims.iter().copied().chain([last]));
    // The broadcast along a dimension of one element that comes first does nothing; it is there in XLA too.
    let single = cx.reshape(id, with(1), operand);
    let all: Vec<i64> = (0..=rank).collect();
    let single = cx.broadcast(id, with(1), single, &all);
    let back = cx.reshape_to(id, single, dims.iter().copied());
    let many = cx.broadcast(id, with(parts), back, &all[..dims.len()]);
    let bits = plain(cx, id, many, wide);
    let distances = distances(cx, id, bits, narrow);
    let shifted = cx.binary(id, Opcode::ShiftRightLogical, bits, distances);
    let mask = cx.scalar_like(bits, 2_f64.powi(narrow.bits() as i32) - 1.0);
    let masked = cx.binary(id, Opcode::And, shifted, mask);
    cx.convert(id, masked, narrow)
}

/// Wide elements made of the narrow ones along the last dimension.
fn joined(cx: &mut Cx<'_>, id: Id, operand: Id, wide: ElementType, narrow: ElementType) -> Id {
    let bits = plain(cx, id, operand, narrow);
    let bits = cx.convert(id, bits, wide);
    let distances = distances(cx, id, bits, narrow);
    let shifted = cx.binary(id, Opcode::ShiftLeft, bits, distances);
    let none = cx.constant(id, wide, Scalar::Int(0));
    let either = either(cx, wide);
    let last = cx.rank(operand) as i64 - 1;
    cx.reduce(id, shifted, none, &[last], either)
}

/// A computation of `or`.
fn either(cx: &mut Cx<'_>, element_type: ElementType) -> ComputationId {
    let body = cx.add_computation("or");
    let shape = row_major(element_type, []);
    let sides = [0, 1].map(|number| {
        let side = Instruction::new("side", shape.clone(), Opcode::Parameter, []);
        cx.add(body, side.with_payload(Payload::Parameter(number)))
    });
    let root = cx.add(body, Instruction::new("or", shape, Opcode::Or, sides));
    cx.set_root(root);
    body
}
