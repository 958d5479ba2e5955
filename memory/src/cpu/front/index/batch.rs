//! Batch dimensions of gathers and scatters become leading index columns of iotas: the indices are stored once more.

use hlo_ir::shape::Dims;
use hlo_ir::{AttrKey, AttrValue, ElementType, Opcode, ScatterDims};

use super::super::build::{row_major, share};
use super::super::cx::{Cx, Id};
use super::super::visit::each_if_any;

/// Rewrites every batched gather and scatter; returns whether there was one.
pub(crate) fn run(cx: &mut Cx<'_>) -> bool {
    let lists = |key: AttrKey| move |cx: &Cx<'_>, id: Id| !cx.inst(id).ints(&key).is_empty();
    let gathers = each_if_any(cx, Opcode::Gather, lists(AttrKey::OperandBatchingDims), gather);
    each_if_any(cx, Opcode::Scatter, lists(AttrKey::InputBatchingDims), scatter) || gathers
}

fn gather(cx: &mut Cx<'_>, id: Id) -> Option<Id> {
    let keys = [AttrKey::OperandBatchingDims, AttrKey::StartIndicesBatchingDims];
    rewrite(cx, id, 1, &keys, AttrKey::StartIndexMap, AttrKey::CollapsedSliceDims)
}

fn scatter(cx: &mut Cx<'_>, id: Id) -> Option<Id> {
    let keys = [AttrKey::InputBatchingDims, AttrKey::ScatterIndicesBatchingDims];
    let indices = ScatterDims::input_count(cx.operands(id).len());
    rewrite(cx, id, indices, &keys, AttrKey::ScatterDimsToOperandDims, AttrKey::InsertedWindowDims)
}

/// `indices` is the operand number of the indices, `map` the attribute that says which operand dimension each component indexes, `gone`
/// the one that lists operand dimensions the windows lack.
fn rewrite(cx: &mut Cx<'_>, id: Id, indices: usize, batch: &[AttrKey; 2], map: AttrKey, gone: AttrKey) -> Option<Id> {
    let operand_dims: Dims = cx.inst(id).ints(&batch[0]).into();
    let index_dims: Dims = cx.inst(id).ints(&batch[1]).into();
    if operand_dims.is_empty() {
        return None;
    }
    let mut new_map = operand_dims.clone();
    new_map.extend(cx.inst(id).ints(&map).iter().copied());
    let mut new_gone: Dims = cx.inst(id).ints(&gone).into();
    new_gone.extend(operand_dims);
    new_gone.sort_unstable();
    let vector_dim = cx.inst(id).int(&AttrKey::IndexVectorDim).unwrap_or(0);
    let old = cx.operand(id, indices);
    let wide = with_columns(cx, id, old, vector_dim, &index_dims);
    let mut operands = cx.operands(id).to_vec();
    operands[indices] = wide;
    let shape = cx.shape(id).clone();
    let sorted = cx.inst(id).flag(&AttrKey::IndicesAreSorted) && index_dims.is_sorted() && new_map.is_sorted();
    let new = cx.like(id, shape, &operands);
    for key in batch {
        cx.drop_attribute(new, key);
    }
    cx.set_attribute(new, map, AttrValue::ints(new_map));
    cx.set_attribute(new, gone, AttrValue::ints(new_gone));
    if !sorted {
        cx.drop_attribute(new, &AttrKey::IndicesAreSorted);
    }
    Some(new)
}

/// The narrowest of the type itself, s32 and s64 that holds `size`.
fn type_for(element_type: ElementType, size: i64) -> ElementType {
    let holds = |t: ElementType| t.integer_range().is_none_or(|(_, most)| i128::from(size) <= most);
    if holds(element_type) {
        element_type
    } else if holds(ElementType::S32) {
        ElementType::S32
    } else {
        ElementType::S64
    }
}

/// The indices with one column per batch dimension in front.
fn with_columns(cx: &mut Cx<'_>, at: Id, indices: Id, vector_dim: i64, batch_dims: &[i64]) -> Id {
    let mut indices = indices;
    let sizes = cx.dims(indices);
    let element_type = batch_dims.iter().fold(cx.element_type(indices), |t, &dim| type_for(t, sizes[dim as usize]));
    if element_type != cx.element_type(indices) {
        indices = cx.convert(at, indices, element_type);
    }
    let implicit = vector_dim == sizes.len() as i64;
    if implicit {
        let longer = row_major(element_type, sizes.iter().copied().chain([1]));
        indices = cx.reshape(at, longer, indices);
    }
    let array = cx.arr(indices);
    let column = share(array.with_dim(vector_dim as usize, 1));
    let mut parts: Vec<Id> = batch_dims.iter().map(|&dim| cx.iota(at, column.clone(), dim)).collect();
    parts.push(indices);
    let width = batch_dims.len() as i64 + array.dims[vector_dim as usize];
    let shape = share(array.with_dim(vector_dim as usize, width));
    cx.concatenate(at, shape, &parts, vector_dim)
}
