//! The instruction that computes a block of another one's result: smaller shape, smaller size attributes, everything else copied.

// Tests: `passes/tests/flow.rs`.

use std::sync::Arc;

use hlo_ir::shape::ShapeRef;
use hlo_ir::{AttrKey, AttrValue, Instruction, InstructionId, Opcode, Shape};

use super::first_array;
use super::indexed::slice_sizes_key;

/// `shape` with `rows` rows in dimension `dim`; in every element if it is a tuple.
pub fn block_shape(shape: &Shape, dim: usize, rows: i64) -> ShapeRef {
    match shape {
        Shape::Array(array) => Arc::new(Shape::Array(array.with_dim(dim, rows))),
        Shape::Tuple(elements) => Shape::tuple(elements.iter().map(|element| block_shape(element, dim, rows))),
        other => Arc::new(other.clone()),
    }
}

/// The form of `inst` that computes `rows` rows of dimension `dim` from `operands`, which hold what [`super::pull`] asks for. Attributes
/// and metadata are copied; those that state the size of the dimension shrink with it.
pub fn restrict(inst: &Instruction, dim: usize, rows: i64, operands: Vec<InstructionId>) -> Instruction {
    let mut block = inst.clone();
    block.name = format!("{}.block", inst.name).into();
    block.shape = block_shape(&inst.shape, dim, rows);
    block.operands = operands.into();
    block.span = None;
    let extent = first_array(&inst.shape).map_or(rows, |array| array.dims[dim]);
    match inst.opcode {
        Opcode::Slice => shrink_slice(&mut block, dim, rows),
        Opcode::DynamicSlice => shrink_sizes(&mut block, dim, rows),
        Opcode::Gather => {
            if let Some(operand_dim) = gathered_dim(inst, dim) {
                shrink_sizes(&mut block, operand_dim, rows);
            }
        }
        Opcode::Convolution => shrink_groups(&mut block, dim, rows, extent),
        _ => {}
    }
    block
}

/// The operand's block begins at the first row taken and ends with the last whole stride.
fn shrink_slice(block: &mut Instruction, dim: usize, rows: i64) {
    if let Some(AttrValue::Slice(bounds)) = block.attribute(&AttrKey::Slice) {
        let mut bounds = bounds.clone();
        bounds[dim].start = 0;
        bounds[dim].limit = rows * bounds[dim].stride;
        block.set_attribute(AttrKey::Slice, AttrValue::Slice(bounds));
    }
}

fn shrink_sizes(block: &mut Instruction, dim: usize, rows: i64) {
    if let Some(key) = slice_sizes_key(block) {
        let mut sizes: hlo_ir::shape::Dims = block.ints(&key).into();
        sizes[dim] = rows;
        block.set_attribute(key, AttrValue::ints(sizes));
    }
}

/// The operand dimension behind an offset or batching dimension of a gather's result whose slice size must follow; `None` for a batch
/// dimension, and for a batching dimension, whose slice size is 1.
fn gathered_dim(inst: &Instruction, dim: usize) -> Option<usize> {
    let dims = hlo_ir::GatherDims::of(inst)?;
    let window = dims.offset_dims.iter().position(|&offset| offset == dim as i64)?;
    let gone = |dim: &i64| dims.collapsed_slice_dims.contains(dim) || dims.operand_batching_dims.contains(dim);
    let kept = (0..dims.slice_sizes.len() as i64).filter(|dim| !gone(dim)).nth(window)?;
    Some(kept as usize)
}

/// A block of the output features of a grouped convolution has as many fewer groups.
fn shrink_groups(block: &mut Instruction, dim: usize, rows: i64, extent: i64) {
    let output = block.raw(&AttrKey::DimLabels).and_then(|labels| labels.split_once("->"));
    let is_feature = output.is_some_and(|(_, output)| output.as_bytes().get(dim) == Some(&b'f'));
    let groups = block.int(&AttrKey::FeatureGroupCount).unwrap_or(1);
    if is_feature && groups > 1 {
        block.set_attribute(AttrKey::FeatureGroupCount, AttrValue::Int(groups * rows / extent));
    }
}
