//! Lets a scatter or gather read the program's own index array instead of a normalised copy of it.
//!
//! Waste: before a scatter JAX takes the index array apart into columns, wraps negative indices (`select(i < 0, i + d, i)`), converts
//! narrow types to `s32`, and joins the columns again. XLA does not fuse that into a scatter: for 2^33 rows of three `s16` indices the joined
//! `s32` copy takes 96 GiB beside 48 GiB of input.
//!
//! ```text
//! %i = u8[N,3] parameter(0)                                    %i = u8[N,3] parameter(0)
//! %c = s32[N,3] convert(%i)
//! %a, %b, %d = s32[N,1] slice(%c)                         =>
//! %j = s32[N,3] concatenate(%a, %b, %d)
//! ROOT %s = scatter(%x, %j, %u), ...                           ROOT %s = scatter(%x, %i, %u), ...
//! ```
//!
//! Every component of the index is followed back through slices, reshapes, transposes, concatenations, broadcasts and elementwise operations to
//! one array, as "element (row, p) of it, and this was done to the value". Columns in another order become another
//! `scatter_dims_to_operand_dims` (or `start_index_map`).
//!
//! Sound when no value tells the old index from the new one. What was done to a value `v` is known exactly, interval by interval: `v`,
//! `v + d`, a constant end of a clamp. A scatter skips rows that do not fit, so there two indices are alike if they are equal or both lie
//! outside; a gather moves them to the nearest one that fits, so there they must lie on the same side. For the wrap
//! of JAX only values in [-d, -1] are told apart. Grade: bitwise if range analysis proves that the array holds none of them, column by column
//! (unsigned types, iota, clip, masks, remainders, arg-max, sort positions, counters ...), but hlo-exact where a product with what is gathered
//! meets a sum; assume if
//! `--assume=indices-in-bounds` promises it. XLA joins adding scatters of floats that are summed where their indices fit together, and
//! chains them otherwise: reassociate where the index of one of these gets another type or order.
//!
//! Only XLA:CPU is given a narrower index type than before; for other targets one convert to the old type stays, because XLA:TPU
//! computes addresses of several components in the narrow type and gets them wrong. For XLA:GPU nothing is rewritten (`fused-on-target`):
//! it computes indices inside the scatter, and never holds the copy.
//!
//! Stays away, with a remark,
//!
//! - if a value may lie where the indices differ: `range-unknown` if the program wraps it around, `clamped` if it moves it into the bounds,
//!   `computed` if it changes even an index in bounds, which no promise covers;
//! - if the components come from several arrays (`several-sources`), are a part of the columns (`column-subset`) or repeat one (`repeated-column`);
//! - if the array does not hold its rows one after the other (`index-layout`): it would have to be copied, and nothing would be gained.
//!
//! It leaves scheduled modules and dynamic shapes alone, without a remark.

// Tests: `passes/tests/direct_index.rs`.

mod affine;
mod emit;
mod piecewise;
mod proof;
mod provenance;
mod row_number;
mod sink;

use crate::hash::IndexMap;
use hlo_ir::{ElementType, InstructionId, Module, Opcode};
use hlo_memory::{Bytes, Target, size};

use crate::flow::{feeds_sum, is_summed};
use crate::range::Ranges;
use crate::{Assumption, Context, Finding, Grade, Outcome, Pass, PassKind, Reason};
use proof::{Plan, Verdict};
pub(crate) use row_number::row_number;
use sink::Sink;

/// The pass.
#[derive(Clone, Copy, Debug, Default)]
pub struct DirectIndex;

impl Pass for DirectIndex {
    fn name(&self) -> &'static str {
        "direct-index"
    }
    fn summary(&self) -> &'static str {
        "let scatters and gathers read the original index array"
    }
    crate::explanation!("direct_index.rs");
    fn kind(&self) -> PassKind {
        PassKind::Rewrite
    }
    fn may_cost_time(&self) -> bool {
        false
    }
    fn find(&self, context: &Context<'_>) -> Vec<Finding> {
        if context.module.is_scheduled() {
            return Vec::new();
        }
        let mut ranges = Ranges::new(context.module);
        uses(context.module).into_iter().flat_map(|index| index.findings(context, &mut ranges)).collect()
    }
}

/// An index array and everything that uses it as indices in the same way.
struct Index {
    id: InstructionId,
    /// Dimension that holds the components; the rank if there is none.
    vector_dim: usize,
    sinks: Vec<Sink>,
}

/// Every index array of the module, in the order of its first use.
fn uses(module: &Module) -> Vec<Index> {
    let mut uses: IndexMap<(InstructionId, usize), Vec<Sink>> = IndexMap::default();
    for sink in module.live_instructions().filter_map(|(id, _)| Sink::of(module, id)) {
        let index = module.instruction(sink.id).operands[sink.operand];
        uses.entry((index, sink.index_vector_dim)).or_default().push(sink);
    }
    uses.into_iter().map(|((id, vector_dim), sinks)| Index { id, vector_dim, sinks }).collect()
}

impl Index {
    /// Rewrites, the safest first; if there is none, the reason that came closest.
    fn findings(&self, context: &Context<'_>, ranges: &mut Ranges<'_>) -> Vec<Finding> {
        let module = context.module;
        let bytes = size::shape_size(module.shape(self.id)).unwrap_or(Bytes::ZERO);
        // The copies on the way to the index add up to a few times its size at most.
        if bytes == Bytes::ZERO || bytes + bytes + bytes + bytes < context.options.min_saving {
            return Vec::new();
        }
        let promised = context.options.assumptions.contains(&Assumption::IndicesInBounds);
        let mut found: Vec<Finding> = Vec::new();
        let mut closest: Option<(u8, Outcome)> = None;
        for source in self.sources(context) {
            let reason = match proof::assess(context, ranges, self, source) {
                _ if context.options.target == Target::Gpu && stands_in_memory(module, source) => {
                    return vec![self.pointless()];
                }
                Verdict::Proven(plan) => {
                    found.insert(0, self.finding(module, self.grade(context, &plan), bytes, &plan));
                    break;
                }
                // Of several arrays that could be read under a promise, the one nearest to the program's input saves most.
                Verdict::Promised(plan, _) if promised && found.is_empty() => {
                    found.push(self.finding(module, Grade::Assume, bytes, &plan));
                    continue;
                }
                Verdict::Promised(plan, reason) => {
                    (proof::VALUES_ALONE, Outcome::Withheld { patch: emit::patch(module, self, &plan), reason })
                }
                Verdict::Refused(rank, reason) => (rank, Outcome::Missed(reason)),
                Verdict::Unrelated => continue,
            };
            let better = closest.as_ref().is_none_or(|(rank, _)| *rank < reason.0);
            if better && stands_in_memory(module, source) {
                closest = Some(reason);
            }
        }
        if let (true, Some((_, outcome))) = (found.is_empty() && bytes >= context.options.min_saving, closest) {
            found.push(Finding { instruction: self.sinks[0].id, grade: Grade::Bitwise, wasted: bytes, outcome });
        }
        found
    }

    /// Sums of scatters stay as they are if the new index fits together with the same others as the old one.
    fn grade(&self, context: &Context<'_>, plan: &Plan) -> Grade {
        let module = context.module;
        let summed = |sink: &Sink| is_summed(module, context.users, sink.id);
        if !plan.is_alike(module, self) && self.sinks.iter().any(summed) {
            return Grade::Reassociate;
        }
        // What a gather reads shares kernels with what its result meets: a product and a sum there may round anew.
        let gathers = |sink: &Sink| module.instruction(sink.id).opcode == hlo_ir::Opcode::Gather;
        let meets = |sink: &Sink| gathers(sink) && feeds_sum(module, context.users, sink.id);
        if self.sinks.iter().any(meets) { Grade::HloExact } else { Grade::Bitwise }
    }

    /// What to say where the compiler makes no copy of the indices.
    fn pointless(&self) -> Finding {
        let message = "XLA:GPU computes indices inside the scatter or gather: there is no copy to save".to_owned();
        let outcome = Outcome::Missed(Reason { code: "fused-on-target", message });
        Finding { instruction: self.sinks[0].id, grade: Grade::Bitwise, wasted: Bytes::ZERO, outcome }
    }

    /// Arrays that could be read instead: those that are not what is read already, under another shape.
    fn sources(&self, context: &Context<'_>) -> Vec<InstructionId> {
        let module = context.module;
        let mut same = vec![self.id];
        let mut id = self.id;
        loop {
            let inst = module.instruction(id);
            let free = inst.opcode == Opcode::Reshape
                || (inst.opcode == Opcode::Convert && context.options.target != Target::Cpu);
            match inst.operands.first() {
                Some(&operand) if free => id = operand,
                _ => break,
            }
            same.push(id);
        }
        let sources = provenance::sources(module, self.id).into_iter();
        sources.filter(|id| !same.contains(id) && element_type(module, *id).is_some_and(is_index_type)).collect()
    }

    fn finding(&self, module: &Module, grade: Grade, wasted: Bytes, plan: &Plan) -> Finding {
        let outcome = Outcome::Rewrite {
            patch: emit::patch(module, self, plan),
            note: plan.note(module),
            conditions: plan.conditions(module, grade),
        };
        Finding { instruction: self.sinks[0].id, grade, wasted, outcome }
    }
}

fn element_type(module: &Module, id: InstructionId) -> Option<ElementType> {
    Some(module.instruction(id).array()?.element_type)
}

/// Types that XLA takes as indices without unpacking.
fn is_index_type(element_type: ElementType) -> bool {
    element_type.is_integer() && element_type.bits() >= 8
}

/// Whether an array has memory of its own, rather than being computed where it is used.
fn stands_in_memory(module: &Module, id: InstructionId) -> bool {
    let inst = module.instruction(id);
    match inst.opcode {
        Opcode::Reshape => inst.operands.first().is_some_and(|&operand| stands_in_memory(module, operand)),
        Opcode::Slice
        | Opcode::Transpose
        | Opcode::Broadcast
        | Opcode::Reverse
        | Opcode::Concatenate
        | Opcode::Iota => false,
        opcode => !opcode.is_elementwise(),
    }
}
