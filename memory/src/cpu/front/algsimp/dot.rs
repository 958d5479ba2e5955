//! Matrix products.

use hlo_ir::shape::{ArrayShape, Dims};
use hlo_ir::{AttrKey, AttrValue, DotDims, ElementType, Opcode, Payload};

use super::super::build::{row_major, share};
use super::super::cx::{Cx, Id};
use super::super::dims::{drop_ones, permute_shape};

/// Dimension numbers of a dot that is being made.
#[derive(Clone, Default, PartialEq, Debug)]
pub(crate) struct Numbers {
    /// Batch dimensions of the left side.
    pub(crate) lhs_batch: Dims,
    /// Contracted dimensions of the left side.
    pub(crate) lhs_contracting: Dims,
    /// Batch dimensions of the right side.
    pub(crate) rhs_batch: Dims,
    /// Contracted dimensions of the right side.
    pub(crate) rhs_contracting: Dims,
}

impl Numbers {
    /// The numbers of a dot.
    pub(crate) fn of(cx: &Cx<'_>, id: Id) -> Option<Self> {
        let dims = DotDims::of(cx.inst(id))?;
        Some(Self {
            lhs_batch: Dims::from_slice(dims.lhs_batch),
            lhs_contracting: Dims::from_slice(dims.lhs_contracting),
            rhs_batch: Dims::from_slice(dims.rhs_batch),
            rhs_contracting: Dims::from_slice(dims.rhs_contracting),
        })
    }
    /// The dimensions of a side of this rank that are neither batch nor contracted.
    pub(crate) fn free(batch: &[i64], contracting: &[i64], rank: usize) -> Dims {
        (0..rank as i64).filter(|dim| !batch.contains(dim) && !contracting.contains(dim)).collect()
    }
    /// Sizes of the result: batch, then what is free on the left, then on the right.
    pub(crate) fn result(&self, lhs: &[i64], rhs: &[i64]) -> Dims {
        let left = Self::free(&self.lhs_batch, &self.lhs_contracting, lhs.len());
        let right = Self::free(&self.rhs_batch, &self.rhs_contracting, rhs.len());
        let from_left = self.lhs_batch.iter().chain(&left).map(|&dim| lhs[dim as usize]);
        from_left.chain(right.iter().map(|&dim| rhs[dim as usize])).collect()
    }
}

/// A dot like `like` of other operands with other numbers; its result is row-major.
pub(crate) fn make_dot(cx: &mut Cx<'_>, like: Id, lhs: Id, rhs: Id, numbers: Numbers) -> Id {
    let sizes = numbers.result(&cx.dims(lhs), &cx.dims(rhs));
    let shape = row_major(cx.element_type(like), sizes);
    let new = cx.like(like, shape, &[lhs, rhs]);
    for (key, dims) in [
        (AttrKey::LhsBatchDims, numbers.lhs_batch),
        (AttrKey::LhsContractingDims, numbers.lhs_contracting),
        (AttrKey::RhsBatchDims, numbers.rhs_batch),
        (AttrKey::RhsContractingDims, numbers.rhs_contracting),
    ] {
        if dims.is_empty() {
            cx.drop_attribute(new, &key);
        } else {
            cx.set_attribute(new, key, AttrValue::ints(dims));
        }
    }
    new
}

/// Rules for `dot`.
pub(super) fn dot(cx: &mut Cx<'_>, id: Id) -> Option<Id> {
    if cx.layout_sensitive {
        return None;
    }
    let (lhs, rhs) = cx.both(id, Opcode::Dot)?;
    if cx.is_empty_array(id) || cx.is_empty_array(lhs) || cx.is_empty_array(rhs) {
        return Some(cx.scalar_like(id, 0.0));
    }
    let numbers = concerned(cx, id, lhs, rhs).then(|| Numbers::of(cx, id))??;
    outer_product(cx, id, lhs, rhs, &numbers)
        .or_else(|| elementwise_sum(cx, id, lhs, rhs, &numbers))
        .or_else(|| without_ones(cx, id, lhs, rhs, &numbers))
        .or_else(|| of_transposes(cx, id, lhs, rhs, &numbers))
}

/// Whether one of the rules may apply: `false` says that none does. Asked first, because attributes are far away.
fn concerned(cx: &Cx<'_>, id: Id, lhs: Id, rhs: Id) -> bool {
    let contracting = cx.inst(id).ints(&AttrKey::LhsContractingDims).len();
    let vector = |side: Id| contracting + cx.inst(id).ints(&AttrKey::LhsBatchDims).len() == cx.rank(side);
    let has_one = |side: Id| cx.array(side).is_some_and(|array| array.dims.contains(&1));
    let transposed = |side: Id| cx.opcode(side) == Opcode::Transpose;
    contracting == 0
        || (vector(lhs) && vector(rhs))
        || (has_one(lhs) || has_one(rhs))
        || (transposed(lhs) && transposed(rhs))
}

fn as_type(cx: &mut Cx<'_>, at: Id, operand: Id, element_type: ElementType) -> Id {
    if cx.element_type(operand) == element_type { operand } else { cx.convert(at, operand, element_type) }
}

/// Without contracted dimensions a dot is a product of two broadcasts.
///
/// Source: `RewriteAsMultiplyDotWithZeroLhsContractingDim`.
fn outer_product(cx: &mut Cx<'_>, id: Id, lhs: Id, rhs: Id, numbers: &Numbers) -> Option<Id> {
    if !numbers.lhs_contracting.is_empty() {
        return None;
    }
    let to = cx.element_type(id);
    let left = normalized(cx, id, lhs, &numbers.lhs_batch, &[]);
    let left = as_type(cx, id, left, to);
    let right = normalized(cx, id, rhs, &numbers.rhs_batch, &[]);
    let right = as_type(cx, id, right, to);
    let batch = numbers.lhs_batch.len() as i64;
    let (left_rank, right_rank) = (cx.rank(lhs) as i64, cx.rank(rhs) as i64);
    let shape = cx.shape(id).clone();
    let left_dims: Dims = (0..left_rank).collect();
    let right_dims: Dims = (0..batch).chain((batch..right_rank).map(|dim| dim + left_rank - batch)).collect();
    let left = cx.broadcast(id, shape.clone(), left, &left_dims);
    let right = cx.broadcast(id, shape.clone(), right, &right_dims);
    Some(cx.elementwise(id, shape, Opcode::Multiply, &[left, right]))
}

/// The operand with batch dimensions first and contracted ones last.
fn normalized(cx: &mut Cx<'_>, at: Id, operand: Id, batch: &[i64], contracting: &[i64]) -> Id {
    let mut order: Dims = batch.into();
    order.extend(Numbers::free(batch, contracting, cx.rank(operand)));
    order.extend(contracting.iter().copied());
    if order.is_sorted() { operand } else { cx.transpose(at, operand, &order) }
}

/// A dot of two sides without free dimensions is the sum of a product.
///
/// Source: `RewriteBatchPlusContractingAsReduce`, `ShouldStrengthReduceDotToReduce`.
fn elementwise_sum(cx: &mut Cx<'_>, id: Id, lhs: Id, rhs: Id, numbers: &Numbers) -> Option<Id> {
    let fixed = numbers.lhs_batch.len() + numbers.lhs_contracting.len();
    let is_vector = |side| cx.rank(side) == fixed;
    (is_vector(lhs) && is_vector(rhs)).then(|| sum_of_products(cx, id, numbers))
}

/// A dot as the sum of a product, for which each side is repeated along the free dimensions of the other.
pub(crate) fn sum_of_products(cx: &mut Cx<'_>, id: Id, numbers: &Numbers) -> Id {
    let (lhs, rhs) = (cx.operand(id, 0), cx.operand(id, 1));
    let (batch, to) = (numbers.lhs_batch.len() as i64, cx.element_type(id));
    let contracting = numbers.lhs_contracting.len() as i64;
    let [left_free, right_free] = [lhs, rhs].map(|side| cx.rank(side) as i64 - batch - contracting);
    let left = normalized(cx, id, lhs, &numbers.lhs_batch, &numbers.lhs_contracting);
    let left = as_type(cx, id, left, to);
    let right = normalized(cx, id, rhs, &numbers.rhs_batch, &numbers.rhs_contracting);
    let right = as_type(cx, id, right, to);
    let rows = batch + left_free;
    let outer = rows + right_free;
    let mut sizes = cx.dims(id);
    sizes.extend(cx.dims(left).iter().skip(rows as usize).copied());
    let shape = row_major(to, sizes);
    let dims =
        |own: std::ops::Range<i64>| -> Dims { (0..batch).chain(own).chain(outer..outer + contracting).collect() };
    let repeated = |cx: &mut Cx<'_>, side: Id, other_free: i64, dims: &Dims| match other_free {
        0 => side,
        _ => cx.broadcast(id, shape.clone(), side, dims),
    };
    let left = repeated(cx, left, right_free, &dims(batch..rows));
    let right = repeated(cx, right, left_free, &dims(rows..outer));
    let product = cx.binary(id, Opcode::Multiply, left, right);
    let sum_type = summed_in(to);
    let product = as_type(cx, id, product, sum_type);
    let zero = cx.constant(id, sum_type, super::super::value::Scalar::of(sum_type, 0.0));
    let reducer = scalar_add(cx, sum_type);
    let sum = cx.reduce(id, product, zero, &(outer..outer + contracting).collect::<Dims>(), reducer);
    as_type(cx, id, sum, to)
}

/// What products of this type are added up in.
///
/// Source: `GetGemmAccumulatorType` (xla/service/gpu/matmul_utils.cc), and `AsType` of `StrengthReduceDot` (xla/hlo/transforms/simplifiers/algebraic_simplifier.cc).
pub(crate) fn summed_in(result: ElementType) -> ElementType {
    match result {
        ElementType::F64 => ElementType::F64,
        real if real.is_float() => ElementType::F32,
        other => other,
    }
}

/// A new computation that adds two scalars.
pub(crate) fn scalar_add(cx: &mut Cx<'_>, element_type: ElementType) -> hlo_ir::ComputationId {
    let shape = row_major(element_type, []);
    let reducer = cx.add_computation("scalar_add_computation");
    let parameter = |cx: &mut Cx<'_>, number: i64| {
        let inst = hlo_ir::Instruction::new("scalar", shape.clone(), Opcode::Parameter, []);
        cx.add(reducer, inst.with_payload(Payload::Parameter(number)))
    };
    let operands = [parameter(cx, 0), parameter(cx, 1)];
    let sum = cx.add(reducer, hlo_ir::Instruction::new("add", shape.clone(), Opcode::Add, operands));
    cx.set_root(sum);
    reducer
}

/// Dimensions of size 1 are reshaped away on both sides and put back into the result.
///
/// Source: `RemoveDegenerateDimensionFromDot`.
fn without_ones(cx: &mut Cx<'_>, id: Id, lhs: Id, rhs: Id, numbers: &Numbers) -> Option<Id> {
    let (left, right) = (cx.arr(lhs), cx.arr(rhs));
    if !left.dims.contains(&1) && !right.dims.contains(&1) {
        return None;
    }
    let moved = |array: &ArrayShape, dims: &[i64]| -> Dims {
        let before = |dim: i64| array.dims[..dim as usize].iter().filter(|&&size| size == 1).count() as i64;
        dims.iter().filter(|&&dim| array.dims[dim as usize] != 1).map(|&dim| dim - before(dim)).collect()
    };
    let new = Numbers {
        lhs_batch: moved(&left, &numbers.lhs_batch),
        lhs_contracting: moved(&left, &numbers.lhs_contracting),
        rhs_batch: moved(&right, &numbers.rhs_batch),
        rhs_contracting: moved(&right, &numbers.rhs_contracting),
    };
    let shrink = |cx: &mut Cx<'_>, side: Id, array: &ArrayShape| {
        if array.dims.contains(&1) { cx.reshape(id, share(drop_ones(array)), side) } else { side }
    };
    let lhs = shrink(cx, lhs, &left);
    let rhs = shrink(cx, rhs, &right);
    let small = make_dot(cx, id, lhs, rhs, new);
    if cx.shape(small).compatible(cx.shape(id)) {
        return Some(small);
    }
    let shape = cx.shape(id).clone();
    Some(cx.reshape(id, shape, small))
}

/// A dot of two equal transposes is a transposed dot.
///
/// Source: `RemoveTransposesFromDotOperands`.
fn of_transposes(cx: &mut Cx<'_>, id: Id, lhs: Id, rhs: Id, numbers: &Numbers) -> Option<Id> {
    let (a, b) = (cx.of(lhs, Opcode::Transpose)?, cx.of(rhs, Opcode::Transpose)?);
    let permutation = cx.dimensions(lhs);
    let rank = cx.rank(id) as i64;
    let canonical = cx.dimensions(rhs) == permutation
        && numbers.lhs_batch == numbers.rhs_batch
        && numbers.lhs_contracting[..] == [rank - 1]
        && numbers.rhs_contracting[..] == [rank - 2]
        && rank == numbers.lhs_batch.len() as i64 + 2
        && permutation.len() as i64 == rank;
    if !canonical {
        return None;
    }
    let last = &permutation[rank as usize - 2..];
    let (first, second) = if last == [rank - 2, rank - 1] {
        (a, b)
    } else if last == [rank - 1, rank - 2] {
        (b, a)
    } else {
        return None;
    };
    let shape = share(permute_shape(&cx.arr(id), &permutation));
    let new = cx.like(id, shape, &[first, second]);
    let shape = cx.shape(id).clone();
    Some(cx.transpose_as(id, shape, new, &permutation))
}
