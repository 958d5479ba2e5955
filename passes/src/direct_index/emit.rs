//! The patch: sinks that read the original array.

use std::sync::Arc;

use hlo_ir::edit::Patch;
use hlo_ir::shape::Dims;
use hlo_ir::{ArrayShape, AttrKey, AttrValue, Attribute, Instruction, InstructionId, Module, Opcode, Shape};
use smol_str::format_smolstr;

use super::Index;
use super::proof::Plan;
use super::sink::{Sink, batching_key, map_key};

/// Lets every sink of `index` read the planned array.
pub(super) fn patch(module: &Module, index: &Index, plan: &Plan) -> Patch {
    let mut patch = Patch::new(module);
    let new = indices(module, &mut patch, index, plan);
    for sink in &index.sinks {
        patch.rewrite(sink.id, rewired(module, index, sink, plan, new));
    }
    patch
}

/// The array in the shape of indices: rows first, then components, if they have a dimension.
fn indices(module: &Module, patch: &mut Patch, index: &Index, plan: &Plan) -> InstructionId {
    let old = module.instruction(index.id);
    let array = module.instruction(plan.source).array().expect("only arrays are planned");
    let mut dims = plan.rows.clone();
    if has_vector_dim(module, index) {
        dims.push(plan.columns.len() as i64);
    }
    let mut id = plan.source;
    let add = |patch: &mut Patch, opcode, shape: ArrayShape, operand| {
        let name = format_smolstr!("{}.direct", old.name);
        let metadata = old.attribute(&AttrKey::Metadata).cloned();
        let mut new = Instruction::new(name, Arc::new(Shape::Array(shape)), opcode, [operand]);
        new.attributes.extend(metadata.map(|value| Attribute::new(AttrKey::Metadata, value)));
        let added = patch.add(old.parent, new);
        patch.set_origin(added, index.id);
        added
    };
    if array.dims != dims {
        id = add(patch, Opcode::Reshape, ArrayShape::new(array.element_type, dims.iter().copied()), id);
    }
    if let Some(to) = plan.convert {
        id = add(patch, Opcode::Convert, ArrayShape::new(to, dims.iter().copied()), id);
    }
    id
}

/// Whether the components of the index have a dimension of their own.
fn has_vector_dim(module: &Module, index: &Index) -> bool {
    module.instruction(index.id).array().is_some_and(|array| index.vector_dim < array.rank())
}

/// A sink that reads `new`, whose columns are those of the array.
fn rewired(module: &Module, index: &Index, sink: &Sink, plan: &Plan, new: InstructionId) -> Instruction {
    let mut inst = module.instruction(sink.id).clone();
    inst.operands[sink.operand] = new;
    let key = map_key(sink.kind);
    let map = inst.ints(&key);
    let mut moved: Dims = map.into();
    for (component, &column) in plan.columns.iter().enumerate() {
        moved[column] = map[component];
    }
    inst.set_attribute(key, AttrValue::ints(moved));
    if has_vector_dim(module, index) {
        move_vector_dim(&mut inst, sink, plan.rows.len());
    }
    // Indices outside of the bounds may now come in another order among themselves.
    if !plan.keeps_values && inst.flag(&AttrKey::IndicesAreSorted) {
        inst.set_attribute(AttrKey::IndicesAreSorted, AttrValue::Bool(false));
    }
    inst
}

/// Says that the components are now the last dimension; batching dimensions behind the old place move up.
fn move_vector_dim(inst: &mut Instruction, sink: &Sink, last: usize) {
    if sink.index_vector_dim == last {
        return;
    }
    inst.set_attribute(AttrKey::IndexVectorDim, AttrValue::Int(last as i64));
    let key = batching_key(sink.kind);
    let behind = |&dim: &i64| if dim > sink.index_vector_dim as i64 { dim - 1 } else { dim };
    let moved: Dims = inst.ints(&key).iter().map(behind).collect();
    if !moved.is_empty() {
        inst.set_attribute(key, AttrValue::ints(moved));
    }
}
