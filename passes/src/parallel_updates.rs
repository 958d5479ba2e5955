//! Computes blocks that take work in a kernel of their own before they are written into an array.
//!
//! Waste, of run time: XLA:CPU fuses what is written with the write, and runs a kernel that writes into a part of an array on one thread, because it
//! does not know how much of the array that will be. A kernel of its own is cut into one part for each thread, and what is left on one thread is to
//! copy the block. A gather of millions of numbers runs at the speed of the program without loop again.
//!
//! ```text
//! %y = f32[65536] gather(%x, %rows)                   =>   %y = f32[65536] gather(%x, %rows)
//!                                                          %kept = f32[65536] call(%y), to_apply=%identity
//! %r = f32[1048576] dynamic-update-slice(%old, %y, %k)     %r = f32[1048576] dynamic-update-slice(%old, %kept, %k)
//! ```
//!
//! Blocks of `bf16` are written as integers, in a kernel that walks the whole array, as every kernel does that casts. LLVM deletes the walk outside
//! of the block, where each number is stored to where it came from, if the block is computed there. Of a mere copy it merges both loads into one,
//! and all of the array is written for each block. So what is forwarded is `f32`, and rounded there.
//!
//! It takes memory for the block, a twenty-fifth of the peak and a third of what was saved at most.
//!
//! Sound because a call computes what its body computes, and a `bf16` is the same after it was an `f32`. Calls marked `inlineable="false"` are not
//! inlined by XLA. Grade: bitwise.
//!
//! Stays away from
//!
//! - other targets than CPU, and modules to be partitioned, where such a call would mean one device;
//! - the entry computation, and instructions of the input (only loops that this run made are changed);
//! - blocks that are small, only moved or take a few operations;
//! - what stands in memory for another reader (not what XLA computes for each, such as sines).
//!
//! Source: `MayBeImplementedAsInPlaceDynamicUpdateSlice` in `xla/service/cpu/parallel_task_assignment.cc`; `xla/service/call_inliner.cc`.

use crate::hash::IndexSet;
use hlo_ir::edit::Patch;
use hlo_ir::graph::Users;
use hlo_ir::{ElementType, Instruction, InstructionId, Module, Opcode, Shape};
use hlo_memory::Target;

use crate::flow::{is_expensive, is_fusible, is_slow};
use crate::fusion_barrier::{identity_call, is_worth_a_kernel, read_through_identity};
use crate::speed::{self, Change, FindingText, New, SHARE_OF_PEAK};
use crate::{Context, Finding, Grade, Machine, Pass, PassKind};

const TEXT: FindingText = FindingText {
    grade: Grade::Bitwise,
    places: ["a block", "blocks"],
    changed: "computed before it is written",
    because: "a call computes what its body computes",
};

/// The pass.
#[derive(Clone, Copy, Debug, Default)]
pub struct ParallelUpdates;

impl Pass for ParallelUpdates {
    fn name(&self) -> &'static str {
        "parallel-updates"
    }
    fn summary(&self) -> &'static str {
        "compute blocks on all threads before they are written"
    }
    crate::explanation!("parallel_updates.rs");
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

/// What computes blocks before they are written that are `new`; empty if there is none.
fn patch(module: &Module, new: New<'_>) -> Change {
    let users = Users::of(module);
    Change::in_loops(module, new, |change, write, inst| {
        if inst.opcode != Opcode::DynamicUpdateSlice {
            return;
        }
        let patch = &mut change.patch;
        match rounded(module, &users, inst.operands[1]) {
            Rounded::No if takes_work(module, &users, inst.operands[1]) => {
                read_through_identity(module, write, 1, patch);
            }
            Rounded::Here(convert) if takes_work(module, &users, convert) => {
                read_through_identity(module, convert, 0, patch);
            }
            Rounded::Before(cast) if is_worth_a_kernel(module, cast) => read_wide_through_identity(module, cast, patch),
            _ => return,
        }
        change.at(write);
    })
}

/// Where a block of `bf16` that is written as integers was rounded.
enum Rounded {
    /// It is no such block.
    No,
    /// By this conversion, in the kernel that writes: nothing else reads it.
    Here(InstructionId),
    /// Somewhere before this cast to integers.
    Before(InstructionId),
}

fn rounded(module: &Module, users: &Users, written: InstructionId) -> Rounded {
    let cast = module.instruction(written);
    let short =
        |id: &InstructionId| module.instruction(*id).array().is_some_and(|a| a.element_type == ElementType::Bf16);
    let Some(&block) = cast.operands.first().filter(|&id| cast.opcode == Opcode::BitcastConvert && short(id)) else {
        return Rounded::No;
    };
    match module.instruction(block).opcode {
        Opcode::Convert if users.get(block).len() == 1 => Rounded::Here(block),
        _ => Rounded::Before(written),
    }
}

/// Hands a block on as `f32`: rounded by the kernel that writes it, it is no mere copy.
fn read_wide_through_identity(module: &Module, cast: InstructionId, patch: &mut Patch) {
    let inst = module.instruction(cast);
    let block = module.instruction(inst.operands[0]);
    let convert = |operand: InstructionId, to: ElementType| {
        let array = block.array().expect("a block is an array").with_element_type(to);
        Instruction::new(block.name.clone(), Shape::Array(array).into(), Opcode::Convert, [operand])
    };
    let wide = patch.add(inst.parent, convert(inst.operands[0], ElementType::F32));
    let kept = identity_call(patch, inst.parent, &convert(wide, ElementType::F32));
    let rounded = patch.add(inst.parent, convert(kept, ElementType::Bf16));
    let mut changed = inst.clone();
    changed.operands[0] = rounded;
    patch.rewrite(cast, changed);
}

/// Whether the kernel that ends with `block` does more than to move a few numbers. Reductions are kernels of their own, or calls of a library.
fn takes_work(module: &Module, users: &Users, block: InstructionId) -> bool {
    if !is_worth_a_kernel(module, block) {
        return false;
    }
    // Quick operations, such as a hash of counters, count where all of them take longer than a kernel of its own does to write a float and another to read it.
    let most = Machine::of(Target::Cpu).operations_of_a_float();
    let mut kernel = IndexSet::from_iter([(block, true)]);
    let mut operations = 0;
    let mut next = 0;
    while let Some(&(id, alone)) = kernel.get_index(next) {
        next += 1;
        let inst = module.instruction(id);
        // What reads a value on behalf of two kernels does so in each.
        let alone = alone && users.get(id).len() == 1;
        let whole = inst.array().is_some_and(|array| array.rank() > 0);
        let stands = !is_fusible(inst.opcode) || inst.opcode == Opcode::Reduce || (!alone && is_expensive(module, id));
        if !whole || stands {
            continue;
        }
        operations += usize::from(inst.opcode.is_elementwise());
        if is_slow(module, id) || operations > most {
            return true;
        }
        kernel.extend(inst.operands.iter().map(|&operand| (operand, alone)));
    }
    false
}

#[cfg(test)]
mod tests {
    use hlo_ir::text;

    use super::*;

    /// A loop that writes what `lines` compute of blocks of `%x`, called `%y`.
    fn program(lines: &str) -> String {
        program_of("f32", 20480, lines, "  %w = f32[204800] dynamic-update-slice(%so_far, %y, %k)")
    }

    /// The same where blocks of another size are written by `writes`, as numbers of type `written`.
    fn program_of(written: &str, block: usize, lines: &str, writes: &str) -> String {
        let state = format!("(s32[], {written}[{block}0], f32[{block}0])");
        format!(
            "HloModule m
%body (s: {state}) -> {state} {{
  %s = {state} parameter(0)
  %k = s32[] get-tuple-element(%s), index=0
  %so_far = {written}[{block}0] get-tuple-element(%s), index=1
  %x = f32[{block}0] get-tuple-element(%s), index=2
  %rows = s32[] constant({block})
  %next = s32[] add(%k, %rows)
  %b = f32[{block}] dynamic-slice(%x, %k), dynamic_slice_sizes={{{block}}}
{lines}
{writes}
  ROOT %t = {state} tuple(%next, %w, %x)
}}
%more (s: {state}) -> pred[] {{
  %s = {state} parameter(0)
  %k = s32[] get-tuple-element(%s), index=0
  %end = s32[] constant({block}0)
  ROOT %c = pred[] compare(%k, %end), direction=LT
}}
ENTRY %main (x: f32[{block}0], r: {written}[{block}0]) -> {state} {{
  %x = f32[{block}0] parameter(0)
  %r = {written}[{block}0] parameter(1)
  %zero = s32[] constant(0)
  %init = {state} tuple(%zero, %r, %x)
  ROOT %w = {state} while(%init), condition=%more, body=%body
}}
"
        )
    }

    fn found(source: &str, is_new: bool) -> (Module, Change) {
        let module = text::parse(source).expect("the test's module is legal");
        let patch = patch(&module, &|_| is_new);
        (module, patch)
    }

    fn is_kept(lines: &str) -> bool {
        !found(&program(lines), true).1.is_empty()
    }

    #[test]
    fn what_takes_work_is_handed_on_by_a_call() {
        let (mut module, patch) = found(&program("  %y = f32[20480] tanh(%b)"), true);
        patch.apply(&mut module).expect("the patch fits");
        let text = text::print(&module);
        assert!(text.contains("%kept = f32[20480] call(%y), to_apply=%y.identity"), "{text}");
        assert!(text.contains("dynamic-update-slice(%so_far, %kept, %k)"), "{text}");
        assert!(is_kept("  %e = f32[20480] tanh(%b)\n  %y = f32[20480] add(%e, %b)"));
    }

    /// The same of blocks of `bf16`, written as integers.
    fn short(lines: &str) -> String {
        let cast = "  %o = u16[409600] bitcast-convert(%so_far)\n  %h = u16[40960] bitcast-convert(%y)
  %d = u16[409600] dynamic-update-slice(%o, %h, %k)\n  %w = bf16[409600] bitcast-convert(%d)";
        program_of("bf16", 40960, lines, cast)
    }

    #[test]
    fn what_is_rounded_is_handed_on_before_that() {
        let kept = |lines: &str| {
            let (mut module, patch) = found(&short(lines), true);
            patch.apply(&mut module).expect("the patch fits");
            assert_eq!(hlo_ir::verify::verify(&module), []);
            text::print(&module)
        };
        let computed = kept("  %v = f32[40960] tanh(%b)\n  %y = bf16[40960] convert(%v)");
        assert!(computed.contains("%kept = f32[40960] call(%v)"), "{computed}");
        assert!(computed.contains("%y = bf16[40960] convert(%kept)"), "{computed}");
        let quick = kept("  %y = bf16[40960] convert(%b)");
        assert!(!quick.contains("call"), "it is rounded where it is written anyway: {quick}");
        let stands = kept(
            "  %e = bf16[40960] convert(%b)\n  %z = (bf16[40960]) tuple(%e)\n  %y = bf16[40960] get-tuple-element(%z), index=0",
        );
        assert!(stands.contains("= f32[40960] convert(%y)"), "{stands}");
        assert!(stands.contains("%kept = f32[40960] call("), "{stands}");
        let read = kept("  %y = bf16[40960] convert(%b)\n  %n = bf16[40960] negate(%y)");
        assert!(read.contains("%kept = f32[40960] call("), "it stands in memory for its other reader: {read}");
    }

    #[test]
    fn what_is_quick_is_written_as_it_is_computed() {
        assert!(!is_kept("  %y = f32[20480] negate(%b)"));
        let chain = |count: usize| {
            let link = |k: usize| format!("  %c{} = f32[20480] add(%c{k}, %b)\n", k + 1);
            let links: String = (0..count).map(link).collect();
            format!("  %c0 = f32[20480] negate(%b)\n{links}  %y = f32[20480] reshape(%c{count})")
        };
        assert!(!is_kept(&chain(31)));
        assert!(is_kept(&chain(32)));
    }

    #[test]
    fn what_stands_in_memory_is_written_from_there() {
        assert!(!is_kept(
            "  %e = f32[20480] tanh(%b)\n  %z = (f32[20480]) tuple(%e)\n  %y = f32[20480] get-tuple-element(%z), index=0"
        ));
        let twice = "  %e = f32[20480] tanh(%b)\n  %f = f32[20480] negate(%e)\n  %y = f32[20480] add(%e, %f)";
        assert!(!is_kept(twice), "the tanh has two readers and memory of its own");
        let sum = "  %m = f32[20480,8] broadcast(%b), dimensions={0}\n  %f = f32[] constant(0)
  %y = f32[20480] reduce(%m, %f), dimensions={1}, to_apply=%add";
        let add = "m\n%add (a: f32[], b: f32[]) -> f32[] {\n  %a = f32[] parameter(0)\n  %b = f32[] parameter(1)
  ROOT %c = f32[] add(%a, %b)\n}\n";
        assert!(
            found(&program(sum).replacen("m\n", add, 1), true).1.is_empty(),
            "a reduction is no part of a kernel that writes"
        );
        let read = "  %e = f32[20480] tanh(%b)\n  %y = f32[20480] add(%e, %b)\n  %z = f32[20480] negate(%y)";
        assert!(!is_kept(read), "the tanh stands in memory for two readers of what is made of it");
        assert!(is_kept(&read.replace("tanh", "sine")), "a sine is computed for each of them");
    }

    #[test]
    fn small_blocks_are_written_as_they_are_computed() {
        let small = "  %part = f32[1024] slice(%b), slice={[0:1024]}\n  %y = f32[1024] tanh(%part)";
        assert!(!is_kept(small));
        assert!(is_kept(&small.replace("1024", "16384")));
    }

    #[test]
    fn the_input_stays_as_it_is() {
        let lines = "  %y = f32[20480] tanh(%b)";
        assert!(found(&program(lines), false).1.is_empty());
        let partitioned = program(lines).replacen("m\n", "m, num_partitions=2\n", 1);
        assert!(found(&partitioned, true).1.is_empty());
        let entry = "HloModule m

ENTRY %main {
  %x = f32[20480] parameter(0)
  %r = f32[204800] parameter(1)
  %k = s32[] parameter(2)
  %y = f32[20480] tanh(%x)
  ROOT %w = f32[204800] dynamic-update-slice(%r, %y, %k)
}
";
        assert!(found(entry, true).1.is_empty(), "what runs once");
    }
}
