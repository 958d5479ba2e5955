//! Swaps the operands of products in loops where XLA:CPU would pack the large one for each of them.
//!
//! Waste, of run time: XLA:CPU's library contracts the last dimension of the left operand. Any other product is left to Eigen. Where the last
//! dimension of the right operand is contracted, the library makes the product with operands swapped: weights of attention `[1024,1024]` times
//! `[1024,64]` are an example. Where neither is, Eigen packs a left operand that is contracted along columns number by number, however
//! few columns the other one has. The product of `[16384,1024]` and `[16384,64]` over the rows spends most of its time on packing. An operand that is computed for this product alone, as behind a softmax, is computed along columns too.
//!
//! ```text
//! %p = f32[1024,64] dot(%x, %b),                    =>   %p.1 = f32[64,1024] dot(%b, %x),
//!        lhs_contracting_dims={0},                            lhs_contracting_dims={0},
//!        rhs_contracting_dims={0}                             rhs_contracting_dims={0}
//!                                                        %kept = f32[64,1024] call(%p.1), to_apply=%identity
//!                                                        %p = f32[1024,64] transpose(%kept), dimensions={1,0}
//! ```
//!
//! The call is there because XLA would swap the operands back. It takes memory for the block, a twenty-fifth of the peak and a third of what was saved
//! at most.
//!
//! Sound because each number is the sum of the same products. Grade: hlo-exact, since they may be summed in another order; only loops that keep less than
//! every bit anyway are changed.
//!
//! Stays away from
//!
//! - other targets than CPU, and modules to be partitioned;
//! - the entry computation, and instructions of the input (only loops that this run made are changed; `dot-operands` swaps operands of the input
//!   where that saves memory);
//! - products of which packing is a small part.
//!
//! Source: `xla/backends/cpu/ynn_support.cc`, `xla/hlo/transforms/simplifiers/algebraic_simplifier.cc`; the times are measured.

use hlo_ir::{Instruction, Module};
use hlo_memory::Target;

use crate::speed::{self, Change, FindingText, New, SHARE_OF_PEAK};
use crate::swapped_dot::{self, MUCH_LARGER, Side};
use crate::{Context, Finding, Grade, Machine, Pass, PassKind};

const TEXT: FindingText = FindingText {
    grade: Grade::HloExact,
    places: ["a product", "products"],
    changed: "with swapped operands",
    because: "each number of the result is the sum of the same products",
};

/// The pass.
#[derive(Clone, Copy, Debug, Default)]
pub struct SwapDotOperands;

impl Pass for SwapDotOperands {
    fn name(&self) -> &'static str {
        "swap-dot-operands"
    }
    fn summary(&self) -> &'static str {
        "swap the operands of products in loops of which the large one would be packed each time"
    }
    crate::explanation!("swap_dot_operands.rs");
    fn kind(&self) -> PassKind {
        PassKind::Speed
    }
    fn share_of_peak(&self) -> Option<u64> {
        Some(SHARE_OF_PEAK)
    }
    fn find(&self, context: &Context<'_>) -> Vec<Finding> {
        speed::find(context, &TEXT, patch).into_iter().collect()
    }
}

/// What changes the operands of products that are `new`; empty if there is none.
fn patch(module: &Module, new: New<'_>) -> Change {
    Change::in_loops(module, new, |change, product, inst| {
        if is_slow(module, inst) {
            change.at(product);
            swapped_dot::swap(module, product, &mut change.patch);
        }
    })
}

/// Whether a product takes less time with operands swapped.
fn is_slow(module: &Module, inst: &Instruction) -> bool {
    Side::both(module, inst).is_some_and(|(left, right)| is_missed(&right, &left) || is_packed(&left, &right))
}

/// Whether the library would take the right operand as a left one, and what is transposed behind the product is a small part of it.
fn is_missed(right: &Side, left: &Side) -> bool {
    // Packing that is saved has to take longer than two more kernels for the result.
    right.in_rows
        && right.bytes >= Machine::of(Target::Cpu).least_kernel()
        && right.depth / MUCH_LARGER as i64 >= left.columns
}

/// Whether more numbers are packed less, with operands swapped, than are written and read to transpose the result.
fn is_packed(left: &Side, right: &Side) -> bool {
    let (spared, done) =
        ((left.columns - right.columns).saturating_mul(left.depth), left.columns.saturating_mul(right.columns));
    left.bytes >= Machine::of(Target::Cpu).moved_while_starting() && spared >= done.saturating_mul(2)
}

#[cfg(test)]
mod tests {
    use hlo_ir::text;

    use super::*;

    /// A loop that adds up products of `%x`, which it carries, or its negation `%n`, and the block `%b`, or the other way round.
    fn looped([array, block, sums]: [&str; 3], operands: &str, [left, right]: [usize; 2]) -> String {
        let state = format!("(s32[], f32[{sums}], f32[{array}])");
        format!(
            "HloModule m

%body (s: {state}) -> {state} {{
  %s = {state} parameter(0)
  %k = s32[] get-tuple-element(%s), index=0
  %so_far = f32[{sums}] get-tuple-element(%s), index=1
  %x = f32[{array}] get-tuple-element(%s), index=2
  %n = f32[{array}] negate(%x)
  %f = f32[] convert(%k)
  %b = f32[{block}] broadcast(%f), dimensions={{}}
  %p = f32[{sums}] dot({operands}), lhs_batch_dims={{0}}, lhs_contracting_dims={{{left}}}, rhs_batch_dims={{0}}, rhs_contracting_dims={{{right}}}
  %one = s32[] constant(1)
  %next = s32[] add(%k, %one)
  %more = f32[{sums}] add(%so_far, %p)
  ROOT %t = {state} tuple(%next, %more, %x)
}}

%less (s: {state}) -> pred[] {{
  %s = {state} parameter(0)
  %k = s32[] get-tuple-element(%s), index=0
  %end = s32[] constant(10)
  ROOT %c = pred[] compare(%k, %end), direction=LT
}}

ENTRY %main {{
  %zero = s32[] constant(0)
  %first = f32[{sums}] parameter(0)
  %x = f32[{array}] parameter(1)
  %init = {state} tuple(%zero, %first, %x)
  ROOT %w = {state} while(%init), condition=%less, body=%body
}}
"
        )
    }

    /// The usual loop, of which the library does not take the block.
    fn usual() -> String {
        looped(["2,512,1024", "2,512,64", "2,1024,64"], "%x, %b", [1, 1])
    }

    fn found(source: &str, is_new: bool) -> (Module, Change) {
        let module = text::parse(source).expect("the test's module is legal");
        assert_eq!(hlo_ir::verify::verify(&module), [], "{source}");
        let patch = patch(&module, &|_| is_new);
        (module, patch)
    }

    #[test]
    fn the_block_becomes_the_left_operand() {
        let (mut module, change) = found(&usual(), true);
        change.apply(&mut module).expect("the patch fits");
        assert_eq!(hlo_ir::verify::verify(&module), []);
        let text = text::print(&module);
        assert!(
            text.contains("= f32[2,64,1024]{2,1,0} dot(%b, %x), lhs_batch_dims={0}, lhs_contracting_dims={1}"),
            "{text}"
        );
        assert!(text.contains("%kept = f32[2,64,1024]{2,1,0} call("), "{text}");
        assert!(text.contains("%p = f32[2,1024,64] transpose(%kept), dimensions={0,2,1}"), "{text}");
        assert!(patch(&module, &|_| true).is_empty(), "once is enough");
        // The block's last dimension is contracted, which the library takes as a left operand.
        let rows = looped(["2,512,1024", "2,64,512", "2,1024,64"], "%x, %b", [1, 2]);
        let (mut module, change) = found(&rows, true);
        change.apply(&mut module).expect("the patch fits");
        assert_eq!(hlo_ir::verify::verify(&module), []);
        let text = text::print(&module);
        assert!(text.contains("lhs_contracting_dims={2}, rhs_batch_dims={0}, rhs_contracting_dims={1}"), "{text}");
    }

    /// The loop with other sizes: columns of the array and of the block, and terms of a sum.
    fn wide(array: &str, block: &str, terms: &str) -> String {
        let [rows, block, sums] =
            [format!("2,{terms},{array}"), format!("2,{terms},{block}"), format!("2,{array},{block}")];
        looped([&rows, &block, &sums], "%x, %b", [1, 1])
    }

    #[test]
    fn what_the_library_would_take_becomes_the_left_operand() {
        // Of 64 columns along which the left operand is contracted, and of 1,024 rows of 512 numbers.
        let missed = looped(["2,1024,512", "2,512,64", "2,64,1024"], "%b, %x", [1, 2]);
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
        assert!(stays("1024", "15"), "a small array");
        assert!(!stays("1024", "16"));
    }

    #[test]
    fn other_products_stay() {
        let usual = usual();
        let stays = |from: &str, to: &str| {
            let changed = usual.replace(from, to);
            assert_ne!(changed, usual);
            found(&changed, true).1.is_empty()
        };
        assert!(found(&usual, false).1.is_empty(), "the input stays as it is");
        assert!(stays("HloModule m", "HloModule m, num_partitions=2"), "partitioned");
        assert!(!stays("dot(%x", "dot(%n"), "what the loop computes is packed as well");
        assert!(stays("rhs_contracting_dims={1}", "rhs_contracting_dims={1}, operand_precision={highest,default}"));
        let in_rows = looped(["2,1024,512", "2,512,64", "2,1024,64"], "%x, %b", [2, 1]);
        assert!(found(&in_rows, true).1.is_empty(), "the library takes it");
        assert!(stays("512", "136"), "what is transposed is a large part of it");
        assert!(!stays("512", "137"));
        assert!(found(&wide("64", "64", "8192"), true).1.is_empty(), "both have as many columns");
        assert!(!found(&wide("66", "64", "8192"), true).1.is_empty());
        assert!(found(&wide("128", "8", "1023"), true).1.is_empty(), "a small array");
        assert!(!found(&wide("128", "8", "1024"), true).1.is_empty());
        assert!(stays("f32", "f64"), "quickly packed");
    }
}
