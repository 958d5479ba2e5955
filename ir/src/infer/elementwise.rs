//! Elementwise instructions: operands and result have the same sizes.

use super::{Inferred, Request, array, same_dims};
use crate::{ArrayShape, ElementType, Opcode, Shape};

#[expect(clippy::match_same_arms, reason = "one row per family of opcodes")]
/// The rule of an elementwise opcode; `None` for the others and where the result's element type has to be written.
pub(super) fn rule(opcode: Opcode) -> Option<fn(&Request<'_>) -> Inferred> {
    use Opcode as O;
    Some(match opcode {
        O::Copy => super::movement::first,
        O::IsFinite | O::Real | O::Imag | O::Abs => retyped_unary,
        O::Compare => compare,
        O::Complex => complex,
        O::Select => select,
        O::Clamp => clamp,
        O::Convert | O::StochasticConvert => return None,
        O::Add
        | O::And
        | O::Atan2
        | O::Divide
        | O::Maximum
        | O::Minimum
        | O::Mulhi
        | O::Multiply
        | O::Or
        | O::Power => binary,
        O::Remainder | O::ShiftLeft | O::ShiftRightArithmetic | O::ShiftRightLogical | O::Subtract | O::Xor => binary,
        _ if opcode.is_elementwise() => unary,
        _ => return None,
    })
}

#[expect(clippy::match_same_arms, reason = "one row per family of opcodes")]
/// Whether an opcode can work on elements of a type.
fn accepts(opcode: Opcode, element_type: ElementType) -> bool {
    use Opcode as O;
    let (integer, float) = (element_type.is_integer(), element_type.is_float());
    let complex = element_type.is_complex();
    match opcode {
        O::Floor | O::Ceil | O::RoundNearestAfz | O::RoundNearestEven | O::IsFinite | O::ReducePrecision => float,
        O::Not | O::And | O::Or | O::Xor => integer || element_type == ElementType::Pred,
        O::Popcnt | O::CountLeadingZeros | O::ShiftLeft | O::ShiftRightArithmetic | O::ShiftRightLogical => integer,
        O::Mulhi => integer,
        O::Real | O::Imag => float || complex,
        O::Negate | O::Sign => integer || float || complex,
        O::Exponential | O::ExponentialMinusOne | O::Log | O::LogPlusOne | O::Logistic | O::Rsqrt | O::Sqrt => {
            float || complex
        }
        O::Sine | O::Cosine | O::Tan | O::Tanh | O::Sinh | O::Cosh => float || complex,
        _ => true,
    }
}

/// Operand `index`, with elements the opcode can work on.
fn operand<'a>(request: &Request<'a>, index: usize) -> Result<&'a ArrayShape, String> {
    let shape = request.array(index)?;
    if accepts(request.instruction.opcode, shape.element_type) {
        return Ok(shape);
    }
    Err(format!("`{}` does not work on {}", request.instruction.opcode_name(), shape.element_type.name()))
}

fn unary(request: &Request<'_>) -> Inferred {
    operand(request, 0)?;
    Ok(request.operand(0)?.clone())
}

/// Unary instructions whose result has another element type.
fn retyped_unary(request: &Request<'_>) -> Inferred {
    let shape = operand(request, 0)?;
    let element_type = match (request.instruction.opcode, shape.element_type) {
        (Opcode::IsFinite, _) => ElementType::Pred,
        (_, ElementType::C64) => ElementType::F32,
        (_, ElementType::C128) => ElementType::F64,
        _ => return unary(request),
    };
    Ok(Shape::Array(shape.with_element_type(element_type)).into())
}

/// Two operands of the same shape; the first one's shape.
fn pair<'a>(request: &Request<'a>) -> Result<&'a ArrayShape, String> {
    let (lhs, rhs) = (operand(request, 0)?, request.array(1)?);
    if same_dims(lhs, rhs) && lhs.element_type == rhs.element_type {
        return Ok(lhs);
    }
    Err(format!("the operands have shapes {lhs} and {rhs}, but must have the same"))
}

fn binary(request: &Request<'_>) -> Inferred {
    pair(request)?;
    Ok(request.operand(0)?.clone())
}

fn compare(request: &Request<'_>) -> Inferred {
    Ok(Shape::Array(pair(request)?.with_element_type(ElementType::Pred)).into())
}

fn complex(request: &Request<'_>) -> Inferred {
    let part = pair(request)?;
    let element_type = match part.element_type {
        ElementType::F32 => ElementType::C64,
        ElementType::F64 => ElementType::C128,
        other => return Err(format!("`complex` does not work on {}", other.name())),
    };
    Ok(array(element_type, part.dims.clone()))
}

/// The predicate has the sizes of the branches or is a scalar.
fn select(request: &Request<'_>) -> Inferred {
    let (predicate, on_true, on_false) = (request.array(0)?, request.array(1)?, request.array(2)?);
    if predicate.element_type != ElementType::Pred {
        return Err(format!("operand 0 has type {}, but must be pred", predicate.element_type.name()));
    }
    if on_true.element_type != on_false.element_type || !same_dims(on_true, on_false) {
        return Err(format!("operands 1 and 2 have shapes {on_true} and {on_false}, but must have the same"));
    }
    if !predicate.is_scalar() && !same_dims(predicate, on_true) {
        return Err(format!("operand 0 has shape {predicate}, which is neither a scalar nor as large as {on_true}"));
    }
    Ok(request.operand(1)?.clone())
}

/// The bounds have the sizes of the value or are scalars.
fn clamp(request: &Request<'_>) -> Inferred {
    let (low, value, high) = (request.array(0)?, request.array(1)?, request.array(2)?);
    for bound in [low, high] {
        if bound.element_type != value.element_type || !(bound.is_scalar() || same_dims(bound, value)) {
            return Err(format!("a bound has shape {bound}, which does not fit the clamped shape {value}"));
        }
    }
    Ok(request.operand(1)?.clone())
}
