//! Instructions that call computations.

use super::{Inferred, Request, array, same_dims};
use crate::shape::Dims;
use crate::{AttrKey, ElementType, Shape};

pub(super) fn while_loop(request: &Request<'_>) -> Inferred {
    request.operand(0).cloned()
}

pub(super) fn call(request: &Request<'_>) -> Inferred {
    request.callee_result(&AttrKey::ToApply).or_else(|_| request.callee_result(&AttrKey::Calls))
}

/// What the first branch returns.
pub(super) fn conditional(request: &Request<'_>) -> Inferred {
    let branch = request.instruction.called_computations().next().ok_or("there is no branch")?;
    Ok((request.result_of)(branch))
}

/// The operands of a sort have the same sizes; the result is the operand or a tuple of all.
pub(super) fn sort(request: &Request<'_>) -> Inferred {
    let first = request.array(0)?;
    request.dimension(&AttrKey::Dimensions, first.rank())?;
    for index in 1..request.operands.len() {
        if !same_dims(first, request.array(index)?) {
            return Err(format!("operands 0 and {index} have different sizes"));
        }
    }
    super::movement::all_operands(request)
}

/// As large as the operands, with the elements the computation returns.
pub(super) fn map(request: &Request<'_>) -> Inferred {
    let first = request.array(0)?;
    for index in 1..request.operands.len() {
        if !same_dims(first, request.array(index)?) {
            return Err(format!("operands 0 and {index} have different sizes"));
        }
    }
    let result = request.callee_result(&AttrKey::ToApply)?;
    let element_type = scalar_type(&result)?;
    Ok(array(element_type, first.dims.clone()))
}

/// `n` operands of the same sizes, `n` initial values; the dimensions named are gone from the result.
pub(super) fn reduce(request: &Request<'_>) -> Inferred {
    let first = request.array(0)?;
    let dropped = request.dimensions(&AttrKey::Dimensions, first.rank())?;
    for index in 1..request.operands.len() / 2 {
        if !same_dims(first, request.array(index)?) {
            return Err(format!("operands 0 and {index} have different sizes"));
        }
    }
    let dims: Dims = (0..first.rank()).filter(|dim| !dropped.contains(dim)).map(|dim| first.dims[dim]).collect();
    reduced(request, &dims)
}

/// Result of a reduction with sizes `dims`: its element types are what the computation returns.
pub(super) fn reduced(request: &Request<'_>, dims: &Dims) -> Inferred {
    let count = request.operands.len() / 2;
    for index in count..request.operands.len() {
        let init = request.array(index)?;
        if !init.is_scalar() {
            return Err(format!("operand {index} has shape {init}, but initial values are scalars"));
        }
    }
    let result = request.callee_result(&AttrKey::ToApply)?;
    match result.as_tuple() {
        Some(elements) if elements.len() == count => {
            let shapes: Result<Vec<_>, String> =
                elements.iter().map(|shape| Ok(array(scalar_type(shape)?, dims.clone()))).collect();
            Ok(Shape::tuple(shapes?))
        }
        None if count == 1 => Ok(array(scalar_type(&result)?, dims.clone())),
        _ => Err(format!("the computation returns {result}, but {count} values are reduced")),
    }
}

/// The element type of a scalar shape.
fn scalar_type(shape: &Shape) -> Result<ElementType, String> {
    let scalar = shape.as_array().filter(|array| array.is_scalar());
    scalar.map(|array| array.element_type).ok_or_else(|| format!("the computation returns {shape}, which is no scalar"))
}
