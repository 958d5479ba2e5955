//! Numbering of places: one tuple index of one instruction. Values, positions and live ranges are tables over these numbers.
//!
//! Positions are numbered computation by computation in text order, instructions in post-order, tuple indices in pre-order: the order in
//! which XLA numbers its values, so that a value can carry the number of the place that defines it.
//!
//! Source: `HloPosition` (xla/service/hlo_value.h), `ShapeTree` (xla/shape_tree.h).

use hlo_ir::arena::Id;
use hlo_ir::shape::Dims;
use hlo_ir::{ComputationId, InstructionId, Module, Shape};
use smallvec::SmallVec;

use super::classes::Classes;
use super::order::{PostOrder, Users};

const NONE: u32 = u32::MAX;

/// One tuple index of one instruction.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub(crate) struct ShapePosition(pub(crate) u32);

impl ShapePosition {
    /// The number as an index.
    pub(crate) const fn index(self) -> usize {
        self.0 as usize
    }
    /// The place `offset` further on, in pre-order.
    pub(crate) const fn plus(self, offset: u32) -> Self {
        Self(self.0 + offset)
    }
}

/// All places of the computations that own memory.
#[derive(Clone, Debug)]
pub(crate) struct ShapePositions<'m> {
    order: Vec<InstructionId>,
    bounds: Vec<(u32, u32)>,
    first: Vec<u32>,
    owner: Vec<InstructionId>,
    shape: Vec<&'m Shape>,
    child_start: Vec<u32>,
    children: Vec<u32>,
}

impl<'m> ShapePositions<'m> {
    /// Numbers the places of every computation with memory.
    pub(crate) fn of(module: &'m Module, classes: &Classes, users: &Users) -> Self {
        let mut places = Self {
            order: Vec::with_capacity(module.instruction_count()),
            bounds: vec![(0, 0); module.computation_count()],
            first: vec![NONE; module.instruction_count()],
            owner: Vec::with_capacity(module.instruction_count()),
            shape: Vec::with_capacity(module.instruction_count()),
            child_start: Vec::with_capacity(module.instruction_count() + 1),
            children: Vec::new(),
        };
        let mut post_order = PostOrder::new(module, users, classes.controlled());
        for &computation in module.computation_ids().iter().filter(|&&id| classes.has_memory(id)) {
            let from = places.order.len() as u32;
            post_order.append(computation, &mut places.order);
            places.bounds[computation.index()] = (from, places.order.len() as u32);
        }
        for at in 0..places.order.len() {
            let id = places.order[at];
            places.first[id.index()] = places.owner.len() as u32;
            places.add(id, module.shape(id));
        }
        places.child_start.push(places.children.len() as u32);
        places
    }
    /// Numbers `shape` and everything inside it. Children lists are reserved before the children are numbered, so that the lists
    /// stand in the order of the places that own them.
    fn add(&mut self, owner: InstructionId, shape: &'m Shape) {
        let mut stack = SmallVec::<[(u32, &'m Shape); 8]>::new();
        self.add_one(owner, shape, &mut stack);
        while let Some((slot, shape)) = stack.pop() {
            self.children[slot as usize] = self.owner.len() as u32;
            self.add_one(owner, shape, &mut stack);
        }
    }
    fn add_one(&mut self, owner: InstructionId, shape: &'m Shape, stack: &mut SmallVec<[(u32, &'m Shape); 8]>) {
        let from = self.children.len() as u32;
        self.owner.push(owner);
        self.shape.push(shape);
        self.child_start.push(from);
        if let Shape::Tuple(elements) = shape {
            self.children.resize(self.children.len() + elements.len(), NONE);
            stack.extend(elements.iter().enumerate().rev().map(|(k, inner)| (from + k as u32, inner.as_ref())));
        }
    }
    /// Number of places.
    pub(crate) fn len(&self) -> usize {
        self.owner.len()
    }
    /// Instructions of all computations with memory: computations in text order, post-order inside.
    pub(crate) fn order(&self) -> &[InstructionId] {
        &self.order
    }
    /// Instructions of one computation in post-order; empty if it owns no memory.
    pub(crate) fn post_order(&self, id: ComputationId) -> &[InstructionId] {
        let (from, to) = self.bounds[id.index()];
        &self.order[from as usize..to as usize]
    }
    /// The place of an instruction's whole result; `None` if it stands in a computation without memory.
    pub(crate) fn root(&self, id: InstructionId) -> Option<ShapePosition> {
        let first = self.first[id.index()];
        (first != NONE).then_some(ShapePosition(first))
    }
    /// All places of an instruction, pre-order.
    pub(crate) fn of_instruction(&self, id: InstructionId) -> impl ExactSizeIterator<Item = ShapePosition> + use<> {
        let (from, count) = match self.root(id) {
            Some(first) => (first.0, self.count(id)),
            None => (0, 0),
        };
        (from..from + count).map(ShapePosition)
    }
    /// Number of places of an instruction.
    pub(crate) fn count(&self, id: InstructionId) -> u32 {
        self.root(id).map_or(0, |root| self.tree_len(root))
    }
    /// Number of places at and below a place.
    pub(crate) fn tree_len(&self, place: ShapePosition) -> u32 {
        let mut last = place;
        while let Some(&child) = self.children_of(last).last() {
            last = ShapePosition(child);
        }
        last.0 - place.0 + 1
    }
    fn children_of(&self, place: ShapePosition) -> &[u32] {
        &self.children[self.child_start[place.index()] as usize..self.child_start[place.index() + 1] as usize]
    }
    /// The place of tuple element `k`.
    pub(crate) fn child(&self, place: ShapePosition, k: usize) -> Option<ShapePosition> {
        self.children_of(place).get(k).map(|&child| ShapePosition(child))
    }
    /// The place at a tuple index of an instruction.
    pub(crate) fn at(&self, id: InstructionId, index: &[i64]) -> Option<ShapePosition> {
        index.iter().try_fold(self.root(id)?, |place, &k| self.child(place, usize::try_from(k).ok()?))
    }
    /// The instruction a place belongs to.
    pub(crate) fn owner(&self, place: ShapePosition) -> InstructionId {
        self.owner[place.index()]
    }
    /// Distance from the instruction's first place, in pre-order: equal offsets of equal shapes are equal tuple indices.
    pub(crate) fn offset(&self, place: ShapePosition) -> u32 {
        place.0 - self.first[self.owner(place).index()]
    }
    /// The shape at a place.
    pub(crate) fn shape(&self, place: ShapePosition) -> &'m Shape {
        self.shape[place.index()]
    }
    /// The tuple index of a place, outermost first.
    pub(crate) fn tuple_index(&self, place: ShapePosition) -> Dims {
        let mut index = Dims::new();
        let mut at = ShapePosition(self.first[self.owner(place).index()]);
        while at != place {
            let k = self.children_of(at).partition_point(|&child| child <= place.0) - 1;
            index.push(k as i64);
            at = ShapePosition(self.children_of(at)[k]);
        }
        index
    }
}
