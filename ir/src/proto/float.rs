//! Small floating-point formats as bit patterns, and the shortest text XLA prints for a value.

use crate::ElementType;

/// What the patterns with the largest exponent mean.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Special {
    /// Infinity and NaNs, as in IEEE 754.
    Ieee,
    /// Only all ones is NaN.
    Fn,
    /// Only the negative zero is NaN.
    Fnuz,
    /// Every pattern is a number.
    None,
}

/// A format with a sign bit.
#[derive(Clone, Copy)]
struct Format {
    exponent: u32,
    mantissa: u32,
    bias: i32,
    special: Special,
}

impl Format {
    fn of(element_type: ElementType) -> Option<Self> {
        use ElementType as T;
        let (exponent, mantissa, bias, special) = match element_type {
            T::F64 => (11, 52, 1023, Special::Ieee),
            T::F32 => (8, 23, 127, Special::Ieee),
            T::F16 => (5, 10, 15, Special::Ieee),
            T::Bf16 => (8, 7, 127, Special::Ieee),
            T::F8e5m2 => (5, 2, 15, Special::Ieee),
            T::F8e4m3 => (4, 3, 7, Special::Ieee),
            T::F8e3m4 => (3, 4, 3, Special::Ieee),
            T::F8e4m3fn => (4, 3, 7, Special::Fn),
            T::F8e4m3b11fnuz => (4, 3, 11, Special::Fnuz),
            T::F8e4m3fnuz => (4, 3, 8, Special::Fnuz),
            T::F8e5m2fnuz => (5, 2, 16, Special::Fnuz),
            T::F4e2m1fn => (2, 1, 1, Special::None),
            T::F6e3m2fn => (3, 2, 3, Special::None),
            T::F6e2m3fn => (2, 3, 1, Special::None),
            _ => return None,
        };
        Some(Self { exponent, mantissa, bias, special })
    }
    /// The largest finite pattern without sign.
    fn largest(self) -> u64 {
        let all = (1_u64 << (self.exponent + self.mantissa)) - 1;
        match self.special {
            Special::Ieee => all - (1 << self.mantissa),
            Special::Fn => all - 1,
            Special::Fnuz | Special::None => all,
        }
    }
    fn sign(self) -> u64 {
        1 << (self.exponent + self.mantissa)
    }
    /// The value of a pattern without sign that is finite.
    fn magnitude(self, pattern: u64) -> f64 {
        let fraction = pattern & ((1 << self.mantissa) - 1);
        let exponent = (pattern >> self.mantissa) as i32;
        let implicit = if exponent == 0 { 0 } else { 1 << self.mantissa };
        let scale = exponent.max(1) - self.bias - self.mantissa as i32;
        // In two steps: 2^-1074 has no reciprocal.
        (fraction | implicit) as f64 * f64::powi(2.0, scale / 2) * f64::powi(2.0, scale - scale / 2)
    }
}

/// The bits of a value of an 8-bit or smaller floating-point type, rounded to nearest, ties to even. `None` for other types and
/// values out of range.
pub(crate) fn small_bits(element_type: ElementType, token: &str) -> Option<u64> {
    let negative = token.starts_with('-');
    let is_nan = token.trim_start_matches('-').starts_with("nan");
    if element_type == ElementType::F8e8m0fnu {
        return if is_nan { Some(255) } else { e8m0(token.parse().ok()?) };
    }
    let format = Format::of(element_type).filter(|format| format.exponent + format.mantissa < 8)?;
    if !is_nan && !token.trim_start_matches('-').starts_with(|c: char| c.is_ascii_digit() || c == '.' || c == 'i') {
        return None;
    }
    let signed = |pattern: u64| if negative { pattern | format.sign() } else { pattern };
    if is_nan {
        return nan(format, token)
            .map(|pattern| if format.special == Special::Fnuz { pattern } else { signed(pattern) });
    }
    let value: f64 = token.parse().ok()?;
    if value.is_infinite() {
        return (format.special == Special::Ieee).then(|| signed(format.largest() + 1));
    }
    let pattern = round(format, value.abs())?;
    // These formats have no negative zero: its pattern is NaN.
    Some(if pattern == 0 && format.special == Special::Fnuz { 0 } else { signed(pattern) })
}

/// The pattern of NaN, without sign.
fn nan(format: Format, token: &str) -> Option<u64> {
    match format.special {
        Special::None => None,
        // There is one NaN only: it has no payload.
        Special::Fnuz | Special::Fn if token.contains('(') => None,
        Special::Fnuz => Some(format.sign()),
        Special::Fn => Some(format.sign() - 1),
        Special::Ieee => {
            let payload = match token.split_once("(0x") {
                Some((_, hex)) => u64::from_str_radix(hex.trim_end_matches(')'), 16).ok()?,
                None => 1 << (format.mantissa - 1),
            };
            let fits = payload > 0 && payload >> format.mantissa == 0;
            fits.then_some((format.largest() + 1) | payload)
        }
    }
}

/// The pattern nearest to a value that is not negative: patterns are ordered as their values are.
fn round(format: Format, value: f64) -> Option<u64> {
    let (mut low, mut high) = (0, format.largest());
    let top = format.magnitude(high);
    if value > top {
        // Half a step above the largest value still rounds to it.
        let step = top - format.magnitude(high - 1);
        let (half, is_even) = (top + step / 2.0, high.is_multiple_of(2));
        let rounds = value < half || value <= half && is_even;
        return (rounds || format.special == Special::None).then_some(high);
    }
    while low + 1 < high {
        let middle = u64::midpoint(low, high);
        if format.magnitude(middle) <= value { low = middle } else { high = middle }
    }
    let (below, above) = (value - format.magnitude(low), format.magnitude(high) - value);
    Some(if below < above || (below <= above && low % 2 == 0) { low } else { high })
}

/// A power of two by its exponent.
fn e8m0(value: f64) -> Option<u64> {
    (0..255)
        .min_by(|&a, &b| {
            let distance = |pattern: i32| (f64::powi(2.0, pattern - 127) - value).abs();
            distance(a).total_cmp(&distance(b))
        })
        // Half a step above the largest power, 2^127, is out of range.
        .filter(|_| value > 0.0 && value < f64::powi(2.0, 127) * 1.5)
        .map(|pattern| pattern as u64)
}

/// The text of a bit pattern of a real floating-point type, as XLA prints it, but with a negative zero that XLA reads back.
pub(super) fn text(element_type: ElementType, bits: u64) -> String {
    if element_type == ElementType::F8e8m0fnu {
        // XLA reads back the two digits that it prints itself for the smallest power, 2^-127, as the next one.
        let digits = if bits == 0 { 6 } else { 2 };
        return if bits == 255 { "nan".to_owned() } else { general(f64::powi(2.0, bits as i32 - 127), digits) };
    }
    let Some(format) = Format::of(element_type) else { return bits.to_string() };
    let (negative, pattern) = (bits & format.sign() != 0, bits & (format.sign() - 1));
    let minus = if negative { "-" } else { "" };
    if format.special == Special::Fnuz && negative && pattern == 0 {
        return "nan".to_owned();
    }
    if pattern > format.largest() {
        return format!("{minus}{}", special_text(format, pattern));
    }
    if pattern == 0 {
        return if negative { "-0.0" } else { "0" }.to_owned();
    }
    format!("{minus}{}", rounded(element_type, format.magnitude(pattern)))
}

fn special_text(format: Format, pattern: u64) -> String {
    let payload = pattern & ((1 << format.mantissa) - 1);
    match format.special {
        Special::Ieee if payload == 0 => "inf".to_owned(),
        Special::Ieee if payload != 1 << (format.mantissa - 1) => format!("nan(0x{payload:x})"),
        _ => "nan".to_owned(),
    }
}

/// A positive value with as few digits as XLA prints.
fn rounded(element_type: ElementType, value: f64) -> String {
    use ElementType as T;
    match element_type {
        T::F64 => {
            let short = general(value, 15);
            if short.parse() == Ok(value) { short } else { general(value, 17) }
        }
        T::F32 => {
            let short = general(value, 6);
            if short.parse() == Ok(value as f32) { short } else { general(value, 9) }
        }
        T::F16 => general(value, 5),
        T::Bf16 => general(value, 4),
        T::F8e5m2 | T::F8e5m2fnuz | T::F4e2m1fn | T::F6e3m2fn => general(value, 2),
        _ => general(value, 3),
    }
}

/// A number as C's `%.{digits}g` writes it.
pub(super) fn general(value: f64, digits: usize) -> String {
    if !value.is_finite() {
        return if value.is_nan() {
            "nan"
        } else if value > 0.0 {
            "inf"
        } else {
            "-inf"
        }
        .to_owned();
    }
    let scientific = format!("{value:.*e}", digits - 1);
    let (mantissa, exponent) = scientific.split_once('e').expect("`{:e}` writes an exponent");
    let exponent: i32 = exponent.parse().expect("the exponent is a number");
    if exponent < -4 || exponent >= digits as i32 {
        let sign = if exponent < 0 { '-' } else { '+' };
        return format!("{}e{sign}{:02}", without_zeros(mantissa), exponent.abs());
    }
    let decimals = (digits as i32 - 1 - exponent) as usize;
    without_zeros(&format!("{value:.decimals$}")).to_owned()
}

fn without_zeros(text: &str) -> &str {
    if text.contains('.') { text.trim_end_matches('0').trim_end_matches('.') } else { text }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_written_as_c_writes_them() {
        for (value, digits, text) in [
            (1e-5, 6, "1e-05"),
            (0.1, 6, "0.1"),
            (1_000_000.0, 6, "1e+06"),
            (123_456.0, 6, "123456"),
            (0.0001, 6, "0.0001"),
            (-2.5, 6, "-2.5"),
            (0.0, 6, "0"),
        ] {
            assert_eq!(general(value, digits), text);
        }
        assert_eq!(text(ElementType::F32, u64::from(0.1_f32.to_bits())), "0.1");
        assert_eq!(text(ElementType::F32, u64::from((1.0_f32 / 3.0).to_bits())), "0.333333343");
        assert_eq!(text(ElementType::F64, 1), "4.94065645841247e-324");
        assert_eq!(text(ElementType::Bf16, 0xff80), "-inf");
        assert_eq!(text(ElementType::F32, 0x7f80_0001), "nan(0x1)");
    }

    #[test]
    fn every_small_pattern_reads_back_as_itself() {
        for element_type in ElementType::all() {
            let Some(format) = Format::of(element_type).filter(|format| format.exponent + format.mantissa < 8) else {
                continue;
            };
            for bits in 0..2 * format.sign() {
                let written = text(element_type, bits);
                let again = small_bits(element_type, &written);
                if format.special == Special::Fn && written == "nan" || written == "-nan" {
                    assert!(again.is_some());
                    continue;
                }
                assert_eq!(again, Some(bits), "{} {written}", element_type.name());
            }
        }
        for bits in 0..=255 {
            assert_eq!(small_bits(ElementType::F8e8m0fnu, &text(ElementType::F8e8m0fnu, bits)), Some(bits));
        }
    }
}
