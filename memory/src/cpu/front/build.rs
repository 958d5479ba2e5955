//! Making instructions: the shape inference and attribute spelling that the rewrites need.

use std::sync::Arc;

use hlo_ir::attribute::{PadDim, SliceDim, WindowDim};
use hlo_ir::shape::{ArrayShape, Dims, Shape, ShapeRef};
use hlo_ir::{AttrKey, AttrValue, Attribute, ComputationId, ElementType, Instruction, Opcode, Payload};

use super::cx::{Cx, Id};
use super::dims::{delete_dims, permute_shape};
use super::value::{Literal, Scalar};

/// An array shape, ready to share.
pub(crate) fn share(array: ArrayShape) -> ShapeRef {
    Arc::new(Shape::Array(array))
}

/// A row-major array shape.
pub(crate) fn row_major(element_type: ElementType, dims: impl IntoIterator<Item = i64>) -> ShapeRef {
    Shape::array(element_type, dims)
}

/// The attribute `dimensions={...}`.
pub(crate) fn dimensions(dims: impl IntoIterator<Item = i64>) -> Attribute {
    Attribute::ints(AttrKey::Dimensions, dims)
}

impl Cx<'_> {
    /// Adds an instruction to the computation of `at`, whose metadata it inherits.
    pub(crate) fn make(
        &mut self,
        at: Id,
        shape: ShapeRef,
        opcode: Opcode,
        operands: &[Id],
        attributes: impl IntoIterator<Item = Attribute>,
    ) -> Id {
        let mut inst = Instruction::new(opcode.name(), shape, opcode, operands.iter().copied());
        inst.attributes.extend(attributes);
        if let Some(metadata) = self.inst(at).attribute(&AttrKey::Metadata).cloned() {
            inst.attributes.push(Attribute::new(AttrKey::Metadata, metadata));
        }
        let parent = self.parent(at);
        let new = self.add(parent, inst);
        self.stems_from(new, at);
        new
    }

    /// A copy of `like` with other operands and another shape.
    pub(crate) fn like(&mut self, like: Id, shape: ShapeRef, operands: &[Id]) -> Id {
        let mut inst = self.inst(like).clone();
        inst.shape = shape;
        inst.operands = operands.iter().copied().collect();
        let parent = self.parent(like);
        let new = self.add(parent, inst);
        self.stems_from(new, like);
        new
    }

    /// A copy of an instruction with other operands, in another computation; a constant keeps what is known of its value.
    pub(crate) fn copy_to(&mut self, computation: ComputationId, id: Id, operands: &[Id]) -> Id {
        let mut inst = self.inst(id).clone();
        inst.operands = operands.iter().copied().collect();
        let literal = self.literal(id);
        let copy = self.add(computation, inst);
        self.stems_from(copy, id);
        if let Some(literal) = literal {
            self.know(copy, literal);
        }
        copy
    }

    /// A scalar constant, rounded to its type.
    pub(crate) fn constant(&mut self, at: Id, element_type: ElementType, value: Scalar) -> Id {
        let literal = Literal::one(element_type, value);
        self.array_constant(at, ArrayShape::scalar(element_type), literal)
    }

    /// A constant with these elements.
    pub(crate) fn array_constant(&mut self, at: Id, array: ArrayShape, literal: Literal) -> Id {
        let text = literal.text(&array);
        let inst = Instruction::new("constant", share(array), Opcode::Constant, [])
            .with_payload(Payload::Literal(text.into()));
        let parent = self.parent(at);
        let id = self.add(parent, inst);
        self.stems_from(id, at);
        self.know(id, literal);
        id
    }

    /// The number `value` in the type and shape of `base`: a scalar constant, broadcast if need be.
    ///
    /// Source: `MakeScalarLike` (xla/service/hlo_creation_utils.h).
    pub(crate) fn scalar_like(&mut self, base: Id, value: f64) -> Id {
        let (element_type, shape) = (self.element_type(base), self.shape(base).clone());
        let scalar = self.constant(base, element_type, Scalar::of(element_type, value));
        if self.is_scalar(base) { scalar } else { self.broadcast(base, shape, scalar, &[]) }
    }

    /// An operation on arrays of one shape, without attributes.
    pub(crate) fn elementwise(&mut self, at: Id, shape: ShapeRef, opcode: Opcode, operands: &[Id]) -> Id {
        self.make(at, shape, opcode, operands, [])
    }

    /// An operation on two arrays of one type, in the shape of the first.
    pub(crate) fn binary(&mut self, at: Id, opcode: Opcode, a: Id, b: Id) -> Id {
        let shape = self.shape(a).clone();
        self.make(at, shape, opcode, &[a, b], [])
    }

    /// `a DIRECTION b`.
    pub(crate) fn compare(&mut self, at: Id, a: Id, b: Id, direction: &str) -> Id {
        let shape = share(self.arr(a).with_element_type(ElementType::Pred));
        self.make(at, shape, Opcode::Compare, &[a, b], [Attribute::word(AttrKey::Direction, direction)])
    }

    /// A conversion to another element type, in the operand's layout.
    pub(crate) fn convert(&mut self, at: Id, operand: Id, to: ElementType) -> Id {
        let shape = share(self.arr(operand).with_element_type(to));
        self.make(at, shape, Opcode::Convert, &[operand], [])
    }

    /// A broadcast whose dimension `k` of the operand becomes `dims[k]`.
    pub(crate) fn broadcast(&mut self, at: Id, shape: ShapeRef, operand: Id, dims: &[i64]) -> Id {
        self.make(at, shape, Opcode::Broadcast, &[operand], [dimensions(dims.iter().copied())])
    }

    /// A reshape.
    pub(crate) fn reshape(&mut self, at: Id, shape: ShapeRef, operand: Id) -> Id {
        self.make(at, shape, Opcode::Reshape, &[operand], [])
    }

    /// A reshape to row-major order.
    pub(crate) fn reshape_to(&mut self, at: Id, operand: Id, dims: impl IntoIterator<Item = i64>) -> Id {
        let shape = row_major(self.element_type(operand), dims);
        self.reshape(at, shape, operand)
    }

    /// A transpose in the layout that makes it a bitcast.
    ///
    /// Source: `MakeTransposeHlo`, whose shape inference permutes the layout too.
    pub(crate) fn transpose(&mut self, at: Id, operand: Id, permutation: &[i64]) -> Id {
        let shape = share(permute_shape(&self.arr(operand), permutation));
        self.transpose_as(at, shape, operand, permutation)
    }

    /// A transpose of a given shape.
    pub(crate) fn transpose_as(&mut self, at: Id, shape: ShapeRef, operand: Id, permutation: &[i64]) -> Id {
        self.make(at, shape, Opcode::Transpose, &[operand], [dimensions(permutation.iter().copied())])
    }

    /// A row-major transpose, or the operand itself if nothing moves.
    ///
    /// Source: `MaybeTranspose` (xla/service/gather_scatter_utils.cc).
    pub(crate) fn maybe_transpose(&mut self, at: Id, operand: Id, permutation: &[i64]) -> Id {
        if permutation.is_sorted() {
            return operand;
        }
        let array = self.arr(operand);
        let shape = row_major(array.element_type, permutation.iter().map(|&dim| array.dims[dim as usize]));
        self.transpose_as(at, shape, operand, permutation)
    }

    /// A slice of a given shape.
    pub(crate) fn slice(&mut self, at: Id, shape: ShapeRef, operand: Id, bounds: Vec<SliceDim>) -> Id {
        self.make(
            at,
            shape,
            Opcode::Slice,
            &[operand],
            [Attribute::new(AttrKey::Slice, AttrValue::Slice(bounds.into()))],
        )
    }

    /// A concatenation of a given shape.
    pub(crate) fn concatenate(&mut self, at: Id, shape: ShapeRef, operands: &[Id], dim: i64) -> Id {
        self.make(at, shape, Opcode::Concatenate, operands, [dimensions([dim])])
    }

    /// Positions along one dimension.
    pub(crate) fn iota(&mut self, at: Id, shape: ShapeRef, dim: i64) -> Id {
        self.make(at, shape, Opcode::Iota, &[], [Attribute::int(AttrKey::IotaDimension, dim)])
    }

    /// A pad of a given shape.
    pub(crate) fn pad(&mut self, at: Id, shape: ShapeRef, operand: Id, value: Id, padding: Vec<PadDim>) -> Id {
        let padding = Attribute::new(AttrKey::Padding, AttrValue::Padding(padding.into()));
        self.make(at, shape, Opcode::Pad, &[operand, value], [padding])
    }

    /// A slice whose start is computed.
    pub(crate) fn dynamic_slice(&mut self, at: Id, shape: ShapeRef, operand: Id, starts: &[Id]) -> Id {
        let sizes: Dims = shape.as_array().map(|array| array.dims.clone()).unwrap_or_default();
        let mut operands = vec![operand];
        operands.extend_from_slice(starts);
        let sizes = Attribute::ints(AttrKey::DynamicSliceSizes, sizes);
        self.make(at, shape, Opcode::DynamicSlice, &operands, [sizes])
    }

    /// `operand` with `update` written at a computed start.
    pub(crate) fn dynamic_update_slice(&mut self, at: Id, operand: Id, update: Id, starts: &[Id]) -> Id {
        let shape = self.shape(operand).clone();
        let mut operands = vec![operand, update];
        operands.extend_from_slice(starts);
        self.make(at, shape, Opcode::DynamicUpdateSlice, &operands, [])
    }

    /// One element of a tuple.
    pub(crate) fn element(&mut self, at: Id, tuple: Id, index: i64) -> Id {
        let shape = self.shape(tuple).as_tuple().and_then(|elements| elements.get(index as usize)).cloned();
        let shape = shape.unwrap_or_else(|| Arc::new(Shape::Tuple(Vec::new())));
        self.make(at, shape, Opcode::GetTupleElement, &[tuple], [Attribute::int(AttrKey::Index, index)])
    }

    /// A tuple.
    pub(crate) fn tuple(&mut self, at: Id, elements: &[Id]) -> Id {
        let shape = Shape::tuple(elements.iter().map(|&element| self.shape(element).clone()));
        self.make(at, shape, Opcode::Tuple, elements, [])
    }

    /// A reduction of one array; the result is row-major.
    pub(crate) fn reduce(&mut self, at: Id, operand: Id, init: Id, dims: &[i64], to_apply: ComputationId) -> Id {
        let shape = share(delete_dims(&self.arr(operand), dims));
        self.reduce_as(at, shape, operand, init, dims, to_apply)
    }

    /// A reduction of a given shape.
    pub(crate) fn reduce_as(
        &mut self,
        at: Id,
        shape: ShapeRef,
        operand: Id,
        init: Id,
        dims: &[i64],
        to_apply: ComputationId,
    ) -> Id {
        let attributes = [dimensions(dims.iter().copied()), apply(to_apply)];
        self.make(at, shape, Opcode::Reduce, &[operand, init], attributes)
    }

    /// A windowed reduction of one array.
    pub(crate) fn reduce_window(
        &mut self,
        at: Id,
        shape: ShapeRef,
        operands: &[Id],
        window: Vec<WindowDim>,
        to_apply: ComputationId,
    ) -> Id {
        let window = Attribute::new(AttrKey::Window, AttrValue::Window(Arc::new(window)));
        self.make(at, shape, Opcode::ReduceWindow, operands, [window, apply(to_apply)])
    }
}

/// The attribute `to_apply=...`.
pub(crate) fn apply(computation: ComputationId) -> Attribute {
    Attribute::new(AttrKey::ToApply, AttrValue::Computation(computation))
}
