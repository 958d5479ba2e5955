//! XLA:GPU cuts the contracted dimension of a product into parts where its result alone has too few tiles to keep the device busy: a batch of smaller products, and
//! their sum. Where the parts would not be of whole 16 bytes each, both operands are padded, which copies them.
//!
//! How many parts there are is decided by a price. Algorithms that make one product of several are priced as one.
//!
//! Source: `SplitkRewriter` (xla/backends/gpu/transforms/splitk_rewriter.cc), with its weights for Hopper.

use hlo_ir::attribute::PadDim;
use hlo_ir::shape::Dims;
use hlo_ir::{ElementType, Opcode};

use super::super::algsimp::dot::{Numbers, make_dot, scalar_add, summed_in};
use super::super::build::{row_major, share};
use super::super::cx::{Cx, Id};
use super::super::value::Scalar;
use super::super::visit::each;
use crate::cpu::h100::CORES;

/// The number of parts is one of the powers of two up to this one.
const MOST_PARTS: u32 = 11;
/// Rows and columns of a tile (`kMTileSize`, `kNTileSize`).
const TILE: i64 = 128;
/// What an operation costs (`compute_cost_weight`), a byte (`memory_cost_weight`), a byte of the sum (`reduction_memory_cost_weight`), and its kernel
/// (`reduction_launch_overhead`).
const OPERATION: f64 = 100.0;
const BYTE: f64 = 0.194_136;
const BYTE_OF_SUM: f64 = 193.138_4;
const SUM: f64 = 4.36e7;
/// Bits that rows of a part are a multiple of.
const ALIGNED: i64 = 128;

/// Cuts products; returns whether there was one to cut.
pub(crate) fn run(cx: &mut Cx<'_>) -> bool {
    each(cx, Opcode::Dot, |cx, id| {
        let product = Product::of(cx, id)?;
        let parts = product.parts();
        (parts > 1).then(|| product.cut(cx, id, parts))
    })
}

/// Sizes of a product.
struct Product {
    numbers: Numbers,
    batch: i64,
    rows: i64,
    columns: i64,
    contracted: i64,
    /// The contracted dimension of each operand.
    summed: [i64; 2],
    /// Bits of the elements that each operand is computed from.
    bits: [i64; 2],
    /// What products are added up in.
    sum: ElementType,
    result: ElementType,
}

impl Product {
    /// `None` for what is never cut.
    fn of(cx: &Cx<'_>, id: Id) -> Option<Self> {
        let (lhs, rhs) = cx.both(id, Opcode::Dot)?;
        let numbers = Numbers::of(cx, id)?;
        let (&[left_summed], &[right_summed]) = (&numbers.lhs_contracting[..], &numbers.rhs_contracting[..]) else {
            return None;
        };
        if [lhs, rhs].iter().any(|&side| cx.element_type(side) == ElementType::S32) {
            return None;
        }
        let (left, right) = (cx.dims(lhs), cx.dims(rhs));
        let size = |sizes: &Dims, dims: &Dims| dims.iter().map(|&dim| sizes[dim as usize]).product();
        let free = |sizes: &Dims, batch: &Dims, contracting: &Dims| {
            size(sizes, &Numbers::free(batch, contracting, sizes.len()))
        };
        let result = cx.element_type(id);
        Some(Self {
            batch: size(&left, &numbers.lhs_batch),
            rows: free(&left, &numbers.lhs_batch, &numbers.lhs_contracting),
            columns: free(&right, &numbers.rhs_batch, &numbers.rhs_contracting),
            contracted: left[left_summed as usize],
            summed: [left_summed, right_summed],
            bits: [lhs, rhs].map(|side| bits_of_source(cx, side)),
            sum: summed_in(result),
            result,
            numbers,
        })
    }
    /// The cheapest number of parts; of equal ones the smallest.
    fn parts(&self) -> i64 {
        let ways = (0..=MOST_PARTS).map(|power| 1 << power);
        ways.min_by(|&one, &other| self.price(one).total_cmp(&self.price(other))).unwrap_or(1)
    }
    fn price(&self, parts: i64) -> f64 {
        // As floats, because counts of operations of legal programs need not fit 64 bits.
        let bytes = |count: f64, bits: i64| count * bits as f64 / 8.0;
        let [rows, columns, contracted] = [self.rows, self.columns, self.contracted].map(|size| size as f64);
        let (batch, batches) = (self.batch as f64, self.batch as f64 * parts as f64);
        let tile = self.rows.min(TILE) as f64 * self.columns.min(TILE) as f64;
        let tiles = batches * ceil(self.rows, TILE) as f64 * ceil(self.columns, TILE) as f64;
        let at_once = CORES * (TILE * TILE) as f64 / tile;
        let operations = 2.0 * tile * ceil(self.contracted, parts) as f64 * (tiles / at_once).max(1.0);
        let [left, right] = self.bits;
        let read = bytes(rows * contracted * batch, left) + bytes(columns * contracted * batch, right);
        let [sum, result] = [self.sum, self.result].map(|element| i64::from(element.bits()));
        let written = bytes(rows * columns * batches, if parts > 1 { sum } else { result });
        let product = (operations * OPERATION).max((read + written) * BYTE);
        if parts == 1 {
            return product;
        }
        let of_sum = bytes(rows * columns * batches, sum) + bytes(rows * columns * batch, result);
        product + SUM + of_sum * BYTE_OF_SUM
    }
    /// The sum of the products of so many parts.
    fn cut(&self, cx: &mut Cx<'_>, id: Id, parts: i64) -> Id {
        let unit = parts * ALIGNED / self.bits[0].min(self.bits[1]);
        let length = ceil(self.contracted, unit) * unit;
        let [left, right] = self.summed;
        let lhs = cut_operand(cx, cx.operand(id, 0), left, parts, length);
        let rhs = cut_operand(cx, cx.operand(id, 1), right, parts, length);
        let moved = |dims: &Dims, from: i64| -> Dims { dims.iter().map(|&dim| dim + i64::from(dim >= from)).collect() };
        let with = |dims: &Dims, from: i64| -> Dims { moved(dims, from).into_iter().chain([from]).collect() };
        let numbers = Numbers {
            lhs_batch: with(&self.numbers.lhs_batch, left),
            lhs_contracting: moved(&self.numbers.lhs_contracting, left),
            rhs_batch: with(&self.numbers.rhs_batch, right),
            rhs_contracting: moved(&self.numbers.rhs_contracting, right),
        };
        let over = self.numbers.lhs_batch.len() as i64;
        let products = make_dot(cx, id, lhs, rhs, numbers);
        let wide = share(cx.arr(products).with_element_type(self.sum));
        cx.set_shape(products, wide);
        let zero = cx.constant(id, self.sum, Scalar::of(self.sum, 0.0));
        let reducer = scalar_add(cx, self.sum);
        let shape = share(cx.arr(id).with_element_type(self.sum));
        let sum = cx.reduce_as(id, shape, products, zero, &[over], reducer);
        if self.sum == self.result { sum } else { cx.convert(id, sum, self.result) }
    }
}

/// How many parts of `size` hold `all`.
const fn ceil(all: i64, size: i64) -> i64 {
    (all + size - 1) / size
}

/// Bits of the elements that an operand is computed from one by one, which is what its kernel reads.
fn bits_of_source(cx: &Cx<'_>, mut id: Id) -> i64 {
    while cx.opcode(id).is_elementwise() && cx.operands(id).len() == 1 {
        id = cx.operand(id, 0);
    }
    i64::from(cx.element_type(id).bits())
}

/// An operand, which is row-major by now, with the contracted dimension in parts of a batch, padded to `length`.
fn cut_operand(cx: &mut Cx<'_>, mut operand: Id, dim: i64, parts: i64, length: i64) -> Id {
    let mut array = cx.arr(operand);
    let more = length - array.dims[dim as usize];
    if more > 0 {
        let zero = cx.constant(operand, array.element_type, Scalar::of(array.element_type, 0.0));
        let mut padding = vec![PadDim::default(); array.rank()];
        padding[dim as usize].high = more;
        array.dims[dim as usize] = length;
        operand = cx.pad(operand, share(array.clone()), operand, zero, padding);
    }
    let mut sizes = array.dims;
    sizes[dim as usize] /= parts;
    sizes.insert(dim as usize, parts);
    let shape = row_major(array.element_type, sizes);
    let source = cx.of(operand, Opcode::Bitcast).unwrap_or(operand);
    cx.elementwise(operand, shape, Opcode::Bitcast, &[source])
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Parts of a product of these sizes whose operands and result are of this type.
    fn parts([batch, rows, columns, contracted]: [i64; 4], result: ElementType) -> i64 {
        let (numbers, bits) = (Numbers::default(), [i64::from(result.bits()); 2]);
        Product { numbers, batch, rows, columns, contracted, summed: [0; 2], bits, sum: summed_in(result), result }
            .parts()
    }

    /// By the modules that XLA:GPU makes for an H100.
    #[test]
    fn there_are_as_many_parts_as_in_xla_s_modules() {
        let long = |sizes: [i64; 2], found: &[(i64, i64)]| {
            for &(contracted, by_xla) in found {
                let parts = parts([1, sizes[0], sizes[1], contracted], ElementType::F32);
                assert_eq!(parts, by_xla, "{sizes:?}, {contracted}");
            }
        };
        let some = [(512, 8), (768, 8), (800, 8), (1024, 16), (1220, 16), (1300, 16), (1536, 16), (2000, 16)];
        long([64, 256], &some);
        long([64, 256], &[(2440, 16), (2500, 16), (3072, 16), (4880, 32), (8192, 32), (40_000, 64)]);
        long([64, 256], &[78_000, 79_000, 100_000, 156_160, 160_000].map(|contracted| (contracted, 128)));
        long([16, 16], &[(700, 1), (768, 1), (1000, 16), (1200, 16), (1400, 16), (1536, 16)]);
        long([16, 16], &[(2000, 32), (3072, 32), (4000, 32), (100_000, 128)]);
        long([768, 768], &[(8192, 4)]);
        long([768, 3072], &[(8192, 1)]);
        let halves = [[1, 768, 3072, 8192], [1, 768, 768, 8192], [1, 2048, 2048, 16384], [16, 64, 64, 4096]];
        assert_eq!(halves.map(|sizes| parts(sizes, ElementType::Bf16)), [1, 4, 1, 8]);
    }
}
