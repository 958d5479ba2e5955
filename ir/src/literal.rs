//! Values of constants, read from the literal's text on demand: the IR keeps literals verbatim.
//!
//! A literal is a scalar (`3`, `true`, `-inf`, `nan(0x1)`, `(1, 2)` for complex numbers) or nested braces, elements in logical
//! order whatever the layout. Commas may be missing. `{...}` stands for a constant that the dump left out: its values are not
//! known. `-0` of a float type is read as negative zero, which is what XLA's printer means by it (XLA's own parser reads +0).

use crate::diagnostic::shortened;
use crate::shape::ArrayShape;
use crate::{ElementType, Instruction, Opcode};

/// The literal of an array constant.
#[derive(Clone, Copy, Debug)]
pub struct Literal<'a> {
    text: &'a str,
    shape: &'a ArrayShape,
}

/// The value of a scalar constant of integer type or `pred` (0 or 1); `None` for any other instruction.
pub fn scalar_integer(instruction: &Instruction) -> Option<i128> {
    let literal = Literal::of(instruction)?;
    if !literal.shape.is_scalar() {
        return None;
    }
    integer(literal.shape.element_type, literal.text)
}

/// Whether this is a constant whose values the dump left out.
pub fn is_elided(instruction: &Instruction) -> bool {
    instruction.literal().is_some_and(|text| text.contains("{...}"))
}

impl<'a> Literal<'a> {
    /// The literal of an array-shaped `constant`; `None` for tuples and for other instructions.
    pub fn of(instruction: &'a Instruction) -> Option<Self> {
        let text = instruction.literal().filter(|_| instruction.opcode == Opcode::Constant)?;
        Some(Self { text, shape: instruction.array()? })
    }
    /// A literal that stands elsewhere than in a `constant`.
    pub(crate) const fn new(text: &'a str, shape: &'a ArrayShape) -> Self {
        Self { text, shape }
    }
    /// Whether the values are left out.
    pub fn is_elided(&self) -> bool {
        self.text == "{...}"
    }
    /// The elements as they are written, in logical order; none if the values are left out.
    pub fn tokens(&self) -> impl Iterator<Item = &'a str> + use<'a> {
        let text = if self.is_elided() { "" } else { self.text };
        Tokens { rest: text }.filter(|token| !matches!(*token, "{" | "}" | ","))
    }
    /// The elements of an integer or `pred` constant; `None` if it is neither, or a value is missing or out of range.
    pub fn integers(&self) -> Option<Vec<i128>> {
        self.all(integer)
    }
    /// The elements of a real floating-point constant, rounded to its type (8-bit and smaller types are not rounded).
    pub fn floats(&self) -> Option<Vec<f64>> {
        self.all(float)
    }
    /// The elements as bit patterns of their type, zero-extended; integers, `pred`, `f16`, `bf16`, `f32` and `f64` only.
    pub fn bits(&self) -> Option<Vec<u64>> {
        self.all(bits)
    }
    /// The one value that every element has, as it is written. `None` if there are several, none, or they are left out.
    pub fn splat(&self) -> Option<&'a str> {
        let mut tokens = self.tokens();
        let first = tokens.next()?;
        tokens.all(|token| token == first).then_some(first)
    }
    /// [`Self::splat`] of an integer or `pred` constant.
    pub fn splat_integer(&self) -> Option<i128> {
        integer(self.shape.element_type, self.splat()?)
    }
    /// Whether every element is zero in every bit: the value a buffer filled with zero bytes has.
    pub fn is_zero(&self) -> bool {
        self.splat().is_some_and(|token| is_zero(self.shape.element_type, token))
    }

    fn all<T>(&self, read: impl Fn(ElementType, &'a str) -> Option<T>) -> Option<Vec<T>> {
        if self.is_elided() {
            return None;
        }
        self.tokens().map(|token| read(self.shape.element_type, token)).collect()
    }

    /// Whether nesting, number of elements and, for integers, the range of each value fit the shape.
    pub fn check(&self) -> Result<(), String> {
        if self.is_elided() {
            return Ok(());
        }
        let mut check = Nesting { dims: &self.shape.dims, counts: Vec::new(), scalars: 0 };
        for token in (Tokens { rest: self.text }) {
            check.token(token)?;
            if !matches!(token, "{" | "}" | ",") {
                self.check_value(token)?;
            }
        }
        check.finish()
    }

    fn check_value(&self, token: &str) -> Result<(), String> {
        let element_type = self.shape.element_type;
        let fits = if element_type.is_integer() || element_type == ElementType::Pred {
            integer(element_type, token).is_some()
        } else if element_type.is_complex() {
            is_complex(element_type, token)
        } else {
            is_float(element_type, token)
        };
        if fits { Ok(()) } else { Err(no_value(element_type, token)) }
    }
}

/// The complaint about a word that is no value.
pub(crate) fn no_value(element_type: ElementType, token: &str) -> String {
    format!("`{}` is not a value of type {}", shortened(token), element_type.name())
}

/// Compares the braces of a literal with the dimensions of its shape.
struct Nesting<'a> {
    dims: &'a [i64],
    /// Entries seen so far at every open level.
    counts: Vec<i64>,
    scalars: usize,
}

impl Nesting<'_> {
    fn token(&mut self, token: &str) -> Result<(), String> {
        match token {
            "," => Ok(()),
            "{" if self.counts.len() == self.dims.len() => {
                Err(format!("the literal is nested deeper than the {} dimensions of its shape", self.dims.len()))
            }
            "{" => {
                self.count_entry()?;
                self.counts.push(0);
                Ok(())
            }
            "}" => self.close(),
            _ if self.counts.len() < self.dims.len() => {
                let (level, dims) = (self.counts.len(), self.dims.len());
                Err(format!("`{}` stands at nesting level {level}, not {dims}", shortened(token)))
            }
            _ => {
                self.scalars += 1;
                self.count_entry()
            }
        }
    }

    fn count_entry(&mut self) -> Result<(), String> {
        let Some(count) = self.counts.last_mut() else { return Ok(()) };
        *count += 1;
        let level = self.counts.len() - 1;
        if self.counts[level] > self.dims[level] {
            return Err(format!("dimension {level} of the literal has more than {} entries", self.dims[level]));
        }
        Ok(())
    }

    fn close(&mut self) -> Result<(), String> {
        let Some(count) = self.counts.pop() else { return Err("the literal closes a brace it did not open".into()) };
        let level = self.counts.len();
        if count == self.dims[level] {
            return Ok(());
        }
        Err(format!("dimension {level} of the literal has {count} entries instead of {}", self.dims[level]))
    }

    fn finish(&self) -> Result<(), String> {
        match (self.dims.is_empty(), self.scalars, self.counts.is_empty()) {
            (true, 1, true) | (false, _, true) => Ok(()),
            (true, count, true) => Err(format!("a scalar literal has one value, not {count}")),
            _ => Err("the literal leaves a brace open".into()),
        }
    }
}

/// Splits a literal into braces, commas and values.
struct Tokens<'a> {
    rest: &'a str,
}

impl<'a> Iterator for Tokens<'a> {
    type Item = &'a str;

    fn next(&mut self) -> Option<&'a str> {
        self.rest = crate::text::skip_blank(self.rest);
        let length = match self.rest.as_bytes().first()? {
            b'{' | b'}' | b',' => 1,
            b'(' => self.rest.find(')').map_or(self.rest.len(), |at| at + 1),
            _ => value_length(self.rest),
        };
        let (token, rest) = self.rest.split_at(length);
        self.rest = rest;
        Some(token)
    }
}

/// Bytes of a value; `nan(0x1)` is one value.
fn value_length(text: &str) -> usize {
    let end = |from: usize, stop: &[u8]| {
        text.as_bytes()[from..].iter().position(|byte| stop.contains(byte)).map(|at| from + at)
    };
    let plain = end(0, b"{}, \t\r\n()/").unwrap_or(text.len());
    if text.as_bytes().get(plain) == Some(&b'(') {
        return end(plain, b")").map_or(text.len(), |at| at + 1);
    }
    // A byte that can start no value is a value of its own, so that reading goes on.
    plain.max(text.chars().next().map_or(0, char::len_utf8))
}

/// An integer or `pred` value. `s64` and `u64` wrap as in XLA; other types must be in range.
fn integer(element_type: ElementType, token: &str) -> Option<i128> {
    let (low, high) = element_type.integer_range()?;
    if element_type == ElementType::Pred {
        return match token {
            "true" => Some(1),
            "false" => Some(0),
            _ => token.parse::<i128>().ok().map(|value| i128::from(value != 0)),
        };
    }
    let value: i128 = token.parse().ok()?;
    let wraps = matches!(element_type, ElementType::S64 | ElementType::U64);
    match element_type {
        _ if (low..=high).contains(&value) => Some(value),
        ElementType::S64 if wraps => u64::try_from(value).ok().map(|value| i128::from(value as i64)),
        ElementType::U64 if wraps => i64::try_from(value).ok().map(|value| i128::from(value as u64)),
        _ => None,
    }
}

/// A real floating-point value, rounded by way of `f64` as in XLA.
fn float(element_type: ElementType, token: &str) -> Option<f64> {
    if !element_type.is_float() {
        return None;
    }
    let value = match token {
        _ if is_nan(token) => f64::NAN,
        "inf" => f64::INFINITY,
        "-inf" => f64::NEG_INFINITY,
        _ if token.starts_with(|c: char| c.is_ascii_digit() || c == '-') => token.parse().ok()?,
        _ => return None,
    };
    let rounded = match element_type {
        ElementType::F32 => f64::from(value as f32),
        ElementType::F16 => f64::from(narrow::widen(narrow::round(value as f32, narrow::F16), narrow::F16)),
        ElementType::Bf16 => f64::from(narrow::widen(narrow::round(value as f32, narrow::BF16), narrow::BF16)),
        _ => value,
    };
    // A finite value must not become infinite by rounding.
    (rounded.is_finite() || is_nan(token) || token.ends_with("inf")).then_some(rounded)
}

/// Whether a token is a value of a real floating-point type. Small types without infinity or NaN have none.
fn is_float(element_type: ElementType, token: &str) -> bool {
    match element_type {
        ElementType::F16 | ElementType::Bf16 | ElementType::F32 | ElementType::F64 if is_nan(token) => {
            bits(element_type, token).is_some()
        }
        ElementType::F16 | ElementType::Bf16 | ElementType::F32 | ElementType::F64 => {
            float(element_type, token).is_some()
        }
        _ => crate::proto::small_bits(element_type, token).is_some(),
    }
}

/// Whether a token is `(real, imaginary)`.
fn is_complex(element_type: ElementType, token: &str) -> bool {
    let part = if element_type == ElementType::C64 { ElementType::F32 } else { ElementType::F64 };
    let inside = token.strip_prefix('(').and_then(|text| text.strip_suffix(')')).and_then(|text| text.split_once(','));
    inside.is_some_and(|(real, imaginary)| is_float(part, real.trim()) && is_float(part, imaginary.trim()))
}

/// Whether a value is zero in every bit.
fn is_zero(element_type: ElementType, token: &str) -> bool {
    let positive_zero = |text: &str| text.trim().parse::<f64>().is_ok_and(|value| value.to_bits() == 0);
    match integer(element_type, token) {
        Some(value) => value == 0,
        None if element_type.is_complex() => token
            .strip_prefix('(')
            .and_then(|text| text.strip_suffix(')'))
            .and_then(|text| text.split_once(','))
            .is_some_and(|(real, imaginary)| positive_zero(real) && positive_zero(imaginary)),
        // E8M0 has no zero.
        None => element_type != ElementType::F8e8m0fnu && positive_zero(token),
    }
}

fn is_nan(token: &str) -> bool {
    let token = token.strip_prefix('-').unwrap_or(token);
    token == "nan" || token.starts_with("nan(")
}

/// The bit pattern of a value.
fn bits(element_type: ElementType, token: &str) -> Option<u64> {
    if let Some(value) = integer(element_type, token) {
        let mask = u64::MAX >> (64 - element_type.bits().min(64));
        return Some(value as u64 & mask);
    }
    let mantissa = match element_type {
        ElementType::F64 => 52,
        ElementType::F32 => 23,
        ElementType::F16 => 10,
        ElementType::Bf16 => 7,
        _ => return None,
    };
    if is_nan(token) {
        return nan_bits(token, element_type.bits(), mantissa);
    }
    let value = float(element_type, token)?;
    Some(match element_type {
        ElementType::F64 => value.to_bits(),
        ElementType::F32 => u64::from((value as f32).to_bits()),
        ElementType::F16 => u64::from(narrow::round(value as f32, narrow::F16)),
        _ => u64::from(narrow::round(value as f32, narrow::BF16)),
    })
}

/// `nan`, `-nan`, `nan(0x1)`: the payload replaces the mantissa of the plain quiet one. It must fit and cannot be zero, which would be infinity.
fn nan_bits(token: &str, width: u32, mantissa: u32) -> Option<u64> {
    let payload = match token.split_once('(') {
        None => 1 << (mantissa - 1),
        Some((_, hex)) => u64::from_str_radix(hex.strip_suffix(')')?.strip_prefix("0x")?, 16).ok()?,
    };
    if payload == 0 || payload >> mantissa != 0 {
        return None;
    }
    let exponent = ((1_u64 << (width - 1 - mantissa)) - 1) << mantissa;
    let sign = if token.starts_with('-') { 1 << (width - 1) } else { 0 };
    Some(sign | exponent | payload)
}

/// The 16-bit floating-point formats, which Rust has no types for.
mod narrow {
    /// Exponent and mantissa bits.
    #[derive(Clone, Copy)]
    pub(super) struct Format {
        exponent: u32,
        mantissa: u32,
    }
    pub(super) const F16: Format = Format { exponent: 5, mantissa: 10 };
    pub(super) const BF16: Format = Format { exponent: 8, mantissa: 7 };

    /// The nearest value of the format, ties to even, as bits. NaN becomes the quiet one.
    pub(super) fn round(value: f32, format: Format) -> u16 {
        let bias = (1_i32 << (format.exponent - 1)) - 1;
        let sign = if value.is_sign_negative() { 1_u32 << (format.exponent + format.mantissa) } else { 0 };
        let top = ((1_u32 << format.exponent) - 1) << format.mantissa;
        if value.is_nan() {
            return (sign | top | 1 << (format.mantissa - 1)) as u16;
        }
        // Scaled so that one unit in the last place is 1: round_ties_even then does the work, subnormals included.
        let absolute = f64::from(value.abs());
        let exponent = if absolute == 0.0 { 1 - bias } else { ilogb(absolute).max(1 - bias) };
        let unit = f64::powi(2.0, exponent - format.mantissa as i32);
        let steps = (absolute / unit).round_ties_even();
        if !steps.is_finite() {
            return (sign | top) as u16;
        }
        // `steps` has the implicit bit at position `mantissa` (none if subnormal); a carry moves into the exponent.
        let biased = (exponent + bias - 1) as u32;
        let magnitude = (biased << format.mantissa) + steps as u32;
        (sign | magnitude.min(top)) as u16
    }

    fn ilogb(value: f64) -> i32 {
        ((value.to_bits() >> 52) & 0x7ff) as i32 - 1023
    }

    /// The value of bits of the format.
    pub(super) fn widen(pattern: u16, format: Format) -> f32 {
        let bias = (1_i32 << (format.exponent - 1)) - 1;
        let pattern = u32::from(pattern);
        let exponent = ((pattern >> format.mantissa) & ((1 << format.exponent) - 1)) as i32;
        let fraction = f64::from(pattern & ((1 << format.mantissa) - 1)) / f64::from(1_u32 << format.mantissa);
        let magnitude = match exponent {
            0 => fraction * f64::powi(2.0, 1 - bias),
            top if top == (1 << format.exponent) - 1 && fraction == 0.0 => f64::INFINITY,
            top if top == (1 << format.exponent) - 1 => f64::NAN,
            _ => (1.0 + fraction) * f64::powi(2.0, exponent - bias),
        };
        let negative = pattern >> (format.exponent + format.mantissa) & 1 == 1;
        (if negative { -magnitude } else { magnitude }) as f32
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Shape;
    use crate::module::Payload;

    fn constant(element_type: ElementType, dims: &[i64], text: &str) -> Instruction {
        Instruction::new("c", Shape::array(element_type, dims.iter().copied()), Opcode::Constant, [])
            .with_payload(Payload::Literal(text.into()))
    }
    fn bits_of(element_type: ElementType, text: &str) -> u64 {
        bits(element_type, text).expect("a value with bits")
    }

    #[test]
    fn reads_scalars() {
        assert_eq!(scalar_integer(&constant(ElementType::S32, &[], "-7")), Some(-7));
        assert_eq!(scalar_integer(&constant(ElementType::Pred, &[], "true")), Some(1));
        assert_eq!(scalar_integer(&constant(ElementType::S8, &[], "128")), None);
        assert_eq!(scalar_integer(&constant(ElementType::S64, &[], "9223372036854775808")), Some(i128::from(i64::MIN)));
        assert_eq!(scalar_integer(&constant(ElementType::F32, &[], "1")), None);
    }
    #[test]
    fn reads_arrays_in_logical_order() {
        let inst = constant(ElementType::S32, &[2, 2], "{ { 1, 2 }, /*i0=1*/{ 3 4 } }");
        let literal = Literal::of(&inst).expect("a constant");
        assert_eq!(literal.integers(), Some(vec![1, 2, 3, 4]));
        assert_eq!(literal.splat(), None);
        assert_eq!(literal.check(), Ok(()));
    }
    #[test]
    fn knows_splats_and_zeros() {
        let inst = constant(ElementType::F32, &[3], "{0, 0, 0}");
        let literal = Literal::of(&inst).expect("a constant");
        assert_eq!((literal.splat(), literal.is_zero()), (Some("0"), true));
        let zero = |element_type, text| Literal::of(&constant(element_type, &[], text)).expect("a constant").is_zero();
        assert!(!zero(ElementType::F32, "-0"));
        assert!(zero(ElementType::Pred, "false") && zero(ElementType::C64, "(0, 0)") && zero(ElementType::F8e5m2, "0"));
        assert!(!zero(ElementType::C64, "(0, -0)"));
    }
    #[test]
    fn elided_values_are_unknown() {
        let inst = constant(ElementType::S32, &[2, 2], "{...}");
        let literal = Literal::of(&inst).expect("a constant");
        assert!(is_elided(&inst));
        assert_eq!((literal.integers(), literal.splat(), literal.check()), (None, None, Ok(())));
    }
    #[test]
    fn refuses_literals_of_another_form() {
        for (dims, text) in
            [(&[2][..], "{1}"), (&[2], "{1, 2, 3}"), (&[2], "1"), (&[], "{1}"), (&[1, 1], "{1}"), (&[2], "{1, x}")]
        {
            let inst = constant(ElementType::S32, dims, text);
            assert!(Literal::of(&inst).expect("a constant").check().is_err(), "{text}");
        }
    }
    #[test]
    fn knows_bit_patterns() {
        assert_eq!(bits_of(ElementType::F32, "1"), 0x3f80_0000);
        assert_eq!(bits_of(ElementType::F32, "-nan"), 0xffc0_0000);
        assert_eq!(bits_of(ElementType::F32, "nan(0x1)"), 0x7f80_0001);
        assert_eq!(bits_of(ElementType::F64, "-inf"), 0xfff0_0000_0000_0000);
        assert_eq!(bits_of(ElementType::S8, "-1"), 0xff);
        assert_eq!(bits_of(ElementType::Bf16, "3.140625"), 0x4049);
        assert_eq!(bits_of(ElementType::F16, "65504"), 0x7bff);
        assert_eq!(bits_of(ElementType::F16, "65519"), 0x7bff);
        assert_eq!((bits(ElementType::F16, "65520"), bits(ElementType::F32, "1e39")), (None, None));
        assert_eq!(bits_of(ElementType::F16, "5.9604645e-08"), 0x0001);
        assert_eq!(bits_of(ElementType::F16, "0.33325"), 0x3555);
        assert_eq!(bits_of(ElementType::F16, "-2"), 0xc000);
    }
    #[test]
    fn knows_the_range_of_every_floating_point_type() {
        // What jaxlib 0.10.2 takes and refuses; but it makes something else of infinities and NaNs that a type does not have.
        for (name, taken, refused) in [
            ("f8e4m3fn", "448 464 nan -nan 1e-10 -1e-20", "465 500 inf nan(0x1)"),
            ("f8e5m2", "57344 61439 inf nan(0x1)", "61440 65536 nan(0x4) nan(0x0)"),
            ("f8e4m3", "240 247 inf nan", "248 1e300"),
            ("f8e3m4", "15.5 15.7 inf", "15.75 16"),
            ("f8e4m3b11fnuz", "30 nan", "31 32 inf"),
            ("f8e4m3fnuz", "240 247 nan", "248 256"),
            ("f8e5m2fnuz", "57344 nan", "61440"),
            ("f8e8m0fnu", "1 3 1.8e38 1e-45 nan", "0 -1 3e38 1e39"),
            ("f4e2m1fn", "6 7.5 8 -6", "nan inf x"),
            ("f6e3m2fn", "28 32", "nan"),
            ("f6e2m3fn", "7.5 8", "inf"),
            ("f16", "65519 nan(0x1) nan(0x3ff) -nan(0x200)", "65520 nan(0x400) nan(0x0)"),
            ("bf16", "3.3e38 nan(0x7f)", "3.4e38 nan(0x80)"),
            ("f64", "1e308 nan(0xfffffffffffff)", "1e309 nan(0x10000000000000)"),
            ("c64", "(inf,nan) (1,2)", "(1e39,0) (1,1e400) 1 (1)"),
            ("u64", "18446744073709551615 -1", "18446744073709551616"),
            ("s2", "1 -2", "2"),
            ("u1", "1 0", "2 -1"),
        ] {
            let element_type = ElementType::from_name(name).expect("a type");
            let is_value = |text: &str| Literal::new(text, &ArrayShape::scalar(element_type)).check().is_ok();
            for text in taken.split(' ') {
                assert!(is_value(text), "{name} {text}");
            }
            for text in refused.split(' ') {
                assert!(!is_value(text), "{name} {text}");
            }
        }
    }
    #[test]
    fn sixteen_bit_formats_round_trip() {
        for format in [narrow::F16, narrow::BF16] {
            for bits in 0..=u16::MAX {
                let value = narrow::widen(bits, format);
                if !value.is_nan() {
                    assert_eq!(narrow::round(value, format), bits, "{value}");
                }
            }
        }
    }
}
