//! Rules for contractions, sorts and batched linear algebra. Their cases: `passes/tests/flow_cases/heavy.rs`.

// Tests: `passes/tests/flow.rs`.

use hlo_ir::{AttrKey, ConvDims, DotDims, ElementType, Instruction};

use super::rows::{Step, gcd};
use super::windowed::{is_single, window_of};
use super::{Flows, OperandFlow, Query};

/// The dimensions of both sides along which a product is summed up, except those that the window of a convolution moves over.
pub(crate) fn contracted(product: &Instruction) -> Option<Vec<(usize, usize)>> {
    if let Some(dims) = ConvDims::of(product) {
        // Groups of the batch divide what is not summed up.
        let groups = product.int(&AttrKey::FeatureGroupCount).unwrap_or(1);
        // What a convolution of truth values adds up is not said.
        let adds = product.array()?.element_type != ElementType::Pred;
        return (adds && groups == 1).then(|| vec![(dims.input_feature, dims.kernel_input)]);
    }
    let dims = DotDims::of(product)?;
    let (lhs, rhs) = (dims.lhs_contracting.iter(), dims.rhs_contracting.iter());
    Some(lhs.zip(rhs).map(|(&lhs, &rhs)| (lhs as usize, rhs as usize)).collect())
}

/// In a batch dimension the same rows of both sides; in a free dimension the same rows of its side, and the other side as a whole.
///
/// The result has batch dimensions first, then free ones of the left side, then those of the right side.
pub(super) fn dot(q: &Query<'_>) -> Flows {
    let dims = DotDims::of(q.inst).ok_or_else(|| q.malformed())?;
    if q.inst.operands.len() != 2 {
        return q.barrier("opaque", "has operands beyond its two sides");
    }
    let batch = dims.lhs_batch.len();
    if let (Some(&lhs), Some(&rhs)) = (dims.lhs_batch.get(q.dim), dims.rhs_batch.get(q.dim)) {
        return Ok(vec![OperandFlow::same(lhs as usize), OperandFlow::same(rhs as usize)]);
    }
    let free = |rank: usize, batch: &[i64], contracting: &[i64]| -> Vec<usize> {
        let taken = |dim: &usize| batch.contains(&(*dim as i64)) || contracting.contains(&(*dim as i64));
        (0..rank).filter(|dim| !taken(dim)).collect()
    };
    let lhs = free(q.operand(0)?.rank(), dims.lhs_batch, dims.lhs_contracting);
    let rhs = free(q.operand(1)?.rank(), dims.rhs_batch, dims.rhs_contracting);
    let position = q.dim - batch;
    match (lhs.get(position), position.checked_sub(lhs.len()).and_then(|position| rhs.get(position))) {
        (Some(&dim), _) => Ok(vec![OperandFlow::same(dim), OperandFlow::Whole]),
        (None, Some(&dim)) => Ok(vec![OperandFlow::Whole, OperandFlow::same(dim)]),
        _ => Err(q.malformed()),
    }
}

/// `dim_labels` such as `b01f_01io->b01f`, split into its three parts.
fn labels<'a>(q: &Query<'a>) -> Option<(&'a str, &'a str, &'a str)> {
    let (inputs, output) = q.inst.raw(&AttrKey::DimLabels)?.split_once("->")?;
    let (lhs, rhs) = inputs.split_once('_')?;
    Some((lhs, rhs, output))
}

/// Of images the same ones, of positions without windows the same ones, and the kernel as a whole; of output features the same ones of the kernel, and the images as a whole or,
/// where features have groups, the groups of the block.
pub(super) fn convolution(q: &Query<'_>) -> Flows {
    let (lhs, rhs, output) = labels(q).ok_or_else(|| q.malformed())?;
    let find = |labels: &str, label| labels.find(label).ok_or_else(|| q.malformed());
    let groups = q.inst.int(&AttrKey::FeatureGroupCount).unwrap_or(1);
    let batch_groups = q.inst.int(&AttrKey::BatchGroupCount).unwrap_or(1);
    match output.as_bytes().get(q.dim) {
        Some(b'b') if batch_groups == 1 => Ok(q.first(1, OperandFlow::same(find(lhs, 'b')?))),
        Some(b'f') if batch_groups == 1 && groups == 1 => {
            Ok(vec![OperandFlow::Whole, OperandFlow::same(find(rhs, 'o')?)])
        }
        Some(b'f') if batch_groups == 1 => grouped_features(q, groups, find(lhs, 'f')?, find(rhs, 'o')?),
        Some(label @ b'0'..=b'9') => {
            let window = window_of(q, usize::from(label - b'0')).ok_or_else(|| q.malformed())?;
            if !is_single(&window) {
                return q.barrier("window", "has windows that reach over the end of a block");
            }
            Ok(q.first(1, OperandFlow::same(find(lhs, char::from(*label))?)))
        }
        _ => q.barrier("grouped", "sums over groups of this dimension"),
    }
}

/// A block of output features is computed by the groups it covers; it must cover whole groups.
fn grouped_features(q: &Query<'_>, groups: i64, feature: usize, kernel: usize) -> Flows {
    let (inputs, outputs) = (q.operand(0)?.dims[feature] / groups, q.extent() / groups);
    // Only then does the step's granule, which is in lowest terms, say that blocks are whole groups.
    if gcd(inputs, outputs) != 1 {
        return q.barrier("grouped", "has groups that a block could cut");
    }
    let lhs = OperandFlow::Block { dim: feature, step: Step::scale(inputs, outputs) };
    Ok(vec![lhs, OperandFlow::same(kernel)])
}

/// Whether `dim` is one of the last `count` of the result, which these operations mix.
fn is_minor(q: &Query<'_>, count: usize) -> bool {
    q.dim + count >= q.result.rank()
}

/// The same rows of every operand, if they are sorted along another dimension.
pub(super) fn sort(q: &Query<'_>) -> Flows {
    if q.inst.ints(&AttrKey::Dimensions) == [q.dim as i64] {
        return q.barrier("sorted", "sorts along this dimension");
    }
    Ok(q.all())
}

/// The same rows, but not of the last dimension, along which it selects.
pub(super) fn top_k(q: &Query<'_>) -> Flows {
    if is_minor(q, 1) { q.barrier("sorted", "selects along this dimension") } else { Ok(q.all()) }
}

/// The same rows, but not of the last dimensions, which are transformed.
pub(super) fn fft(q: &Query<'_>) -> Flows {
    let transformed = q.inst.ints(&AttrKey::FftLength).len();
    if is_minor(q, transformed) { q.barrier("transformed", "transforms this dimension") } else { Ok(q.all()) }
}

/// The same matrices; their rows and columns cannot be cut.
pub(super) fn cholesky(q: &Query<'_>) -> Flows {
    if is_minor(q, 2) { q.barrier("factorised", "factorises this dimension") } else { Ok(q.all()) }
}

/// The same batches of both operands; of the right-hand sides, which are solved one by one, the same ones, and the matrix as a whole.
pub(super) fn triangular_solve(q: &Query<'_>) -> Flows {
    let rank = q.result.rank();
    let sides = if q.inst.flag(&AttrKey::LeftSide) { rank - 1 } else { rank - 2 };
    match q.dim {
        dim if dim + 2 < rank => Ok(q.all()),
        dim if dim == sides => Ok(vec![OperandFlow::Whole, OperandFlow::same(dim)]),
        _ => q.barrier("factorised", "solves along this dimension"),
    }
}
