//! Gathers once, into memory of its own, what one kernel would gather for several places.
//!
//! Waste, of run time: XLA:CPU fuses a gather into its reader if there is just one, and looks up each number again for every place that the reader's
//! result is put to. The gradient of a linear interpolation in three dimensions took many times as long in such a kernel as before there
//! was a loop.
//!
//! ```text
//! %g = f32[4096] gather(%table, %rows)              =>   %g = f32[4096] gather(%table, %rows)
//!                                                        %kept = f32[4096] call(%g), to_apply=%identity
//! %n = f32[4096] negate(%g)                              %n = f32[4096] negate(%kept)
//! %o = f32[8192] concatenate(%n, %n)                     %o = f32[8192] concatenate(%n, %n)
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
//! - gathers of several readers, which XLA keeps in memory anyway;
//! - tables that are products, which a kernel may join with sums behind the gather, or that memory rounds.
//!
//! Source: `xla/service/instruction_fusion.cc`; `xla/codegen/emitters/computation_partitioner.cc`; `xla/service/call_inliner.cc`.

use crate::hash::{IndexMap, IndexSet};
use hlo_ir::edit::Patch;
use hlo_ir::graph::Users;
use hlo_ir::{Instruction, InstructionId, Module, Opcode};

use crate::flow::{float_product, is_rounded};
use crate::fusion_barrier::identity_call;
use crate::kernel_functions;
use crate::speed::{self, Change, FindingText, New, SHARE_OF_PEAK};
use crate::{Context, Finding, Grade, Pass, PassKind};

const TEXT: FindingText = FindingText {
    grade: Grade::Bitwise,
    places: ["a gather", "gathers"],
    changed: "computed once for all places of a kernel",
    because: "a call computes what its body computes",
};

/// The pass.
#[derive(Clone, Copy, Debug, Default)]
pub struct MaterializeGathers;

impl Pass for MaterializeGathers {
    fn name(&self) -> &'static str {
        "materialize-gathers"
    }
    fn summary(&self) -> &'static str {
        "gather once what a kernel would gather for several places"
    }
    crate::explanation!("materialize_gathers.rs");
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

/// What keeps gathers that are `new` out of kernels that would compute them at several places; empty if there is none.
fn patch(module: &Module, new: New<'_>) -> Change {
    let users = Users::of(module);
    let wanted = |id, inst: &Instruction| {
        inst.opcode == Opcode::Gather && users.get(id).len() == 1 && new(id) && stands(module, inst)
    };
    Change::of(module, |change| {
        // Each reader with the gathers that it takes from calls.
        let mut readers: IndexMap<InstructionId, IndexSet<InstructionId>> = IndexMap::default();
        for gather in kernel_functions::several_in_loops(module, &users, wanted) {
            readers.entry(users.get(gather)[0]).or_default().insert(gather);
        }
        for (reader, gathers) in readers {
            gathers.iter().for_each(|&gather| change.at(gather));
            keep(module, reader, &gathers, &mut change.patch);
        }
    })
}

/// Whether the bits of a gather are the same wherever it is computed: its table is not a product that a kernel could join with a sum behind the
/// gather, nor anything that memory rounds.
fn stands(module: &Module, gather: &Instruction) -> bool {
    let table = gather.operands[0];
    float_product(module, table).is_none() && !is_rounded(module, table)
}

/// Lets `reader` take `gathers` from calls that hand them on.
fn keep(module: &Module, reader: InstructionId, gathers: &IndexSet<InstructionId>, patch: &mut Patch) {
    let mut changed = module.instruction(reader).clone();
    for &gather in gathers {
        let mut block = module.instruction(gather).clone();
        block.operands = [gather].into_iter().collect();
        let kept = identity_call(patch, block.parent, &block);
        changed.operands.iter_mut().filter(|operand| **operand == gather).for_each(|operand| *operand = kept);
    }
    patch.rewrite(reader, changed);
}

#[cfg(test)]
mod tests {
    use hlo_ir::text;

    use super::*;

    /// A loop that carries `%o`, which `lines` make of two gathers.
    fn program(lines: &str) -> Module {
        program_of("%t", lines)
    }

    /// The same where the gathers read `table`: `%t`, which is carried, or `%u`, its square.
    fn program_of(table: &str, lines: &str) -> Module {
        let gather = |name: &str, table: &str| {
            format!(
                "  %{name} = f32[64] gather({table}, %i), offset_dims={{}}, collapsed_slice_dims={{0}}, start_index_map={{0}}, index_vector_dim=1, slice_sizes={{1}}\n"
            )
        };
        let state = "(s32[], f32[9], s32[64,1], f32[128])";
        let source = format!(
            "HloModule m

%body (s: {state}) -> {state} {{
  %s = {state} parameter(0)
  %k = s32[] get-tuple-element(%s), index=0
  %t = f32[9] get-tuple-element(%s), index=1
  %u = f32[9] multiply(%t, %t)
  %i = s32[64,1] get-tuple-element(%s), index=2
{}{}{lines}
  %one = s32[] constant(1)
  %next = s32[] add(%k, %one)
  ROOT %r = {state} tuple(%next, %t, %i, %o)
}}

%more (s: {state}) -> pred[] {{
  %s = {state} parameter(0)
  %k = s32[] get-tuple-element(%s), index=0
  %ten = s32[] constant(10)
  ROOT %c = pred[] compare(%k, %ten), direction=LT
}}

ENTRY %main {{
  %x = {state} parameter(0)
  ROOT %w = {state} while(%x), condition=%more, body=%body
}}
",
            gather("g", table),
            gather("h", table)
        );
        let module = text::parse(&source).expect("the test's module is legal");
        assert_eq!(hlo_ir::verify::verify(&module), []);
        module
    }

    const TWO_PLACES: &str = "  %n = f32[64] multiply(%g, %h)
  %o = f32[128] concatenate(%n, %n), dimensions={0}";

    #[test]
    fn both_gathers_of_a_reader_are_kept() {
        let mut module = program(TWO_PLACES);
        patch(&module, &|_| true).apply(&mut module).expect("the patch fits");
        assert_eq!(hlo_ir::verify::verify(&module), []);
        let text = text::print(&module);
        assert!(text.contains("%kept = f32[64] call(%g), to_apply=%g.identity"), "{text}");
        assert!(text.contains("%kept.1 = f32[64] call(%h), to_apply=%h.identity"), "{text}");
        assert!(text.contains("%n = f32[64] multiply(%kept, %kept.1)"), "{text}");
        assert!(patch(&module, &|_| true).is_empty(), "once is enough");
    }

    #[test]
    fn other_gathers_stay() {
        let is_kept = |module: &Module, new: bool| !patch(module, &|_| new).is_empty();
        let two = program(TWO_PLACES);
        assert!(!is_kept(&two, false), "the input stays as it is");
        assert!(!is_kept(&program_of("%u", TWO_PLACES), true), "a kernel may join the product with a sum");
        let source = text::print(&two).replacen("HloModule m", "HloModule m, num_partitions=2", 1);
        assert!(!is_kept(&text::parse(&source).expect("legal text"), true), "partitioned");
        let one_place = "  %n = f32[64] multiply(%g, %h)
  %z = f32[64] iota(), iota_dimension=0
  %o = f32[128] concatenate(%n, %z), dimensions={0}";
        assert!(!is_kept(&program(one_place), true), "a kernel computes it once");
        let twice = TWO_PLACES.replace("multiply(%g, %h)", "multiply(%g, %g)");
        let more = format!("{twice}\n  %e = f32[64] negate(%g)\n  %all = (f32[64], f32[64]) tuple(%e, %h)");
        assert!(!is_kept(&program(&more), true), "two readers: it stands in memory");
    }
}
