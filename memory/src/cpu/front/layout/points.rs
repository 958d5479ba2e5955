//! Which arrays a value consists of, and which instruction makes each of them.
//!
//! Source: `TuplePointsToAnalysis`, `LogicalBuffer` (xla/service).

use std::ops::Range;

use hlo_ir::arena::SideTable;
use hlo_ir::shape::{ArrayShape, Shape};
use hlo_ir::{AttrKey, ComputationId, Opcode};
use smallvec::SmallVec;

use super::super::calls::visit_order;
use super::super::cx::{Cx, Id};

/// Number of an array that some instruction makes.
pub(super) type Buffer = usize;

/// The arrays of a value; most values are one.
pub(super) type Leaves = SmallVec<[Buffer; 1]>;

/// An array and where it is made.
pub(super) struct Made {
    /// The instruction that makes it.
    pub(super) by: Id,
    /// Its position among the arrays of the result, tuples opened.
    pub(super) leaf: usize,
    /// Its number of dimensions.
    pub(super) rank: usize,
}

/// The arrays of every value.
pub(super) struct Points {
    leaves: SideTable<Id, Leaves>,
    /// Every array that is made, in the order in which a visitor meets them.
    pub(super) made: Vec<Made>,
    of: SideTable<ComputationId, (Buffer, Buffer)>,
    /// The values that are one array each, by that array; empty where nobody asks.
    values: Vec<SmallVec<[Id; 2]>>,
}

/// The arrays in a shape, tuples opened.
pub(super) fn arrays(shape: &Shape) -> SmallVec<[&ArrayShape; 1]> {
    fn collect<'s>(shape: &'s Shape, arrays: &mut SmallVec<[&'s ArrayShape; 1]>) {
        match shape {
            Shape::Array(array) => arrays.push(array),
            Shape::Tuple(elements) => elements.iter().for_each(|element| collect(element, arrays)),
            _ => {}
        }
    }
    let mut result = SmallVec::new();
    collect(shape, &mut result);
    result
}

/// Number of arrays in a shape.
pub(super) fn count(shape: &Shape) -> usize {
    match shape {
        Shape::Array(_) => 1,
        Shape::Tuple(elements) => elements.iter().map(|element| count(element)).sum(),
        _ => 0,
    }
}

/// Position of the first array at a tuple index.
pub(super) fn first_at(shape: &Shape, index: &[i64]) -> usize {
    match (shape.as_tuple(), index) {
        (Some(elements), [first, rest @ ..]) => {
            let first = *first as usize;
            let before: usize = elements.iter().take(first).map(|element| count(element)).sum();
            before + elements.get(first).map_or(0, |element| first_at(element, rest))
        }
        _ => 0,
    }
}

impl Points {
    /// Analyses these computations, and which values are which array if `with_values`.
    pub(super) fn of(cx: &Cx<'_>, computations: &[ComputationId], with_values: bool) -> Self {
        let leaves = SideTable::new(Leaves::new());
        let mut points = Self { leaves, made: Vec::new(), of: SideTable::new((0, 0)), values: Vec::new() };
        for &computation in computations {
            let start = points.made.len();
            for id in visit_order(cx, computation) {
                let leaves = points.of_instruction(cx, id);
                if let (true, [buffer], true) = (with_values, leaves.as_slice(), cx.array(id).is_some()) {
                    points.values.resize(points.made.len(), SmallVec::new());
                    points.values[*buffer].push(id);
                }
                points.leaves.set(id, leaves);
            }
            points.of.set(computation, (start, points.made.len()));
        }
        points
    }

    fn of_instruction(&mut self, cx: &Cx<'_>, id: Id) -> Leaves {
        match cx.opcode(id) {
            Opcode::Tuple => cx.operands(id).iter().flat_map(|&operand| self.leaves[operand].clone()).collect(),
            Opcode::GetTupleElement => {
                let operand = cx.operand(id, 0);
                let index = cx.inst(id).int(&AttrKey::Index).unwrap_or(0);
                let start = first_at(cx.shape(operand), &[index]);
                let end = start + count(cx.shape(id));
                self.leaves[operand].get(start..end).map(Leaves::from_slice).unwrap_or_default()
            }
            Opcode::OptBarrier => self.leaves[cx.operand(id, 0)].clone(),
            _ => {
                let start = self.made.len();
                let arrays = arrays(cx.shape(id));
                let made = arrays.iter().enumerate().map(|(leaf, array)| Made { by: id, leaf, rank: array.rank() });
                self.made.extend(made);
                (start..self.made.len()).collect()
            }
        }
    }

    /// The arrays a value consists of.
    pub(super) fn leaves(&self, id: Id) -> &[Buffer] {
        &self.leaves[id]
    }

    /// The values that are this array, the one that makes it first.
    pub(super) fn values(&self, buffer: Buffer) -> &[Id] {
        self.values.get(buffer).map_or(&[], SmallVec::as_slice)
    }

    /// The arrays made in a computation.
    pub(super) fn made_in(&self, computation: ComputationId) -> Range<Buffer> {
        let (start, end) = self.of[computation];
        start..end
    }

    /// Whether an instruction forwards arrays of its operands instead of making its own.
    pub(super) fn forwards(cx: &Cx<'_>, id: Id) -> bool {
        matches!(cx.opcode(id), Opcode::Tuple | Opcode::GetTupleElement | Opcode::OptBarrier)
    }
}
