//! Literals: the text of a constant to the bytes of a message and back.
//!
//! Text has the elements in logical order, a message in the order of the literal's layout.

use std::fmt::Write as _;

use super::float;
use super::message::shape as pb;
use super::scan::Fit;
use super::shape;
use crate::literal::Literal;
use crate::shape::UNBOUNDED;
use crate::{ArrayShape, ElementType, Layout, Shape};

/// A literal as a message; `None` if its values are left out of the text.
pub(super) fn write(shape: &Shape, text: &str) -> Fit<Option<pb::Literal>> {
    match shape {
        Shape::Array(array) => write_array(array, text),
        Shape::Tuple(elements) => {
            let mut literal = pb::Literal { shape: Some(shape::write(shape)?), ..pb::Literal::default() };
            let parts = tuple_parts(text)?;
            if parts.len() != elements.len() {
                return Err(format!("the literal has {} parts, its shape {}", parts.len(), elements.len()));
            }
            for (element, part) in elements.iter().zip(parts) {
                let Some(part) = write(element, part)? else { return Ok(None) };
                literal.tuple_literals.push(part);
            }
            Ok(Some(literal))
        }
        _ => Err(format!("a literal cannot have the shape {shape}")),
    }
}

/// The parts of `(a, b)` at the outermost level.
fn tuple_parts(text: &str) -> Fit<Vec<&str>> {
    let inner = text
        .trim()
        .strip_prefix('(')
        .and_then(|text| text.strip_suffix(')'))
        .ok_or("a tuple literal has parentheses")?;
    let (mut parts, mut depth, mut start) = (Vec::new(), 0_i64, 0);
    for (at, symbol) in inner.char_indices() {
        match symbol {
            '(' | '{' => depth += 1,
            ')' | '}' => depth -= 1,
            ',' if depth == 0 => {
                parts.push(inner[start..at].trim());
                start = at + 1;
            }
            _ => {}
        }
    }
    let last = inner[start..].trim();
    if !last.is_empty() {
        parts.push(last);
    }
    Ok(parts)
}

fn write_array(array: &ArrayShape, text: &str) -> Fit<Option<pb::Literal>> {
    // The layout of a literal is an order of dimensions and nothing else, and its dimensions are static.
    let layout = Layout { minor_to_major: array.minor_to_major(), ..Layout::default() };
    let plain = ArrayShape { layout: Some(layout), dynamic: 0, ..array.clone() };
    let literal = Literal::new(text.trim(), &plain);
    if literal.is_elided() {
        return Ok(None);
    }
    literal.check()?;
    let tokens: Vec<&str> = literal.tokens().collect();
    let order = Order::of(&plain, tokens.len())?;
    let stored: Vec<&str> = order.logical_of_stored().map(|index| tokens[index]).collect();
    let mut message =
        pb::Literal { shape: Some(shape::write(&Shape::Array(plain.clone()))?), ..pb::Literal::default() };
    if plain.element_type.is_complex() {
        write_complex(plain.element_type, &stored, &mut message)?;
    } else {
        let bits = stored.iter().map(|token| bits(plain.element_type, token)).collect::<Fit<Vec<u64>>>()?;
        store(plain.element_type, &bits, &mut message);
    }
    Ok(Some(message))
}

/// The bit pattern of one element.
fn bits(element_type: ElementType, token: &str) -> Fit<u64> {
    let scalar = ArrayShape::scalar(element_type);
    let known = Literal::new(token, &scalar).bits().and_then(|bits| bits.first().copied());
    known
        .or_else(|| float::small_bits(element_type, token))
        .ok_or_else(|| crate::literal::no_value(element_type, token))
}

fn write_complex(element_type: ElementType, tokens: &[&str], message: &mut pb::Literal) -> Fit<()> {
    let part = if element_type == ElementType::C64 { ElementType::F32 } else { ElementType::F64 };
    for token in tokens {
        let inner = token.strip_prefix('(').and_then(|text| text.strip_suffix(')'));
        let (real, imaginary) =
            inner.and_then(|text| text.split_once(',')).ok_or_else(|| format!("`{token}` is not complex"))?;
        for value in [real, imaginary] {
            let bits = bits(part, value.trim())?;
            if part == ElementType::F32 {
                message.c64s.push(f32::from_bits(bits as u32));
            } else {
                message.c128s.push(f64::from_bits(bits));
            }
        }
    }
    Ok(())
}

/// Puts elements into the field of their type.
fn store(element_type: ElementType, bits: &[u64], to: &mut pb::Literal) {
    use ElementType as T;
    let each =
        |width: usize| bits.iter().flat_map(|bits| bits.to_le_bytes().into_iter().take(width)).collect::<Vec<u8>>();
    match element_type {
        T::Pred => to.preds = bits.iter().map(|&bits| bits != 0).collect(),
        T::S32 => to.s32s = bits.iter().map(|&bits| bits as i32).collect(),
        T::S64 => to.s64s = bits.iter().map(|&bits| bits as i64).collect(),
        T::U32 => to.u32s = bits.iter().map(|&bits| bits as u32).collect(),
        T::U64 => to.u64s = bits.to_vec(),
        T::F32 => to.f32s = bits.iter().map(|&bits| f32::from_bits(bits as u32)).collect(),
        T::F64 => to.f64s = bits.iter().map(|&bits| f64::from_bits(bits)).collect(),
        T::F16 | T::Bf16 | T::S16 | T::U16 => *bytes_field(element_type, to) = each(2),
        _ => *bytes_field(element_type, to) = each(1),
    }
}

/// The field of a type whose elements are stored as bytes, one or two for each.
fn bytes_field(element_type: ElementType, literal: &mut pb::Literal) -> &mut Vec<u8> {
    use ElementType as T;
    match element_type {
        T::S1 => &mut literal.s1s,
        T::S2 => &mut literal.s2s,
        T::S4 => &mut literal.s4s,
        T::S8 => &mut literal.s8s,
        T::S16 => &mut literal.s16s,
        T::U1 => &mut literal.u1s,
        T::U2 => &mut literal.u2s,
        T::U4 => &mut literal.u4s,
        T::U8 => &mut literal.u8s,
        T::U16 => &mut literal.u16s,
        T::F16 => &mut literal.f16s,
        T::Bf16 => &mut literal.bf16s,
        T::F8e5m2 => &mut literal.f8e5m2s,
        T::F8e4m3 => &mut literal.f8e4m3s,
        T::F8e4m3fn => &mut literal.f8e4m3fns,
        T::F8e4m3b11fnuz => &mut literal.f8e4m3b11fnuzs,
        T::F8e3m4 => &mut literal.f8e3m4s,
        T::F8e5m2fnuz => &mut literal.f8e5m2fnuzs,
        T::F8e4m3fnuz => &mut literal.f8e4m3fnuzs,
        T::F8e8m0fnu => &mut literal.f8e8m0fnus,
        T::F4e2m1fn => &mut literal.f4e2m1fns,
        T::F6e3m2fn => &mut literal.f6e3m2fns,
        T::F6e2m3fn => &mut literal.f6e2m3fns,
        T::Pred | T::S32 | T::S64 | T::U32 | T::U64 | T::F32 | T::F64 | T::C64 | T::C128 => {
            unreachable!("these types have a field of numbers")
        }
    }
}

/// Rows without elements that a literal may have.
const MAX_EMPTY: i64 = 1 << 16;

/// The text of a message.
pub(super) fn read(literal: &pb::Literal) -> Fit<String> {
    let shape = literal.shape.as_ref().ok_or("a literal lacks its shape")?;
    match &*shape::read(shape)? {
        Shape::Array(array) => read_array(array, literal),
        Shape::Tuple(_) => {
            let parts = literal.tuple_literals.iter().map(read).collect::<Fit<Vec<_>>>()?;
            Ok(if parts.is_empty() { "()".to_owned() } else { format!("( {} )", parts.join(", ")) })
        }
        other => Err(format!("a literal cannot have the shape {other}")),
    }
}

/// The text of a literal outside a `constant`: each array behind its shape.
pub(super) fn read_shaped(literal: &pb::Literal) -> Fit<String> {
    let shape = shape::read(literal.shape.as_ref().ok_or("a literal lacks its shape")?)?;
    if shape.as_tuple().is_none() {
        return Ok(format!("{shape} {}", read(literal)?));
    }
    let parts = literal.tuple_literals.iter().map(read_shaped).collect::<Fit<Vec<_>>>()?;
    Ok(format!("( {} )", parts.join(", ")))
}

fn read_array(array: &ArrayShape, literal: &pb::Literal) -> Fit<String> {
    if !literal.sparse_indices.is_empty() || !literal.dynamic_sizes.is_empty() {
        return Err("literals with `sparse_indices` or `dynamic_sizes` cannot be written as text".to_owned());
    }
    // An array without elements may still have more braces than memory holds.
    let braces =
        array.dims.iter().take_while(|&&dim| dim != 0).try_fold(1_i64, |product, &dim| product.checked_mul(dim));
    if array.dims.contains(&0) && braces.is_none_or(|braces| braces > MAX_EMPTY) {
        return Err(format!("a literal of shape {array} would be mostly braces"));
    }
    let stored = elements(array, literal)?;
    let order = Order::of(array, stored.len())?;
    let mut logical = vec![""; stored.len()];
    for (text, index) in stored.iter().zip(order.logical_of_stored()) {
        logical[index] = text;
    }
    let mut out = String::new();
    nested(&mut out, &array.dims, &mut Vec::new(), &mut logical.into_iter());
    Ok(out)
}

/// The text of every element, in the order of the layout.
fn elements(array: &ArrayShape, literal: &pb::Literal) -> Fit<Vec<String>> {
    use ElementType as T;
    let element_type = array.element_type;
    let real = |bits: u64| float::text(element_type, bits);
    let word = |value: bool| if array.is_scalar() { value.to_string() } else { u8::from(value).to_string() };
    Ok(match element_type {
        T::Pred => literal.preds.iter().map(|&value| word(value)).collect(),
        T::S32 => literal.s32s.iter().map(ToString::to_string).collect(),
        T::S64 => literal.s64s.iter().map(ToString::to_string).collect(),
        T::U32 => literal.u32s.iter().map(ToString::to_string).collect(),
        T::U64 => literal.u64s.iter().map(ToString::to_string).collect(),
        T::F32 => literal.f32s.iter().map(|value| real(u64::from(value.to_bits()))).collect(),
        T::F64 => literal.f64s.iter().map(|value| real(value.to_bits())).collect(),
        T::C64 => complex(&literal.c64s, |value| float::text(T::F32, u64::from(value.to_bits())))?,
        T::C128 => complex(&literal.c128s, |value| float::text(T::F64, value.to_bits()))?,
        _ => {
            let mut literal = literal.clone();
            narrow(element_type, bytes_field(element_type, &mut literal))?
        }
    })
}

fn complex<T>(parts: &[T], text: impl Fn(&T) -> String) -> Fit<Vec<String>> {
    if !parts.len().is_multiple_of(2) {
        return Err("a complex literal has half a number".to_owned());
    }
    Ok(parts.chunks(2).map(|pair| format!("({}, {})", text(&pair[0]), text(&pair[1]))).collect())
}

/// Elements that are stored in one or two bytes each.
fn narrow(element_type: ElementType, bytes: &[u8]) -> Fit<Vec<String>> {
    let bits = element_type.bits();
    let width = if bits > 8 { 2 } else { 1 };
    if !bytes.len().is_multiple_of(width) {
        return Err("a literal has half an element".to_owned());
    }
    let patterns = bytes.chunks(width).map(|chunk| {
        let low = u64::from(chunk[0]) | chunk.get(1).map_or(0, |&high| u64::from(high) << 8);
        low & (u64::MAX >> (64 - bits))
    });
    Ok(patterns
        .map(|pattern| match element_type {
            _ if element_type.is_signed() => ((pattern << (64 - bits)) as i64 >> (64 - bits)).to_string(),
            _ if element_type.is_unsigned() => pattern.to_string(),
            _ => float::text(element_type, pattern),
        })
        .collect())
}

/// In which order the elements of an array are stored.
struct Order {
    /// Elements between neighbours in each dimension, logically; from the fastest varying dimension in memory to the slowest.
    steps: Vec<(usize, usize)>,
    count: usize,
}

impl Order {
    /// An error if the number of elements is not that of the shape or the layout is no permutation.
    fn of(array: &ArrayShape, count: usize) -> Fit<Self> {
        let wanted = array.elements().filter(|_| !array.dims.contains(&UNBOUNDED));
        if wanted != Some(count as u64) {
            return Err(format!("a literal of shape {array} has {count} elements"));
        }
        if count == 0 {
            return Ok(Self { steps: Vec::new(), count });
        }
        let order = array.minor_to_major();
        let mut sorted = order.clone();
        sorted.sort_unstable();
        if !sorted.iter().copied().eq(0..array.rank() as i64) {
            return Err(format!("the layout of {array} is no order of its dimensions"));
        }
        let mut strides = vec![1; array.rank()];
        for dim in (1..array.rank()).rev() {
            strides[dim - 1] = strides[dim] * array.dims[dim] as usize;
        }
        let steps = order.iter().map(|&dim| (array.dims[dim as usize] as usize, strides[dim as usize])).collect();
        Ok(Self { steps, count })
    }
    /// The logical index of every element, in the order they are stored.
    fn logical_of_stored(&self) -> impl Iterator<Item = usize> + '_ {
        (0..self.count).map(|mut stored| {
            self.steps.iter().fold(0, |logical, &(size, step)| {
                let index = stored % size;
                stored /= size;
                logical + index * step
            })
        })
    }
}

/// Writes nested braces the way XLA prints literals.
fn nested<'t>(out: &mut String, dims: &[i64], path: &mut Vec<i64>, elements: &mut impl Iterator<Item = &'t str>) {
    let Some((&size, inner)) = dims.split_first() else {
        out.push_str(elements.next().unwrap_or_default());
        return;
    };
    let rank = dims.len() + path.len();
    let tight = rank == 1 || inner.is_empty() && size <= 1;
    out.push('{');
    if let (true, false, Some(index)) = (rank > 3, inner.is_empty(), path.last()) {
        write!(out, " /*i{}={index}*/", path.len() - 1).expect("writing to a string cannot fail");
    }
    out.push_str(if tight { "" } else { " " });
    for index in 0..size {
        path.push(index);
        nested(out, inner, path, elements);
        path.pop();
        if index + 1 < size {
            out.push_str(", ");
        }
    }
    out.push_str(if tight { "}" } else { " }" });
}
