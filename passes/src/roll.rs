//! Turns copies of the same work, left behind by a loop that the program's own language unrolled, back into one loop.
//!
//! Waste: a Python `for` loop over an expensive function becomes as many copies of it as the loop has steps. XLA:CPU schedules for
//! concurrency, so the temporaries of all copies live side by side, and the compiler works on every copy.
//!
//! ```text
//! %a = f32[4,4] slice(%xs), slice={[0:1], ...}
//! %b = f32[4,4] slice(%xs), slice={[1:2], ...}          while (k < 3) {
//! %c = f32[4,4] slice(%xs), slice={[2:3], ...}            %x = dynamic-slice(%xs, k, ...)
//! %fa, %fb, %fc = f(%a), f(%b), f(%c)            =>       %sum = add(%sum, f(%x))
//! %s = add(%fa, %fb)                                    }
//! ROOT %r = add(%s, %fc)
//! ```
//!
//! Copies are found by hashing what each value is computed from, slice positions and scalar constants left out, and then compared
//! instruction by instruction, called computations included. What differs between copies may be the positions of slices and scalar
//! constants: those become an affine function of the step, or a small table. Values handed from one copy to the next are carried
//! by the loop. The copies may meet in a chain of `add`, `multiply`, `maximum`, `minimum`, `and`, `or` or `xor`, in a
//! `concatenate`, in the results of the program, or in the last value.
//!
//! Sound because every step runs the instructions of its copy on the same operands, and the chain runs from the first copy to the last with its
//! operands in their places. A chain that begins with the first copy's own value starts from the neutral element (-0.0 for sums of floats), which
//! changes no bits.
//!
//! Grade: bitwise. It is hlo-exact where the compiler may decide anew how to compute floats:
//!
//! - a product meets a sum at the border of the loop or near something that depends on the step: the two may be contracted or not;
//! - a sum takes in a scatter into zeros: XLA merges the two if nothing else reads the scatter;
//! - a reduction follows on what leaves the loop: XLA:CPU hands it to a library together with what is computed before it;
//! - a small reduction leaves a step: XLA sums it in another order in one kernel with its equals;
//! - a float of 16 bits leaves a step: XLA:CPU rounds it only where it goes to memory;
//! - a step computes with a constant of its own: XLA joins it with others or folds it while it is known.
//!
//! Stays away from scheduled modules and from instructions with side effects or control dependencies. Remarks say why copies stay:
//!
//! - `differs`: an instruction does something else in one copy;
//! - `separate-arrays`: copies read arrays of their own, which would have to be stacked;
//! - `residuals`: later work reads what each copy computed, so the loop would store it all;
//! - `repeated`: some copies share work, or are equal, so that XLA does it once;
//! - `depends`: the copies need each other's results out of order;
//! - `sharded`: the values lie across devices;
//! - `hoisted-copy`: XLA:TPU would convert the whole stack that the loop reads to bf16 before it.

// Tests: `passes/tests/roll.rs`, `passes/tests/same_terms.rs`.

mod body;
mod chains;
mod emit;
pub(crate) mod fp_contraction;
mod isomorphism;
mod live_outs;
mod lockstep;
mod places;
mod scope;
mod seeds;
mod sequence;
mod state;

use std::collections::BTreeSet;

use hlo_ir::arena::SideTable;
use hlo_ir::{ComputationId, InstructionId, Module, Opcode};
use hlo_memory::{Bytes, Target, size};

use crate::{Condition, Context, Finding, Grade, Outcome, Pass, PassKind, Reason};
pub(crate) use isomorphism::Isomorphism;
use live_outs::LiveOuts;
use lockstep::{Copies, Role};

/// Fewest copies that are worth a loop.
const FEWEST_COPIES: usize = 3;

/// The pass; see the module's text.
#[derive(Clone, Copy, Debug, Default)]
pub struct Roll;

impl Pass for Roll {
    fn name(&self) -> &'static str {
        "roll"
    }
    fn summary(&self) -> &'static str {
        "turn unrolled copies of the same work back into one loop"
    }
    crate::explanation!("roll.rs");
    fn kind(&self) -> PassKind {
        PassKind::Rewrite
    }
    fn find(&self, context: &Context<'_>) -> Vec<Finding> {
        if context.module.is_scheduled() {
            return Vec::new();
        }
        let mut isomorphism = Isomorphism::new(context.module);
        let computations = scope::running(context.module);
        computations.into_iter().flat_map(|scope| seeds::search(context, &mut isomorphism, scope)).collect()
    }
}

/// Computations that run as such: the entry and what it reaches through calls, loops and branches.
pub(crate) fn running(module: &Module) -> Vec<ComputationId> {
    scope::running(module).into_iter().map(|scope| scope.computation).collect()
}

/// Those of them whose values lie on one device each: all of them, or the bodies of manually sharded code.
pub(crate) fn local(module: &Module) -> Vec<ComputationId> {
    let local = scope::running(module).into_iter().filter(|scope| !scope.sharded);
    local.map(|scope| scope.computation).collect()
}

/// Rows of three or more results that are computed alike, though perhaps from other arrays.
pub(crate) fn isomorphic_results(
    context: &Context<'_>,
    isomorphism: &Isomorphism,
    computation: ComputationId,
) -> Vec<Vec<InstructionId>> {
    seeds::meeting(context, isomorphism, computation)
}

/// A hash of all that each value of a computation is computed from.
pub(crate) type ComputationHashes = SideTable<InstructionId, u64>;

/// What the values of a computation are computed from.
pub(crate) fn computation_hashes(
    module: &Module,
    isomorphism: &Isomorphism,
    computation: ComputationId,
) -> ComputationHashes {
    isomorphism.hashes(module, computation)
}

/// Work that appears several times, and of which XLA, as the program stands, computes each once: the bytes of its results in all, and of
/// those that differ.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Repetition {
    all: u64,
    once: u64,
}

impl Repetition {
    /// Among these instructions of one computation; those that no thread of XLA works on by themselves are left out.
    pub(crate) fn among(module: &Module, hashes: &ComputationHashes, ids: impl Iterator<Item = InstructionId>) -> Self {
        let heavy = ids.filter(|&id| is_heavy(module.instruction(id).opcode));
        let mut seen = BTreeSet::new();
        let mut found = Self::default();
        for id in heavy {
            let weight = size::shape_size(module.shape(id)).unwrap_or_default().get();
            found.all = found.all.saturating_add(weight);
            if seen.insert(hashes[id]) {
                found.once = found.once.saturating_add(weight);
            }
        }
        found
    }
    /// Whether anything appears twice.
    pub(crate) const fn is_any(self) -> bool {
        self.once < self.all
    }
    /// Why doing all of it would cost more than a tenth of the run time; `None` where it does not.
    pub(crate) fn reason(self) -> Option<Reason> {
        let slow = u128::from(self.once) * 10 < u128::from(self.all) * 9;
        let message = format!(
            "the copies repeat work that XLA does once: {} of results, {} of them different; apart from each other they would all be computed",
            Bytes(self.all),
            Bytes(self.once)
        );
        slow.then_some(Reason { code: "repeated", message })
    }
}

/// Whether XLA gives what the instruction computes memory of its own, or its operands: work that consists of other instructions only runs
/// inside its users.
pub(crate) fn is_heavy(opcode: Opcode) -> bool {
    use Opcode as O;
    matches!(
        opcode,
        O::Call
            | O::Cholesky
            | O::Conditional
            | O::Convolution
            | O::CustomCall
            | O::Dot
            | O::Fft
            | O::RaggedDot
            | O::Reduce
            | O::ReduceWindow
            | O::RngBitGenerator
            | O::Scatter
            | O::SelectAndScatter
            | O::Sort
            | O::TopK
            | O::TriangularSolve
            | O::While
    )
}

/// Copies found, and where their values go.
struct Rolled {
    copies: Copies,
    live_outs: LiveOuts,
}

impl Rolled {
    /// Bytes of the temporaries that all copies but one hold: a loop has one set of them.
    fn wasted(&self, module: &Module) -> Bytes {
        let largest = self.copies.computed().map(|(_, column)| bytes(module, column.ids[0])).max().unwrap_or_default();
        Bytes(largest.get().saturating_mul(self.copies.len as u64 - 1))
    }

    /// What the pass says about the copies.
    fn finding(self, context: &Context<'_>, hashes: &ComputationHashes) -> Finding {
        let module = context.module;
        let (wasted, instruction) = (self.wasted(module), self.live_outs.owner(&self.copies));
        let repetition = self.repetition(module, hashes);
        let outcome = match self.obstacle(context, wasted, repetition) {
            Some(reason) => Outcome::Missed(reason),
            None => Outcome::Rewrite {
                note: self.note(module),
                conditions: self.conditions(),
                patch: emit::patch(module, &self),
            },
        };
        let contracts = fp_contraction::may_contract(module, context.users, &self.copies, &self.live_outs);
        // What XLA took for one value it may fuse otherwise for each of several.
        let grade = if contracts || repetition.is_any() { Grade::HloExact } else { Grade::Bitwise };
        Finding { instruction, grade, wasted, outcome }
    }

    /// What the copies compute again and again. Where all of them compute the same, XLA moves it out of the loop.
    fn repetition(&self, module: &Module, hashes: &ComputationHashes) -> Repetition {
        let differs = |ids: &[InstructionId]| ids.iter().any(|&id| hashes[id] != hashes[ids[0]]);
        let columns = self.copies.computed().filter(|(_, column)| differs(&column.ids));
        Repetition::among(module, hashes, columns.flat_map(|(_, column)| column.ids.iter().copied()))
    }

    fn obstacle(&self, context: &Context<'_>, wasted: Bytes, repetition: Repetition) -> Option<Reason> {
        let module = context.module;
        if let Some(reason) = repetition.reason() {
            return Some(reason);
        }
        let kept = self.live_outs.residuals(module, &self.copies);
        if kept + kept >= wasted {
            let message = format!(
                "{} copies of the same work, but later work reads {kept} that they computed: the loop would have to store them",
                self.copies.len
            );
            return Some(Reason { code: "residuals", message });
        }
        let stack = (context.options.target == Target::Tpu).then(|| self.float_stack_read_for_a_dot(context))??;
        let name = &module.instruction(stack).name;
        let message = format!("XLA:TPU would convert all of `{name}` to bf16 before the loop, and keep the copy");
        Some(Reason { code: "hoisted-copy", message })
    }

    /// A large stack of floats that the loop would slice, while its body multiplies matrices.
    fn float_stack_read_for_a_dot(&self, context: &Context<'_>) -> Option<InstructionId> {
        let module = context.module;
        // What a cache holds beside a result, it holds of `bf16` alone with as many elements.
        let fast = context.options.machine().cache.get();
        let is_dot = |id: InstructionId| module.instruction(id).opcode == Opcode::Dot;
        self.copies.computed().find(|(_, column)| is_dot(column.ids[0]))?;
        let large = |id: &InstructionId| {
            let array = module.instruction(*id).array();
            array.is_some_and(|array| array.element_type.is_float() && array.elements().is_none_or(|n| n >= fast))
        };
        let shared = self.copies.columns.iter().filter(|column| matches!(column.role, Role::Shared));
        shared.map(|column| column.ids[0]).find(large)
    }

    fn note(&self, module: &Module) -> String {
        let body = self.copies.computed().count();
        let before = module.live_instructions().count();
        format!("{} copies of {body} instructions in one loop; the module has {before} instructions", self.copies.len)
    }

    fn conditions(&self) -> Vec<Condition> {
        let condition = |text: &str| Condition { text: text.to_owned(), discharged_by: "structure" };
        let mut conditions = vec![condition("every copy runs the same instructions on values that a loop can give it")];
        if self.live_outs.accumulates() {
            conditions.push(condition("the chain joins the copies from the first to the last, as the loop does"));
        }
        conditions
    }
}

/// Bytes of a value; a tuple counts as nothing.
fn bytes(module: &Module, id: InstructionId) -> Bytes {
    size::shape_size(module.shape(id)).unwrap_or_default()
}
