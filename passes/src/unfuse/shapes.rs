//! Shapes and headers without the compiler's layouts.

use std::fmt::Write as _;
use std::sync::Arc;

use hlo_ir::module::entry_layout;
use hlo_ir::shape::ShapeRef;
use hlo_ir::{ArrayShape, AttrKey, AttrValue, Attribute, Layout, Shape};

/// The shape with row-major layouts; the same reference if it has them already.
pub(super) fn plain(shape: &ShapeRef) -> ShapeRef {
    match shape.as_ref() {
        Shape::Array(array) if !is_plain(array) => Arc::new(Shape::Array(row_major(array))),
        Shape::Tuple(elements) => {
            let new: Vec<ShapeRef> = elements.iter().map(plain).collect();
            let same = new.iter().zip(elements).all(|(new, old)| Arc::ptr_eq(new, old));
            if same { Arc::clone(shape) } else { Shape::tuple(new) }
        }
        _ => Arc::clone(shape),
    }
}

fn is_plain(array: &ArrayShape) -> bool {
    array.layout.as_ref().is_none_or(|layout| layout.is_descending() && layout.suffix.is_empty())
}

fn row_major(array: &ArrayShape) -> ArrayShape {
    ArrayShape { layout: Some(Layout::descending(array.rank())), ..array.clone() }
}

/// The header of the plain module: no schedule, and in the entry's layout orders of dimensions only (the contract with the caller), without
/// the tiles and element sizes that a compiler adds to them.
pub(super) fn plain_header(attributes: &[Attribute]) -> Vec<Attribute> {
    let kept = attributes.iter().filter(|attribute| attribute.key != AttrKey::IsScheduled);
    let mut header: Vec<Attribute> = kept.cloned().collect();
    let layout = header.iter_mut().find(|attribute| attribute.key == AttrKey::EntryComputationLayout);
    if let (Some(attribute), Some((parameters, result))) = (layout, entry_layout(attributes))
        && parameters.iter().chain([&result]).any(has_suffix)
    {
        attribute.value = AttrValue::Raw(written(&parameters, &result).into());
    }
    header
}

fn has_suffix(shape: &ShapeRef) -> bool {
    match shape.as_ref() {
        Shape::Array(array) => array.layout.as_ref().is_some_and(|layout| !layout.suffix.is_empty()),
        Shape::Tuple(elements) => elements.iter().any(has_suffix),
        _ => false,
    }
}

/// `{(f32[4,6]{0,1}, s32[])->f32[24]{0}}`.
fn written(parameters: &[ShapeRef], result: &ShapeRef) -> String {
    let mut text = "{(".to_owned();
    for (number, shape) in parameters.iter().enumerate() {
        let comma = if number > 0 { ", " } else { "" };
        write!(text, "{comma}{}", without_suffix(shape)).expect("a string takes everything");
    }
    write!(text, ")->{}}}", without_suffix(result)).expect("a string takes everything");
    text
}

fn without_suffix(shape: &ShapeRef) -> ShapeRef {
    match shape.as_ref() {
        Shape::Array(array) => {
            let layout = Layout { minor_to_major: array.minor_to_major(), ..Layout::default() };
            Arc::new(Shape::Array(ArrayShape { layout: Some(layout), ..array.clone() }))
        }
        Shape::Tuple(elements) => Shape::tuple(elements.iter().map(without_suffix)),
        _ => Arc::clone(shape),
    }
}
