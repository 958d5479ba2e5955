//! Numbers of rows, and the rows themselves, as they are written where something is computed again.

use hlo_ir::edit::Patch;
use hlo_ir::module::Payload;
use hlo_ir::{
    ArrayShape, AttrKey, Attribute, ComputationId, ElementType, Instruction, InstructionId, Module, Opcode, Shape,
};

use smol_str::SmolStr;

use crate::flow::block_shape;

/// Where something is computed again.
#[derive(Clone, Debug)]
pub(crate) struct InsertionPoint {
    /// The computation that is written into.
    pub(crate) to: ComputationId,
    /// The type of numbers of rows.
    pub(crate) element: ElementType,
    /// What numbers are called that follow from others.
    pub(crate) name: &'static str,
    /// Metadata of instructions without a counterpart in the original.
    pub(crate) metadata: Option<Attribute>,
}

impl InsertionPoint {
    /// Without metadata.
    pub(crate) const fn new(to: ComputationId, element: ElementType, name: &'static str) -> Self {
        Self { to, element, name, metadata: None }
    }

    /// With the metadata of an instruction.
    pub(crate) fn like(self, inst: &Instruction) -> Self {
        Self { metadata: metadata(inst), ..self }
    }

    /// A number that is known.
    pub(crate) fn constant(&self, patch: &mut Patch, value: i64) -> InstructionId {
        patch.add(self.to, number("row_constant", self.element, value))
    }

    /// A number that follows from others.
    pub(crate) fn scalar<const N: usize>(
        &self,
        patch: &mut Patch,
        opcode: Opcode,
        operands: [InstructionId; N],
    ) -> InstructionId {
        self.add(patch, Instruction::new(self.name, Shape::array(self.element, []), opcode, operands))
    }

    /// A number that is not below zero and not beyond the last one, which is where `dynamic-slice` moves it.
    pub(crate) fn clamped(&self, patch: &mut Patch, number: InstructionId, last: i64) -> InstructionId {
        let ends = [0, last].map(|end| self.constant(patch, end));
        self.scalar(patch, Opcode::Clamp, [ends[0], number, ends[1]])
    }

    /// A number in another type.
    pub(crate) fn convert(&self, patch: &mut Patch, value: InstructionId, to: ElementType) -> InstructionId {
        self.add(patch, Instruction::new(self.name, Shape::array(to, []), Opcode::Convert, [value]))
    }

    /// So many rows of an array of this shape, from a number of one on, along a dimension.
    pub(crate) fn rows(
        &self,
        patch: &mut Patch,
        name: &str,
        (array, shape): (InstructionId, &ArrayShape),
        (dim, first, count): (usize, InstructionId, i64),
    ) -> InstructionId {
        let part = shape.with_dim(dim, count);
        let starts = self.starts(patch, part.rank(), dim, first);
        self.add(patch, Instruction { name: name.into(), ..sliced(array, part, &starts) })
    }

    /// Where a slice of rows begins in each dimension.
    pub(crate) fn starts(
        &self,
        patch: &mut Patch,
        rank: usize,
        dim: usize,
        first: InstructionId,
    ) -> Vec<InstructionId> {
        let zero = self.constant(patch, 0);
        (0..rank).map(|other| if other == dim { first } else { zero }).collect()
    }

    /// Rows of an `iota` along its dimension, from a number on.
    pub(crate) fn counted(
        &self,
        patch: &mut Patch,
        iota: &Instruction,
        (dim, first, count): (usize, InstructionId, i64),
    ) -> Option<InstructionId> {
        let name = format!("{}.block", iota.name);
        let shape = block_shape(&iota.shape, dim, count);
        let shape = shape.as_array()?;
        // Integers wrap like the original; other types are counted in the type of numbers first, as a sum of rounded floats would differ.
        let counted = if shape.element_type.is_integer() { shape.element_type } else { self.element };
        let in_type = |element: ElementType| Shape::Array(shape.with_element_type(element)).into();
        let own = self.clone().like(iota);
        let first = if counted == self.element { first } else { self.convert(patch, first, counted) };
        let from_zero = Instruction::new(name.clone(), in_type(counted), Opcode::Iota, [])
            .with(Attribute::int(AttrKey::IotaDimension, i64::try_from(dim).ok()?));
        let from_zero = own.add(patch, from_zero);
        let spread = Instruction::new(name.clone(), in_type(counted), Opcode::Broadcast, [first])
            .with(Attribute::ints(AttrKey::Dimensions, []));
        let spread = own.add(patch, spread);
        let sum = own.add(patch, Instruction::new(name.clone(), in_type(counted), Opcode::Add, [from_zero, spread]));
        if counted == shape.element_type {
            return Some(sum);
        }
        Some(own.add(patch, Instruction::new(name, in_type(shape.element_type), Opcode::Convert, [sum])))
    }

    /// Adds an instruction without a counterpart in the original.
    pub(crate) fn add(&self, patch: &mut Patch, mut inst: Instruction) -> InstructionId {
        inst.attributes.extend(self.metadata.clone());
        patch.add(self.to, inst)
    }
}

/// A number as a constant.
pub(crate) fn number(name: impl Into<SmolStr>, element: ElementType, value: i64) -> Instruction {
    Instruction::new(name, Shape::array(element, []), Opcode::Constant, [])
        .with_payload(Payload::Literal(value.to_string().into()))
}

/// A block of this shape, at starts that are computed.
pub(crate) fn sliced(array: InstructionId, block: ArrayShape, starts: &[InstructionId]) -> Instruction {
    let sizes = Attribute::ints(AttrKey::DynamicSliceSizes, block.dims.iter().copied());
    let operands = [array].into_iter().chain(starts.iter().copied());
    Instruction::new("rows", Shape::Array(block).into(), Opcode::DynamicSlice, operands).with(sizes)
}

/// A value as an array of this shape, which has as many elements; `None` of what is no array.
pub(crate) fn shaped(
    module: &Module,
    patch: &mut Patch,
    (to, name): (ComputationId, &str),
    value: InstructionId,
    wanted: &ArrayShape,
) -> Option<InstructionId> {
    let has = patch.instruction(module, value).array()?;
    if has.dims == wanted.dims {
        return Some(value);
    }
    Some(patch.add(to, Instruction::new(name, Shape::Array(wanted.clone()).into(), Opcode::Reshape, [value])))
}

/// What the metadata of an instruction says, such as its source line.
pub(crate) fn metadata(inst: &Instruction) -> Option<Attribute> {
    inst.attributes.iter().find(|attribute| attribute.key == AttrKey::Metadata).cloned()
}
