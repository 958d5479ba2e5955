//! One element of a constant, and the arithmetic of XLA's evaluator on it.

use hlo_ir::{ElementType, Opcode};
use smol_str::{SmolStr, ToSmolStr, format_smolstr};

/// A number; its element type is known from where it stands. Truth values are the integers 0 and 1.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) enum Scalar {
    /// An integer or truth value.
    Int(i128),
    /// A real number.
    Float(f64),
    /// Real and imaginary part.
    Complex(f64, f64),
}

impl Scalar {
    /// The number `value` in the form elements of this type take.
    pub(crate) fn of(element_type: ElementType, value: f64) -> Self {
        if element_type.is_complex() {
            Self::Complex(value, 0.0)
        } else if element_type.is_float() {
            Self::Float(value)
        } else {
            Self::Int(value as i128)
        }
    }
    /// Reads `-1`, `2.5`, `inf`, `-nan(0x1)`, `true`.
    pub(crate) fn read(element_type: ElementType, text: &str) -> Option<Self> {
        if element_type.is_float() {
            let bare = text.split('(').next()?;
            let bare = if bare.ends_with("nan") { "nan" } else { bare };
            return bare.parse().ok().map(Self::Float);
        }
        match text {
            "true" => Some(Self::Int(1)),
            "false" => Some(Self::Int(0)),
            _ => text.parse().ok().map(Self::Int),
        }
    }
    /// The text of an element of this type.
    pub(crate) fn text(self, element_type: ElementType) -> SmolStr {
        match self {
            Self::Int(value) if element_type == ElementType::Pred => (value != 0).to_smolstr(),
            Self::Int(value) => value.to_smolstr(),
            Self::Float(value) if element_type == ElementType::F32 && !value.is_nan() => (value as f32).to_smolstr(),
            Self::Float(value) => float_text(value),
            Self::Complex(real, imag) => format_smolstr!("({}, {})", float_text(real), float_text(imag)),
        }
    }
    /// The number as an integer, if it is one.
    pub(crate) fn int(self) -> Option<i128> {
        match self {
            Self::Int(value) => Some(value),
            _ => None,
        }
    }
    /// The real part as a float.
    pub(crate) fn float(self) -> f64 {
        match self {
            Self::Int(value) => value as f64,
            Self::Float(value) | Self::Complex(value, _) => value,
        }
    }
    /// Whether the number equals `value`; zero equals negative zero.
    pub(crate) fn is(self, value: f64) -> bool {
        match self {
            Self::Int(int) => int as f64 == value,
            Self::Float(float) => float == value,
            Self::Complex(real, imag) => real == value && imag == 0.0,
        }
    }
    /// Whether both are the same element, NaNs included and zeros told apart.
    pub(crate) fn same(self, other: Self) -> bool {
        self.bits() == other.bits()
    }
    /// A number that only the same element has.
    pub(crate) fn bits(self) -> u64 {
        match self {
            Self::Int(value) => value as u64,
            Self::Float(value) => value.to_bits(),
            Self::Complex(real, imag) => real.to_bits().rotate_left(17) ^ imag.to_bits(),
        }
    }
}

fn float_text(value: f64) -> SmolStr {
    if value.is_nan() { "nan".into() } else { value.to_smolstr() }
}

/// What remains of `value` when it is stored as this type: integers wrap, floats round (f16 and bf16 to nearest even).
pub(crate) fn round_to(element_type: ElementType, value: Scalar) -> Scalar {
    match value {
        Scalar::Int(value) => Scalar::Int(wrap(element_type, value)),
        Scalar::Float(value) => Scalar::Float(round_float(element_type, value)),
        Scalar::Complex(real, imag) if element_type == ElementType::C64 => {
            Scalar::Complex(f64::from(real as f32), f64::from(imag as f32))
        }
        complex @ Scalar::Complex(..) => complex,
    }
}

/// Two's complement wrap-around to the width of an integer type.
fn wrap(element_type: ElementType, value: i128) -> i128 {
    let bits = element_type.bits();
    let mask = (1_i128 << bits) - 1;
    match element_type {
        ElementType::Pred => i128::from(value != 0),
        _ if element_type.is_signed() => {
            let low = value & mask;
            if low >> (bits - 1) == 1 { low - (1 << bits) } else { low }
        }
        _ if element_type.is_unsigned() => value & mask,
        _ => value,
    }
}

fn round_float(element_type: ElementType, value: f64) -> f64 {
    match element_type {
        ElementType::F64 => value,
        ElementType::F32 => f64::from(value as f32),
        ElementType::Bf16 => round_mantissa(value, 7, -126, f64::from(f32::MAX)),
        ElementType::F16 => round_mantissa(value, 10, -14, 65504.0),
        // The small formats only ever reach constants through converts of other constants; rounding them to f16 keeps
        // zero, one and the infinities apart, which is all that the rules ask.
        _ => round_mantissa(value, 3, -14, 65504.0),
    }
}

/// Rounds to `bits` mantissa bits, with gradual underflow below 2^`lowest` and infinity beyond `largest` (up to rounding).
fn round_mantissa(value: f64, bits: i32, lowest: i32, largest: f64) -> f64 {
    if !value.is_finite() || value == 0.0 {
        return value;
    }
    let exponent = (((value.to_bits() >> 52) & 0x7ff) as i32 - 1023).max(lowest);
    let unit = 2_f64.powi(exponent - bits);
    let rounded = (value / unit).round_ties_even() * unit;
    if rounded.abs() > largest { f64::INFINITY.copysign(value) } else { rounded }
}

/// Converts an element between types as `convert` does: floats to integers truncate and saturate, NaN becomes 0.
pub(crate) fn convert(from: ElementType, to: ElementType, value: Scalar) -> Scalar {
    let converted = match value {
        Scalar::Float(value) if to == ElementType::Pred => Scalar::Int(i128::from(value != 0.0)),
        Scalar::Float(value) if to.is_integer() => {
            let (low, high) = to.integer_range().unwrap_or((i128::MIN, i128::MAX));
            Scalar::Int((value.trunc() as i128).clamp(low, high))
        }
        Scalar::Float(value) if to.is_complex() => Scalar::Complex(value, 0.0),
        Scalar::Int(value) if to.is_float() => Scalar::Float(value as f64),
        Scalar::Int(value) if to.is_complex() => Scalar::Complex(value as f64, 0.0),
        Scalar::Int(value) if to == ElementType::Pred => Scalar::Int(i128::from(value != 0)),
        Scalar::Complex(real, _) if !to.is_complex() => return convert(ElementType::F64, to, Scalar::Float(real)),
        same => same,
    };
    let _ = from;
    round_to(to, converted)
}

/// `a DIRECTION b`; comparisons with NaN are false except `NE`.
pub(crate) fn compare(direction: &str, a: Scalar, b: Scalar) -> Option<bool> {
    use std::cmp::Ordering::{Equal, Greater, Less};
    let order = match (a, b) {
        (Scalar::Int(a), Scalar::Int(b)) => Some(a.cmp(&b)),
        (Scalar::Float(a), Scalar::Float(b)) => a.partial_cmp(&b),
        (Scalar::Complex(..), Scalar::Complex(..)) => (a == b).then_some(Equal),
        _ => return None,
    };
    Some(match direction {
        "EQ" => order == Some(Equal),
        "NE" => order != Some(Equal),
        "LT" => order == Some(Less),
        "LE" => matches!(order, Some(Less | Equal)),
        "GT" => order == Some(Greater),
        "GE" => matches!(order, Some(Greater | Equal)),
        _ => return None,
    })
}

/// The result of an elementwise operation with one operand of type `element_type`; `None` if the evaluator does not know it.
pub(crate) fn unary(opcode: Opcode, element_type: ElementType, a: Scalar) -> Option<Scalar> {
    use Opcode as O;
    let result = match (opcode, a) {
        (O::Copy, value) => value,
        (O::Negate, Scalar::Int(value)) => Scalar::Int(-value),
        (O::Negate, Scalar::Complex(real, imag)) => Scalar::Complex(-real, -imag),
        (O::Abs, Scalar::Int(value)) => Scalar::Int(value.abs()),
        (O::Sign, Scalar::Int(value)) => Scalar::Int(value.signum()),
        (O::Not, Scalar::Int(value)) if element_type == ElementType::Pred => Scalar::Int(1 - value),
        (O::Not, Scalar::Int(value)) => Scalar::Int(!value),
        (O::Popcnt, Scalar::Int(value)) => Scalar::Int(i128::from(masked(element_type, value).count_ones())),
        (O::CountLeadingZeros, Scalar::Int(value)) => {
            let unused = 128 - element_type.bits();
            Scalar::Int(i128::from(masked(element_type, value).leading_zeros() - unused))
        }
        (_, Scalar::Float(value)) => Scalar::Float(unary_float(opcode, value)?),
        _ => return None,
    };
    Some(round_to(element_type, result))
}

fn masked(element_type: ElementType, value: i128) -> u128 {
    value as u128 & ((1 << element_type.bits()) - 1)
}

fn unary_float(opcode: Opcode, x: f64) -> Option<f64> {
    use Opcode as O;
    Some(match opcode {
        O::Negate => -x,
        O::Abs => x.abs(),
        O::Ceil => x.ceil(),
        O::Floor => x.floor(),
        O::RoundNearestAfz => x.round(),
        O::RoundNearestEven => x.round_ties_even(),
        O::Exponential => x.exp(),
        O::ExponentialMinusOne => x.exp_m1(),
        O::Log => x.ln(),
        O::LogPlusOne => x.ln_1p(),
        O::Sqrt => x.sqrt(),
        O::Rsqrt => 1.0 / x.sqrt(),
        O::Cbrt => x.cbrt(),
        O::Sine => x.sin(),
        O::Cosine => x.cos(),
        O::Tan => x.tan(),
        O::Tanh => x.tanh(),
        O::Logistic => 1.0 / (1.0 + (-x).exp()),
        O::Sign => {
            if x == 0.0 || x.is_nan() {
                x
            } else {
                x.signum()
            }
        }
        _ => return None,
    })
}

/// The result of an elementwise operation with two operands of type `element_type`; `None` if the evaluator does not know it.
pub(crate) fn binary(opcode: Opcode, element_type: ElementType, a: Scalar, b: Scalar) -> Option<Scalar> {
    let result = match (a, b) {
        (Scalar::Int(a), Scalar::Int(b)) => Scalar::Int(binary_int(opcode, element_type, a, b)?),
        (Scalar::Float(a), Scalar::Float(b)) => Scalar::Float(binary_float(opcode, a, b)?),
        (Scalar::Complex(a, b), Scalar::Complex(c, d)) => match opcode {
            Opcode::Add => Scalar::Complex(a + c, b + d),
            Opcode::Subtract => Scalar::Complex(a - c, b - d),
            Opcode::Multiply => Scalar::Complex(a * c - b * d, a * d + b * c),
            _ => return None,
        },
        _ => return None,
    };
    Some(round_to(element_type, result))
}

fn binary_int(opcode: Opcode, element_type: ElementType, a: i128, b: i128) -> Option<i128> {
    use Opcode as O;
    let bits = i128::from(element_type.bits());
    Some(match opcode {
        O::Add => a + b,
        O::Subtract => a - b,
        O::Multiply => a.wrapping_mul(b),
        O::Divide if b == 0 => -1,
        O::Divide => a / b,
        O::Remainder if b == 0 => a,
        O::Remainder => a % b,
        O::Maximum => a.max(b),
        O::Minimum => a.min(b),
        O::And => a & b,
        O::Or => a | b,
        O::Xor => a ^ b,
        O::Power if (0..128).contains(&b) => (0..b).fold(1_i128, |product, _| product.wrapping_mul(a)),
        O::ShiftLeft if (0..bits).contains(&b) => a << b,
        O::ShiftRightArithmetic if (0..bits).contains(&b) => a >> b,
        O::ShiftRightLogical if (0..bits).contains(&b) => (masked(element_type, a) >> b) as i128,
        O::ShiftLeft | O::ShiftRightLogical => 0,
        O::ShiftRightArithmetic => a >> 127,
        _ => return None,
    })
}

fn binary_float(opcode: Opcode, a: f64, b: f64) -> Option<f64> {
    use Opcode as O;
    let nan = a.is_nan() || b.is_nan();
    Some(match opcode {
        O::Add => a + b,
        O::Subtract => a - b,
        O::Multiply => a * b,
        O::Divide => a / b,
        O::Remainder => a % b,
        O::Power => a.powf(b),
        O::Atan2 => a.atan2(b),
        O::Maximum | O::Minimum if nan => f64::NAN,
        O::Maximum => a.max(b),
        O::Minimum => a.min(b),
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn integers_wrap_to_their_width() {
        assert_eq!(binary(Opcode::Add, ElementType::S8, Scalar::Int(127), Scalar::Int(1)), Some(Scalar::Int(-128)));
        assert_eq!(binary(Opcode::Subtract, ElementType::U8, Scalar::Int(0), Scalar::Int(1)), Some(Scalar::Int(255)));
        assert_eq!(unary(Opcode::Not, ElementType::Pred, Scalar::Int(1)), Some(Scalar::Int(0)));
    }

    #[test]
    fn small_floats_round_to_nearest_even() {
        assert_eq!(round_to(ElementType::Bf16, Scalar::Float(1.003_906_25)), Scalar::Float(1.0));
        assert_eq!(round_to(ElementType::F16, Scalar::Float(65_536.0)), Scalar::Float(f64::INFINITY));
        assert_eq!(round_to(ElementType::F32, Scalar::Float(0.1)), Scalar::Float(f64::from(0.1_f32)));
    }

    #[test]
    fn convert_truncates_and_saturates() {
        let to = |ty, x| convert(ElementType::F32, ty, Scalar::Float(x));
        assert_eq!(to(ElementType::S32, -2.7), Scalar::Int(-2));
        assert_eq!(to(ElementType::U8, 300.0), Scalar::Int(255));
        assert_eq!(to(ElementType::S32, f64::NAN), Scalar::Int(0));
    }

    #[test]
    fn comparisons_with_nan_are_false_except_not_equal() {
        let nan = Scalar::Float(f64::NAN);
        assert_eq!(compare("LT", nan, Scalar::Float(1.0)), Some(false));
        assert_eq!(compare("NE", nan, nan), Some(true));
    }
}
