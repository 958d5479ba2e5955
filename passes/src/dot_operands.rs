//! Changes the operands of products of which XLA:CPU would copy the large one.
//!
//! Waste: XLA:CPU contracts the last dimension of a left operand. Where a product contracts the first ones, as every gradient of weights does, the
//! whole operand is written anew, transposed. It is the gradient of all activations, or of all scores of a vocabulary: two copies of it stand in
//! memory.
//!
//! ```text
//! %w = f32[V,D] dot(%scores, %x),              =>  %t = f32[D,V] dot(%x, %scores),
//!        lhs_contracting_dims={0},                        lhs_contracting_dims={0},
//!        rhs_contracting_dims={0}                         rhs_contracting_dims={0}
//!                                                  %kept = f32[D,V] call(%t), to_apply=%identity
//!                                                  %w = f32[V,D] transpose(%kept), dimensions={1,0}
//! ```
//!
//! Now the small operand and the result are transposed. The call is there because XLA would change the operands back. All such products of a module
//! are one change, and in the default pipeline it is made only where a rewrite then gains: what is computed on blocks and written once would be
//! copied all the same.
//!
//! Sound because each number is the sum of the same products. Grade: hlo-exact, since a library may sum them in another order.
//!
//! Stays away from other targets than CPU, scheduled modules, modules to be partitioned, from operands that are less than four times as large as
//! what would be transposed instead, or less than a hundredth of all memory, and from numbers other than `f32` and `bf16`.
//!
//! Source: `DotDecomposer` (xla/service/dot_decomposer.cc), `AlgebraicSimplifier` (xla/hlo/transforms/simplifiers/algebraic_simplifier.cc).

// Tests: `passes/tests/dot_operands.rs`.

use hlo_ir::edit::Patch;
use hlo_ir::{DotDims, Instruction, InstructionId, Module};
use hlo_memory::{Bytes, Target, size};

use crate::objective::least_saving;
use crate::swapped_dot::{self, MUCH_LARGER, Side};
use crate::{Condition, Context, Finding, Grade, Outcome, Pass, PassKind};

/// The pass.
#[derive(Clone, Copy, Debug, Default)]
pub struct DotOperands;

impl Pass for DotOperands {
    fn name(&self) -> &'static str {
        "dot-operands"
    }
    fn summary(&self) -> &'static str {
        "change the operands of products of which the large one would be copied"
    }
    crate::explanation!("dot_operands.rs");
    fn kind(&self) -> PassKind {
        PassKind::CleanUp
    }
    fn accompanies(&self) -> bool {
        true
    }
    fn find(&self, context: &Context<'_>) -> Vec<Finding> {
        let module = context.module;
        let options = context.options;
        let stays = module.is_scheduled() || module.is_partitioned() || options.target != Target::Cpu;
        if stays || options.exactness < Grade::HloExact {
            return Vec::new();
        }
        let least = least_saving(context);
        let copied = |(id, inst): (InstructionId, &Instruction)| Some((id, copied_bytes(module, inst)?));
        let products = module.live_instructions().filter_map(copied).filter(|(_, bytes)| *bytes >= least);
        finding(module, &products.collect::<Vec<_>>()).into_iter().collect()
    }
}

/// One change for all products.
fn finding(module: &Module, products: &[(InstructionId, Bytes)]) -> Option<Finding> {
    let &(instruction, _) = products.iter().max_by_key(|(id, bytes)| (*bytes, std::cmp::Reverse(*id)))?;
    let mut patch = Patch::new(module);
    for &(product, _) in products {
        swapped_dot::swap(module, product, &mut patch);
    }
    let note = match products.len() {
        1 => "a product with its operands changed".to_owned(),
        count => format!("{count} products with their operands changed"),
    };
    let text = "each number of the result is the sum of the same products".to_owned();
    let conditions = vec![Condition { text, discharged_by: "structure" }];
    let wasted = products.iter().map(|(_, bytes)| *bytes).sum();
    Some(Finding { instruction, grade: Grade::HloExact, wasted, outcome: Outcome::Rewrite { patch, note, conditions } })
}

/// Bytes of the left operand of a product, if XLA copies it and would copy much less with operands changed.
fn copied_bytes(module: &Module, inst: &Instruction) -> Option<Bytes> {
    let (left, right) = Side::both(module, inst)?;
    let result = size::array_size(inst.array()?)?;
    let less = left.bytes.get() / MUCH_LARGER >= right.bytes.get().saturating_add(result.get());
    (less && contracts_in_front(inst)).then_some(left.bytes)
}

/// Whether the left operand has its batches first, then what is contracted, and the rest behind it, as a right operand should have it.
fn contracts_in_front(inst: &Instruction) -> bool {
    let Some(dims) = DotDims::of(inst) else { return false };
    let front = dims.lhs_batch.iter().chain(dims.lhs_contracting);
    front.zip(0..).all(|(&dim, place)| dim == place)
}
