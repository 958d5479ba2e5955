//! Computes sines, cosines and tangents of a block once for all kernels that read them.
//!
//! Waste, of run time: XLA:CPU treats these functions as cheap and recomputes them in every kernel that reads one, though each takes as long as reading
//! ten numbers. The gradient of a normalized layer under a sine computes a cosine five times for each number, where the program without loop does
//! once.
//!
//! ```text
//! %c = f32[256,1024] cosine(%x)                      =>   %c = f32[256,1024] cosine(%x)
//!                                                         %kept = f32[256,1024] call(%c), to_apply=%identity
//! %p = f32[256,1024] multiply(%c, %y)                     %p = f32[256,1024] multiply(%kept, %y)
//! %r = f32[256] reduce(%p, %zero), dimensions={1}         %r = f32[256] reduce(%p, %zero), dimensions={1}
//! %q = f32[256,1024] divide(%c, %z)                       %q = f32[256,1024] divide(%kept, %z)
//! ```
//!
//! It takes memory for the block, a twenty-fifth of the peak and a third of what was saved at most.
//!
//! Sound because a call computes what its body computes. Calls marked `inlineable="false"` are not inlined by XLA. Grade: bitwise; hlo-exact
//! where a sum is made of what is computed, as a library that sums computes functions by code of its own. Those are only changed in loops that
//! keep less than every bit anyway.
//!
//! Stays away from other targets than CPU, from instructions of the input (only loops that this run made are changed), from the entry computation, from
//! what one kernel reads, from floats that memory rounds, and from modules to be partitioned.
//!
//! Source: `CpuInstructionFusion::IsExpensive` (xla/service/cpu/cpu_instruction_fusion.cc).

use hlo_ir::edit::Patch;
use hlo_ir::graph::Users;
use hlo_ir::{ElementType, InstructionId, Module, Opcode};

use crate::flow::is_fusible;
use crate::fusion_barrier::{identity_call, is_worth_a_kernel};
use crate::roll::fp_contraction::reaches_reduce;
use crate::speed::{self, Change, FindingText, New, SHARE_OF_PEAK};
use crate::{Context, Finding, Grade, Pass, PassKind};

const TEXT: FindingText = FindingText {
    grade: Grade::Bitwise,
    places: ["a trigonometric function", "trigonometric functions"],
    changed: "computed once for all kernels that read it",
    because: "a call computes what its body computes",
};

/// The pass.
#[derive(Clone, Copy, Debug, Default)]
pub struct MaterializeTrig;

impl Pass for MaterializeTrig {
    fn name(&self) -> &'static str {
        "materialize-trig"
    }
    fn summary(&self) -> &'static str {
        "compute sines, cosines and tangents once for all kernels that read them"
    }
    crate::explanation!("materialize_trig.rs");
    fn kind(&self) -> PassKind {
        PassKind::Speed
    }
    fn share_of_peak(&self) -> Option<u64> {
        Some(SHARE_OF_PEAK)
    }
    fn find(&self, context: &Context<'_>) -> Vec<Finding> {
        let not_summed = speed::find(context, &TEXT, |module, new| patch(module, new, false));
        let all = speed::find(context, &FindingText { grade: Grade::HloExact, ..TEXT }, |module, new| {
            patch(module, new, true)
        });
        not_summed.into_iter().chain(all).collect()
    }
}

/// What computes once the sines that are `new` and read by several kernels; those that a sum is made of only where bits may change.
fn patch(module: &Module, new: New<'_>, summed: bool) -> Change {
    let users = Users::of(module);
    Change::in_loops(module, new, |change, sine, _| {
        let wanted = is_large_sine(module, sine) && is_read_by_several(module, &users, sine);
        if wanted && (summed || !reaches_reduce(module, &users, sine)) {
            change.at(sine);
            keep(module, sine, &mut change.patch);
        }
    })
}

fn is_large_sine(module: &Module, id: InstructionId) -> bool {
    let inst = module.instruction(id);
    let wide = |element: ElementType| matches!(element, ElementType::F32 | ElementType::F64);
    matches!(inst.opcode, Opcode::Sine | Opcode::Cosine | Opcode::Tan)
        && inst.array().is_some_and(|array| wide(array.element_type))
        && is_worth_a_kernel(module, id)
}

/// Whether several instructions read a value, or what alone is made of it on the fly.
fn is_read_by_several(module: &Module, users: &Users, id: InstructionId) -> bool {
    let mut at = id;
    while let [user] = *users.get(at) {
        let opcode = module.instruction(user).opcode;
        if !opcode.is_elementwise() || !is_fusible(opcode) {
            return false;
        }
        at = user;
    }
    users.get(at).len() > 1
}

/// Lets all readers of a value take it from a call.
fn keep(module: &Module, id: InstructionId, patch: &mut Patch) {
    let mut block = module.instruction(id).clone();
    block.operands = [id].into_iter().collect();
    let kept = identity_call(patch, block.parent, &block);
    patch.replace(id, kept);
}

#[cfg(test)]
mod tests {
    use hlo_ir::text;

    use super::*;

    /// A loop that computes a sine of blocks of `%x`, and what `lines` make of it, called `%y`.
    fn program(lines: &str) -> Module {
        program_of("f32", 20480, lines)
    }

    /// The same with numbers of another type, and blocks of another size.
    fn program_of(element_type: &str, block: usize, lines: &str) -> Module {
        let state = format!("(s32[], {element_type}[{block}0], {element_type}[{block}0])");
        let source = format!(
            "HloModule m
%plus (a: {element_type}[], b: {element_type}[]) -> {element_type}[] {{
  %a = {element_type}[] parameter(0)
  %b = {element_type}[] parameter(1)
  ROOT %c = {element_type}[] add(%a, %b)
}}
%body (s: {state}) -> {state} {{
  %s = {state} parameter(0)
  %k = s32[] get-tuple-element(%s), index=0
  %so_far = {element_type}[{block}0] get-tuple-element(%s), index=1
  %x = {element_type}[{block}0] get-tuple-element(%s), index=2
  %rows = s32[] constant({block})
  %next = s32[] add(%k, %rows)
  %b = {element_type}[{block}] dynamic-slice(%x, %k), dynamic_slice_sizes={{{block}}}
  %sin = {element_type}[{block}] sine(%b)
{lines}
  %w = {element_type}[{block}0] dynamic-update-slice(%so_far, %y, %k)
  ROOT %t = {state} tuple(%next, %w, %x)
}}
%more (s: {state}) -> pred[] {{
  %s = {state} parameter(0)
  %k = s32[] get-tuple-element(%s), index=0
  %end = s32[] constant({block}0)
  ROOT %c = pred[] compare(%k, %end), direction=LT
}}
ENTRY %main (x: {state}) -> {state} {{
  %x = {state} parameter(0)
  ROOT %w = {state} while(%x), condition=%more, body=%body
}}
"
        );
        let module = text::parse(&source).expect("the test's module is legal");
        assert_eq!(hlo_ir::verify::verify(&module), []);
        module
    }

    const TWICE: &str = "  %z = f32[20480] multiply(%sin, %b)\n  %y = f32[20480] subtract(%z, %sin)";
    const SUMMED: &str = "  %zero = f32[] constant(0)\n  %r = f32[] reduce(%sin, %zero), dimensions={0}, to_apply=%plus
  %z = f32[20480] broadcast(%r), dimensions={}\n  %y = f32[20480] multiply(%sin, %z)";

    #[test]
    fn all_readers_take_it_from_one_call() {
        let mut module = program(TWICE);
        patch(&module, &|_| true, false).apply(&mut module).expect("the patch fits");
        assert_eq!(hlo_ir::verify::verify(&module), []);
        let text = text::print(&module);
        assert!(text.contains("%kept = f32[20480] call(%sin), to_apply=%sin.identity"), "{text}");
        assert!(text.contains("%z = f32[20480] multiply(%kept, %b)"), "{text}");
        assert!(text.contains("%y = f32[20480] subtract(%z, %kept)"), "{text}");
        assert!(patch(&module, &|_| true, true).is_empty(), "once is enough");
    }

    #[test]
    fn what_alone_is_made_of_it_counts() {
        let made =
            "  %n = f32[20480] negate(%sin)\n  %z = f32[20480] multiply(%n, %b)\n  %y = f32[20480] subtract(%z, %n)";
        assert!(!patch(&program(made), &|_| true, false).is_empty());
    }

    #[test]
    fn others_stay() {
        let is_kept = |module: &Module, new: bool, summed: bool| !patch(module, &|_| new, summed).is_empty();
        assert!(!is_kept(&program(TWICE), false, true), "the input stays as it is");
        assert!(!is_kept(&program("  %y = f32[20480] negate(%sin)"), true, true), "one kernel reads it");
        assert!(!is_kept(&program(SUMMED), true, false), "a library may sum sines of its own");
        assert!(is_kept(&program(SUMMED), true, true), "unless bits may change");
        let changed =
            |from: &str, to: &str| text::parse(&text::print(&program(TWICE)).replace(from, to)).expect("legal text");
        assert!(!is_kept(&changed("20480", "2048"), true, true), "a kernel would take longer to start");
        assert!(!is_kept(&changed("sine(", "tanh("), true, true), "which XLA keeps in memory");
        let short = "  %z = bf16[81920] multiply(%sin, %b)\n  %y = bf16[81920] subtract(%z, %sin)";
        assert!(!is_kept(&program_of("bf16", 81920, short), true, true), "memory would round it");
        assert!(!is_kept(&changed("HloModule m", "HloModule m, num_partitions=2"), true, true), "partitioned");
        let entry = format!(
            "HloModule m\nENTRY %main {{\n  %b = f32[20480] parameter(0)\n  %sin = f32[20480] sine(%b)\n{TWICE}\n}}\n"
        );
        let entry = text::parse(&entry.replace("  %y", "  ROOT %y")).expect("legal text");
        assert!(!is_kept(&entry, true, true), "no loop");
    }
}
