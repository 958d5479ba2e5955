//! Instructions that move data to other devices, to the host or to another memory, and the halves they are split into.

use super::{Inferred, Request, array};
use crate::shape::{Dims, ShapeRef};
use crate::{ElementType, Shape};

/// An unsigned number that stands for a transfer under way.
fn context() -> ShapeRef {
    Shape::array(ElementType::U32, [])
}

fn token() -> ShapeRef {
    Shape::Token.into()
}

/// Operand `index` must be a token.
fn need_token(request: &Request<'_>, index: usize) -> Result<(), String> {
    match request.operand(index)?.as_ref() {
        Shape::Token => Ok(()),
        other => Err(format!("operand {index} has shape {other}, but must be a token")),
    }
}

/// The data, a context and a token. XLA's verifier does not ask for a token as the second operand.
pub(super) fn send(request: &Request<'_>) -> Inferred {
    Ok(Shape::tuple([request.operand(0)?.clone(), context(), token()]))
}

/// A token, from what a send returns.
pub(super) fn send_done(request: &Request<'_>) -> Inferred {
    transfer(request)?;
    Ok(token())
}

/// The data and a token, from what a receive returns.
pub(super) fn recv_done(request: &Request<'_>) -> Inferred {
    Ok(Shape::tuple([transfer(request)?, token()]))
}

/// The data of a transfer under way, which is data, context and token.
fn transfer(request: &Request<'_>) -> Inferred {
    match request.operand(0)?.as_tuple() {
        Some([data, _, last]) if **last == Shape::Token => Ok(data.clone()),
        _ => Err(format!("operand 0 has shape {}, but must be data, context and token", request.operand(0)?)),
    }
}

/// The copy, what is copied, and a context.
pub(super) fn copy_start(request: &Request<'_>) -> Inferred {
    let operand = request.operand(0)?;
    Ok(Shape::tuple([operand.clone(), operand.clone(), context()]))
}

/// The copy, from what its start returns.
pub(super) fn copy_done(request: &Request<'_>) -> Inferred {
    match request.operand(0)?.as_tuple() {
        Some([copy, source, _]) if copy.compatible(source) => Ok(copy.clone()),
        _ => Err(format!("operand 0 has shape {}, but must be a copy, its source and a context", request.operand(0)?)),
    }
}

/// A token; the second operand is one, too.
pub(super) fn outfeed(request: &Request<'_>) -> Inferred {
    need_token(request, 1)?;
    Ok(token())
}

/// A token, of anything: XLA's verifier does not ask for tokens.
#[expect(clippy::unnecessary_wraps, reason = "a rule of the table")]
pub(super) fn after_all(_: &Request<'_>) -> Inferred {
    Ok(token())
}

/// The first operand; the second is a token.
pub(super) fn add_dependency(request: &Request<'_>) -> Inferred {
    need_token(request, 1)?;
    request.operand(0).cloned()
}

/// What an asynchronous operation still is while it goes on.
pub(super) fn async_update(request: &Request<'_>) -> Inferred {
    let operand = request.operand(0)?;
    let fits = operand.as_tuple().is_some_and(|elements| elements.len() >= 2);
    if fits { Ok(operand.clone()) } else { Err(format!("operand 0 has shape {operand}, which is no async operation")) }
}

/// What goes on to other devices comes from them: operand by operand, or into the second operand if there are places to read from and to
/// write to.
pub(super) fn permute(request: &Request<'_>) -> Inferred {
    match request.operands.as_slice() {
        [_, into, from_place, to_place] if from_place.as_tuple().is_some() && to_place.as_tuple().is_some() => {
            Ok((*into).clone())
        }
        _ => super::movement::all_operands(request),
    }
}

/// Two numbers of 64 bits.
#[expect(clippy::unnecessary_wraps, reason = "a rule of the table")]
pub(super) fn rng_state(_: &Request<'_>) -> Inferred {
    Ok(array(ElementType::U64, Dims::from_slice(&[2])))
}

/// The operand that is written into; offsets and sizes have one shape.
pub(super) fn ragged_all_to_all(request: &Request<'_>) -> Inferred {
    let first = request.array(2)?;
    for index in 2..6 {
        let place = request.array(index)?;
        if !matches!(place.rank(), 1 | 2) || !place.element_type.is_integer() || !place.compatible(first) {
            return Err(format!("operand {index} has shape {place}, but offsets and sizes are integers of one shape"));
        }
    }
    request.array(1)?;
    request.operand(1).cloned()
}
