//! Sizes of shapes as XLA counts them: dense on CPU and GPU, in tiles on TPU. Every other module asks here.

// Tests: `memory/tests/live_range.rs`.

use hlo_ir::host::HOST_SPACE;
use hlo_ir::shape::{ArrayShape, Shape, UNBOUNDED};

use crate::{Bytes, Target};

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

/// The size function of a target.
pub(crate) fn size_of(target: Target) -> fn(&Shape) -> Option<Bytes> {
    match target {
        Target::Cpu => shape_size,
        Target::Gpu => main_memory_size,
        Target::Tpu => tiled_size,
    }
}

/// Bytes of main memory: nothing for what a layout puts into another memory space, `S(n)`.
fn main_memory_size(shape: &Shape) -> Option<Bytes> {
    if is_elsewhere(shape) { Some(Bytes::ZERO) } else { shape_size(shape) }
}

/// Bytes of main memory of a TPU. The fastest dimensions are rounded up to the first tile of the layout, `T(8,128)`; further tiles only say
/// how a tile is packed. Every array takes whole units of 512 bytes. Checked against the argument bytes of 202 compiled shapes.
pub fn tiled_size(shape: &Shape) -> Option<Bytes> {
    match shape {
        _ if is_elsewhere(shape) => Some(Bytes::ZERO),
        Shape::Array(array) => {
            let mut padded = array.clone();
            for (position, tile) in first_tile(array).into_iter().rev().enumerate() {
                match array.minor_to_major().get(position) {
                    Some(&dim) => round_up(padded.dims.get_mut(usize::try_from(dim).ok()?)?, tile)?,
                    // A tile of more dimensions than the array: the missing ones are 1.
                    None => padded.dims.push(tile),
                }
            }
            Some(Bytes(array_size(&padded)?.get().max(1).checked_next_multiple_of(TILE_UNIT)?))
        }
        Shape::Buffer(inner) => tiled_size(inner),
        _ => shape_size(shape),
    }
}

/// Bytes a TPU hands out at least, and in multiples of.
const TILE_UNIT: u64 = 512;

fn round_up(dim: &mut i64, tile: i64) -> Option<()> {
    if *dim != UNBOUNDED {
        *dim = dim.checked_add(tile - 1)? / tile * tile;
    }
    Some(())
}

/// The numbers of the first tile, slowest dimension first; empty without tiles.
fn first_tile(array: &ArrayShape) -> Vec<i64> {
    let suffix = array.layout.as_ref().map_or("", |layout| layout.suffix.as_str());
    let tile = suffix.strip_prefix("T(").and_then(|rest| rest.split(')').next()).unwrap_or("");
    let numbers = tile.split(',').map(|number| number.trim().parse().ok().filter(|&number| number > 0));
    numbers.collect::<Option<Vec<i64>>>().unwrap_or_default()
}

/// The memory space that a layout puts an array into: 0 is the main one.
fn memory_space(shape: &Shape) -> i64 {
    let space = |array: &ArrayShape| array.layout.as_ref()?.suffix_number('S');
    shape.as_array().and_then(space).unwrap_or(0)
}

/// Whether a layout puts the array into another memory space than the main one.
pub fn is_elsewhere(shape: &Shape) -> bool {
    memory_space(shape) != 0
}

/// Whether a layout puts the array into the memory of the host.
pub(crate) fn is_in_host_memory(shape: &Shape) -> bool {
    memory_space(shape) == HOST_SPACE
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
    fn tiles_round_the_fastest_dimensions_up() {
        let tiled = |element_type, dims: &[i64], minor_to_major: &[i64], suffix: &str| {
            let mut array = ArrayShape::new(element_type, dims.iter().copied());
            let layout = Layout { minor_to_major: minor_to_major.iter().copied().collect(), suffix: suffix.into() };
            array.layout = Some(layout);
            tiled_size(&Shape::Array(array)).map(Bytes::get)
        };
        assert_eq!(tiled(T::F32, &[1000, 37], &[0, 1], "T(8,128)"), Some(1024 * 40 * 4));
        assert_eq!(tiled(T::S32, &[1025], &[0], "T(1024)"), Some(8192));
        assert_eq!(tiled(T::S8, &[7], &[0], "T(512)(128)(4,1)"), Some(512));
        assert_eq!(tiled(T::F32, &[], &[], "T(128)"), Some(512));
        assert_eq!(tiled(T::Bf16, &[1, 5, 3, 200], &[3, 2, 1, 0], "T(4,128)(2,1)"), Some(5 * 4 * 256 * 2));
        assert_eq!(tiled(T::F32, &[1000, 37], &[1, 0], "T(8,128)S(1)"), Some(0));
        assert_eq!(tiled(T::S4, &[64, 256], &[1, 0], "T(64,128)E(4)"), Some(64 * 256 / 2));
        assert_eq!(tiled(T::F32, &[10], &[0], ""), Some(512));
    }

    #[test]
    fn sizes_that_cannot_be_told() {
        assert_eq!(array_size(&ArrayShape::new(T::F32, [UNBOUNDED])), None);
        assert_eq!(array_size(&ArrayShape::new(T::F32, [i64::MAX, 4])), None);
        assert_eq!(array_size(&ArrayShape::new(T::F32, [1 << 62, 2])), None);
    }
}
