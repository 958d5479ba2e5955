//! Rules for elementwise operations and for data movement that does not depend on values. Their cases: `passes/tests/flow_cases/data.rs`.

// Tests: `passes/tests/flow.rs`.

use std::ops::Range;

use hlo_ir::{AttrKey, AttrValue};

use super::rows::Step;
use super::{Flows, OperandFlow, Query};

/// The same rows of every operand that has the shape of the result; scalars (bounds of `clamp`, predicate of `select`) as a whole.
pub(super) fn elementwise(q: &Query<'_>) -> Flows {
    let flow = |index| {
        let operand = q.operand(index)?;
        Ok(if operand.dims == q.result.dims { OperandFlow::same(q.dim) } else { OperandFlow::Whole })
    };
    (0..q.inst.operands.len()).map(flow).collect()
}

/// The same rows; a dimension that is made from the bits of one element cannot be cut.
///
/// A change of width adds or removes a minor dimension; the others keep their place.
pub(super) fn bitcast_convert(q: &Query<'_>) -> Flows {
    if q.dim >= q.operand(0)?.rank() {
        return q.barrier("split-element", "makes this dimension from the bits of one element");
    }
    Ok(q.all())
}

/// The same rows, if the operand has the same dimensions: a `bitcast` reinterprets memory.
pub(super) fn bitcast(q: &Query<'_>) -> Flows {
    let operand = q.operand(0)?;
    if operand.dims != q.result.dims || operand.element_type.bits() != q.result.element_type.bits() {
        return q.barrier("opaque", "reinterprets memory with other dimensions");
    }
    Ok(q.all())
}

/// The same rows of the dimension that becomes this one; all of the operand if this one is new.
pub(super) fn broadcast(q: &Query<'_>) -> Flows {
    let from = q.inst.ints(&AttrKey::Dimensions).iter().position(|&dim| dim == q.dim as i64);
    match from {
        Some(dim) if q.operand(0)?.dims.get(dim) == Some(&q.extent()) => Ok(vec![OperandFlow::same(dim)]),
        Some(_) => q.barrier("malformed", "stretches a dimension"),
        None => Ok(vec![OperandFlow::Whole]),
    }
}

/// Nothing: it has no operands.
#[allow(clippy::unnecessary_wraps, reason = "every rule has this form")]
pub(super) fn iota(_: &Query<'_>) -> Flows {
    Ok(Vec::new())
}

/// The rows that hold the same elements, if those of a block lie together in the operand.
///
/// Both shapes are cut, from the front, into the smallest groups of dimensions with equal product. Blocks of a dimension are contiguous
/// in its group only if it is the first of the group that is not 1; they are then blocks of the operand's first such dimension.
pub(super) fn reshape(q: &Query<'_>) -> Flows {
    let (from, to) = (&q.operand(0)?.dims, &q.result.dims);
    let lead = |dims: &[i64], group: &Range<usize>| group.clone().find(|&dim| dims[dim] != 1);
    let inner = |dims: &[i64], lead: usize, group: &Range<usize>| dims[lead + 1..group.end].iter().product::<i64>();
    if let Some((source, group)) = groups(from, to).into_iter().find(|(_, group)| group.contains(&q.dim))
        && let (Some(dim), true) = (lead(from, &source), lead(to, &group) == Some(q.dim))
    {
        let step = Step::scale(inner(to, q.dim, &group), inner(from, dim, &source));
        return Ok(vec![OperandFlow::Block { dim, step }]);
    }
    q.barrier("reshape", "mixes this dimension with the one before it")
}

/// Ranges of dimensions of two shapes that hold the same elements, front to back, each as short as possible.
fn groups(from: &[i64], to: &[i64]) -> Vec<(Range<usize>, Range<usize>)> {
    let mut groups = Vec::new();
    let (mut source, mut target) = (0..0, 0..0);
    while source.end < from.len() && target.end < to.len() {
        let (mut have, mut want) = (i128::from(from[source.end]), i128::from(to[target.end]));
        while have != want {
            let (dims, range, product) =
                if have < want { (from, &mut source, &mut have) } else { (to, &mut target, &mut want) };
            range.end += 1;
            match dims.get(range.end) {
                Some(&size) if *product > 0 => *product *= i128::from(size),
                _ => return groups,
            }
        }
        (source.end, target.end) = (source.end + 1, target.end + 1);
        groups.push((source.clone(), target.clone()));
        (source.start, target.start) = (source.end, target.end);
    }
    groups
}

/// The same rows of the dimension that becomes this one.
pub(super) fn transpose(q: &Query<'_>) -> Flows {
    match q.inst.ints(&AttrKey::Dimensions).get(q.dim) {
        Some(&dim) => Ok(vec![OperandFlow::same(dim as usize)]),
        None => Err(q.malformed()),
    }
}

/// The rows from the start of the slice on, one for each stride, if the last stride ends before the operand does.
pub(super) fn slice(q: &Query<'_>) -> Flows {
    let Some(AttrValue::Slice(bounds)) = q.inst.attribute(&AttrKey::Slice) else {
        return Err(q.malformed());
    };
    let (Some(bound), Some(&size)) = (bounds.get(q.dim), q.operand(0)?.dims.get(q.dim)) else {
        return Err(q.malformed());
    };
    // A block of a strided slice takes whole strides; the last one may reach behind the end.
    if bound.start + q.extent() * bound.stride > size {
        return q.barrier("strided-slice", "takes a part of a stride at the end");
    }
    let step = Step::Affine { mul: bound.stride, div: 1, offset: bound.start };
    Ok(vec![OperandFlow::Block { dim: q.dim, step }])
}

/// The same rows, if this dimension is not padded; the padding value as a whole.
pub(super) fn pad(q: &Query<'_>) -> Flows {
    let Some(AttrValue::Padding(padding)) = q.inst.attribute(&AttrKey::Padding) else {
        return Err(q.malformed());
    };
    match padding.get(q.dim) {
        Some(pad) if *pad == hlo_ir::attribute::PadDim::default() => Ok(q.first(1, OperandFlow::same(q.dim))),
        _ => q.barrier("padded", "pads this dimension"),
    }
}

/// The same rows; in a dimension that is reversed, as many from the end.
#[allow(clippy::unnecessary_wraps, reason = "every rule has this form")]
pub(super) fn reverse(q: &Query<'_>) -> Flows {
    let mirrored = q.inst.ints(&AttrKey::Dimensions).contains(&(q.dim as i64));
    let step = if mirrored { Step::Mirror { extent: q.extent() } } else { Step::SAME };
    Ok(vec![OperandFlow::Block { dim: q.dim, step }])
}

/// The same rows of every operand, if they are joined along another dimension.
pub(super) fn concatenate(q: &Query<'_>) -> Flows {
    if q.inst.ints(&AttrKey::Dimensions) == [q.dim as i64] {
        return q.barrier("concatenated", "joins its operands along this dimension");
    }
    Ok(q.all())
}
