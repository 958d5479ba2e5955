//! Quotients and remainders.

use hlo_ir::{AttrKey, ElementType, Opcode};

use super::super::cx::{Cx, Id};
use super::super::value::{Literal, Scalar};

/// Rules for `divide`.
pub(super) fn divide(cx: &mut Cx<'_>, id: Id) -> Option<Id> {
    let (a, b) = cx.both(id, Opcode::Divide)?;
    if cx.is_all(b, 1)
        && let Some(same) = cx.if_same(id, a)
    {
        return Some(same);
    }
    let whole = cx.element_type(id).is_integer();
    by_power_of_two(cx, id, a, b, false)
        .or_else(|| by_exponential(cx, id, a, b))
        .or_else(|| by_power(cx, id, a, b))
        .or_else(|| by_root(cx, id, a, b))
        .or_else(|| if whole { None } else { by_constant(cx, id, a, b) })
        .or_else(|| if whole { None } else { by_broadcast(cx, id, a, b) })
        .or_else(|| if whole { None } else { nested(cx, id, a, b) })
}

/// An integer divided by a power of two is a shift, its remainder a mask; signed operands go through their absolute value.
fn by_power_of_two(cx: &mut Cx<'_>, id: Id, a: Id, b: Id, remainder: bool) -> Option<Id> {
    let constant = cx.of(b, Opcode::Broadcast).unwrap_or(b);
    let value = if cx.element_type(id).is_integer() { cx.int(constant)? } else { return None };
    if value <= 0 || value & (value - 1) != 0 {
        return None;
    }
    let shape = cx.shape(id).clone();
    let (opcode, number) =
        if remainder { (Opcode::And, value - 1) } else { (Opcode::ShiftRightLogical, i64::from(value.ilog2())) };
    if !cx.element_type(id).is_signed() {
        let amount = cx.scalar_like(a, number as f64);
        return Some(cx.elementwise(id, shape, opcode, &[a, amount]));
    }
    let zero = cx.scalar_like(a, 0.0);
    let negative = cx.compare(id, a, zero, "LT");
    let minus = cx.elementwise(id, shape.clone(), Opcode::Negate, &[a]);
    let magnitude = cx.elementwise(id, shape.clone(), Opcode::Select, &[negative, minus, a]);
    let amount = cx.scalar_like(magnitude, number as f64);
    let result = cx.elementwise(id, shape.clone(), opcode, &[magnitude, amount]);
    let negated = cx.elementwise(id, shape.clone(), Opcode::Negate, &[result]);
    Some(cx.elementwise(id, shape, Opcode::Select, &[negative, negated, result]))
}

/// `exp(A)/exp(B) = exp(A-B)`, `A/exp(B) = A*exp(-B)`
fn by_exponential(cx: &mut Cx<'_>, id: Id, a: Id, b: Id) -> Option<Id> {
    let y = cx.of(b, Opcode::Exponential)?;
    let shape = cx.shape(id).clone();
    if let Some(x) = cx.of(a, Opcode::Exponential) {
        let difference = cx.elementwise(id, shape.clone(), Opcode::Subtract, &[x, y]);
        return Some(cx.elementwise(id, shape, Opcode::Exponential, &[difference]));
    }
    let minus = cx.elementwise(id, shape.clone(), Opcode::Negate, &[y]);
    let exponential = cx.elementwise(b, shape.clone(), Opcode::Exponential, &[minus]);
    Some(cx.elementwise(id, shape, Opcode::Multiply, &[a, exponential]))
}

/// `A/pow(B,C) = A*pow(B,-C)`
fn by_power(cx: &mut Cx<'_>, id: Id, a: Id, b: Id) -> Option<Id> {
    let (base, exponent) = cx.both(b, Opcode::Power)?;
    let shape = cx.shape(exponent).clone();
    let minus = cx.elementwise(b, shape, Opcode::Negate, &[exponent]);
    let shape = cx.shape(base).clone();
    let power = cx.elementwise(b, shape, Opcode::Power, &[base, minus]);
    let shape = cx.shape(id).clone();
    Some(cx.elementwise(id, shape, Opcode::Multiply, &[a, power]))
}

/// `A/sqrt(B) = A*rsqrt(B)`, `A/rsqrt(B) = A*sqrt(B)` where the root is used once.
fn by_root(cx: &mut Cx<'_>, id: Id, a: Id, b: Id) -> Option<Id> {
    let other = match cx.opcode(b) {
        Opcode::Sqrt => Opcode::Rsqrt,
        Opcode::Rsqrt => Opcode::Sqrt,
        _ => return None,
    };
    if !cx.one_use(b) {
        return None;
    }
    let (x, shape) = (cx.operand(b, 0), cx.shape(id).clone());
    let root = cx.elementwise(b, shape.clone(), other, &[x]);
    Some(cx.elementwise(id, shape, Opcode::Multiply, &[a, root]))
}

/// `A/C = A*(1/C)`
fn by_constant(cx: &mut Cx<'_>, id: Id, a: Id, b: Id) -> Option<Id> {
    let constant = if cx.is_constant(b) { b } else { cx.of(b, Opcode::Broadcast).filter(|&c| cx.is_constant(c))? };
    if cx.is_constant(a) {
        return None;
    }
    let (array, literal) = (cx.arr(constant), cx.literal(constant)?);
    let inverse = invert(&literal)?;
    let mut inverse = cx.array_constant(constant, array, inverse);
    if constant != b {
        let (shape, dims) = (cx.shape(b).clone(), cx.dimensions(b));
        inverse = cx.broadcast(b, shape, inverse, &dims);
    }
    Some(cx.binary(id, Opcode::Multiply, a, inverse))
}

fn invert(literal: &Literal) -> Option<Literal> {
    let one = |value: &Scalar| match *value {
        Scalar::Float(value) => Some(Scalar::Float(1.0 / value)),
        Scalar::Complex(real, imag) => {
            let norm = real * real + imag * imag;
            Some(Scalar::Complex(real / norm, -imag / norm))
        }
        Scalar::Int(_) => None,
    };
    let element_type = literal.element_type;
    match literal.values() {
        Some(values) => {
            let inverse: Vec<Scalar> = values.iter().map(one).collect::<Option<_>>()?;
            Some(Literal::rounded(element_type, inverse))
        }
        None => Some(Literal::fingerprint(element_type, literal.hash() ^ 1)),
    }
}

/// `A/broadcast(B) = A*broadcast(1/B)` where `B` is used once; real numbers only.
fn by_broadcast(cx: &mut Cx<'_>, id: Id, a: Id, b: Id) -> Option<Id> {
    let inner = cx.of(b, Opcode::Broadcast).filter(|&inner| cx.one_use(inner))?;
    if cx.layout_sensitive || cx.element_type(id).is_complex() {
        return None;
    }
    let one = cx.scalar_like(inner, 1.0);
    let shape = cx.shape(inner).clone();
    let reciprocal = cx.elementwise(b, shape, Opcode::Divide, &[one, inner]);
    let (shape, dims) = (cx.shape(id).clone(), cx.dimensions(b));
    let wide = cx.broadcast(b, shape.clone(), reciprocal, &dims);
    Some(cx.elementwise(id, shape, Opcode::Multiply, &[a, wide]))
}

/// `(A/B)/(C/D) = (A*D)/(B*C)`, `(A/B)/C = A/(B*C)`, `A/(B/C) = (A*C)/B`; `convert(P)/broadcast(y) = broadcast(1/y)*convert(P)`
fn nested(cx: &mut Cx<'_>, id: Id, a: Id, b: Id) -> Option<Id> {
    let (top, bottom) = match (cx.both(a, Opcode::Divide), cx.both(b, Opcode::Divide)) {
        (Some((p, q)), Some((r, s))) => {
            let top = cx.binary(id, Opcode::Multiply, p, s);
            (top, cx.binary(id, Opcode::Multiply, q, r))
        }
        (Some((p, q)), None) => (p, cx.binary(id, Opcode::Multiply, q, b)),
        (None, Some((r, s))) => (cx.binary(id, Opcode::Multiply, a, s), r),
        (None, None) => return truth_by_broadcast(cx, id, a, b),
    };
    Some(cx.binary(id, Opcode::Divide, top, bottom))
}

fn truth_by_broadcast(cx: &mut Cx<'_>, id: Id, a: Id, b: Id) -> Option<Id> {
    let is_truth = cx.of(a, Opcode::Convert).is_some_and(|x| cx.element_type(x) == ElementType::Pred);
    let y = if is_truth { cx.scalar_broadcast(b)? } else { return None };
    let one = cx.scalar_like(y, 1.0);
    let reciprocal = cx.binary(id, Opcode::Divide, one, y);
    let shape = cx.shape(id).clone();
    let wide = cx.broadcast(b, shape, reciprocal, &[]);
    Some(cx.binary(id, Opcode::Multiply, wide, a))
}

/// Rules for `remainder`.
pub(super) fn remainder(cx: &mut Cx<'_>, id: Id) -> Option<Id> {
    let (a, b) = cx.both(id, Opcode::Remainder)?;
    if cx.both(a, Opcode::Remainder).is_some_and(|(_, divisor)| divisor == b) {
        return Some(a);
    }
    by_power_of_two(cx, id, a, b, true).or_else(|| small_iota(cx, a, b)).or_else(|| iota_plus_divisor(cx, id, a, b))
}

fn iota_length(cx: &Cx<'_>, iota: Id) -> Option<i64> {
    let dim = cx.inst(iota).int(&AttrKey::IotaDimension)?;
    (cx.opcode(iota) == Opcode::Iota).then(|| cx.dims(iota)[dim as usize])
}

/// `iota % N = iota` where the iota never reaches `N`.
fn small_iota(cx: &Cx<'_>, a: Id, b: Id) -> Option<Id> {
    let divisor = cx.int(cx.of(b, Opcode::Broadcast)?)?;
    (divisor >= iota_length(cx, a)?).then_some(a)
}

/// `(iota + N) % N = iota % N` where the sum does not overflow.
fn iota_plus_divisor(cx: &mut Cx<'_>, id: Id, a: Id, b: Id) -> Option<Id> {
    let divisor = cx.of(b, Opcode::Broadcast)?;
    let (x, y) = cx.both(a, Opcode::Add)?;
    let adds = |other: Id| cx.of(other, Opcode::Broadcast) == Some(divisor);
    let iota = if adds(y) {
        x
    } else if adds(x) {
        y
    } else {
        return None;
    };
    let most = i128::from(cx.int(divisor)?) + i128::from(iota_length(cx, iota)?);
    let (_, largest) = cx.element_type(iota).integer_range()?;
    if most > largest {
        return None;
    }
    let shape = cx.shape(id).clone();
    Some(cx.elementwise(id, shape, Opcode::Remainder, &[iota, b]))
}
