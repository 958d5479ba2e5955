//! The scatters and gathers of a module, and what each makes of an index value.

use hlo_ir::shape::Dims;
use hlo_ir::{AttrKey, GatherDims, InstructionId, Module, Opcode, ScatterDims};

use super::piecewise::Image;
use crate::range::Range;

/// What happens to a row whose index does not fit.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Kind {
    /// The row is skipped.
    Scatter,
    /// The index is moved to the nearest one that fits.
    Gather,
}

/// A scatter or gather, seen from its indices.
#[derive(Clone, Debug)]
pub(super) struct Sink {
    pub(super) id: InstructionId,
    pub(super) kind: Kind,
    /// Position of the indices among the operands.
    pub(super) operand: usize,
    /// Dimension of the indices that holds the components; their rank if there is one component and no such dimension.
    pub(super) index_vector_dim: usize,
    /// For each component the size of the operand dimension it points into, and the largest start that fits.
    pub(super) bounds: Vec<(i128, i128)>,
}

impl Sink {
    /// The view of an instruction; `None` unless it is a scatter or gather of static shapes.
    pub(super) fn of(module: &Module, id: InstructionId) -> Option<Self> {
        let inst = module.instruction(id);
        let (kind, operand) = match inst.opcode {
            Opcode::Scatter => (Kind::Scatter, ScatterDims::input_count(inst.operands.len())),
            Opcode::Gather => (Kind::Gather, 1),
            _ => return None,
        };
        let array = |position: usize| module.instruction(*inst.operands.get(position)?).array();
        let (target, indices) = (array(0)?, array(operand)?);
        if target.is_dynamic() || indices.is_dynamic() || !indices.element_type.is_integer() {
            return None;
        }
        let window = match kind {
            Kind::Gather => Dims::from_slice(GatherDims::of(inst)?.slice_sizes),
            Kind::Scatter => window_sizes(&ScatterDims::of(inst)?, &array(operand + 1)?.dims, target.rank())?,
        };
        let bound = |&dim: &i64| {
            let size = *target.dims.get(usize::try_from(dim).ok()?)?;
            Some((size.into(), i128::from(size) - i128::from(*window.get(usize::try_from(dim).ok()?)?)))
        };
        let bounds: Option<Vec<_>> = inst.ints(&map_key(kind)).iter().map(bound).collect();
        let index_vector_dim = usize::try_from(inst.int(&AttrKey::IndexVectorDim)?).ok()?;
        let components = indices.dims.get(index_vector_dim).copied().unwrap_or(1);
        let bounds = bounds.filter(|bounds| bounds.len() as i64 == components)?;
        Some(Self { id, kind, operand, index_vector_dim, bounds })
    }

    /// Values of `v` on an interval for which the indices `old` and `new` do different things in component `c`.
    pub(super) fn difference(&self, component: usize, (low, high): (i128, i128), old: Image, new: Image) -> Range {
        let all = Range::new(low, high);
        if old == new && old != Image::Unknown {
            return Range::empty();
        }
        let last = self.bounds[component].1;
        // Where both are past the same end of the dimension the sink cannot tell them apart; a scatter not even past different ends.
        let below = |image| values(image, &all, i128::MIN, if self.kind == Kind::Scatter { -1 } else { 0 });
        let above = |image| values(image, &all, if self.kind == Kind::Scatter { last + 1 } else { last }, i128::MAX);
        let same = match self.kind {
            Kind::Scatter => below(old).union(&above(old)).intersect(&below(new).union(&above(new))),
            Kind::Gather => below(old).intersect(&below(new)).union(&above(old).intersect(&above(new))),
        };
        without(&all, &same.union(&equal(old, new)).intersect(&all))
    }
}

/// The attribute that says which operand dimension each component points into.
pub(super) fn map_key(kind: Kind) -> AttrKey {
    match kind {
        Kind::Scatter => AttrKey::ScatterDimsToOperandDims,
        Kind::Gather => AttrKey::StartIndexMap,
    }
}

/// The attribute that lists the batching dimensions of the indices.
pub(super) fn batching_key(kind: Kind) -> AttrKey {
    match kind {
        Kind::Scatter => AttrKey::ScatterIndicesBatchingDims,
        Kind::Gather => AttrKey::StartIndicesBatchingDims,
    }
}

/// Window size in every dimension of a scatter's operand.
fn window_sizes(dims: &ScatterDims<'_>, updates: &[i64], rank: usize) -> Option<Dims> {
    let mut windows = dims.update_window_dims.iter().map(|&dim| updates.get(usize::try_from(dim).ok()?).copied());
    let size = |dim: i64| {
        let one = dims.inserted_window_dims.contains(&dim) || dims.input_batching_dims.contains(&dim);
        if one { Some(1) } else { windows.next()? }
    };
    (0..rank as i64).map(size).collect()
}

/// Values of `v` in `domain` whose image lies between `low` and `high`.
fn values(image: Image, domain: &Range, low: i128, high: i128) -> Range {
    match image {
        Image::Shift(shift) => domain.intersect(&Range::new(low.saturating_sub(shift), high.saturating_sub(shift))),
        Image::Constant(value) if (low..=high).contains(&value) => domain.clone(),
        Image::Constant(_) | Image::Unknown => Range::empty(),
    }
}

/// The value of `v` for which two different images meet.
fn equal(a: Image, b: Image) -> Range {
    match (a, b) {
        (Image::Shift(shift), Image::Constant(value)) | (Image::Constant(value), Image::Shift(shift)) => {
            Range::point(value - shift)
        }
        _ => Range::empty(),
    }
}

/// Values of an interval that are not in `other`.
fn without(all: &Range, other: &Range) -> Range {
    let Some((mut from, end)) = all.hull() else { return Range::empty() };
    let mut rest = Vec::new();
    for &(low, high) in other.pieces() {
        rest.push((from, low - 1));
        from = high + 1;
    }
    rest.push((from, end));
    Range::from_pieces(rest)
}
