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

#[cfg(test)]
mod tests {
    use super::*;
    use hlo_ir::ElementType as T;
    use hlo_ir::shape::Layout;

    #[test]
    fn sizes_of_plain_arrays_and_of_shapes_without_elements() {
        let bytes = |element_type, dims: &[i64]| shape_size(&Shape::array(element_type, dims.iter().copied()));
        assert_eq!(bytes(T::F32, &[]), Some(Bytes(4)));
        assert_eq!(bytes(T::Pred, &[3, 5]), Some(Bytes(15)));
        assert_eq!(bytes(T::C128, &[2]), Some(Bytes(32)));
        assert_eq!(bytes(T::F64, &[7, 0]), Some(Bytes(0)));
        assert_eq!(bytes(T::S4, &[1001]), Some(Bytes(1001)));
        assert_eq!(bytes(T::S32, &[8_589_934_592, 3]), Some(Bytes(103_079_215_104)));
        assert_eq!(shape_size(&Shape::Token), Some(Bytes(0)));
        assert_eq!(shape_size(&Shape::Opaque), Some(Bytes(8)));
        let array = Shape::array(T::F32, [1000]);
        assert_eq!(shape_size(&Shape::tuple([array.clone(), array.clone(), array.clone()])), Some(Bytes(24)));
        assert_eq!(shape_size(&Shape::Buffer(array)), Some(Bytes(4000)));
    }

    #[test]
    fn packed_and_dynamic_arrays() {
        let mut packed = ArrayShape::new(T::S4, [1001]);
        packed.layout = Some(Layout { minor_to_major: [0].into_iter().collect(), suffix: "E(4)".into() });
        assert_eq!(array_size(&packed), Some(Bytes(501)));
        let mut dynamic = ArrayShape::new(T::F32, [10, 3]);
        dynamic.dynamic = 0b01;
        assert_eq!(array_size(&dynamic), Some(Bytes(120 + 8)));
        assert_eq!(dataless_size(&Shape::Array(dynamic)), Some(Bytes(120)));
    }

    #[test]
    fn sizes_that_cannot_be_told() {
        assert_eq!(array_size(&ArrayShape::new(T::F32, [UNBOUNDED])), None);
        assert_eq!(array_size(&ArrayShape::new(T::F32, [i64::MAX, 4])), None);
        assert_eq!(array_size(&ArrayShape::new(T::F32, [1 << 62, 2])), None);
    }
}
