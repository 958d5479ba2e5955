//! Elements as the bits they are stored in.

use hlo_ir::ElementType;

use super::Scalar;

/// The element of type `to` that has the bits of `value`, an element of type `from`. `None` unless both are real and equally wide.
pub(crate) fn bitcast(from: ElementType, to: ElementType, value: Scalar) -> Option<Scalar> {
    let raw = match value {
        Scalar::Int(value) => value as u128 & ((1 << from.bits()) - 1),
        Scalar::Float(value) => float_bits(from, value)?,
        Scalar::Complex(..) => return None,
    };
    if from.bits() != to.bits() {
        return None;
    }
    if to.is_float() {
        return float_of(to, raw).map(Scalar::Float);
    }
    let sign = to.is_signed() && raw >> (to.bits() - 1) == 1;
    Some(Scalar::Int(raw as i128 - if sign { 1 << to.bits() } else { 0 }))
}

fn float_bits(element_type: ElementType, value: f64) -> Option<u128> {
    Some(match element_type {
        ElementType::F64 => value.to_bits().into(),
        ElementType::F32 => (value as f32).to_bits().into(),
        ElementType::Bf16 => u128::from((value as f32).to_bits() >> 16),
        ElementType::F16 => half_bits(value).into(),
        _ => return None,
    })
}

fn float_of(element_type: ElementType, raw: u128) -> Option<f64> {
    Some(match element_type {
        ElementType::F64 => f64::from_bits(raw as u64),
        ElementType::F32 => f64::from(f32::from_bits(raw as u32)),
        ElementType::Bf16 => f64::from(f32::from_bits((raw as u32) << 16)),
        ElementType::F16 => half_of(raw as u16),
        _ => return None,
    })
}

/// The bits of a number that f16 can hold.
fn half_bits(value: f64) -> u16 {
    let sign = u16::from(value.is_sign_negative()) << 15;
    let size = value.abs();
    if value.is_nan() {
        return sign | 0x7e00;
    }
    if size > 65504.0 {
        return sign | 0x7c00;
    }
    if size < 2_f64.powi(-14) {
        return sign | (size * 2_f64.powi(24)) as u16;
    }
    let exponent = ((size.to_bits() >> 52) as i32) - 1023;
    let fraction = (size / 2_f64.powi(exponent) - 1.0) * 1024.0;
    sign | (((exponent + 15) as u16) << 10) | fraction as u16
}

fn half_of(raw: u16) -> f64 {
    let (exponent, fraction) = (i32::from(raw >> 10 & 0x1f), f64::from(raw & 0x3ff));
    let size = match exponent {
        0 => fraction * 2_f64.powi(-24),
        31 if fraction == 0.0 => f64::INFINITY,
        31 => f64::NAN,
        _ => (1.0 + fraction / 1024.0) * 2_f64.powi(exponent - 15),
    };
    if raw >> 15 == 1 { -size } else { size }
}

#[cfg(test)]
mod tests {
    use hlo_ir::ElementType as T;

    use super::*;

    #[test]
    fn bits_survive_the_way_there_and_back() {
        for (float, int, value, bits) in [
            (T::F32, T::S32, 1.0, 0x3f80_0000_i128),
            (T::F32, T::S32, -0.0, i128::from(i32::MIN)),
            (T::F64, T::U64, 2.0, 0x4000_0000_0000_0000),
            (T::Bf16, T::U16, 1.5, 0x3fc0),
            (T::F16, T::U16, -1.5, 0xbe00),
            (T::F16, T::U16, 2_f64.powi(-24), 1),
            (T::F16, T::U16, f64::INFINITY, 0x7c00),
        ] {
            assert_eq!(bitcast(float, int, Scalar::Float(value)), Some(Scalar::Int(bits)));
            assert!(bitcast(int, float, Scalar::Int(bits)).is_some_and(|back| back.same(Scalar::Float(value))));
        }
    }

    #[test]
    fn other_widths_and_complex_numbers_are_refused() {
        assert_eq!(bitcast(T::F32, T::S16, Scalar::Float(1.0)), None);
        assert_eq!(bitcast(T::C64, T::S64, Scalar::Complex(1.0, 0.0)), None);
    }
}
