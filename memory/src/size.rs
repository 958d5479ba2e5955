//! Sizes of shapes as XLA:CPU counts them. Every other module asks here.

use hlo_ir::shape::{ArrayShape, Shape, UNBOUNDED};

use crate::Bytes;

/// Bytes of one pointer in a tuple's table.
pub const POINTER_BYTES: u64 = 8;

/// Bytes of a value of this shape: for a tuple its pointer table only, for a dynamic array its bound plus one `s32` per dimension.
/// `None` if a dimension is unbounded or the size does not fit 64 bits.
///
/// Source: `CpuExecutable::ShapeSizeBytes` (xla/service/cpu/cpu_executable.cc).
pub fn shape_size(shape: &Shape) -> Option<Bytes> {
    match shape {
        Shape::Array(array) => array_size(array),
        Shape::Tuple(elements) => Some(Bytes(POINTER_BYTES * elements.len() as u64)),
        Shape::Buffer(inner) => shape_size(inner),
        Shape::Token => Some(Bytes::ZERO),
        Shape::Opaque => Some(Bytes(POINTER_BYTES)),
    }
}

/// Bytes of a value of this shape without the sizes that a dynamic array carries: what XLA's live-range report adds up.
pub fn dataless_size(shape: &Shape) -> Option<Bytes> {
    let size = shape_size(shape)?;
    let dynamic = shape.as_array().filter(|array| array.is_dynamic());
    Some(size - Bytes(dynamic.map_or(0, |array| 4 * array.rank() as u64)))
}

/// Bytes of an array.
pub fn array_size(array: &ArrayShape) -> Option<Bytes> {
    if array.dims.contains(&UNBOUNDED) {
        return None;
    }
    let annotated = array.layout.as_ref().and_then(|layout| layout.suffix_number('E'));
    let bits = annotated.map_or(u64::from(array.element_type.storage_bits()), |bits| bits as u64);
    let data = array.elements()?.checked_mul(bits)?.div_ceil(8);
    let metadata = if array.is_dynamic() { 4 * array.rank() as u64 } else { 0 };
    Some(Bytes(data.checked_add(metadata)?))
}
