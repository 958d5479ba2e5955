//! Reads a block once, into memory of its own, from which one kernel would compute at several places.
//!
//! Waste, of run time: XLA:CPU would make the block a function of its own within the kernel and call it from each place. LLVM hands such a function
//! the start of the block as a number, and forgets meanwhile that no store changes the memory it comes from: it is loaded again for every
//! element, and the kernel is not vectorized. Indices computed from one integer (`unravel_index`) are an example. From
//! memory of its own the kernel reads the block like any array.
//!
//! ```text
//! %rows = s32[4096] dynamic-slice(%i, %start)       =>   %rows = s32[4096] call(%i, %start), to_apply=%read_block
//! %x = s32[4096] remainder(%rows, %n)                    %x = s32[4096] remainder(%rows, %n)
//! %y = s32[4096] divide(%rows, %n)                       %y = s32[4096] divide(%rows, %n)
//! %xy = s32[8192] concatenate(%x, %y)                    %xy = s32[8192] concatenate(%x, %y)
//! ```
//!
//! It takes memory for the block, a twenty-fifth of the peak and a third of what was saved at most.
//!
//! Sound because a call computes what its body computes. Calls marked `inlineable="false"` are not inlined by XLA. Grade: bitwise.
//!
//! Stays away from
//!
//! - other targets than CPU, and modules to be partitioned, where such a call would mean one device;
//! - the entry computation, and instructions of the input (only loops that this run made are changed);
//! - blocks that wait for anything but their operands;
//! - complex numbers, whose product is a sum of two products of which a vectorized kernel rounds another one first.
//!
//! Source: the code of the kernels in XLA's dumps (`*.ir-with-opt.ll`); `xla/service/call_inliner.cc`.

use hlo_ir::edit::Patch;
use hlo_ir::graph::Users;
use hlo_ir::module::Payload;
use hlo_ir::{Instruction, InstructionId, Module, Opcode};

use crate::fusion_barrier::attributes_of_call;
use crate::kernel_functions;
use crate::speed::{self, Change, FindingText, New, SHARE_OF_PEAK, is_plain_block};
use crate::{Context, Finding, Grade, Pass, PassKind};

const TEXT: FindingText = FindingText {
    grade: Grade::Bitwise,
    places: ["a block", "blocks"],
    changed: "read once for all places of a kernel",
    because: "a call computes what its body computes",
};

/// The pass.
#[derive(Clone, Copy, Debug, Default)]
pub struct MaterializeSlices;

impl Pass for MaterializeSlices {
    fn name(&self) -> &'static str {
        "materialize-slices"
    }
    fn summary(&self) -> &'static str {
        "read a block once from which a kernel computes at several places"
    }
    crate::explanation!("materialize_slices.rs");
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

/// What reads blocks for themselves that are `new` and that kernels compute from at several places; empty if there is none.
fn patch(module: &Module, new: New<'_>) -> Change {
    let is_complex = |inst: &Instruction| inst.array().is_some_and(|array| array.element_type.is_complex());
    let wanted = |id, inst: &Instruction| new(id) && !is_complex(inst) && is_plain_block(module, inst);
    Change::of(module, |change| {
        for block in kernel_functions::several_in_loops(module, &Users::of(module), wanted) {
            change.at(block);
            read(module, block, &mut change.patch);
        }
    })
}

/// Lets a call do what `block` does.
fn read(module: &Module, block: InstructionId, patch: &mut Patch) {
    let inst = module.instruction(block);
    let body = patch.add_computation(format!("{}.read", inst.name));
    let mut slice = inst.clone();
    for (k, operand) in slice.operands.iter_mut().enumerate() {
        let parameter = Instruction::new("read", module.instruction(*operand).shape.clone(), Opcode::Parameter, []);
        *operand = patch.add(body, parameter.with_payload(Payload::Parameter(k as i64)));
    }
    patch.add(body, slice);
    let mut call = inst.clone();
    call.opcode = Opcode::Call;
    call.attributes = attributes_of_call(body, inst);
    patch.rewrite(block, call);
}

#[cfg(test)]
mod tests {
    use hlo_ir::text;

    use super::*;

    /// A loop that carries numbers of one type and, from `zeros` on, what `lines` make of a block `%x` of them, called `%qr`.
    fn looped(element_type: &str, lines: &str, zeros: &str) -> String {
        let state = format!("(s32[], {element_type}[20], {element_type}[100])");
        format!(
            "HloModule m

%body (s: {state}) -> {state} {{
  %s = {state} parameter(0)
  %k = s32[] get-tuple-element(%s), index=0
  %i = {element_type}[100] get-tuple-element(%s), index=2
  %x = {element_type}[10] dynamic-slice(%i, %k), dynamic_slice_sizes={{10}}, metadata={{op_name=\"read\"}}
{lines}
  %one = s32[] constant(1)
  %next = s32[] add(%k, %one)
  ROOT %t = {state} tuple(%next, %qr, %i)
}}

%more (s: {state}) -> pred[] {{
  %s = {state} parameter(0)
  %k = s32[] get-tuple-element(%s), index=0
  %ten = s32[] constant(10)
  ROOT %c = pred[] compare(%k, %ten), direction=LT
}}

ENTRY %main {{
  %i = {element_type}[100] parameter(0)
  %zero = s32[] constant(0)
{zeros}
  %init = {state} tuple(%zero, %zeros, %i)
  ROOT %w = {state} while(%init), condition=%more, body=%body
}}
"
        )
    }

    const ZEROS: &str = "  %zeros = s32[20] broadcast(%zero), dimensions={}";

    /// The loop that reads a block of integers at two places.
    fn reading_twice() -> String {
        let lines = "  %q = s32[10] abs(%x)
  %r = s32[10] sign(%x)
  %qr = s32[20] concatenate(%q, %r), dimensions={0}";
        looped("s32", lines, ZEROS)
    }

    #[test]
    fn a_block_read_at_several_places_is_read_by_a_call() {
        let mut module = text::parse(&reading_twice()).expect("legal text");
        let before = module.clone();
        let undo = patch(&module, &|_| true).apply(&mut module).expect("it fits");
        assert_eq!(hlo_ir::verify::verify(&module), []);
        let text = text::print(&module);
        let call = "%x = s32[10] call(%i, %k), to_apply=%x.read, frontend_attributes={inlineable=\"false\"}, metadata={op_name=\"read\"}";
        assert!(text.contains(call), "{text}");
        assert!(text.contains("dynamic_slice_sizes={10}"), "{text}");
        assert!(patch(&module, &|_| true).is_empty(), "once is enough");
        undo.revert(&mut module);
        assert_eq!(text::print(&module), text::print(&before));
    }

    #[test]
    fn other_blocks_stay() {
        let parse = |source: &str| text::parse(source).expect("legal text");
        let source = reading_twice();
        assert!(patch(&parse(&source), &|_| false).is_empty(), "the input stays as it is");
        assert!(patch(&parse(&source.replace("m\n", "m, num_partitions=2\n")), &|_| true).is_empty());
        let once = "  %w = s32[10] iota(), iota_dimension=0
  %q = s32[10] abs(%x)
  %r = s32[10] sign(%w)
  %qr = s32[20] concatenate(%q, %r), dimensions={0}";
        assert!(patch(&parse(&looped("s32", once, ZEROS)), &|_| true).is_empty(), "a kernel reads it in one place");
        let complex = "  %q = c64[10] negate(%x)
  %r = c64[10] sign(%x)
  %qr = c64[20] concatenate(%q, %r), dimensions={0}";
        let nothing = "  %none = c64[] constant((0, 0))\n  %zeros = c64[20] broadcast(%none), dimensions={}";
        assert!(patch(&parse(&looped("c64", complex, nothing)), &|_| true).is_empty(), "products of complex numbers");
        let entry = "HloModule m

ENTRY %main {
  %i = s32[100] parameter(0)
  %k = s32[] parameter(1)
  %x = s32[10] dynamic-slice(%i, %k), dynamic_slice_sizes={10}
  %q = s32[10] abs(%x)
  %r = s32[10] sign(%x)
  ROOT %qr = s32[20] concatenate(%q, %r), dimensions={0}
}
";
        assert!(patch(&parse(entry), &|_| true).is_empty(), "what runs once");
    }
}
