//! Reads and writes at computed places.

use hlo_ir::{AttrKey, GatherDims, Instruction, Module, ScatterDims};

use super::tensor::{Tensor, indices};

fn has(dims: &[i64], dim: usize) -> bool {
    dims.contains(&(dim as i64))
}

/// `places[k]`-th components of `values` go to dimension `dims[k]`.
fn spread(rank: usize, dims: &[i64], values: &[i64]) -> Vec<i64> {
    let mut spread = vec![0; rank];
    dims.iter().zip(values).for_each(|(&dim, &value)| spread[dim as usize] = value);
    spread
}

/// The index vector that belongs to a batch index, in the dimensions of the operand, and the batching coordinates.
fn start(array: &Tensor, batch: &[i64], vector_dim: i64, map: &[i64], rank: usize) -> Vec<i64> {
    let component = |k: usize| {
        let mut at = batch.to_vec();
        if (vector_dim as usize) < array.shape.rank() {
            at.insert(vector_dim as usize, k as i64);
        }
        array.at(&at)
    };
    spread(rank, map, &(0..map.len()).map(component).collect::<Vec<_>>())
}

/// Position of an index dimension among the batch dimensions.
fn batch_position(index_dim: i64, vector_dim: i64) -> usize {
    (if index_dim > vector_dim { index_dim - 1 } else { index_dim }) as usize
}

pub(super) fn gather(inst: &Instruction, arrays: &[&Tensor]) -> Tensor {
    let dims = GatherDims::of(inst).expect("this is a gather");
    let (operand, index_array) = (arrays[0], arrays[1]);
    let rank = operand.shape.rank();
    let gone = |dim: usize| has(dims.collapsed_slice_dims, dim) || has(dims.operand_batching_dims, dim);
    let window_dims: Vec<i64> = (0..rank).filter(|&dim| !gone(dim)).map(|dim| dim as i64).collect();
    Tensor::build(inst.array().expect("a gather is an array"), |index| {
        let (window, batch): (Vec<_>, Vec<_>) =
            index.iter().enumerate().partition(|(dim, _)| has(dims.offset_dims, *dim));
        let [window, batch] = [window, batch].map(|part| part.into_iter().map(|(_, &at)| at).collect::<Vec<i64>>());
        let mut at = start(index_array, &batch, dims.index_vector_dim, dims.start_index_map, rank);
        for (at, (extent, size)) in at.iter_mut().zip(operand.shape.dims.iter().zip(dims.slice_sizes)) {
            *at = (*at).max(0).min(extent - size);
        }
        for (&dim, &index_dim) in dims.operand_batching_dims.iter().zip(dims.start_indices_batching_dims) {
            at[dim as usize] = batch[batch_position(index_dim, dims.index_vector_dim)];
        }
        let window = spread(rank, &window_dims, &window);
        operand.at(&at.iter().zip(window).map(|(at, offset)| at + offset).collect::<Vec<_>>())
    })
}

/// Updates in row-major order of the row dimensions, then of the window; updates out of bounds are skipped.
pub(super) fn scatter(module: &Module, inst: &Instruction, arrays: &[&Tensor]) -> Vec<Tensor> {
    let dims = ScatterDims::of(inst).expect("this is a scatter");
    let inputs = ScatterDims::input_count(arrays.len());
    let (index_array, updates) = (arrays[inputs], &arrays[inputs + 1..]);
    let mut results: Vec<Tensor> = arrays[..inputs].iter().map(|&array| array.clone()).collect();
    let rank = results[0].shape.rank();
    let gone = |dim: usize| has(dims.inserted_window_dims, dim) || has(dims.input_batching_dims, dim);
    let window_dims: Vec<i64> = (0..rank).filter(|&dim| !gone(dim)).map(|dim| dim as i64).collect();
    let update_rank = updates[0].shape.rank();
    let order: Vec<usize> = (0..update_rank)
        .filter(|&dim| !has(dims.update_window_dims, dim))
        .chain(dims.update_window_dims.iter().map(|&dim| dim as usize))
        .collect();
    let sizes: Vec<i64> = order.iter().map(|&dim| updates[0].shape.dims[dim]).collect();
    let batch_rank = update_rank - dims.update_window_dims.len();
    for ordered in indices(&sizes) {
        let (batch, window) = ordered.split_at(batch_rank);
        let mut at = start(index_array, batch, dims.index_vector_dim, dims.scatter_dims_to_operand_dims, rank);
        for (&dim, &index_dim) in dims.input_batching_dims.iter().zip(dims.scatter_indices_batching_dims) {
            at[dim as usize] = batch[batch_position(index_dim, dims.index_vector_dim)];
        }
        let offsets = spread(rank, &window_dims, window);
        let last: Vec<i64> = window_dims.iter().enumerate().map(|(k, _)| sizes[batch_rank + k] - 1).collect();
        let last = spread(rank, &window_dims, &last);
        let corner = |offsets: &[i64]| at.iter().zip(offsets).map(|(at, offset)| at + offset).collect::<Vec<_>>();
        let inside = results[0].place(&at).is_some() && results[0].place(&corner(&last)).is_some();
        if !inside {
            continue;
        }
        let mut from = vec![0; update_rank];
        order.iter().zip(&ordered).for_each(|(&dim, &value)| from[dim] = value);
        let place = results[0].place(&corner(&offsets)).expect("the whole window is inside");
        let old = results.iter().map(|result| result.data[place]);
        let arguments: Vec<i64> = old.chain(updates.iter().map(|update| update.at(&from))).collect();
        let new = super::scalar(module, inst, &AttrKey::ToApply, &arguments);
        results.iter_mut().zip(new).for_each(|(result, value)| result.data[place] = value);
    }
    results
}

/// Start indices, moved so that the slice fits.
fn clamped(starts: &[&Tensor], operand: &Tensor, sizes: &[i64]) -> Vec<i64> {
    let fit = |((start, size), extent): ((&&Tensor, &i64), &i64)| start.data[0].max(0).min(extent - size);
    starts.iter().zip(sizes).zip(&operand.shape.dims).map(fit).collect()
}

pub(super) fn dynamic_slice(inst: &Instruction, arrays: &[&Tensor]) -> Tensor {
    let shape = inst.array().expect("a dynamic-slice is an array");
    assert_eq!(inst.ints(&AttrKey::DynamicSliceSizes), shape.dims.as_slice(), "sizes and shape of {}", inst.name);
    let starts = clamped(&arrays[1..], arrays[0], &shape.dims);
    Tensor::build(shape, |index| {
        let from: Vec<i64> = index.iter().zip(&starts).map(|(at, start)| at + start).collect();
        arrays[0].at(&from)
    })
}

pub(super) fn dynamic_update_slice(arrays: &[&Tensor]) -> Tensor {
    let starts = clamped(&arrays[2..], arrays[0], &arrays[1].shape.dims);
    Tensor::build(&arrays[0].shape, |index| {
        let inside: Vec<i64> = index.iter().zip(&starts).map(|(at, start)| at - start).collect();
        arrays[1].place(&inside).map_or_else(|| arrays[0].at(index), |place| arrays[1].data[place])
    })
}
