//! Products with a vector on one side, which XLA:GPU writes as sums of products where they are small, or of types that its kernels do not know, as in
//! the attention of one token that is decoded.
//!
//! Source: `DotStrengthReduction` (xla/service/gpu/transforms/dot_strength_reduction.cc) and `IsMatrixMultiplicationTooSmallForRewriting`
//! (xla/service/gpu/matmul_utils.cc).

// Tests: `memory/tests/product_kernels.rs`.

use hlo_ir::{ElementType, Opcode};

use super::super::algsimp::dot::{Numbers, sum_of_products};
use super::super::cx::{Cx, Id};
use super::super::visit::each;
use crate::cpu::triton;

/// Elements of both sides, without batches, from which on a product is worth a kernel.
const LARGE: i64 = 10_000_000;

pub(crate) fn run(cx: &mut Cx<'_>) -> bool {
    each(cx, Opcode::Dot, |cx, id| {
        let numbers = Numbers::of(cx, id)?;
        is_written_out(cx, id, &numbers).then(|| sum_of_products(cx, id, &numbers))
    })
}

fn is_written_out(cx: &Cx<'_>, id: Id, numbers: &Numbers) -> bool {
    let sides = [
        (cx.operand(id, 0), &numbers.lhs_batch, &numbers.lhs_contracting),
        (cx.operand(id, 1), &numbers.rhs_batch, &numbers.rhs_contracting),
    ];
    let is_vector = sides.map(|(side, batch, summed)| cx.rank(side) == batch.len() + summed.len());
    let integers = [id, sides[0].0, sides[1].0].iter().all(|&id| cx.element_type(id) == ElementType::S32);
    let is_slow = integers && numbers.rhs_contracting[..] == [1];
    let elements = |(side, batch, _): (Id, &hlo_ir::shape::Dims, _)| {
        let sizes = cx.dims(side);
        let fits = |dim: &usize| !batch.contains(&(*dim as i64));
        (0..sizes.len()).filter(fits).map(|dim| sizes[dim]).fold(1, i64::saturating_mul)
    };
    match is_vector {
        [false, false] if !is_slow => false,
        [true, true] => true,
        _ => sides.map(elements).iter().sum::<i64>() < LARGE || !triton::takes_product(cx, id),
    }
}
