//! Dots and Fourier transforms.

use smallvec::SmallVec;

use super::{Inferred, Request, array, distinct, same_size};
use crate::shape::Dims;
use crate::{ArrayShape, AttrKey, DotDims, ElementType};

/// Batch dimensions, then what is free on the left, then what is free on the right. The element type is the left side's, but a
/// written shape may have another one.
pub(super) fn dot(request: &Request<'_>) -> Inferred {
    let dims = DotDims::of(request.instruction).ok_or("this is no dot")?;
    let (lhs, rhs) = (request.array(0)?, request.array(1)?);
    let lhs_used = Used::new("lhs", lhs, dims.lhs_batch, dims.lhs_contracting)?;
    let rhs_used = Used::new("rhs", rhs, dims.rhs_batch, dims.rhs_contracting)?;
    check_pairs("batch", lhs, &lhs_used.batch, rhs, &rhs_used.batch)?;
    check_pairs("contracting", lhs, &lhs_used.contracting, rhs, &rhs_used.contracting)?;
    let batch = lhs_used.batch.iter().map(|&dim| lhs.dims[dim]);
    let sizes: Dims = batch.chain(lhs_used.free(lhs)).chain(rhs_used.free(rhs)).collect();
    Ok(array(lhs.element_type, sizes))
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

pub(super) fn fft(request: &Request<'_>) -> Inferred {
    let operand = request.array(0)?;
    let lengths = request.ints(&AttrKey::FftLength);
    let (Some(&length), Some(last)) = (lengths.last(), operand.rank().checked_sub(1)) else {
        return Err("fft_length and operand need at least one dimension".into());
    };
    let (element_type, size) = match (request.instruction.word(&AttrKey::FftType), operand.element_type) {
        (Some("FFT" | "IFFT"), _) => return request.operand(0).cloned(),
        (Some("RFFT"), ElementType::F32) => (ElementType::C64, length / 2 + 1),
        (Some("RFFT"), ElementType::F64) => (ElementType::C128, length / 2 + 1),
        (Some("IRFFT"), ElementType::C64) => (ElementType::F32, length),
        (Some("IRFFT"), ElementType::C128) => (ElementType::F64, length),
        (kind, other) => return Err(format!("{} does not transform {}", kind.unwrap_or("?"), other.name())),
    };
    let mut dims = operand.dims.clone();
    // A transform of no elements gives none.
    dims[last] = if length == 0 { 0 } else { size };
    Ok(array(element_type, dims))
}
