//! A value that may be a tuple, seen through the tuples it is made of.

use std::rc::Rc;

use hlo_ir::shape::ShapeRef;
use hlo_ir::{InstructionId, Shape};

/// What stands for a value.
#[derive(Clone, Debug)]
pub(super) enum Tree {
    /// An instruction: an array, or a tuple that is not looked into.
    Leaf(InstructionId),
    /// What stands in the flat state `of` from element `first` on.
    Part {
        /// The loop, or the parameter of its body or condition.
        of: InstructionId,
        /// Its first element.
        first: usize,
        /// The shape it had before.
        shape: ShapeRef,
    },
    /// A tuple of these, and the instruction that puts it together if there is one.
    Node(Rc<[Tree]>, Option<InstructionId>),
}

impl Tree {
    /// An element; `None` if this is not looked into.
    pub(super) fn child(&self, index: usize) -> Option<Self> {
        match self {
            Self::Leaf(_) => None,
            Self::Node(children, _) => children.get(index).cloned(),
            Self::Part { of, first, shape } => {
                let elements = shape.as_tuple()?;
                let before: usize = elements.get(..index)?.iter().map(|element| count(element)).sum();
                Some(Self::Part { of: *of, first: first + before, shape: elements.get(index)?.clone() })
            }
        }
    }
}

/// How many arrays, or other values that are no tuples, a shape holds.
pub(super) fn count(shape: &Shape) -> usize {
    shape.as_tuple().map_or(1, |elements| elements.iter().map(|element| count(element)).sum())
}

/// The shape without inner tuples.
pub(super) fn flat(shape: &ShapeRef) -> ShapeRef {
    let mut leaves = Vec::new();
    collect(shape, &mut leaves);
    Shape::tuple(leaves)
}

fn collect(shape: &ShapeRef, leaves: &mut Vec<ShapeRef>) {
    match shape.as_tuple() {
        Some(elements) => elements.iter().for_each(|element| collect(element, leaves)),
        None => leaves.push(shape.clone()),
    }
}
