//! Rules for reads and writes at computed places. Their cases: `passes/tests/flow_cases/data.rs`, `passes/tests/flow_cases/heavy.rs`.

// Tests: `passes/tests/chunk_batches.rs`, `passes/tests/flow.rs`.

use hlo_ir::{ArrayShape, AttrKey, GatherDims, ScatterDims};

use super::{Barrier, Flows, OperandFlow, Query};

/// The same rows of a dimension of which all is taken; the places as a whole.
pub(super) fn dynamic_slice(q: &Query<'_>) -> Flows {
    // A slice as large as its operand always starts at 0, whatever the index says.
    if q.operand(0)?.dims.get(q.dim) != Some(&q.extent()) {
        return q.barrier("moving-slice", "takes a part of this dimension at a computed place");
    }
    Ok(q.first(1, OperandFlow::same(q.dim)))
}

/// The same rows of the array and of the update, if the update is as long as the array in this dimension: its index is clamped, so it starts at 0. Else rows are written at a
/// computed place, and the value stays in memory. The places as a whole.
pub(super) fn dynamic_update_slice(q: &Query<'_>) -> Flows {
    if q.operand(1)?.dims.get(q.dim) != Some(&q.extent()) {
        return q.barrier("moving-slice", "writes a part of this dimension at a computed place");
    }
    Ok(q.first(2, OperandFlow::same(q.dim)))
}

/// In a batch dimension the same rows of the indices, and the operand as a whole or the same batches of it; in an offset dimension the same rows of the operand, if all of
/// them are taken, and the indices as a whole.
pub(super) fn gather(q: &Query<'_>) -> Flows {
    let dims = GatherDims::of(q.inst).ok_or_else(|| q.malformed())?;
    let at = q.dim as i64;
    if let Some(window) = dims.offset_dims.iter().position(|&dim| dim == at) {
        return gather_offset(q, &dims, window);
    }
    let batch = (0..at).filter(|dim| !dims.offset_dims.contains(dim)).count();
    let rank = q.operand(1)?.rank() as i64;
    let Some(index_dim) = (0..rank).filter(|&dim| dim != dims.index_vector_dim).nth(batch) else {
        return Err(q.malformed());
    };
    let paired = dims.start_indices_batching_dims.iter().position(|&dim| dim == index_dim);
    let operand = match paired {
        Some(pair) => {
            can_cut_batches(q, 1)?;
            let dim = dims.operand_batching_dims.get(pair).ok_or_else(|| q.malformed())?;
            OperandFlow::same(*dim as usize)
        }
        None => OperandFlow::Whole,
    };
    Ok(vec![operand, OperandFlow::same(index_dim as usize)])
}

/// Whether the type of indices can count so many batches. XLA:CPU numbers batches in that type (`BatchedGatherScatterNormalizer` of
/// xla/service/batched_gather_scatter_normalizer.cc), and so finds other ones than HLO says where it is too narrow: those from 128 on with `s8` (random
/// seed 15,005,537). Blocks would find the right ones.
pub(crate) fn counts_batches(indices: &ArrayShape, batches: i64) -> bool {
    let bits = indices.element_type.bits() - u32::from(!indices.element_type.is_unsigned());
    bits >= 63 || batches <= 1 << bits
}

fn can_cut_batches(q: &Query<'_>, indices: usize) -> Result<(), Barrier> {
    if counts_batches(q.operand(indices)?, q.extent()) {
        return Ok(());
    }
    q.barrier("narrow-batch", "has more batches than its indices can count")
}

fn gather_offset(q: &Query<'_>, dims: &GatherDims<'_>, window: usize) -> Flows {
    let operand = q.operand(0)?;
    let gone = |dim: &i64| dims.collapsed_slice_dims.contains(dim) || dims.operand_batching_dims.contains(dim);
    let Some(dim) = (0..operand.rank() as i64).filter(|dim| !gone(dim)).nth(window) else {
        return Err(q.malformed());
    };
    let whole = dims.slice_sizes.get(dim as usize) == operand.dims.get(dim as usize);
    if !whole || dims.start_index_map.contains(&dim) {
        return q.barrier("moving-slice", "takes a part of this dimension at a computed place");
    }
    Ok(vec![OperandFlow::same(dim as usize), OperandFlow::Whole])
}

/// The update dimension of each index dimension except the index vector; empty if the ranks do not match.
pub(crate) fn update_scatter_dims(dims: &ScatterDims<'_>, update_rank: usize) -> Vec<usize> {
    (0..update_rank).filter(|&dim| !dims.update_window_dims.contains(&(dim as i64))).collect()
}

/// In a batching dimension the same rows of arrays, indices and updates; in a window dimension that every update covers, the same rows of arrays and updates, and the
/// indices as a whole.
///
/// Here a scatter is a producer, not where a loop ends.
pub(super) fn scatter(q: &Query<'_>) -> Flows {
    let dims = ScatterDims::of(q.inst).ok_or_else(|| q.malformed())?;
    let at = q.dim as i64;
    let inputs = ScatterDims::input_count(q.inst.operands.len());
    let updates = q.operand(inputs + 1)?;
    let (index, update) = if let Some(pair) = dims.input_batching_dims.iter().position(|&dim| dim == at) {
        can_cut_batches(q, inputs)?;
        let index_dim = *dims.scatter_indices_batching_dims.get(pair).ok_or_else(|| q.malformed())?;
        let position = (0..index_dim).filter(|&dim| dim != dims.index_vector_dim).count();
        (OperandFlow::same(index_dim as usize), update_scatter_dims(&dims, updates.rank()).get(position).copied())
    } else {
        let gone = |dim: &i64| dims.inserted_window_dims.contains(dim) || dims.input_batching_dims.contains(dim);
        let window = (0..at).filter(|dim| !gone(dim)).count();
        let update = dims.update_window_dims.get(window).map(|&dim| dim as usize);
        let covered = update.and_then(|dim| updates.dims.get(dim)) == Some(&q.extent());
        if gone(&at) || dims.scatter_dims_to_operand_dims.contains(&at) || !covered {
            return q.barrier("scattered", "writes to computed places of this dimension");
        }
        (OperandFlow::Whole, update)
    };
    let update = OperandFlow::same(update.ok_or_else(|| q.malformed())?);
    let flow = |operand: usize| match operand.cmp(&inputs) {
        std::cmp::Ordering::Less => OperandFlow::same(q.dim),
        std::cmp::Ordering::Equal => index,
        std::cmp::Ordering::Greater => update,
    };
    Ok((0..q.inst.operands.len()).map(flow).collect())
}

/// Sizes of the slices a `dynamic-slice` or `gather` takes.
pub(super) fn slice_sizes_key(inst: &hlo_ir::Instruction) -> Option<AttrKey> {
    match inst.opcode {
        hlo_ir::Opcode::DynamicSlice => Some(AttrKey::DynamicSliceSizes),
        hlo_ir::Opcode::Gather => Some(AttrKey::SliceSizes),
        _ => None,
    }
}
