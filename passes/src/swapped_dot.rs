//! A product of arrays with its operands swapped, behind a transposition that XLA does not take back.

// Tests: `passes/tests/dot_operands.rs`.

use hlo_ir::edit::Patch;
use hlo_ir::{ArrayShape, AttrKey, Attribute, DotDims, ElementType, Instruction, InstructionId, Module, Opcode, Shape};
use hlo_memory::{Bytes, size};

use crate::fusion_barrier::identity_call;

/// Reads what `product` was from a product with swapped operands.
pub(crate) fn swap(module: &Module, product: InstructionId, patch: &mut Patch) {
    let inst = module.instruction(product);
    let (Some(result), Some(left), Some(right)) = (inst.array(), Side::of(module, inst, 0), Side::of(module, inst, 1))
    else {
        return;
    };
    let batches = result.rank() - left.free - right.free;
    // Batches, what is left of the right operand, what is left of the left one; and the way back.
    let there = (0..batches).chain(batches + left.free..result.rank()).chain(batches..batches + left.free);
    let back = (0..batches).chain(batches + right.free..result.rank()).chain(batches..batches + right.free);
    let dims = there.map(|dim| result.dims[dim]).collect::<Vec<_>>();
    let mut changed = inst.clone();
    changed.shape = Shape::Array(ArrayShape::new(result.element_type, dims)).into();
    swap_operands(&mut changed);
    let changed = patch.add(inst.parent, changed);
    patch.set_origin(changed, product);
    let mut block = patch.instruction(module, changed).clone();
    block.operands = [changed].into_iter().collect();
    let kept = identity_call(patch, inst.parent, &block);
    let order = Attribute::ints(AttrKey::Dimensions, back.map(|dim| dim as i64));
    let mut transpose = Instruction::new(inst.name.clone(), inst.shape.clone(), Opcode::Transpose, [kept]).with(order);
    transpose.attributes.extend(inst.attributes.iter().filter(|attribute| attribute.key == AttrKey::Metadata).cloned());
    patch.rewrite(product, transpose);
}

/// Lets the left operand be the right one, and the other way round.
fn swap_operands(inst: &mut Instruction) {
    inst.operands.swap(0, 1);
    let sides =
        [(AttrKey::LhsBatchDims, AttrKey::RhsBatchDims), (AttrKey::LhsContractingDims, AttrKey::RhsContractingDims)];
    for (left, right) in sides {
        if let (Some(lhs), Some(rhs)) = (inst.attribute(&left).cloned(), inst.attribute(&right).cloned()) {
            inst.set_attribute(left, rhs);
            inst.set_attribute(right, lhs);
        }
    }
}

/// How many times as much a swap spares as is done instead: bytes that are not copied and those that are, columns of the operand that is not packed and of the other one, which is,
/// and how deep the sum is and what is transposed behind it wide.
pub(crate) const MUCH_LARGER: u64 = 4;

/// One operand of a product as a matrix.
pub(crate) struct Side {
    /// Its memory.
    pub(crate) bytes: Bytes,
    /// Elements of the dimensions that are no batches and not contracted, and their number.
    pub(crate) columns: i64,
    free: usize,
    /// Elements of contracted dimensions.
    pub(crate) depth: i64,
    /// Whether the last dimension is contracted.
    pub(crate) in_rows: bool,
}

impl Side {
    /// The operands of a product of which the left one is not contracted in its last dimension, and which may be swapped.
    pub(crate) fn both(module: &Module, inst: &Instruction) -> Option<(Self, Self)> {
        // A precision of its own for each operand is left where it is.
        let plain = inst.attribute(&AttrKey::OperandPrecision).is_none() && inst.control_predecessors().is_empty();
        let (left, right) = (Self::of(module, inst, 0)?, Self::of(module, inst, 1)?);
        (plain && !left.in_rows).then_some((left, right))
    }

    /// `None` if this is no product, or of numbers that Eigen packs quickly.
    fn of(module: &Module, inst: &Instruction, side: usize) -> Option<Self> {
        let dims = DotDims::of(inst)?;
        let (batch, contracted) =
            [(dims.lhs_batch, dims.lhs_contracting), (dims.rhs_batch, dims.rhs_contracting)][side];
        let slow = |&array: &&ArrayShape| matches!(array.element_type, ElementType::F32 | ElementType::Bf16);
        let array = module.instruction(*inst.operands.get(side)?).array().filter(slow)?;
        let is = |dims: &[i64], dim: usize| dims.contains(&(dim as i64));
        let free: Vec<usize> = (0..array.rank()).filter(|&dim| !is(batch, dim) && !is(contracted, dim)).collect();
        let elements = |dims: &[usize]| dims.iter().map(|&dim| array.dims[dim]).fold(1, i64::saturating_mul);
        let contracted_dims: Vec<usize> = contracted.iter().map(|&dim| dim as usize).collect();
        Some(Self {
            bytes: size::array_size(array)?,
            columns: elements(&free),
            free: free.len(),
            depth: elements(&contracted_dims),
            in_rows: array.rank().checked_sub(1).is_some_and(|last| is(contracted, last)),
        })
    }
}
