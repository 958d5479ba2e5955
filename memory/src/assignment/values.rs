//! Data-flow values: which value stands at which place, with phis where control flow merges.
//!
//! Every place holds at most one value. A value is numbered by the place that defines it; phis follow in the order of their creation.
//!
//! Source: `HloDataflowAnalysis` (xla/hlo/analysis/hlo_dataflow_analysis.cc).

use hlo_ir::Module;

use super::classes::Classes;
use super::csr::Csr;
use super::order::Users;
use super::phis;
use super::propagate::Propagation;
use super::shape_positions::{ShapePosition, ShapePositions};

/// A value: what one place defines, or what arrives at a phi.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub(crate) struct ValueId(pub(crate) u32);

impl ValueId {
    /// No value.
    pub(crate) const NONE: Self = Self(u32::MAX);
    /// The number as an index.
    pub(crate) const fn index(self) -> usize {
        self.0 as usize
    }
}

/// The values of a module, where they are defined and where else they appear.
#[derive(Clone, Debug)]
pub(crate) struct Values {
    at: Vec<ValueId>,
    phis: Vec<ShapePosition>,
    list: Vec<ValueId>,
    positions: Csr,
}

impl Values {
    /// Runs the analysis over every computation with memory.
    pub(crate) fn of(module: &Module, classes: &Classes, users: &Users, places: &ShapePositions<'_>) -> Self {
        let (mut at, phis) = Propagation::new(module, classes, users, places).run();
        let replacement = phis::clean_up(places.len(), &phis);
        for value in &mut at {
            if let Some(phi) = value.index().checked_sub(places.len())
                && *value != ValueId::NONE
            {
                *value = replacement[phi];
            }
        }
        let phis: Vec<ShapePosition> = phis.into_iter().map(|phi| phi.place).collect();
        Self::index(at, phis)
    }
    /// Lists the values that are left and their positions.
    fn index(at: Vec<ValueId>, phis: Vec<ShapePosition>) -> Self {
        let mut values = Self { at, phis, list: Vec::new(), positions: Csr::default() };
        let count = values.at.len() as u32;
        let ids = (0..count + values.phis.len() as u32).map(ValueId);
        values.list = ids.filter(|&id| values.at[values.place(id).index()] == id).collect();
        let mut pairs = Vec::new();
        for (place, &value) in values.at.iter().enumerate() {
            let place = ShapePosition(place as u32);
            if value != ValueId::NONE && values.place(value) != place {
                pairs.push((value.0, place.0));
            }
        }
        values.positions = Csr::new(count as usize + values.phis.len(), &pairs);
        values
    }
    /// The value at a place; `None` where nothing defines one (a parameter of a computation nobody calls).
    pub(crate) fn at(&self, place: ShapePosition) -> Option<ValueId> {
        let value = self.at[place.index()];
        (value != ValueId::NONE).then_some(value)
    }
    /// All values, in id order.
    pub(crate) fn list(&self) -> &[ValueId] {
        &self.list
    }
    /// One more than the largest id: the length of a table over values.
    pub(crate) fn table_len(&self) -> usize {
        self.at.len() + self.phis.len()
    }
    /// Whether the value is a phi.
    pub(crate) fn is_phi(&self, id: ValueId) -> bool {
        id.index() >= self.at.len()
    }
    /// The place that defines a value.
    pub(crate) fn place(&self, id: ValueId) -> ShapePosition {
        id.index().checked_sub(self.at.len()).map_or(ShapePosition(id.0), |phi| self.phis[phi])
    }
    /// The places at which a value appears beside the one that defines it.
    pub(crate) fn other_positions(&self, id: ValueId) -> impl Iterator<Item = ShapePosition> + '_ {
        self.positions.get(id.0).iter().copied().map(ShapePosition)
    }
    /// All places at which a value appears, the defining one first.
    pub(crate) fn positions(&self, id: ValueId) -> impl Iterator<Item = ShapePosition> + '_ {
        std::iter::once(self.place(id)).chain(self.other_positions(id))
    }
}
