//! Products in loops are made with their operands changed where XLA:CPU would pack the large one for each of them.
//!
//! ```text
//! %p = f32[1024,64] dot(%x, %b),                    =>   %p.1 = f32[64,1024] dot(%b, %x),
//!        lhs_contracting_dims={0},                            lhs_contracting_dims={0},
//!        rhs_contracting_dims={0}                             rhs_contracting_dims={0}
//!                                                        %kept = f32[64,1024] call(%p.1), to_apply=%hand_on
//!                                                        %p = f32[1024,64] transpose(%kept), dimensions={1,0}
//! ```
//!
//! It takes memory for the block and saves time. XLA:CPU's library contracts the last dimension of the left operand. Any other product is left to
//! Eigen. Where the last dimension of the right operand is contracted, the library makes the product with operands changed: weights of attention
//! `[1024,1024]` times `[1024,64]` take 1.2 ms instead of 5.1. Where neither is, Eigen packs a left operand that is contracted along columns number
//! by number, however few columns the other one has. The product of
//! `[16384,1024]` and `[16384,64]` over the rows took 53 ms, 40 of them for packing; 15 ms with the operands changed. A loop with one of them (the
//! gradient of a perceptron, `hlo-exact`) ran at 0.65 of the original's speed, and runs at 1.0. What is computed is even computed along columns, if
//! it is for this product alone: 12 ms for `[1024,1024]` behind a softmax. The call is there because XLA would change the operands back.
//!
//! Sound because each number is the sum of the same products; products of floats are no better than `hlo-exact` in a loop, so that they may be summed in
//! another order. Stays away from instructions of the input, from the entry computation, from products of which packing is a small part, and
//! from modules to be partitioned. The manager undoes it where the block is dear.
//!
//! Source: `xla/backends/cpu/ynn_support.cc`, `xla/hlo/transforms/simplifiers/algebraic_simplifier.cc`; the times are measured.

use hlo_ir::edit::Patch;
use hlo_ir::{ArrayShape, AttrKey, Attribute, DotDims, ElementType, Instruction, InstructionId, Module, Opcode, Shape};
use hlo_memory::{Bytes, size};

use super::call_that_hands_on;

/// Bytes of the smallest array that is worth two more kernels for the result, if the library then makes the product.
const LEAST: Bytes = Bytes(256 << 10);
/// And if it is Eigen all the same.
const LEAST_PACKED: Bytes = Bytes(1 << 20);
/// With more columns on the other side, packing is a small part of the work: a quarter with 256 of them, a tenth with 1,024.
const MOST_COLUMNS: i64 = 512;
/// How many times as many columns the packed operand has as the other one, which is packed instead.
const WIDER: i64 = 2;
/// How many times as deep the sum is as what is transposed behind it is wide.
const DEEPER: i64 = 4;

/// What changes the operands of products that are `new`; empty if there is none.
pub(crate) fn patch(module: &Module, new: impl Fn(InstructionId) -> bool) -> Patch {
    let mut patch = Patch::new(module);
    if module.is_partitioned() {
        return patch;
    }
    for (product, inst) in module.live_instructions() {
        if inst.parent != module.entry() && new(product) && is_slow(module, inst) {
            change(module, product, &mut patch);
        }
    }
    patch
}

/// Whether a product takes less time with operands changed.
fn is_slow(module: &Module, inst: &Instruction) -> bool {
    Side::both(module, inst).is_some_and(|(left, right)| right.is_missed(&left) || left.is_packed(&right))
}

/// Reads what `product` was from a product with changed operands.
pub(crate) fn change(module: &Module, product: InstructionId, patch: &mut Patch) {
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
    change_operands(&mut changed);
    let changed = patch.add(inst.parent, changed);
    patch.stems_from(changed, product);
    let mut block = patch.instruction(module, changed).clone();
    block.operands = [changed].into_iter().collect();
    let kept = call_that_hands_on(patch, inst.parent, &block);
    let order = Attribute::ints(AttrKey::Dimensions, back.map(|dim| dim as i64));
    let mut transpose = Instruction::new(inst.name.clone(), inst.shape.clone(), Opcode::Transpose, [kept]).with(order);
    transpose.attributes.extend(inst.attributes.iter().filter(|attribute| attribute.key == AttrKey::Metadata).cloned());
    patch.rewrite(product, transpose);
}

/// Lets the left operand be the right one, and the other way round.
fn change_operands(inst: &mut Instruction) {
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

/// One operand of a product as a matrix.
pub(crate) struct Side {
    /// Its memory.
    pub(crate) bytes: Bytes,
    /// Elements of the dimensions that are no batches and not contracted, and their number.
    columns: i64,
    free: usize,
    /// Elements of contracted dimensions.
    depth: i64,
    /// Whether the last dimension is contracted.
    in_rows: bool,
}

impl Side {
    /// The operands of a product of which the left one is not contracted in its last dimension, and which may be changed.
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

    /// Whether the library would take it as a left operand, and what is transposed behind the product is a small part of it.
    fn is_missed(&self, left: &Self) -> bool {
        self.in_rows && self.bytes >= LEAST && self.depth / DEEPER >= left.columns
    }

    /// Whether most of the time of a product goes into packing this left operand, and would not with operands changed.
    fn is_packed(&self, right: &Self) -> bool {
        self.bytes >= LEAST_PACKED
            && self.columns / WIDER >= right.columns
            && right.columns <= MOST_COLUMNS
            && self.depth / DEEPER >= right.columns
    }
}

#[cfg(test)]
mod tests {
    use hlo_ir::text;

    use super::*;

    /// A loop that adds up products, `f32[2,1024,64]`, of `%x`, which it carries, or its negation `%n`, and the block `%b`.
    const LOOP: &str = "HloModule m

%body (s: (s32[], f32[2,1024,64], f32[2,512,1024])) -> (s32[], f32[2,1024,64], f32[2,512,1024]) {
  %s = (s32[], f32[2,1024,64], f32[2,512,1024]) parameter(0)
  %k = s32[] get-tuple-element(%s), index=0
  %so_far = f32[2,1024,64] get-tuple-element(%s), index=1
  %x = f32[2,512,1024] get-tuple-element(%s), index=2
  %n = f32[2,512,1024] negate(%x)
  %f = f32[] convert(%k)
  %b = f32[2,512,64] broadcast(%f), dimensions={}
  %p = f32[2,1024,64] dot(%x, %b), lhs_batch_dims={0}, lhs_contracting_dims={1}, rhs_batch_dims={0}, rhs_contracting_dims={1}
  %one = s32[] constant(1)
  %next = s32[] add(%k, %one)
  %more = f32[2,1024,64] add(%so_far, %p)
  ROOT %t = (s32[], f32[2,1024,64], f32[2,512,1024]) tuple(%next, %more, %x)
}

%less (s: (s32[], f32[2,1024,64], f32[2,512,1024])) -> pred[] {
  %s = (s32[], f32[2,1024,64], f32[2,512,1024]) parameter(0)
  %k = s32[] get-tuple-element(%s), index=0
  %end = s32[] constant(10)
  ROOT %c = pred[] compare(%k, %end), direction=LT
}

ENTRY %main {
  %zero = s32[] constant(0)
  %first = f32[2,1024,64] parameter(0)
  %x = f32[2,512,1024] parameter(1)
  %init = (s32[], f32[2,1024,64], f32[2,512,1024]) tuple(%zero, %first, %x)
  ROOT %w = (s32[], f32[2,1024,64], f32[2,512,1024]) while(%init), condition=%less, body=%body
}
";

    fn found(source: &str, is_new: bool) -> (Module, Patch) {
        let module = text::parse(source).expect("the test's module is legal");
        assert_eq!(hlo_ir::verify::verify(&module), [], "{source}");
        let patch = patch(&module, |_| is_new);
        (module, patch)
    }

    #[test]
    fn the_block_becomes_the_left_operand() {
        let (mut module, change) = found(LOOP, true);
        change.apply(&mut module).expect("the patch fits");
        assert_eq!(hlo_ir::verify::verify(&module), []);
        let text = text::print(&module);
        assert!(
            text.contains("= f32[2,64,1024]{2,1,0} dot(%b, %x), lhs_batch_dims={0}, lhs_contracting_dims={1}"),
            "{text}"
        );
        assert!(text.contains("%kept = f32[2,64,1024]{2,1,0} call("), "{text}");
        assert!(text.contains("%p = f32[2,1024,64] transpose(%kept), dimensions={0,2,1}"), "{text}");
        assert!(patch(&module, |_| true).is_empty(), "once is enough");
        // The block's last dimension is contracted, which the library takes as a left operand.
        let rows = LOOP
            .replace("f32[2,512,64] broadcast", "f32[2,64,512] broadcast")
            .replace("rhs_contracting_dims={1}", "rhs_contracting_dims={2}");
        let (mut module, change) = found(&rows, true);
        change.apply(&mut module).expect("the patch fits");
        assert_eq!(hlo_ir::verify::verify(&module), []);
        let text = text::print(&module);
        assert!(text.contains("lhs_contracting_dims={2}, rhs_batch_dims={0}, rhs_contracting_dims={1}"), "{text}");
    }

    /// The loop with other sizes: columns of the array and of the block, and terms of a sum.
    fn wide(array: &str, block: &str, terms: &str) -> String {
        let sizes = LOOP.replace("64]", "B]").replace("512", "K").replace("1024", "A");
        sizes
            .replace('B', block)
            .replace("[2,K,A]", &format!("[2,{terms},{array}]"))
            .replace("[2,A,", &format!("[2,{array},"))
            .replace("[2,K,", &format!("[2,{terms},"))
    }

    #[test]
    fn what_the_library_would_take_becomes_the_left_operand() {
        // Of 64 columns along which the left operand is contracted, and of 1,024 rows of 512 numbers.
        let missed = LOOP.replace("512,64]", "512,A]").replace("512,1024]", "1024,512]").replace("512,A]", "512,64]");
        let missed = missed.replace("dot(%x, %b)", "dot(%b, %x)").replace("f32[2,1024,64]", "f32[2,64,1024]");
        let missed = missed.replace("rhs_contracting_dims={1}", "rhs_contracting_dims={2}");
        let (mut module, change) = found(&missed, true);
        change.apply(&mut module).expect("the patch fits");
        assert_eq!(hlo_ir::verify::verify(&module), []);
        let text = text::print(&module);
        assert!(
            text.contains("= f32[2,1024,64]{2,1,0} dot(%x, %b), lhs_batch_dims={0}, lhs_contracting_dims={2}"),
            "{text}"
        );
        let stays = |from: &str, to: &str| found(&missed.replace(from, to), true).1.is_empty();
        assert!(stays("64", "129"), "what is transposed is a large part of it");
        assert!(!stays("64", "128"));
        assert!(stays("1024", "63"), "a small array");
        assert!(!stays("1024", "64"));
    }

    #[test]
    fn other_products_stay() {
        let stays = |from: &str, to: &str| {
            let changed = LOOP.replace(from, to);
            assert_ne!(changed, LOOP);
            found(&changed, true).1.is_empty()
        };
        assert!(found(LOOP, false).1.is_empty(), "the input stays as it is");
        assert!(stays("HloModule m", "HloModule m, num_partitions=2"), "partitioned");
        assert!(!stays("dot(%x", "dot(%n"), "what the loop computes is packed as well");
        assert!(stays("rhs_contracting_dims={1}", "rhs_contracting_dims={1}, operand_precision={highest,default}"));
        let in_rows = LOOP.replace("f32[2,512,1024]", "f32[2,1024,512]");
        let in_rows = in_rows.replace("lhs_contracting_dims={1}", "lhs_contracting_dims={2}");
        assert!(found(&in_rows, true).1.is_empty(), "the library takes it");
        assert!(stays("512", "252"), "what is transposed is a large part of it");
        assert!(!stays("512", "256"));
        assert!(found(&wide("127", "64", "8192"), true).1.is_empty(), "both have as many columns");
        assert!(!found(&wide("128", "64", "8192"), true).1.is_empty());
        assert!(found(&wide("128", "8", "1023"), true).1.is_empty(), "a small array");
        assert!(!found(&wide("128", "8", "1024"), true).1.is_empty());
        assert!(found(&wide("2048", "513", "4096"), true).1.is_empty(), "packing is a small part of it");
        assert!(!found(&wide("2048", "512", "4096"), true).1.is_empty());
        assert!(stays("f32", "f64"), "quickly packed");
    }
}
