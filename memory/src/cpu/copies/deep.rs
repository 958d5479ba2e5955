//! Copies of whole values: a tuple is taken apart, its arrays are copied, and it is put together again.
//!
//! Source: `HloComputation::DeepCopyInstruction` (xla/hlo/ir/hlo_computation.cc).

use hlo_ir::shape::ShapeRef;
use hlo_ir::{AttrKey, Attribute, Instruction, InstructionId, Opcode, Shape};

use super::super::graph::Graph;

/// A copied value.
pub(super) struct DeepCopy {
    /// The instruction that produces it.
    pub(super) result: InstructionId,
    /// The copies, by position of the array in a pre-order walk over the shape.
    pub(super) copies: Vec<Option<InstructionId>>,
}

/// Copies the arrays of `source` at the positions that `wanted` names, or all. Positions count tuples and arrays in pre-order.
pub(super) fn deep_copy(graph: &mut Graph, source: InstructionId, wanted: Option<&[bool]>) -> DeepCopy {
    let mut copies = Vec::new();
    let result = copy_below(graph, source, wanted, &mut copies);
    DeepCopy { result, copies }
}

fn copy_below(
    graph: &mut Graph,
    id: InstructionId,
    wanted: Option<&[bool]>,
    copies: &mut Vec<Option<InstructionId>>,
) -> InstructionId {
    let position = copies.len();
    copies.push(None);
    let (shape, parent): (ShapeRef, _) = (graph.shape(id).clone(), graph.parent(id));
    match shape.as_ref() {
        Shape::Tuple(elements) => {
            let mut parts = Vec::with_capacity(elements.len());
            for (index, element) in elements.iter().enumerate() {
                let part = Instruction::new("get-tuple-element", element.clone(), Opcode::GetTupleElement, [id])
                    .with(Attribute::int(AttrKey::Index, index as i64));
                let part = graph.add(parent, part);
                parts.push(copy_below(graph, part, wanted, copies));
            }
            graph.add(parent, Instruction::new("tuple", shape.clone(), Opcode::Tuple, parts))
        }
        Shape::Array(_) if wanted.is_none_or(|wanted| wanted[position]) => {
            let copy = graph.add(parent, Instruction::new("copy", shape, Opcode::Copy, [id]));
            graph.pass_metadata(id, copy);
            copies[position] = Some(copy);
            copy
        }
        _ => id,
    }
}

/// Number of positions of a shape.
pub(super) fn positions(shape: &Shape) -> usize {
    match shape {
        Shape::Tuple(elements) => 1 + elements.iter().map(|element| positions(element)).sum::<usize>(),
        _ => 1,
    }
}

/// The position of a tuple index.
pub(super) fn position_of(shape: &Shape, index: &[i64]) -> Option<usize> {
    let Some((&first, rest)) = index.split_first() else { return Some(0) };
    let (elements, first) = (shape.as_tuple()?, usize::try_from(first).ok()?);
    let before: usize = elements.get(..first)?.iter().map(|element| positions(element)).sum();
    Some(1 + before + position_of(elements.get(first)?, rest)?)
}
