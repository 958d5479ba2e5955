//! What elementwise operations do to ranges: exact in wide integers, and the whole type where a result may wrap around.
//!
//! Integer semantics as XLA's evaluator has them (xla/hlo/evaluator/hlo_evaluator_typed_visitor.h): two's complement wrap-around, division
//! truncates, `x / 0 = -1`, `x % 0 = x`, shifts by the width or more give 0 (or the sign).

// Tests: `passes/tests/range.rs`.

use hlo_ir::{ElementType, Opcode};

use super::Range;

/// Range of `opcode(x)`; the whole of `to` for operations that are not known.
pub(super) fn unary(opcode: Opcode, from: ElementType, to: ElementType, x: &Range) -> Range {
    let full = Range::full(to);
    if !known(from) || !known(to) {
        return full;
    }
    let bits = i128::from(from.bits());
    match opcode {
        Opcode::Copy => x.clone(),
        Opcode::Convert if to == ElementType::Pred => {
            x.map(|low, high| Range::new(truth(low, high), truth_high(low, high)))
        }
        Opcode::Convert | Opcode::Negate | Opcode::Abs => {
            let (smallest, _) = from.integer_range().expect("the type is known");
            let image = |low: i128, high: i128| match opcode {
                Opcode::Negate => Range::new(-high, -low),
                // The absolute value of the smallest number wraps around to itself.
                Opcode::Abs if low == smallest && from.is_signed() => Range::point(low).union(&absolute(low + 1, high)),
                Opcode::Abs => absolute(low, high),
                _ => Range::new(low, high),
            };
            wrapped(&x.map(image), to)
        }
        Opcode::BitcastConvert if from.bits() == to.bits() => wrapped(x, to),
        Opcode::Not if to == ElementType::Pred => x.map(|low, high| Range::new(1 - high, 1 - low)),
        Opcode::Not if to.is_signed() => x.map(|low, high| Range::new(-high - 1, -low - 1)),
        Opcode::Not => x.map(|low, high| Range::new(largest(to) - high, largest(to) - low)),
        Opcode::Sign => x.map(|low, high| Range::new(low.signum(), high.signum())),
        Opcode::Popcnt => Range::new(0, bits),
        Opcode::CountLeadingZeros => x.map(|low, high| leading_zeros(low, high, bits)),
        _ => full.clone(),
    }
    .intersect(&full)
}

/// Range of `opcode(a, b)` for operands and result of type `to`; the whole type for operations that are not known.
pub(super) fn binary(opcode: Opcode, to: ElementType, a: &Range, b: &Range) -> Range {
    let full = Range::full(to);
    if !known(to) {
        return full;
    }
    let bits = i128::from(to.bits());
    match opcode {
        Opcode::Add => wrapped(&a.map_pairs(b, |a, b| Range::new(a.0 + b.0, a.1 + b.1)), to),
        Opcode::Subtract => wrapped(&a.map_pairs(b, |a, b| Range::new(a.0 - b.1, a.1 - b.0)), to),
        Opcode::Multiply => wrapped(&a.map_pairs(b, product), to),
        Opcode::Divide => a.map_pairs(b, |a, b| quotient(a, b).unwrap_or_else(|| full.clone())),
        Opcode::Remainder => a.map_pairs(b, remainder),
        Opcode::Minimum => a.map_pairs(b, |a, b| Range::new(a.0.min(b.0), a.1.min(b.1))),
        Opcode::Maximum => a.map_pairs(b, |a, b| Range::new(a.0.max(b.0), a.1.max(b.1))),
        Opcode::And => a.map_pairs(b, |a, b| and(a, b).unwrap_or_else(|| full.clone())),
        Opcode::Or => a.map_pairs(b, |a, b| bitwise(a, b, a.0.max(b.0)).unwrap_or_else(|| full.clone())),
        Opcode::Xor => a.map_pairs(b, |a, b| bitwise(a, b, 0).unwrap_or_else(|| full.clone())),
        Opcode::ShiftLeft => a.map_pairs(b, |a, b| shift_left(a, b, to).unwrap_or_else(|| full.clone())),
        Opcode::ShiftRightLogical => a.map_pairs(b, |a, b| shift_logical(a, b, bits).unwrap_or_else(|| full.clone())),
        Opcode::ShiftRightArithmetic => {
            a.map_pairs(b, |a, b| shift_arithmetic(a, b, to).unwrap_or_else(|| full.clone()))
        }
        _ => full.clone(),
    }
    .intersect(&full)
}

/// Range of a comparison, as 0 and 1.
pub(super) fn compare(direction: &str, a: &Range, b: &Range) -> Range {
    let (Some(a_hull), Some(b_hull)) = (a.hull(), b.hull()) else { return Range::empty() };
    let (always, never) = match direction {
        "LT" => (a_hull.1 < b_hull.0, a_hull.0 >= b_hull.1),
        "LE" => (a_hull.1 <= b_hull.0, a_hull.0 > b_hull.1),
        "GT" => (a_hull.0 > b_hull.1, a_hull.1 <= b_hull.0),
        "GE" => (a_hull.0 >= b_hull.1, a_hull.1 < b_hull.0),
        "EQ" => (a.as_point().is_some() && a == b, a.is_disjoint(b)),
        "NE" => (a.is_disjoint(b), a.as_point().is_some() && a == b),
        _ => (false, false),
    };
    Range::new(i128::from(always), i128::from(!never))
}

/// Range of `clamp(low, x, high)`, which is `min(max(x, low), high)`.
pub(super) fn clamp(to: ElementType, low: &Range, x: &Range, high: &Range) -> Range {
    binary(Opcode::Minimum, to, &binary(Opcode::Maximum, to, x, low), high)
}

/// Types whose values this analysis follows.
fn known(element_type: ElementType) -> bool {
    element_type.integer_range().is_some()
}

/// Intervals that fit the type stay; one that does not may have wrapped to any value.
fn wrapped(range: &Range, to: ElementType) -> Range {
    let full = Range::full(to);
    if range.is_subset(&full) { range.clone() } else { full }
}

fn largest(element_type: ElementType) -> i128 {
    element_type.integer_range().map_or(i128::MAX, |(_, high)| high)
}

/// 0 if zero is in the interval, else 1.
fn truth(low: i128, high: i128) -> i128 {
    i128::from(!(low <= 0 && 0 <= high))
}
/// 0 if zero is all there is, else 1.
fn truth_high(low: i128, high: i128) -> i128 {
    i128::from(!(low == 0 && high == 0))
}

fn absolute(low: i128, high: i128) -> Range {
    if low > high {
        Range::empty()
    } else if low >= 0 {
        Range::new(low, high)
    } else if high <= 0 {
        Range::new(-high, -low)
    } else {
        Range::new(0, high.max(-low))
    }
}

/// Leading zeros of numbers of `bits` bits; negative ones have none.
fn leading_zeros(low: i128, high: i128, bits: i128) -> Range {
    let zeros = |value: i128| if value < 0 { 0 } else { bits - (128 - i128::from(value.leading_zeros())) };
    if low < 0 && high >= 0 { Range::new(0, bits) } else { Range::new(zeros(high), zeros(low)) }
}

/// The interval around some values.
fn around(values: [i128; 4]) -> Range {
    let [a, b, c, d] = values;
    Range::new(a.min(b).min(c).min(d), a.max(b).max(c).max(d))
}

fn product(a: (i128, i128), b: (i128, i128)) -> Range {
    let corners =
        || Some(around([a.0.checked_mul(b.0)?, a.0.checked_mul(b.1)?, a.1.checked_mul(b.0)?, a.1.checked_mul(b.1)?]));
    corners().unwrap_or_else(Range::all)
}

/// Only for positive divisors: others divide by zero or overflow at the smallest number.
fn quotient(a: (i128, i128), b: (i128, i128)) -> Option<Range> {
    (b.0 > 0).then(|| around([a.0 / b.0, a.0 / b.1, a.1 / b.0, a.1 / b.1]))
}

/// The remainder has the sign of `a` and is smaller than `b`; by zero it is `a` itself.
fn remainder(a: (i128, i128), b: (i128, i128)) -> Range {
    let by_zero = if b.0 <= 0 && 0 <= b.1 { Range::new(a.0, a.1) } else { Range::empty() };
    let most = b.0.unsigned_abs().max(b.1.unsigned_abs()).saturating_sub(1) as i128;
    let least = if b.0 > 0 {
        b.0
    } else if b.1 < 0 {
        -b.1
    } else {
        0
    };
    if a.0 > -least && a.1 < least {
        return Range::new(a.0, a.1);
    }
    let low = if a.0 < 0 { a.0.max(-most) } else { 0 };
    let high = if a.1 > 0 { a.1.min(most) } else { 0 };
    Range::new(low, high).union(&by_zero)
}

fn and(a: (i128, i128), b: (i128, i128)) -> Option<Range> {
    match (a.0 >= 0, b.0 >= 0) {
        (true, true) => Some(Range::new(0, a.1.min(b.1))),
        (true, false) => Some(Range::new(0, a.1)),
        (false, true) => Some(Range::new(0, b.1)),
        (false, false) => None,
    }
}

/// `or` and `xor` of non-negative numbers stay below the next power of two.
fn bitwise(a: (i128, i128), b: (i128, i128), low: i128) -> Option<Range> {
    (a.0 >= 0 && b.0 >= 0).then(|| Range::new(low, mask(a.1.max(b.1))))
}

/// The smallest number of the form `2^k - 1` that is not below `value`.
fn mask(value: i128) -> i128 {
    if value <= 0 { 0 } else { i128::MAX >> (value.leading_zeros() - 1) }
}

fn shift_left(a: (i128, i128), by: (i128, i128), to: ElementType) -> Option<Range> {
    (by.0 >= 0 && by.1 < i128::from(to.bits())).then(|| {
        let shifted = product(a, (1 << by.0, 1 << by.1));
        wrapped(&shifted, to)
    })
}

fn shift_logical(a: (i128, i128), by: (i128, i128), bits: i128) -> Option<Range> {
    if by.0 < 0 {
        return None;
    }
    let shifted = |value: i128, by: i128| if by >= bits { 0 } else { value >> by };
    if a.0 >= 0 {
        Some(Range::new(shifted(a.0, by.1), shifted(a.1, by.0)))
    } else {
        // A negative number is a large one here; shifted by at least one it is positive again.
        (by.0 >= 1).then(|| Range::new(0, shifted((1 << bits) - 1, by.0)))
    }
}

/// The sign bit is copied in, also that of unsigned types.
fn shift_arithmetic(a: (i128, i128), by: (i128, i128), to: ElementType) -> Option<Range> {
    let bits = i128::from(to.bits());
    let sign_is_known = to.is_signed() || a.1 < 1 << (bits - 1);
    (by.0 >= 0 && sign_is_known).then(|| {
        let shifted = |value: i128, by: i128| value >> by.min(bits - 1);
        around([shifted(a.0, by.0), shifted(a.0, by.1), shifted(a.1, by.0), shifted(a.1, by.1)])
    })
}
