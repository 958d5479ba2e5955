//! Shapes and layouts to messages and back.

use std::fmt::Write as _;
use std::sync::Arc;

use super::message::shape as pb;
use super::scan::{Cursor, Fit};
use crate::shape::{ShapeRef, UNBOUNDED};
use crate::{ArrayShape, ElementType, Layout, Shape};

const TUPLE: i32 = 13;
const OPAQUE: i32 = 14;
const TOKEN: i32 = 17;
const BUFFER: i32 = 34;

/// Number of each element type in `PrimitiveType`, in declaration order of [`ElementType`].
const NUMBERS: [i32; 32] = [
    1, 30, 26, 21, 2, 3, 4, 5, 31, 27, 22, 6, 7, 8, 9, 10, 16, 11, 12, 19, 28, 20, 23, 29, 24, 25, 33, 32, 35, 36, 15,
    18,
];

/// The number of an element type in `PrimitiveType`.
pub(super) fn number_of(element_type: ElementType) -> i32 {
    NUMBERS[element_type as usize]
}
/// The element type with a number of `PrimitiveType`.
pub(super) fn element_type(number: i32) -> Fit<ElementType> {
    let known = ElementType::all().zip(NUMBERS).find(|row| row.1 == number).map(|row| row.0);
    known.ok_or_else(|| format!("element type {number} is not known"))
}

/// A shape as a message. An array without layout gets the row-major one, as XLA's text parser gives it.
pub(super) fn write(shape: &Shape) -> Fit<pb::Shape> {
    let plain = |element_type| pb::Shape { element_type, ..pb::Shape::default() };
    Ok(match shape {
        Shape::Array(array) => write_array(array)?,
        Shape::Tuple(elements) => {
            let tuple_shapes = elements.iter().map(|element| write(element)).collect::<Fit<_>>()?;
            pb::Shape { tuple_shapes, ..plain(TUPLE) }
        }
        Shape::Buffer(inner) => pb::Shape { tuple_shapes: vec![write(inner)?], ..plain(BUFFER) },
        Shape::Token => plain(TOKEN),
        Shape::Opaque => plain(OPAQUE),
    })
}

fn write_array(array: &ArrayShape) -> Fit<pb::Shape> {
    if array.rank() > 64 && array.is_dynamic() {
        return Err("dynamic dimensions of arrays of more than 64 dimensions are not kept".to_owned());
    }
    let is_dynamic = |dim: usize| array.dynamic.checked_shr(dim as u32).unwrap_or(0) & 1 == 1;
    Ok(pb::Shape {
        element_type: number_of(array.element_type),
        dimensions: array.dims.to_vec(),
        is_dynamic_dimension: (0..array.rank()).map(|dim| is_dynamic(dim) || array.dims[dim] == UNBOUNDED).collect(),
        layout: Some(write_layout(array)?),
        ..pb::Shape::default()
    })
}

fn write_layout(array: &ArrayShape) -> Fit<pb::Layout> {
    let mut layout = pb::Layout {
        minor_to_major: array.minor_to_major().to_vec(),
        tail_padding_alignment_in_elements: 1,
        ..pb::Layout::default()
    };
    if let Some(written) = &array.layout {
        let mut cursor = Cursor::new(&written.suffix);
        while cursor.peek().is_some() {
            suffix(&mut cursor, &mut layout).map_err(|problem| format!("the layout `{written}`: {problem}"))?;
        }
    }
    Ok(layout)
}

/// One part of what stands behind the colon of a layout.
fn suffix(cursor: &mut Cursor<'_>, layout: &mut pb::Layout) -> Fit<()> {
    let number = |cursor: &mut Cursor<'_>| -> Fit<i64> {
        Ok(cursor.list(("(", ")"), Cursor::int)?.first().copied().unwrap_or(0))
    };
    if cursor.eat("T") {
        while cursor.peek() == Some(b'(') {
            let dimensions = cursor.list(("(", ")"), tile_dim)?;
            layout.tiles.push(pb::Tile { dimensions });
        }
    } else if cursor.eat("L") {
        layout.tail_padding_alignment_in_elements = number(cursor)?;
    } else if cursor.eat("E") {
        layout.element_size_in_bits = number(cursor)?;
    } else if cursor.eat("M") {
        layout.dynamic_shape_metadata_prefix_bytes = number(cursor)?;
    } else if cursor.eat("SC") {
        while cursor.eat("(") {
            let dimension = cursor.int()?;
            let split_indices = cursor.list((":", ")"), Cursor::int)?;
            layout.split_configs.push(pb::SplitConfig { dimension, split_indices });
        }
    } else if cursor.eat("S") {
        layout.memory_space = number(cursor)?;
    } else if cursor.eat("#") {
        layout.index_primitive_type = type_name(cursor)?;
    } else if cursor.eat("*") {
        layout.pointer_primitive_type = type_name(cursor)?;
    } else {
        return Err(format!("`{}` is not known", cursor.rest));
    }
    Ok(())
}

/// A tile dimension; `*` is one that is combined with the next.
fn tile_dim(cursor: &mut Cursor<'_>) -> Fit<i64> {
    if cursor.eat("*") { Ok(i64::MIN) } else { cursor.int() }
}

fn type_name(cursor: &mut Cursor<'_>) -> Fit<i32> {
    cursor.expect("(")?;
    let name = cursor.word()?;
    let number = ElementType::from_name(name).map(number_of).ok_or_else(|| format!("`{name}` is no element type"))?;
    cursor.expect(")")?;
    Ok(number)
}

/// A message as a shape.
pub(super) fn read(shape: &pb::Shape) -> Fit<ShapeRef> {
    let elements = || shape.tuple_shapes.iter().map(read).collect::<Fit<Vec<_>>>();
    Ok(Arc::new(match shape.element_type {
        TUPLE => Shape::Tuple(elements()?),
        TOKEN => Shape::Token,
        OPAQUE => Shape::Opaque,
        BUFFER => Shape::Buffer(elements()?.pop().ok_or("a buffer shape lacks its element")?),
        number => Shape::Array(read_array(shape, element_type(number)?)?),
    }))
}

/// The shape of a field that must be there.
pub(super) fn required(shape: Option<&pb::Shape>) -> Fit<ShapeRef> {
    read(shape.ok_or("a shape is missing")?)
}

fn read_array(shape: &pb::Shape, element_type: ElementType) -> Fit<ArrayShape> {
    let mut dynamic = 0_u64;
    for (dim, _) in shape.is_dynamic_dimension.iter().enumerate().filter(|(_, is_dynamic)| **is_dynamic) {
        if dim >= shape.dimensions.len().min(64) {
            return Err(format!("dimension {dim} cannot be dynamic"));
        }
        dynamic |= 1 << dim;
    }
    if shape.dimensions.iter().any(|&dim| dim < 0 && dim != UNBOUNDED) {
        return Err("a dimension is negative".to_owned());
    }
    let layout = shape.layout.as_ref().map(read_layout).transpose()?;
    Ok(ArrayShape { element_type, dims: shape.dimensions.iter().copied().collect(), dynamic, layout })
}

fn read_layout(layout: &pb::Layout) -> Fit<Layout> {
    if layout.physical_shape.is_some() || layout.dim_level_types.iter().any(|&level| level != 0) {
        return Err("sparse layouts (fields `physical_shape`, `dim_level_types`) cannot be written as text".to_owned());
    }
    let mut suffix = String::new();
    if !layout.tiles.is_empty() {
        suffix.push('T');
        for tile in &layout.tiles {
            let dims =
                tile.dimensions.iter().map(|&dim| if dim == i64::MIN { "*".to_owned() } else { dim.to_string() });
            write!(suffix, "({})", super::scan::joined(dims, ",")).expect(INFALLIBLE);
        }
    }
    let mut part = |key: &str, value: i64, default: i64| {
        if value != default {
            write!(suffix, "{key}({value})").expect(INFALLIBLE);
        }
    };
    part("L", layout.tail_padding_alignment_in_elements.max(1), 1);
    for (key, number) in [("#", layout.index_primitive_type), ("*", layout.pointer_primitive_type)] {
        if number != 0 {
            write!(suffix, "{key}({})", element_type(number)?.name()).expect(INFALLIBLE);
        }
    }
    let mut part = |key: &str, value: i64| {
        if value != 0 {
            write!(suffix, "{key}({value})").expect(INFALLIBLE);
        }
    };
    part("E", layout.element_size_in_bits);
    part("S", layout.memory_space);
    for (index, split) in layout.split_configs.iter().enumerate() {
        let key = if index == 0 { "SC" } else { "" };
        write!(suffix, "{key}({}:{})", split.dimension, super::scan::joined(&split.split_indices, ","))
            .expect(INFALLIBLE);
    }
    if layout.dynamic_shape_metadata_prefix_bytes != 0 {
        write!(suffix, "M({})", layout.dynamic_shape_metadata_prefix_bytes).expect(INFALLIBLE);
    }
    Ok(Layout { minor_to_major: layout.minor_to_major.iter().copied().collect(), suffix: suffix.into() })
}

const INFALLIBLE: &str = "writing to a string cannot fail";
