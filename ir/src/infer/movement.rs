//! Instructions that only move data, and the odd ones whose result is an operand or a part of it.

use super::{Inferred, Request, array, same_size};
use crate::shape::{Dims, ShapeRef, UNBOUNDED};
use crate::{ArrayShape, AttrKey, AttrValue, ElementType, Layout, Shape};

pub(super) fn first(request: &Request<'_>) -> Inferred {
    request.operand(0).cloned()
}

#[expect(clippy::unnecessary_wraps, reason = "a rule of the table")]
pub(super) fn tuple(request: &Request<'_>) -> Inferred {
    Ok(Shape::tuple(request.operands.iter().map(|&shape| shape.clone())))
}

/// The operand's shape if there is one, else a tuple of all.
pub(super) fn all_operands(request: &Request<'_>) -> Inferred {
    if request.operands.len() == 1 { first(request) } else { tuple(request) }
}

pub(super) fn get_tuple_element(request: &Request<'_>) -> Inferred {
    element(request, request.int(&AttrKey::Index)?)
}

/// An element of the first operand, which must be a tuple.
pub(super) fn element(request: &Request<'_>, index: i64) -> Inferred {
    let shape = request.operand(0)?;
    let Some(elements) = shape.as_tuple() else {
        return Err(format!("operand 0 has shape {shape}, which is no tuple"));
    };
    let element: Option<&ShapeRef> = usize::try_from(index).ok().and_then(|index| elements.get(index));
    element.cloned().ok_or_else(|| format!("the tuple has {} elements, there is no element {index}", elements.len()))
}

pub(super) fn concatenate(request: &Request<'_>) -> Inferred {
    let first = request.array(0)?;
    let along = request.dimension(&AttrKey::Dimensions, first.rank())?;
    let mut dims = first.dims.clone();
    for index in 1..request.operands.len() {
        let next = request.array(index)?;
        let fits = next.element_type == first.element_type
            && next.rank() == first.rank()
            && (0..first.rank()).all(|dim| dim == along || same_size(first.dims[dim], next.dims[dim]));
        if !fits {
            return Err(format!(
                "operand {index} has shape {next}, which cannot follow {first} along dimension {along}"
            ));
        }
        dims[along] = match (dims[along], next.dims[along]) {
            (UNBOUNDED, _) | (_, UNBOUNDED) => UNBOUNDED,
            (a, b) => a.checked_add(b).ok_or("the sum of the sizes does not fit 64 bits")?,
        };
    }
    Ok(array(first.element_type, dims))
}

pub(super) fn transpose(request: &Request<'_>) -> Inferred {
    let operand = request.array(0)?;
    let permutation = request.dimensions(&AttrKey::Dimensions, operand.rank())?;
    if permutation.len() != operand.rank() {
        return Err(format!("dimensions has {} entries for {} dimensions", permutation.len(), operand.rank()));
    }
    let dims = permutation.iter().map(|&dim| operand.dims[dim]).collect();
    // The elements stay where they are in memory: only the dimensions get other numbers.
    let order = operand.minor_to_major();
    let minor_to_major =
        order.iter().filter_map(|&dim| permutation.iter().position(|&from| from as i64 == dim)).map(|to| to as i64);
    let layout = Some(Layout { minor_to_major: minor_to_major.collect(), suffix: smol_str::SmolStr::default() });
    Ok(Shape::Array(ArrayShape { element_type: operand.element_type, dims, dynamic: 0, layout }).into())
}

pub(super) fn reverse(request: &Request<'_>) -> Inferred {
    request.dimensions(&AttrKey::Dimensions, request.array(0)?.rank())?;
    first(request)
}

pub(super) fn slice(request: &Request<'_>) -> Inferred {
    let operand = request.array(0)?;
    let Some(AttrValue::Slice(bounds)) = request.instruction.attribute(&AttrKey::Slice) else {
        return Err("attribute slice is missing or malformed".into());
    };
    if bounds.len() != operand.rank() {
        return Err(format!("slice has {} bounds for {} dimensions", bounds.len(), operand.rank()));
    }
    let mut dims = Dims::new();
    for (dim, (bound, &size)) in bounds.iter().zip(&operand.dims).enumerate() {
        let inside = 0 <= bound.start && bound.start <= bound.limit && (size == UNBOUNDED || bound.limit <= size);
        if !inside || bound.stride < 1 {
            let (start, limit, stride) = (bound.start, bound.limit, bound.stride);
            return Err(format!("slice [{start}:{limit}:{stride}] does not fit dimension {dim} of size {size}"));
        }
        dims.push((bound.limit - bound.start).div_ceil_by(bound.stride));
    }
    Ok(array(operand.element_type, dims))
}

/// Division that rounds up, for numbers that are not negative.
trait DivCeil {
    fn div_ceil_by(self, divisor: Self) -> Self;
}

impl DivCeil for i64 {
    fn div_ceil_by(self, divisor: Self) -> Self {
        self / divisor + Self::from(self % divisor != 0)
    }
}

pub(super) fn pad(request: &Request<'_>) -> Inferred {
    let (operand, value) = (request.array(0)?, request.array(1)?);
    if !value.is_scalar() || value.element_type != operand.element_type {
        return Err(format!("the padding value has shape {value}, but must be {}[]", operand.element_type.name()));
    }
    let padding = match request.instruction.attribute(&AttrKey::Padding) {
        Some(AttrValue::Padding(padding)) => &**padding,
        _ => &[],
    };
    if padding.len() != operand.rank() {
        return Err(format!("padding has {} entries for {} dimensions", padding.len(), operand.rank()));
    }
    let mut dims = Dims::new();
    for (dim, (pad, &size)) in padding.iter().zip(&operand.dims).enumerate() {
        let wide = |value: i64| i128::from(value);
        let inner = if size > 0 { wide(size - 1) * wide(pad.interior) } else { 0 };
        let padded = wide(size) + wide(pad.low) + wide(pad.high) + inner;
        match i64::try_from(padded) {
            _ if size == UNBOUNDED => dims.push(UNBOUNDED),
            Ok(padded) if padded >= 0 && pad.interior >= 0 => dims.push(padded),
            _ => return Err(format!("dimension {dim} would have {padded} elements after padding")),
        }
    }
    Ok(array(operand.element_type, dims))
}

/// A 32-bit number.
pub(super) fn get_dimension_size(request: &Request<'_>) -> Inferred {
    request.dimension(&AttrKey::Dimensions, request.array(0)?.rank())?;
    Ok(Shape::array(ElementType::S32, []))
}

/// The operand with one more dynamic dimension.
pub(super) fn set_dimension_size(request: &Request<'_>) -> Inferred {
    let operand = request.array(0)?;
    let dim = request.dimension(&AttrKey::Dimensions, operand.rank())?;
    let size = request.array(1)?;
    if !size.is_scalar() || size.element_type != ElementType::S32 {
        return Err(format!("operand 1 has shape {size}, but the size of a dimension is s32[]"));
    }
    let mut shape = operand.clone();
    shape.dynamic |= 1_u64.checked_shl(dim as u32).unwrap_or(0);
    Ok(Shape::Array(shape).into())
}

/// The largest `k` values of the last dimension and their positions.
pub(super) fn top_k(request: &Request<'_>) -> Inferred {
    let operand = request.array(0)?;
    let k = request.int(&AttrKey::K)?;
    let Some(&last) = operand.dims.last() else { return Err("the operand has no dimension to search".into()) };
    if k < 0 || last != UNBOUNDED && k > last {
        return Err(format!("there are no {k} largest values among {last}"));
    }
    let mut dims = operand.dims.clone();
    dims[operand.rank() - 1] = k;
    Ok(Shape::tuple([array(operand.element_type, dims.clone()), array(ElementType::S32, dims)]))
}
