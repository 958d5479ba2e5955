//! Dimension numbers of gather, scatter and dot, read from their attributes.

use crate::{AttrKey, Instruction, Opcode};

/// Dimension numbers of a `gather`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct GatherDims<'a> {
    /// Result dimensions that come from the slice.
    pub offset_dims: &'a [i64],
    /// Operand dimensions of slice size 1 that the result lacks.
    pub collapsed_slice_dims: &'a [i64],
    /// Operand dimension of each index component.
    pub start_index_map: &'a [i64],
    /// Operand dimensions that are batched.
    pub operand_batching_dims: &'a [i64],
    /// The index dimensions they are batched with.
    pub start_indices_batching_dims: &'a [i64],
    /// Index dimension that holds the components; the rank of the indices if implicit.
    pub index_vector_dim: i64,
    /// Size of the slice in each operand dimension.
    pub slice_sizes: &'a [i64],
}

impl<'a> GatherDims<'a> {
    /// The dimension numbers of `inst`, if it is a gather.
    pub fn of(inst: &'a Instruction) -> Option<Self> {
        (inst.opcode == Opcode::Gather).then(|| Self {
            offset_dims: inst.ints(&AttrKey::OffsetDims),
            collapsed_slice_dims: inst.ints(&AttrKey::CollapsedSliceDims),
            start_index_map: inst.ints(&AttrKey::StartIndexMap),
            operand_batching_dims: inst.ints(&AttrKey::OperandBatchingDims),
            start_indices_batching_dims: inst.ints(&AttrKey::StartIndicesBatchingDims),
            index_vector_dim: inst.int(&AttrKey::IndexVectorDim).unwrap_or(0),
            slice_sizes: inst.ints(&AttrKey::SliceSizes),
        })
    }
}

/// Dimension numbers of a `scatter` of `n` operands: operands `0..n` are updated, operand `n` holds the indices, the rest the updates.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ScatterDims<'a> {
    /// Update dimensions that are window dimensions.
    pub update_window_dims: &'a [i64],
    /// Operand dimensions of window size 1 that the updates lack.
    pub inserted_window_dims: &'a [i64],
    /// Operand dimension of each index component.
    pub scatter_dims_to_operand_dims: &'a [i64],
    /// Operand dimensions that are batched.
    pub input_batching_dims: &'a [i64],
    /// The index dimensions they are batched with.
    pub scatter_indices_batching_dims: &'a [i64],
    /// Index dimension that holds the components; the rank of the indices if implicit.
    pub index_vector_dim: i64,
}

impl<'a> ScatterDims<'a> {
    /// The dimension numbers of `inst`, if it is a scatter.
    pub fn of(inst: &'a Instruction) -> Option<Self> {
        (inst.opcode == Opcode::Scatter).then(|| Self {
            update_window_dims: inst.ints(&AttrKey::UpdateWindowDims),
            inserted_window_dims: inst.ints(&AttrKey::InsertedWindowDims),
            scatter_dims_to_operand_dims: inst.ints(&AttrKey::ScatterDimsToOperandDims),
            input_batching_dims: inst.ints(&AttrKey::InputBatchingDims),
            scatter_indices_batching_dims: inst.ints(&AttrKey::ScatterIndicesBatchingDims),
            index_vector_dim: inst.int(&AttrKey::IndexVectorDim).unwrap_or(0),
        })
    }
    /// Number of updated operands of a scatter with `operand_count` operands in all.
    pub const fn input_count(operand_count: usize) -> usize {
        operand_count / 2
    }
}

/// Dimension numbers of a `dot`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct DotDims<'a> {
    /// Batch dimensions of the left side, in result order.
    pub lhs_batch: &'a [i64],
    /// Contracted dimensions of the left side.
    pub lhs_contracting: &'a [i64],
    /// Batch dimensions of the right side, in result order.
    pub rhs_batch: &'a [i64],
    /// Contracted dimensions of the right side.
    pub rhs_contracting: &'a [i64],
}

impl<'a> DotDims<'a> {
    /// The dimension numbers of `inst`, if it is a dot.
    pub fn of(inst: &'a Instruction) -> Option<Self> {
        (inst.opcode == Opcode::Dot).then(|| Self {
            lhs_batch: inst.ints(&AttrKey::LhsBatchDims),
            lhs_contracting: inst.ints(&AttrKey::LhsContractingDims),
            rhs_batch: inst.ints(&AttrKey::RhsBatchDims),
            rhs_contracting: inst.ints(&AttrKey::RhsContractingDims),
        })
    }
}

/// Dimension numbers of a `convolution`, read from `dim_labels` such as `b01f_01io->b01f`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ConvDims {
    /// Batch dimension of the input.
    pub input_batch: usize,
    /// Feature dimension of the input.
    pub input_feature: usize,
    /// Spatial dimensions of the input, in window order.
    pub input_spatial: Vec<usize>,
    /// Input-feature dimension of the kernel.
    pub kernel_input: usize,
    /// Output-feature dimension of the kernel.
    pub kernel_output: usize,
    /// Spatial dimensions of the kernel, in window order.
    pub kernel_spatial: Vec<usize>,
    /// Batch dimension of the result.
    pub output_batch: usize,
    /// Feature dimension of the result.
    pub output_feature: usize,
    /// Spatial dimensions of the result, in window order.
    pub output_spatial: Vec<usize>,
}

impl ConvDims {
    /// The dimension numbers of `inst`, if it is a convolution with readable labels.
    pub fn of(inst: &Instruction) -> Option<Self> {
        if inst.opcode == Opcode::Convolution { Self::of_labels(inst.raw(&AttrKey::DimLabels)?) } else { None }
    }
    /// Those that labels name, such as `b01f_01io->b01f`; calls of libraries that XLA makes of convolutions keep theirs.
    pub fn of_labels(labels: &str) -> Option<Self> {
        let (operands, result) = labels.split_once("->")?;
        let (input, kernel) = operands.split_once('_')?;
        Some(Self {
            input_batch: input.find('b')?,
            input_feature: input.find('f')?,
            input_spatial: spatial(input)?,
            kernel_input: kernel.find('i')?,
            kernel_output: kernel.find('o')?,
            kernel_spatial: spatial(kernel)?,
            output_batch: result.find('b')?,
            output_feature: result.find('f')?,
            output_spatial: spatial(result)?,
        })
    }
}

/// Where the digits `0`, `1`, ... stand.
fn spatial(labels: &str) -> Option<Vec<usize>> {
    let count = labels.bytes().filter(u8::is_ascii_digit).count();
    (0..count).map(|digit| labels.find(char::from_digit(digit as u32, 10)?)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{AttrValue, Attribute, ElementType, Shape};

    #[test]
    fn convolution_labels_name_dimensions_by_position() {
        let shape = Shape::array(ElementType::F32, [1, 1, 1, 1]);
        let inst = Instruction::new("c", shape, Opcode::Convolution, [])
            .with(Attribute::new(AttrKey::DimLabels, AttrValue::Raw("bf10_oi01->b0f1".into())));
        let dims = ConvDims::of(&inst).unwrap();
        assert_eq!((dims.input_batch, dims.input_feature, dims.input_spatial), (0, 1, vec![3, 2]));
        assert_eq!((dims.kernel_output, dims.kernel_input, dims.kernel_spatial), (0, 1, vec![2, 3]));
        assert_eq!((dims.output_batch, dims.output_feature, dims.output_spatial), (0, 2, vec![1, 3]));
    }
}
