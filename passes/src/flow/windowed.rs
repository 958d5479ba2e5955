//! Rules for reductions over dimensions and over windows. Their cases: `passes/tests/flow_cases/heavy.rs`.

// Tests: `passes/tests/flow.rs`.

use hlo_ir::attribute::WindowDim;
use hlo_ir::{AttrKey, AttrValue};

use super::rows::Step;
use super::{Flows, OperandFlow, Query};

/// The same rows of the inputs, which are the first half of the operands; initial values as a whole.
pub(super) fn reduce(q: &Query<'_>) -> Flows {
    let reduced = q.inst.ints(&AttrKey::Dimensions);
    let rank = q.operand(0)?.rank() as i64;
    match (0..rank).filter(|dim| !reduced.contains(dim)).nth(q.dim) {
        Some(dim) => Ok(q.first(q.inst.operands.len() / 2, OperandFlow::same(dim as usize))),
        None => Err(q.malformed()),
    }
}

/// How the windows lie in one dimension.
enum Windows {
    /// Every element is its own window.
    Single,
    /// Neighbouring windows of this size, without gap, overlap or padding.
    Tiles(i64),
    /// Anything else.
    Overlapping,
}

fn windows(window: &WindowDim) -> Windows {
    let plain =
        WindowDim { size: window.size, stride: window.stride, reversed: window.reversed, ..WindowDim::default() };
    match (window.size, window.stride) {
        _ if *window != plain => Windows::Overlapping,
        (1, 1) => Windows::Single,
        (size, stride) if size == stride => Windows::Tiles(size),
        _ => Windows::Overlapping,
    }
}

/// The window of one dimension.
pub(super) fn window_of(q: &Query<'_>, dim: usize) -> Option<WindowDim> {
    match q.inst.attribute(&AttrKey::Window) {
        Some(AttrValue::Window(window)) => window.get(dim).copied(),
        _ => None,
    }
}

/// Whether a dimension passes through a window operation element by element.
pub(super) fn is_single(window: &WindowDim) -> bool {
    matches!(windows(window), Windows::Single)
}

/// The same rows, if a window has one element in this dimension; the rows of the windows of a block, if windows lie side by side (pooling). Initial values as a whole.
pub(super) fn reduce_window(q: &Query<'_>) -> Flows {
    let window = window_of(q, q.dim).ok_or_else(|| q.malformed())?;
    let inputs = q.inst.operands.len() / 2;
    match windows(&window) {
        Windows::Single => Ok(q.first(inputs, OperandFlow::same(q.dim))),
        Windows::Tiles(size) if q.operand(0)?.dims.get(q.dim) == q.extent().checked_mul(size).as_ref() => {
            Ok(q.first(inputs, OperandFlow::Block { dim: q.dim, step: Step::scale(size, 1) }))
        }
        _ => q.barrier("window", "has windows that reach over the end of a block"),
    }
}

/// The same rows of the operand; of the source the same rows, or one for each window, under the conditions of `reduce-window`. The initial value as a whole.
pub(super) fn select_and_scatter(q: &Query<'_>) -> Flows {
    let window = window_of(q, q.dim).ok_or_else(|| q.malformed())?;
    let source = match windows(&window) {
        Windows::Single => Step::SAME,
        Windows::Tiles(size) if q.operand(1)?.dims[q.dim].checked_mul(size) == Some(q.extent()) => Step::scale(1, size),
        _ => return q.barrier("window", "has windows that reach over the end of a block"),
    };
    Ok(vec![OperandFlow::same(q.dim), OperandFlow::Block { dim: q.dim, step: source }, OperandFlow::Whole])
}
