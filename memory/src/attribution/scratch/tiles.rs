//! Products that a library fusion of XLA:CPU never has whole, because it reduces them tile by tile.
//!
//! Found by how much a process grows when XLA:CPU of jaxlib 0.10.2 runs programs around a product of 128 MiB
//! (`tests/referee/hidden_scratch.py` prints 38 of them). A lone product that only meets elementwise operations and reductions takes 1 to 12 MiB at
//! 128 MiB, and so does a lone convolution whatever follows it; batches of products, products of products, sums across a reshape, values that are reduced over rows and meet their rows again,
//! and weighted sums along a row (which the library makes products of) take all of it.

use hlo_ir::{AttrKey, ComputationId, Instruction, InstructionId, Module, Opcode};

use super::is_product;
use crate::Bytes;
use crate::hash::IndexMap;
use crate::size::shape_size;

/// Rows of a product that are in work at a time: 32 MiB were taken at 32,768 columns of 4 bytes, 8 MiB at 8,192, on two cores.
const ROWS: u64 = 256;

/// What a value of the fusion is made of.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
enum Made {
    /// Nothing of the product.
    Apart,
    /// A value a row.
    Values,
    /// Row by row of the product's rows.
    Rows,
    /// Likewise, the rows counted by several dimensions.
    Reshaped,
    /// All rows together: their sum, say.
    Together,
}

/// What holds something of the product.
type Origins = IndexMap<InstructionId, Made>;

/// Bytes of the tiles of the only product of this fusion; `None` if there are several, or if the product is written down whole.
pub(super) fn of_only_product(module: &Module, body: ComputationId) -> Option<Bytes> {
    let order = &module.computation(body).instructions;
    let mut products = order.iter().filter(|&&id| is_product(module, id));
    let product = *products.next()?;
    if products.next().is_some() || !begins_in_tiles(module, product) {
        return None;
    }
    let mut made = Origins::default();
    made.insert(product, Made::Rows);
    let convolved = module.instruction(product).opcode == Opcode::Convolution;
    let readers = order.iter().skip_while(|&&id| id != product).skip(1).filter(|_| !convolved);
    for &id in readers {
        let here = follow(module, &made, module.instruction(id))?;
        if here != Made::Apart {
            made.insert(id, here);
        }
    }
    let whole = shape_size(module.shape(product))?;
    let dims = &module.shape(product).as_array()?.dims;
    let row_count: u64 = dims.iter().rev().skip(1).fold(1, |rows: u64, dim| rows.saturating_mul(dim.unsigned_abs()));
    Some(Bytes(whole.get() / row_count.max(1) * ROWS.min(row_count)))
}

/// Whether the product itself is computed tile by tile where its readers let it be.
fn begins_in_tiles(module: &Module, product: InstructionId) -> bool {
    module.instruction(product).opcode == Opcode::Convolution
        || module.shape(product).as_array().is_some_and(|shape| shape.dims.len() <= 2)
}

/// How the result of `inst` comes from the product; `None` if it needs the product whole.
fn follow(module: &Module, made: &Origins, inst: &Instruction) -> Option<Made> {
    let of = |id: &InstructionId| made.get(id).copied().unwrap_or(Made::Apart);
    let most = inst.operands.iter().map(of).max().unwrap_or(Made::Apart);
    let rows = inst.operands.iter().any(|id| matches!(of(id), Made::Rows | Made::Reshaped));
    match inst.opcode {
        _ if most == Made::Apart => Some(Made::Apart),
        // A sum of all rows can only be there once all rows were.
        _ if most == Made::Together && rows => None,
        Opcode::Multiply if rows && inst.operands.iter().any(|&id| weighs_a_row(module, made, id)) => None,
        Opcode::Broadcast | Opcode::Pad => Some(most),
        Opcode::Reduce if rows => reduced(module, inst, most),
        Opcode::Bitcast | Opcode::Reshape if rows => same_rows(module, inst).then_some(Made::Reshaped),
        Opcode::Reduce | Opcode::Bitcast | Opcode::Reshape => Some(Made::Together),
        opcode => opcode.is_elementwise().then_some(most),
    }
}

/// What a reduction of rows gives: one value a row, or all rows together.
fn reduced(module: &Module, inst: &Instruction, rows: Made) -> Option<Made> {
    let rank = dims_of(module, inst.operands.first()).len();
    match inst.ints(&AttrKey::Dimensions) {
        [dim] if is_last(*dim, rank) => Some(Made::Values),
        _ => (rows == Made::Rows).then_some(Made::Together),
    }
}

/// Whether a reshape leaves the last dimension as it is.
fn same_rows(module: &Module, inst: &Instruction) -> bool {
    let last = dims_of(module, inst.operands.first()).last();
    last.is_some() && last == inst.array().and_then(|shape| shape.dims.last())
}

/// Whether this is a factor that differs along a row and is the same in every row.
fn weighs_a_row(module: &Module, made: &Origins, id: InstructionId) -> bool {
    let inst = module.instruction(id);
    let rank = dims_of(module, Some(&id)).len();
    !made.contains_key(&id)
        && inst.opcode == Opcode::Broadcast
        && inst.ints(&AttrKey::Dimensions).iter().any(|&dim| is_last(dim, rank))
}

fn is_last(dim: i64, rank: usize) -> bool {
    usize::try_from(dim).is_ok_and(|dim| dim + 1 == rank)
}

/// Sizes of the dimensions of an array; none for anything else.
fn dims_of<'a>(module: &'a Module, id: Option<&InstructionId>) -> &'a [i64] {
    id.and_then(|&id| module.shape(id).as_array()).map_or(&[], |shape| &shape.dims)
}
