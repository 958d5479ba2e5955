//! Weights rows in a kernel of their own before they are summed.
//!
//! Waste, of run time: XLA:CPU hands a sum to a library together with the product that is summed. The library takes the two for a product of a
//! vector and an array with several dimensions, and computes that number by number, which takes much longer than the product and the sum
//! one after the other. Sums over another dimension than the first, of two-dimensional arrays, and of what is not a product are as fast together as
//! apart. Clipped gradients of single examples are an example (`per-example-gradient` of `tests/referee/families.py`).
//!
//! ```text
//! %w = f32[16,128,128] broadcast(%c), dimensions={0}   =>   %w = f32[16,128,128] broadcast(%c), dimensions={0}
//! %p = f32[16,128,128] multiply(%x, %w)                     %p = f32[16,128,128] multiply(%x, %w)
//!                                                           %kept = f32[16,128,128] call(%p), to_apply=%identity
//! %r = f32[128,128] reduce(%p, %zero), dimensions={0}       %r = f32[128,128] reduce(%kept, %zero), dimensions={0}
//! ```
//!
//! The call keeps the library out. It takes memory for the block, half of the peak and a third of what was saved at most.
//!
//! Sound because a call computes what its body computes. Grade: hlo-exact, since each product is rounded before it is summed; only loops that keep less
//! than every bit anyway are changed.
//!
//! Stays away from other targets than CPU, from instructions of the input (only loops that this run made are changed), from the entry computation, from
//! blocks that are small or read elsewhere too, and from modules to be partitioned.
//!
//! Source: `xla/backends/cpu/transforms/library_rewriter.cc`, `xla/backends/cpu/ynn_support.cc`; the times are measured.

use hlo_ir::graph::Users;
use hlo_ir::{AttrKey, ElementType, Instruction, InstructionId, Module, Opcode};

use crate::fusion_barrier::{is_worth_a_kernel, read_through_identity};
use crate::speed::{self, Change, FindingText, New};
use crate::{Context, Finding, Grade, Pass, PassKind};

/// What is weighted before it is summed may take half of the peak: both at once take ten times as long.
const SHARE_OF_PEAK_SUMMED: u64 = 2;

const TEXT: FindingText = FindingText {
    grade: Grade::HloExact,
    places: ["a sum", "sums"],
    changed: "of rows that are weighted before",
    because: "a call computes what its body computes",
};

/// The pass.
#[derive(Clone, Copy, Debug, Default)]
pub struct WeightedSums;

impl Pass for WeightedSums {
    fn name(&self) -> &'static str {
        "weighted-sums"
    }
    fn summary(&self) -> &'static str {
        "weight rows before they are summed, which the library does number by number"
    }
    crate::explanation!("weighted_sums.rs");
    fn kind(&self) -> PassKind {
        PassKind::Speed
    }
    fn share_of_peak(&self) -> Option<u64> {
        Some(SHARE_OF_PEAK_SUMMED)
    }
    fn find(&self, context: &Context<'_>) -> Vec<Finding> {
        speed::find(context, &TEXT, patch).into_iter().collect()
    }
}

/// What weights rows before they are summed by reductions that are `new`; empty if there is none.
fn patch(module: &Module, new: New<'_>) -> Change {
    let users = Users::of(module);
    let alone = |product: InstructionId| users.get(product).len() == 1 && is_weighted(module, product);
    Change::in_loops(module, new, |change, sum, inst| {
        if sums_first_dimension(module, inst) && alone(inst.operands[0]) {
            change.at(sum);
            read_through_identity(module, sum, 0, &mut change.patch);
        }
    })
}

/// Whether an instruction adds up floats along the first of three or more dimensions, and along no other.
fn sums_first_dimension(module: &Module, inst: &Instruction) -> bool {
    let [terms, _] = inst.operands[..] else { return false };
    let known = |&element: &ElementType| matches!(element, ElementType::F32 | ElementType::F64);
    let Some(array) = module.instruction(terms).array().filter(|array| known(&array.element_type)) else {
        return false;
    };
    let combiner = inst.computation(&AttrKey::ToApply).map(|id| module.instruction(module.computation(id).root));
    inst.opcode == Opcode::Reduce
        && inst.ints(&AttrKey::Dimensions) == [0]
        && array.rank() > 2
        && array.dims[0] > 1
        && combiner.is_some_and(|root| root.opcode == Opcode::Add)
        && is_worth_a_kernel(module, terms)
}

/// Whether one factor is a number for each row, or for each row and some of the dimensions behind the second. XLA makes a quotient by such
/// numbers a product.
fn is_weighted(module: &Module, product: InstructionId) -> bool {
    let inst = module.instruction(product);
    let weights = |&factor: &InstructionId| {
        let factor = module.instruction(factor);
        let dims = factor.ints(&AttrKey::Dimensions);
        factor.opcode == Opcode::Broadcast && dims.contains(&0) && !dims.contains(&1)
    };
    match inst.opcode {
        Opcode::Multiply => inst.operands.iter().any(weights),
        Opcode::Divide => weights(&inst.operands[1]),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use hlo_ir::text;

    use super::*;

    /// A loop that sums what `lines` make of `%x`, called `%p`.
    fn program(lines: &str, sum: &str) -> String {
        program_of(16, lines, sum)
    }

    /// The same with as many weights and squares of numbers.
    fn program_of(rows: usize, lines: &str, sum: &str) -> String {
        let state = format!("(s32[], f32[32,32], f32[{rows},32,32], f32[{rows}])");
        format!(
            "HloModule m
%add (a: f32[], b: f32[]) -> f32[] {{
  %a = f32[] parameter(0)
  %b = f32[] parameter(1)
  ROOT %c = f32[] add(%a, %b)
}}
%body (s: {state}) -> {state} {{
  %s = {state} parameter(0)
  %k = s32[] get-tuple-element(%s), index=0
  %so_far = f32[32,32] get-tuple-element(%s), index=1
  %x = f32[{rows},32,32] get-tuple-element(%s), index=2
  %c = f32[{rows}] get-tuple-element(%s), index=3
  %one = s32[] constant(1)
  %next = s32[] add(%k, %one)
  %zero = f32[] constant(0)
{lines}
  %r = f32[32,32] reduce(%p, %zero), {sum}
  %more = f32[32,32] add(%so_far, %r)
  ROOT %t = {state} tuple(%next, %more, %x, %c)
}}
%less (s: {state}) -> pred[] {{
  %s = {state} parameter(0)
  %k = s32[] get-tuple-element(%s), index=0
  %end = s32[] constant(10)
  ROOT %c = pred[] compare(%k, %end), direction=LT
}}
ENTRY %main {{
  %x = f32[{rows},32,32] parameter(0)
  %c = f32[{rows}] parameter(1)
  %first = f32[32,32] parameter(2)
  %zero = s32[] constant(0)
  %init = {state} tuple(%zero, %first, %x, %c)
  ROOT %w = {state} while(%init), condition=%less, body=%body
}}
"
        )
    }

    const FIRST: &str = "dimensions={0}, to_apply=%add";

    /// As many squares, each times its weight.
    fn weighted(rows: usize) -> String {
        format!("  %w = f32[{rows},32,32] broadcast(%c), dimensions={{0}}\n  %p = f32[{rows},32,32] multiply(%x, %w)")
    }

    fn found(source: &str, is_new: bool) -> (Module, Change) {
        let module = text::parse(source).expect("the test's module is legal");
        assert_eq!(hlo_ir::verify::verify(&module), [], "{source}");
        let patch = patch(&module, &|_| is_new);
        (module, patch)
    }

    fn is_kept(lines: &str) -> bool {
        !found(&program(lines, FIRST), true).1.is_empty()
    }

    #[test]
    fn weighted_rows_are_handed_on_by_a_call() {
        let (mut module, patch) = found(&program(&weighted(16), FIRST), true);
        patch.apply(&mut module).expect("the patch fits");
        let text = text::print(&module);
        assert!(text.contains("%kept = f32[16,32,32] call(%p), to_apply=%p.identity"), "{text}");
        assert!(text.contains("reduce(%kept, %zero)"), "{text}");
        assert!(is_kept(&weighted(16).replace("multiply(%x, %w)", "multiply(%w, %x)")));
        assert!(is_kept(&weighted(16).replace("multiply", "divide")));
    }

    #[test]
    fn what_the_library_adds_up_fast_stays() {
        assert!(!is_kept(&weighted(16).replace("multiply", "subtract")), "no product");
        assert!(!is_kept(&weighted(16).replace("multiply(%x, %w)", "divide(%w, %x)")), "a quotient by each number");
        assert!(!is_kept("  %p = f32[16,32,32] multiply(%x, %x)"), "no weights");
        let along = "  %v = f32[32] constant({...})\n  %w = f32[16,32,32] broadcast(%v), dimensions={2}\n  %p = f32[16,32,32] multiply(%x, %w)";
        assert!(!is_kept(along), "the same weights for each row");
        let second = program_of(32, &weighted(32), "dimensions={1}, to_apply=%add");
        assert!(found(&second, true).1.is_empty(), "along another dimension");
    }

    #[test]
    fn the_input_and_small_blocks_stay_as_they_are() {
        let source = program(&weighted(16), FIRST);
        assert!(found(&source, false).1.is_empty());
        assert!(found(&program_of(15, &weighted(15), FIRST), true).1.is_empty());
        assert!(found(&source.replacen("m\n", "m, num_partitions=2\n", 1), true).1.is_empty());
        let read = format!("{}\n  %q = f32[16,32,32] negate(%p)", weighted(16));
        assert!(!is_kept(&read), "someone else reads it");
        let largest = source.replacen("add(%a, %b)", "maximum(%a, %b)", 1);
        assert!(found(&largest, true).1.is_empty());
    }
}
