//! Functions of one operand, powers, converts, and the parts of complex numbers and tuples.

use hlo_ir::{AttrKey, ElementType, Opcode};

use super::super::cx::{Cx, Id};
use super::sign::is_non_negative;

/// `exp(0) = 1`
pub(super) fn exp(cx: &mut Cx<'_>, id: Id) -> Option<Id> {
    let operand = cx.operand(id, 0);
    let constant = cx.of(operand, Opcode::Broadcast).unwrap_or(operand);
    (cx.is_scalar(constant) && cx.is_constant(constant) && cx.is_all(constant, 0)).then(|| cx.scalar_like(id, 1.0))
}

/// `ln(exp(A)) = A`; the logarithm of a power or root is a product.
pub(super) fn log(cx: &mut Cx<'_>, id: Id) -> Option<Id> {
    let operand = cx.operand(id, 0);
    if let Some(same) = cx.of(operand, Opcode::Exponential).and_then(|x| cx.if_same(id, x)) {
        return Some(same);
    }
    let shape = cx.shape(id).clone();
    let factor = match cx.opcode(operand) {
        Opcode::Sqrt => 0.5,
        Opcode::Rsqrt => -0.5,
        Opcode::Power => return log_of_power(cx, id, operand),
        _ => return None,
    };
    let x = cx.operand(operand, 0);
    let logarithm = cx.elementwise(id, shape.clone(), Opcode::Log, &[x]);
    let factor = cx.scalar_like(id, factor);
    Some(cx.elementwise(id, shape, Opcode::Multiply, &[logarithm, factor]))
}

/// `ln(pow(A,B)) = select(B == 0, 0, B*ln(abs(A)))`
fn log_of_power(cx: &mut Cx<'_>, id: Id, power: Id) -> Option<Id> {
    let (a, b) = cx.both(power, Opcode::Power)?;
    let shape = cx.shape(id).clone();
    let complex = cx.element_type(a).is_complex();
    let base = if complex { a } else { cx.elementwise(id, shape.clone(), Opcode::Abs, &[a]) };
    let logarithm = cx.elementwise(id, shape.clone(), Opcode::Log, &[base]);
    let product = cx.elementwise(power, shape.clone(), Opcode::Multiply, &[logarithm, b]);
    let zero = cx.scalar_like(b, 0.0);
    let is_zero = cx.compare(id, b, zero, "EQ");
    let nothing = cx.scalar_like(id, 0.0);
    Some(cx.elementwise(id, shape, Opcode::Select, &[is_zero, nothing, product]))
}

/// `rsqrt(pow(A,-2)) = A`, `rsqrt(1/A) = sqrt(A)` where `A` is not negative.
pub(super) fn rsqrt(cx: &mut Cx<'_>, id: Id) -> Option<Id> {
    let operand = cx.operand(id, 0);
    if let Some((base, exponent)) = cx.both(operand, Opcode::Power) {
        return (cx.is_all(exponent, -2) && is_non_negative(cx, base)).then_some(base);
    }
    let (one, x) = cx.both(operand, Opcode::Divide)?;
    if !cx.is_all(one, 1) || !is_non_negative(cx, x) {
        return None;
    }
    let shape = cx.shape(id).clone();
    Some(cx.elementwise(id, shape, Opcode::Sqrt, &[x]))
}

/// `sqrt(A*A) = abs(A)`
pub(super) fn sqrt(cx: &mut Cx<'_>, id: Id) -> Option<Id> {
    let (a, b) = cx.both(cx.operand(id, 0), Opcode::Multiply)?;
    if a != b || cx.element_type(a).is_complex() {
        return None;
    }
    let shape = cx.shape(a).clone();
    Some(cx.elementwise(id, shape, Opcode::Abs, &[a]))
}

/// Rules for `power`.
pub(super) fn power(cx: &mut Cx<'_>, id: Id) -> Option<Id> {
    let (base, exponent) = cx.both(id, Opcode::Power)?;
    let shape = cx.shape(id).clone();
    if cx.is_all(exponent, 0) {
        return Some(cx.scalar_like(id, 1.0));
    }
    if cx.is_all(exponent, 1)
        && let Some(same) = cx.if_same(id, base)
    {
        return Some(same);
    }
    if let Some(x) = cx.of(base, Opcode::Exponential) {
        let product = cx.elementwise(id, shape.clone(), Opcode::Multiply, &[x, exponent]);
        return Some(cx.elementwise(id, shape, Opcode::Exponential, &[product]));
    }
    if cx.is_all(exponent, 2) {
        return Some(cx.elementwise(id, shape, Opcode::Multiply, &[base, base]));
    }
    if cx.is_all(exponent, 3) {
        let square = cx.elementwise(id, shape.clone(), Opcode::Multiply, &[base, base]);
        return Some(cx.elementwise(id, shape, Opcode::Multiply, &[base, square]));
    }
    if cx.is_all(exponent, -1) {
        let one = cx.scalar_like(base, 1.0);
        return Some(cx.elementwise(id, shape, Opcode::Divide, &[one, base]));
    }
    let root = cx.is_all_float(exponent, 0.5) && is_non_negative(cx, base);
    root.then(|| cx.elementwise(id, shape, Opcode::Sqrt, &[base]))
}

/// Rules for `convert`.
pub(super) fn convert(cx: &mut Cx<'_>, id: Id) -> Option<Id> {
    let operand = cx.operand(id, 0);
    let (from, to) = (cx.element_type(operand), cx.element_type(id));
    if from == to {
        return Some(operand);
    }
    // Up and back again.
    if let Some(inner) = cx.of(operand, Opcode::Convert)
        && cx.element_type(inner) == to
        && preserves_values(to, from)
    {
        return Some(inner);
    }
    narrow_arithmetic(cx, id, operand)
}

/// Whether every value of type `from` is a value of type `to`.
///
/// Source: `primitive_util::CastPreservesValues`.
pub(crate) fn preserves_values(from: ElementType, to: ElementType) -> bool {
    if from == to || from == ElementType::Pred {
        return true;
    }
    if to == ElementType::Pred {
        return false;
    }
    match (from.integer_range(), to.integer_range()) {
        (Some((low, high)), Some((least, most))) => least <= low && high <= most,
        (Some(_), None) => {
            let signless = from.bits() - u32::from(from.is_signed());
            mantissa_and_exponent(to)
                .is_some_and(|(mantissa, exponent)| signless <= mantissa && signless < 1 << (exponent - 1))
        }
        (None, Some(_)) => false,
        (None, None) => match (mantissa_and_exponent(from), mantissa_and_exponent(to)) {
            (Some(a), Some(b)) => a.0 <= b.0 && a.1 <= b.1 && from.is_complex() <= to.is_complex(),
            _ => false,
        },
    }
}

/// Bits of precision (with the implicit one) and of the exponent of a float type.
fn mantissa_and_exponent(element_type: ElementType) -> Option<(u32, u32)> {
    Some(match element_type {
        ElementType::F64 | ElementType::C128 => (53, 11),
        ElementType::F32 | ElementType::C64 => (24, 8),
        ElementType::Bf16 => (8, 8),
        ElementType::F16 => (11, 5),
        ElementType::F8e5m2 => (3, 5),
        ElementType::F8e4m3 | ElementType::F8e4m3fn => (4, 4),
        _ => return None,
    })
}

/// Integers that are widened, combined and narrowed again are combined in the narrow type.
fn narrow_arithmetic(cx: &mut Cx<'_>, id: Id, operation: Id) -> Option<Id> {
    use Opcode as O;
    let opcode = cx.opcode(operation);
    if !matches!(opcode, O::Add | O::Subtract | O::Multiply | O::Divide | O::Remainder) || cx.user_count(operation) != 1
    {
        return None;
    }
    let (a, b) = cx.both(operation, opcode)?;
    let (x, y) = (cx.of(a, O::Convert)?, cx.of(b, O::Convert)?);
    let (narrow, wide) = (cx.element_type(id), cx.element_type(operation));
    let whole_bytes = narrow.bits() >= 8 && wide.bits() >= 8;
    let same_kind = narrow.is_integer() && wide.is_integer() && narrow.is_signed() == wide.is_signed();
    let safe = matches!(opcode, O::Add | O::Subtract | O::Multiply) || wide.is_unsigned();
    let alone = cx.user_count(a) == 1 && cx.user_count(b) == 1;
    let types = cx.element_type(x) == narrow && cx.element_type(y) == narrow;
    if !(whole_bytes && same_kind && safe && alone && types && preserves_values(narrow, wide)) {
        return None;
    }
    let shape = super::super::build::share(cx.arr(operation).with_element_type(narrow));
    Some(cx.like(operation, shape, &[x, y]))
}

/// `complex(real(A), imag(A)) = A`
pub(super) fn complex(cx: &mut Cx<'_>, id: Id) -> Option<Id> {
    let (a, b) = cx.both(id, Opcode::Complex)?;
    let (x, y) = (cx.of(a, Opcode::Real)?, cx.of(b, Opcode::Imag)?);
    (x == y).then_some(x)
}

/// `real(complex(A, B)) = A`, `imag(complex(A, B)) = B`
pub(super) fn part_of_complex(cx: &mut Cx<'_>, id: Id, part: usize) -> Option<Id> {
    let (a, b) = cx.both(cx.operand(id, 0), Opcode::Complex)?;
    Some([a, b][part])
}

/// An element of a tuple is the operand it was made of.
pub(super) fn get_tuple_element(cx: &mut Cx<'_>, id: Id) -> Option<Id> {
    let tuple = cx.operand(id, 0);
    let index = cx.inst(id).int(&AttrKey::Index)?;
    if cx.opcode(tuple) != Opcode::Tuple {
        return None;
    }
    let element = *cx.operands(tuple).get(usize::try_from(index).ok()?)?;
    cx.if_same(id, element)
}
