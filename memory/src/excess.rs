//! What XLA:CPU leaves to its library together with what reads it, and which therefore never is in memory in its own type.
//!
//! Two things follow from it. XLA widens `bf16` around every operation and asks for a rounding behind each. In a loop of XLA's own these roundings happen; inside a
//! library fusion (a reduction with what surrounds it, see `cpu::ynn`) none does: attention of 2048 rows is off by 0.3 % of its scale there, and by 11 %
//! with every rounding. And `maximum` and `minimum` drop NaN there.
//!
//! Source: `FloatNormalization` (xla/hlo/transforms/simplifiers/float_normalization.cc), `LibraryRewriter`
//! (xla/backends/cpu/transforms/library_rewriter.cc); measured with jaxlib 0.10.2 by `tests/referee/accuracy.py`.

use crate::hash::IndexSet;
use hlo_ir::arena::Id as _;
use hlo_ir::{AttrKey, ComputationId, InstructionId, Module, Opcode};

use crate::Target;
pub use crate::cpu::FEWEST_ELEMENTS;

/// The instructions whose work library fusions of XLA:CPU do; none for a scheduled module or another target.
#[derive(Clone, Default, Debug)]
pub struct Libraries {
    /// What the fusions compute on the way, which is never in memory.
    pub inside: IndexSet<InstructionId>,
    /// Their results, which are rounded where they go to memory.
    pub results: IndexSet<InstructionId>,
}

impl Libraries {
    /// Those of a module.
    pub fn of(module: &Module, target: Target) -> Self {
        if module.is_scheduled() || target != Target::Cpu {
            return Self::default();
        }
        let traced = crate::cpu::compile_traced(module, target);
        let origin = |id: InstructionId| traced.origins.get(id.index()).copied().flatten();
        let is_result = |id: &InstructionId| {
            let parent = traced.module.instruction(*id).parent;
            traced.module.computation(parent).root == *id
        };
        let (results, inside): (Vec<_>, Vec<_>) = fused(&traced.module).partition(is_result);
        let given = |fused: Vec<InstructionId>| {
            let mut found: IndexSet<InstructionId> = fused.into_iter().filter_map(origin).collect();
            // Back from the last merge: what stands for two may itself have been merged later.
            for &(one, other) in traced.merged.iter().rev() {
                if found.contains(&one) {
                    found.insert(other);
                }
            }
            found
        };
        Self { inside: given(inside), results: given(results) }
    }
}

/// Instructions of library fusions but for parameters.
fn fused(compiled: &Module) -> impl Iterator<Item = InstructionId> + '_ {
    let body = |(_, inst): (InstructionId, &hlo_ir::Instruction)| -> Option<ComputationId> {
        let library = inst.opcode == Opcode::Fusion && inst.word(&AttrKey::Kind) == Some("kCustom");
        library.then(|| inst.computation(&AttrKey::Calls)).flatten()
    };
    let bodies: IndexSet<ComputationId> = compiled.live_instructions().filter_map(body).collect();
    bodies.into_iter().flat_map(move |body| {
        let instructions = compiled.computation(body).instructions.iter().copied();
        instructions.filter(move |&id| compiled.instruction(id).opcode != Opcode::Parameter)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Names of the instructions of a softmax of 512 rows that the library computes; with another reader of the exponentials where `read` has one.
    fn names(read: &str) -> Vec<String> {
        let text = format!(
            "HloModule m\n%most (p: bf16[], q: bf16[]) -> bf16[] {{\n  %p = bf16[] parameter(0)\n  %q = bf16[] parameter(1)\n  ROOT %s = bf16[] maximum(%p, %q)\n}}\nENTRY %e {{\n  %x = bf16[512,512] parameter(0)\n  %low = bf16[] constant(-inf)\n  %double = bf16[512,512] add(%x, %x)\n  %square = bf16[512,512] multiply(%double, %double)\n  ROOT %max = bf16[512] reduce(%square, %low), dimensions={{1}}, to_apply=%most\n{read}}}\n"
        );
        let module = hlo_ir::text::parse(&text).expect("legal text");
        Libraries::of(&module, Target::Cpu).inside.iter().map(|&id| module.instruction(id).name.to_string()).collect()
    }

    #[test]
    fn what_a_reduction_reads_alone_is_computed_with_it() {
        assert!(names("").contains(&"double".to_owned()), "{:?}", names(""));
    }
}
