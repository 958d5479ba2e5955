//! Literals: the elements of a constant as numbers, so that rules can ask what they are.

use std::fmt::Write as _;
use std::sync::Arc;

use hlo_ir::ElementType;
use hlo_ir::shape::ArrayShape;
use smol_str::SmolStr;

use super::scalar::{Scalar, round_to};

/// Literals with more elements than this are kept as a fingerprint only: no rule of the model looks into arrays this large, and
/// reading them would cost more than all the rest.
pub(crate) const MOST_ELEMENTS: u64 = 1 << 16;

/// The elements of an array constant in row-major order.
#[derive(Clone, Debug)]
pub(crate) enum Elements {
    /// Every element, in order.
    Known(Arc<[Scalar]>),
    /// More elements than are kept, all the same.
    Uniform(Scalar),
    /// Not kept; equal numbers mean equal elements.
    Fingerprint(u64),
}

/// An array constant; two are equal when all elements are the same, NaNs included and zeros told apart.
#[derive(Clone, Debug)]
pub(crate) struct Literal {
    /// Type of the elements.
    pub(crate) element_type: ElementType,
    /// The elements.
    pub(crate) elements: Elements,
}

impl PartialEq for Literal {
    fn eq(&self, other: &Self) -> bool {
        self.element_type == other.element_type && self.hash() == other.hash()
    }
}

impl Literal {
    /// A scalar, or an array of one element.
    pub(crate) fn one(element_type: ElementType, value: Scalar) -> Self {
        Self { element_type, elements: Elements::Known(Arc::from([round_to(element_type, value)])) }
    }
    /// A literal with these elements.
    pub(crate) fn known(element_type: ElementType, values: Vec<Scalar>) -> Self {
        Self { element_type, elements: Elements::Known(values.into()) }
    }
    /// A literal with these elements, rounded to the type.
    pub(crate) fn rounded(element_type: ElementType, values: Vec<Scalar>) -> Self {
        Self::known(element_type, values.into_iter().map(|value| round_to(element_type, value)).collect())
    }
    /// A literal that is only known to be equal to others of the same fingerprint.
    pub(crate) fn fingerprint(element_type: ElementType, fingerprint: u64) -> Self {
        Self { element_type, elements: Elements::Fingerprint(fingerprint) }
    }
    /// A literal of many elements, all the same.
    pub(crate) fn uniform(element_type: ElementType, value: Scalar) -> Self {
        Self { element_type, elements: Elements::Uniform(value) }
    }
    /// Reads the text between the parentheses of `constant(...)`. `unique` identifies the instruction: an elided or unreadable
    /// literal equals only itself.
    pub(crate) fn read(shape: &ArrayShape, text: &str, unique: u64) -> Self {
        let count = shape.elements().unwrap_or(u64::MAX);
        if count > MOST_ELEMENTS {
            let hash = if text.contains("...") { unique } else { hash_text(text) };
            return Self::fingerprint(shape.element_type, hash);
        }
        match read_scalars(shape.element_type, text) {
            Some(values) if values.len() as u64 == count => Self::known(shape.element_type, values),
            _ => Self::fingerprint(shape.element_type, unique),
        }
    }
    /// The elements, if they are kept.
    pub(crate) fn values(&self) -> Option<&[Scalar]> {
        match &self.elements {
            Elements::Known(values) => Some(values),
            Elements::Uniform(_) | Elements::Fingerprint(_) => None,
        }
    }
    /// The first element, if it is known.
    pub(crate) fn first(&self) -> Option<Scalar> {
        match &self.elements {
            Elements::Known(values) => values.first().copied(),
            Elements::Uniform(value) => Some(*value),
            Elements::Fingerprint(_) => None,
        }
    }
    /// The value that all elements are known to have.
    pub(crate) fn one_value(&self) -> Option<Scalar> {
        self.first().filter(|_| self.is_all_first())
    }
    /// Whether every element is known to be this small integer.
    pub(crate) fn is_all(&self, value: i8) -> bool {
        self.all(|element| element.is(f64::from(value)))
    }
    /// Whether every element is known to be this number.
    pub(crate) fn is_all_float(&self, value: f64) -> bool {
        self.element_type.is_float() && self.all(|element| element.is(value))
    }
    /// Whether all elements are known to be the same.
    pub(crate) fn is_all_first(&self) -> bool {
        self.first().is_none_or(|first| self.all(|element| element.same(first)))
            && !matches!(self.elements, Elements::Fingerprint(_))
    }
    /// Whether there are elements and all are known to pass a test.
    fn all(&self, test: impl Fn(Scalar) -> bool) -> bool {
        match &self.elements {
            Elements::Known(values) => !values.is_empty() && values.iter().all(|&value| test(value)),
            Elements::Uniform(value) => test(*value),
            Elements::Fingerprint(_) => false,
        }
    }
    /// A number that equal literals share.
    pub(crate) fn hash(&self) -> u64 {
        match &self.elements {
            Elements::Fingerprint(hash) => *hash,
            Elements::Uniform(value) => mix(0x0007_1f08, value.bits()),
            Elements::Known(values) => values.iter().fold(0x9e37, |hash, value| mix(hash, value.bits())),
        }
    }
    /// The text between the parentheses of `constant(...)` for an array of this rank; long literals are elided.
    pub(crate) fn text(&self, shape: &ArrayShape) -> SmolStr {
        const MOST_PRINTED: usize = 64;
        match self.values() {
            Some([value]) if shape.is_scalar() => value.text(self.element_type),
            Some(values) if values.len() <= MOST_PRINTED => {
                let mut text = String::new();
                write_nested(&mut text, self.element_type, &shape.dims, values);
                text.into()
            }
            _ => "{...}".into(),
        }
    }
}

/// Combines a hash with one more number.
pub(crate) fn mix(hash: u64, value: u64) -> u64 {
    (hash.rotate_left(5) ^ value).wrapping_mul(0x517c_c1b7_2722_0a95)
}

fn hash_text(text: &str) -> u64 {
    text.bytes().fold(0x00c0_ffee, |hash, byte| mix(hash, u64::from(byte)))
}

fn write_nested(out: &mut String, element_type: ElementType, dims: &[i64], values: &[Scalar]) {
    let Some((&first, rest)) = dims.split_first() else {
        if let Some(value) = values.first() {
            let _ = write!(out, "{}", value.text(element_type));
        }
        return;
    };
    out.push('{');
    let step = values.len() / usize::try_from(first.max(1)).unwrap_or(1);
    for index in 0..usize::try_from(first).unwrap_or(0) {
        if index > 0 {
            out.push_str(", ");
        }
        write_nested(out, element_type, rest, &values[index * step..(index + 1) * step]);
    }
    out.push('}');
}

/// The numbers of a literal's text in order; braces and comments only group them. `None` if something is no number.
fn read_scalars(element_type: ElementType, text: &str) -> Option<Vec<Scalar>> {
    let mut values = Vec::new();
    let mut rest = text.trim();
    while !rest.is_empty() {
        if let Some(comment) = rest.strip_prefix("/*") {
            rest = comment.split_once("*/")?.1;
        } else if let Some(after) = rest.strip_prefix(['{', '}', ',', ' ', '\n', '\t']) {
            rest = after;
        } else if let Some(pair) = rest.strip_prefix('(') {
            let (inside, after) = pair.split_once(')')?;
            let (real, imag) = inside.split_once(',')?;
            values.push(Scalar::Complex(real.trim().parse().ok()?, imag.trim().parse().ok()?));
            rest = after;
        } else {
            let end = rest.find([',', '}', ' ', '\n']).unwrap_or(rest.len());
            values.push(Scalar::read(element_type, &rest[..end])?);
            rest = &rest[end..];
        }
    }
    Some(values)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn literal(dims: &[i64], text: &str) -> Literal {
        Literal::read(&ArrayShape::new(ElementType::F32, dims.iter().copied()), text, 7)
    }

    #[test]
    fn reads_nested_arrays_and_prints_them_back() {
        let shape = ArrayShape::new(ElementType::S32, [2, 2]);
        let value = Literal::read(&shape, "{ { 1, -2 }, /*i0=1*/ { 3, 4 } }", 0);
        assert_eq!(value.values().unwrap().len(), 4);
        assert_eq!(value.text(&shape), "{{1, -2}, {3, 4}}");
    }

    #[test]
    fn negative_zero_counts_as_zero_but_is_not_the_same_element() {
        assert!(literal(&[2], "{0, -0}").is_all(0));
        assert!(!literal(&[2], "{0, -0}").is_all_first());
        assert!(literal(&[2], "{nan, nan}").is_all_first());
        assert!(literal(&[], "-inf").is_all_float(f64::NEG_INFINITY));
    }

    #[test]
    fn an_elided_literal_equals_only_itself() {
        let shape = ArrayShape::new(ElementType::F32, [3]);
        assert_ne!(Literal::read(&shape, "{...}", 1), Literal::read(&shape, "{...}", 2));
    }
}
