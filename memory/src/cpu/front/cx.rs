//! The graph together with what the rules know about it: the values of constants.

use std::cell::RefCell;
use std::ops::{Deref, DerefMut};

use hlo_ir::arena::{Id as _, SideTable};
use hlo_ir::shape::{ArrayShape, Dims, ShapeRef};
use hlo_ir::{AttrKey, ComputationId, ElementType, InstructionId, Opcode};

use super::value::{Literal, Scalar};
use crate::cpu::graph::Graph;
use crate::hash::IndexMap;

/// Short for the many signatures of the rules.
pub(crate) type Id = InstructionId;

/// The graph being rewritten, and the constants read so far.
pub(crate) struct Cx<'g> {
    graph: &'g mut Graph,
    /// By constant: few instructions are one.
    literals: RefCell<IndexMap<InstructionId, Literal>>,
    /// What each computation, and all that it calls, was when no rule of the simplifier fitted any more.
    pub(crate) simple: SideTable<ComputationId, Option<u64>>,
    /// Whether layouts count when shapes are compared (the clean-up after layout assignment).
    pub(crate) layout_sensitive: bool,
    /// Whether convolutions are calls of a library already, which no rule changes.
    pub(crate) calls_convolutions: bool,
}

impl Deref for Cx<'_> {
    type Target = Graph;
    #[inline]
    fn deref(&self) -> &Graph {
        self.graph
    }
}

impl DerefMut for Cx<'_> {
    #[inline]
    fn deref_mut(&mut self) -> &mut Graph {
        self.graph
    }
}

impl<'g> Cx<'g> {
    /// Wraps a graph before layouts are assigned.
    pub(crate) fn new(graph: &'g mut Graph) -> Self {
        Self {
            graph,
            literals: RefCell::default(),
            simple: SideTable::new(None),
            layout_sensitive: false,
            calls_convolutions: false,
        }
    }

    /// The value of an array constant.
    pub(crate) fn literal(&self, id: Id) -> Option<Literal> {
        if self.opcode(id) != Opcode::Constant {
            return None;
        }
        if let Some(known) = self.literals.borrow().get(&id) {
            return Some(known.clone());
        }
        let literal = Literal::read(self.array(id)?, self.inst(id).literal()?, id.index() as u64);
        self.literals.borrow_mut().insert(id, literal.clone());
        Some(literal)
    }

    /// Notes the value of a constant that was just made.
    pub(crate) fn know(&mut self, id: Id, literal: Literal) {
        self.literals.get_mut().insert(id, literal);
    }

    /// The value of a constant with one element.
    pub(crate) fn scalar(&self, id: Id) -> Option<Scalar> {
        if self.array(id)?.elements() == Some(1) { self.literal(id)?.first() } else { None }
    }

    /// The integer value of a constant with one element.
    pub(crate) fn int(&self, id: Id) -> Option<i64> {
        i64::try_from(self.scalar(id)?.int()?).ok()
    }

    /// Whether `id` is a constant, or a broadcast of one, all of whose elements are `value`.
    pub(crate) fn is_all(&self, id: Id, value: i8) -> bool {
        match self.opcode(id) {
            Opcode::Broadcast => self.is_all(self.operand(id, 0), value),
            Opcode::Constant => self.literal(id).is_some_and(|literal| literal.is_all(value)),
            _ => false,
        }
    }

    /// The same for a float that is no small integer.
    pub(crate) fn is_all_float(&self, id: Id, value: f64) -> bool {
        match self.opcode(id) {
            Opcode::Broadcast => self.is_all_float(self.operand(id, 0), value),
            Opcode::Constant => self.literal(id).is_some_and(|literal| literal.is_all_float(value)),
            _ => false,
        }
    }

    /// The array `id` produces. Rules ask this of opcodes that only make arrays; anything else reads as an empty scalar that no rule fits.
    pub(crate) fn arr(&self, id: Id) -> ArrayShape {
        self.array(id).cloned().unwrap_or_else(|| ArrayShape::scalar(ElementType::Pred))
    }

    /// Sizes of the array.
    pub(crate) fn dims(&self, id: Id) -> Dims {
        self.array(id).map(|array| Dims::from_slice(&array.dims)).unwrap_or_default()
    }

    /// Number of dimensions.
    pub(crate) fn rank(&self, id: Id) -> usize {
        self.array(id).map_or(0, ArrayShape::rank)
    }

    /// Element type, or `pred` for what is no array.
    pub(crate) fn element_type(&self, id: Id) -> ElementType {
        self.array(id).map_or(ElementType::Pred, |array| array.element_type)
    }

    /// Number of elements; the largest number if it does not fit.
    pub(crate) fn elements(&self, id: Id) -> u64 {
        self.array(id).map_or(0, |array| array.elements().unwrap_or(u64::MAX))
    }

    /// Whether this is an array without dimensions.
    pub(crate) fn is_scalar(&self, id: Id) -> bool {
        self.array(id).is_some_and(ArrayShape::is_scalar)
    }

    /// Whether this is an array of one element, whatever its rank.
    pub(crate) fn is_effective_scalar(&self, id: Id) -> bool {
        self.array(id).is_some_and(|array| array.dims.iter().all(|&dim| dim == 1))
    }

    /// Whether this is an array without elements.
    pub(crate) fn is_empty_array(&self, id: Id) -> bool {
        self.array(id).is_some_and(|array| array.dims.contains(&0))
    }

    /// Whether `new` may stand for `old`: the same shape, in the sense of the current mode.
    pub(crate) fn same_shape(&self, old: Id, new: Id) -> bool {
        self.shapes_agree(self.shape(old), self.shape(new))
    }

    /// Whether two shapes are the same in the sense of the current mode.
    pub(crate) fn shapes_agree(&self, a: &ShapeRef, b: &ShapeRef) -> bool {
        if self.layout_sensitive { a == b } else { a.compatible(b) }
    }

    /// `new` if it may stand for `old`.
    pub(crate) fn if_same(&self, old: Id, new: Id) -> Option<Id> {
        self.same_shape(old, new).then_some(new)
    }

    /// The attribute `dimensions={...}`.
    pub(crate) fn dimensions(&self, id: Id) -> Dims {
        Dims::from_slice(self.inst(id).ints(&AttrKey::Dimensions))
    }

    /// The one operand of `id` if `id` has this opcode.
    pub(crate) fn of(&self, id: Id, opcode: Opcode) -> Option<Id> {
        if self.opcode(id) == opcode { self.operands(id).first().copied() } else { None }
    }

    /// Both operands of `id` if `id` has this opcode.
    pub(crate) fn both(&self, id: Id, opcode: Opcode) -> Option<(Id, Id)> {
        match (self.opcode(id) == opcode, self.operands(id)) {
            (true, &[a, b]) => Some((a, b)),
            _ => None,
        }
    }

    /// Whether `id` is a constant.
    pub(crate) fn is_constant(&self, id: Id) -> bool {
        self.opcode(id) == Opcode::Constant
    }

    /// The operand if `id` broadcasts a scalar.
    pub(crate) fn scalar_broadcast(&self, id: Id) -> Option<Id> {
        self.of(id, Opcode::Broadcast).filter(|&operand| self.is_scalar(operand))
    }

    /// The scalar constant that `id` broadcasts.
    pub(crate) fn constant_broadcast(&self, id: Id) -> Option<Id> {
        self.scalar_broadcast(id).filter(|&operand| self.is_constant(operand))
    }

    /// The computation a reduction, scatter, map, sort or call applies.
    pub(crate) fn to_apply(&self, id: Id) -> Option<ComputationId> {
        self.inst(id).computation(&AttrKey::ToApply)
    }

    /// The opcode of a computation that only applies it to its two parameters, such as `add` for a sum.
    pub(crate) fn binary_of_parameters(&self, computation: ComputationId) -> Option<Opcode> {
        let root = self.root(computation);
        let &[a, b] = self.operands(root) else { return None };
        let (a, b) = (self.inst(a).parameter_number()?, self.inst(b).parameter_number()?);
        matches!((a, b), (0, 1) | (1, 0)).then(|| self.opcode(root))
    }

    /// Whether every user of `id` counts it once and there is one user.
    pub(crate) fn one_use(&self, id: Id) -> bool {
        let mut uses = 0;
        for position in 0..self.user_count(id) {
            let Some(user) = self.user(id, position) else { break };
            uses += self.operands(user).iter().filter(|&&operand| operand == id).count();
            if uses > 1 {
                return false;
            }
        }
        uses == 1
    }
}
