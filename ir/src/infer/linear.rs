//! Linear algebra: dots, Fourier transforms, triangular systems.

use smallvec::SmallVec;

use super::{Inferred, Request, array, distinct, same_size};
use crate::shape::{Dims, UNBOUNDED};
use crate::{ArrayShape, AttrKey, ElementType};

/// Batch dimensions, then what is free on the left, then what is free on the right. The element type is the left side's, but a
/// written shape may have another one.
pub(super) fn dot(request: &Request<'_>) -> Inferred {
    let (lhs, rhs) = (request.array(0)?, request.array(1)?);
    let (lhs_used, rhs_used) = sides(request, lhs, rhs)?;
    let batch = lhs_used.batch.iter().map(|&dim| lhs.dims[dim]);
    let sizes: Dims = batch.chain(lhs_used.free(lhs)).chain(rhs_used.free(rhs)).collect();
    Ok(array(lhs.element_type, sizes))
}

/// What a dot, scaled dot or ragged dot does with the dimensions of its first two operands.
fn sides(request: &Request<'_>, lhs: &ArrayShape, rhs: &ArrayShape) -> Result<(Used, Used), String> {
    let ints = |key| request.ints(&key);
    let lhs_used = Used::new("lhs", lhs, ints(AttrKey::LhsBatchDims), ints(AttrKey::LhsContractingDims))?;
    let rhs_used = Used::new("rhs", rhs, ints(AttrKey::RhsBatchDims), ints(AttrKey::RhsContractingDims))?;
    check_pairs("batch", lhs, &lhs_used.batch, rhs, &rhs_used.batch)?;
    check_pairs("contracting", lhs, &lhs_used.contracting, rhs, &rhs_used.contracting)?;
    Ok((lhs_used, rhs_used))
}

/// A dot of two operands with a scale each, whose sizes divide those of what they scale.
pub(super) fn scaled_dot(request: &Request<'_>) -> Inferred {
    for (operand, scale) in [(0, 2), (1, 3)] {
        let (operand, scale) = (request.array(operand)?, request.array(scale)?);
        let divides = |(&whole, &part): (&i64, &i64)| whole == UNBOUNDED || part > 0 && whole % part == 0;
        let fits = scale.rank() == operand.rank() && operand.dims.iter().zip(&scale.dims).all(divides);
        // A scale of ones stands for no scale, whatever its rank.
        if !fits && scale.elements() != Some(1) {
            return Err(format!("the scale {scale} does not divide {operand}"));
        }
    }
    dot(request)
}

/// A dot in which groups of rows have matrices of their own. The ragged dimension of the left side decides what becomes of the groups: free,
/// each row meets the matrix of its group; contracted, the result has a matrix for each group in front; batch, it is an ordinary dot.
///
/// Source: `ShapeInference::InferRaggedDotOpShape`.
pub(super) fn ragged_dot(request: &Request<'_>) -> Inferred {
    let (lhs, rhs, groups) = (request.array(0)?, request.array(1)?, request.array(2)?);
    let (lhs_used, rhs_used) = sides(request, lhs, rhs)?;
    let named = |key: &str| request.instruction.raw(&AttrKey::unknown(key)).map(listed);
    let ragged = distinct("lhs_ragged_dims", &named("lhs_ragged_dims").unwrap_or_default(), lhs.rank())?;
    let grouped = distinct("rhs_group_dims", &named("rhs_group_dims").unwrap_or_default(), rhs.rank())?;
    let ([ragged], Some(&count)) = (ragged.as_slice(), groups.dims.last()) else {
        return Err("a ragged dot has one ragged dimension and sizes of groups".into());
    };
    let batch = lhs_used.batch.iter().map(|&dim| lhs.dims[dim]);
    let rhs_free = (0..rhs.rank())
        .filter(|dim| !rhs_used.batch.contains(dim) && !rhs_used.contracting.contains(dim) && !grouped.contains(dim));
    let sizes = batch.chain(lhs_used.free(lhs)).chain(rhs_free.map(|dim| rhs.dims[dim]));
    let front = lhs_used.contracting.contains(ragged).then_some(count);
    if let Some(&dim) = grouped.first().filter(|&&dim| !same_size(rhs.dims[dim], count)) {
        return Err(format!("dimension {dim} of {rhs} holds the groups, but there are {count}"));
    }
    Ok(array(lhs.element_type, front.into_iter().chain(sizes).collect()))
}

/// The numbers of `{0,1}`.
fn listed(text: &str) -> Vec<i64> {
    text.trim_matches(['{', '}']).split(',').filter_map(|number| number.trim().parse().ok()).collect()
}

/// An operand of at least two dimensions, the last two of one size, with elements that can be divided.
fn square<'a>(request: &Request<'a>, index: usize) -> Result<&'a ArrayShape, String> {
    let shape = request.array(index)?;
    let divides = shape.element_type.is_float() || shape.element_type.is_complex();
    match shape.dims.as_slice() {
        [.., rows, columns] if divides && same_size(*rows, *columns) => Ok(shape),
        _ => Err(format!(
            "operand {index} has shape {shape}, but must be square matrices of floating-point or complex numbers"
        )),
    }
}

pub(super) fn cholesky(request: &Request<'_>) -> Inferred {
    square(request, 0)?;
    request.operand(0).cloned()
}

/// As large as the right side, which has one row (or column) for each row of the matrix.
pub(super) fn triangular_solve(request: &Request<'_>) -> Inferred {
    let (matrix, right) = (square(request, 0)?, request.array(1)?);
    let rank = matrix.rank();
    let is_left = request.instruction.flag(&AttrKey::LeftSide);
    let fits = right.rank() == rank
        && right.element_type == matrix.element_type
        && (0..rank - 2).all(|dim| same_size(matrix.dims[dim], right.dims[dim]))
        && same_size(matrix.dims[rank - 1], right.dims[if is_left { rank - 2 } else { rank - 1 }]);
    if fits { request.operand(1).cloned() } else { Err(format!("{matrix} and {right} do not fit together")) }
}

/// Batch and contracting dimensions of one side.
struct Used {
    batch: SmallVec<[usize; 4]>,
    contracting: SmallVec<[usize; 4]>,
}

impl Used {
    fn new(side: &str, shape: &ArrayShape, batch: &[i64], contracting: &[i64]) -> Result<Self, String> {
        let both: SmallVec<[i64; 8]> = batch.iter().chain(contracting).copied().collect();
        let mut batch_dims = distinct(&format!("{side} dims"), &both, shape.rank())?;
        let contracting = batch_dims.drain(batch.len()..).collect();
        Ok(Self { batch: batch_dims, contracting })
    }
    fn free<'s>(&'s self, shape: &'s ArrayShape) -> impl Iterator<Item = i64> + 's {
        let is_free = |dim: &usize| !self.batch.contains(dim) && !self.contracting.contains(dim);
        (0..shape.rank()).filter(is_free).map(|dim| shape.dims[dim])
    }
}

fn check_pairs(what: &str, lhs: &ArrayShape, left: &[usize], rhs: &ArrayShape, right: &[usize]) -> Result<(), String> {
    if left.len() != right.len() {
        return Err(format!("there are {} {what} dimensions on the left, {} on the right", left.len(), right.len()));
    }
    for (&a, &b) in left.iter().zip(right) {
        if !same_size(lhs.dims[a], rhs.dims[b]) {
            let (left, right) = (lhs.dims[a], rhs.dims[b]);
            return Err(format!("{what} dimension {a} of {lhs} has size {left}, dimension {b} of {rhs} has {right}"));
        }
    }
    Ok(())
}

/// A transform of the last dimensions, one to three of them. Real numbers become half as many complex ones and the other way round.
pub(super) fn fft(request: &Request<'_>) -> Inferred {
    let operand = request.array(0)?;
    let lengths = request.ints(&AttrKey::FftLength);
    let (Some(&length), Some(outer)) = (lengths.last(), operand.rank().checked_sub(lengths.len())) else {
        return Err(format!("fft_length has {} entries for {} dimensions", lengths.len(), operand.rank()));
    };
    if lengths.len() > 3 {
        return Err(format!("fft_length has {} entries, but at most three dimensions are transformed", lengths.len()));
    }
    let kind = request.instruction.word(&AttrKey::FftType);
    let half = if length == 0 { 0 } else { length / 2 + 1 };
    let (element_type, before, after) = match (kind, operand.element_type) {
        (Some("FFT" | "IFFT"), complex) if complex.is_complex() => return request.operand(0).cloned(),
        (Some("RFFT"), ElementType::F32) => (ElementType::C64, length, half),
        (Some("RFFT"), ElementType::F64) => (ElementType::C128, length, half),
        (Some("IRFFT"), ElementType::C64) => (ElementType::F32, half, length),
        (Some("IRFFT"), ElementType::C128) => (ElementType::F64, half, length),
        (kind, other) => return Err(format!("{} does not transform {}", kind.unwrap_or("?"), other.name())),
    };
    let wanted = lengths[..lengths.len() - 1].iter().chain(std::iter::once(&before));
    if !wanted.zip(&operand.dims[outer..]).all(|(&wanted, &size)| same_size(wanted, size)) {
        return Err(format!("the operand {operand} does not have the sizes of fft_length"));
    }
    let mut dims = operand.dims.clone();
    dims[operand.rank() - 1] = after;
    Ok(array(element_type, dims))
}
