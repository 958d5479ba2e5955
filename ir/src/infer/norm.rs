//! Batch normalization: an operand, and arrays with one element for each of its features.

use super::{Inferred, Request, array, check_dimension, same_dims, same_size};
use crate::shape::{Dims, ShapeRef};
use crate::{ArrayShape, AttrKey, Shape};

/// The operand and an array over its features. The operands in `over_features` must be such arrays.
fn features(
    request: &Request<'_>,
    over_features: std::ops::RangeInclusive<usize>,
) -> Result<(ShapeRef, ShapeRef), String> {
    let operand = request.array(0)?;
    if !operand.element_type.is_float() {
        return Err(format!("the operand has type {}, but must be floating-point", operand.element_type.name()));
    }
    let index = request.instruction.raw(&AttrKey::unknown("feature_index")).and_then(|text| text.parse().ok());
    let feature = check_dimension("feature_index", index.unwrap_or(-1), operand.rank())?;
    for index in over_features {
        let given = request.array(index)?;
        if given.rank() != 1 || !same_size(given.dims[0], operand.dims[feature]) || !given.element_type.is_float() {
            return Err(format!("operand {index} has shape {given}, but there are {} features", operand.dims[feature]));
        }
    }
    let feature = array(request.array(1)?.element_type, Dims::from_slice(&[operand.dims[feature]]));
    Ok((request.operand(0)?.clone(), feature))
}

/// The normalized operand, mean and variance.
pub(super) fn training(request: &Request<'_>) -> Inferred {
    let (operand, feature) = features(request, 1..=2)?;
    Ok(Shape::tuple([operand, feature.clone(), feature]))
}

/// The normalized operand.
pub(super) fn inference(request: &Request<'_>) -> Inferred {
    Ok(features(request, 1..=4)?.0)
}

/// The gradients of operand, scale and offset.
pub(super) fn gradient(request: &Request<'_>) -> Inferred {
    let (operand, feature) = features(request, 1..=3)?;
    let (first, last): (&ArrayShape, &ArrayShape) = (request.array(0)?, request.array(4)?);
    if !same_dims(first, last) {
        return Err(format!("the gradient of the output has shape {last}, but the operand {first}"));
    }
    Ok(Shape::tuple([operand, feature.clone(), feature]))
}
