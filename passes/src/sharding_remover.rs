//! Takes annotations of shardings out of programs for one device.
//!
//! Waste: none by itself, because XLA removes them too (its pass has the same name). But a library that is written for many devices annotates values wherever it runs, and a
//! custom call between a product and what reads it keeps every other rewrite away.
//!
//! ```text
//! %l = f32[8,64] dot(%x, %w)                                             %l = f32[8,64] dot(%x, %w)
//! %s = f32[8,64] custom-call(%l), custom_call_target="Sharding",    =>
//!      sharding={replicated}
//! ROOT %m = f32[8,64] exponential(%s)                                    ROOT %m = f32[8,64] exponential(%l)
//! ```
//!
//! Sound because the call gives what it is given: it says where the compiler may put the value, and there is one place. Grade: bitwise.
//!
//! Stays away from modules that will be partitioned (more than one partition, or any value that an annotation cuts), and from calls that change the shape,
//! wait for something or have a side effect.
//!
//! Source: `ShardingRemover` (xla/service/sharding_remover.cc).

use hlo_ir::edit::Patch;
use hlo_ir::{AttrKey, AttrValue, Instruction, InstructionId, Module, Opcode};
use hlo_memory::Bytes;
use indexmap::IndexSet;

use crate::{Condition, Context, Finding, Grade, Outcome, Pass, PassKind};

/// The target of an annotation, as text.
const ANNOTATION: &str = "\"Sharding\"";

/// The pass.
#[derive(Clone, Copy, Debug, Default)]
pub struct ShardingRemover;

impl Pass for ShardingRemover {
    fn name(&self) -> &'static str {
        "sharding-remover"
    }
    fn summary(&self) -> &'static str {
        "take annotations of shardings out of programs for one device"
    }
    crate::explanation!("sharding_remover.rs");
    fn kind(&self) -> PassKind {
        PassKind::CleanUp
    }
    fn comes_first(&self) -> bool {
        true
    }
    fn find(&self, context: &Context<'_>) -> Vec<Finding> {
        let module = context.module;
        let annotations: IndexSet<InstructionId> =
            module.live_instructions().filter(|&(_, inst)| is_annotation(module, inst)).map(|(id, _)| id).collect();
        if annotations.is_empty() || module.is_scheduled() || context.is_partitioned() {
            return Vec::new();
        }
        vec![finding(module, &annotations)]
    }
}

/// Whether an instruction gives what it is given, and says where that may stand.
fn is_annotation(module: &Module, inst: &Instruction) -> bool {
    let [operand] = inst.operands[..] else { return false };
    let target = inst.raw(&AttrKey::CustomCallTarget);
    let has_side_effect = matches!(inst.attribute(&AttrKey::CustomCallHasSideEffect), Some(AttrValue::Bool(true)));
    inst.opcode == Opcode::CustomCall
        && target == Some(ANNOTATION)
        && !has_side_effect
        && inst.control_predecessors().is_empty()
        && *module.shape(operand) == *inst.shape
}

fn finding(module: &Module, annotations: &IndexSet<InstructionId>) -> Finding {
    let mut patch = Patch::new(module);
    for &id in annotations {
        // What an annotation annotates may be annotated itself.
        let mut value = module.instruction(id).operands[0];
        while annotations.contains(&value) {
            value = module.instruction(value).operands[0];
        }
        patch.replace(id, value);
        patch.remove(id);
    }
    let plural = if annotations.len() == 1 { "" } else { "s" };
    let note = format!("{} annotation{plural}", annotations.len());
    let text = "the program is for one device: no annotation cuts a value".to_owned();
    let conditions = vec![Condition { text, discharged_by: "structure" }];
    let outcome = Outcome::Rewrite { patch, note, conditions };
    Finding { instruction: annotations[0], grade: Grade::Bitwise, wasted: Bytes::ZERO, outcome }
}

#[cfg(test)]
mod tests {
    use hlo_ir::graph::Users;
    use hlo_ir::text;
    use hlo_memory::{Target, estimate};

    use super::*;
    use crate::Options;

    /// The module behind the pass, or `None` if it finds nothing; `second` are the attributes of the second annotation.
    fn removed(header: &str, second: &str) -> Option<String> {
        let source = format!(
            "HloModule m{header}

ENTRY main {{
  x = f32[8,64] parameter(0)
  w = f32[64,64] parameter(1)
  dot = f32[8,64] dot(x, w), lhs_contracting_dims={{1}}, rhs_contracting_dims={{0}}
  first = f32[8,64] custom-call(dot), custom_call_target=\"Sharding\", sharding={{replicated}}
  second = f32[8,64] custom-call(first), custom_call_target=\"Sharding\", {second}
  ROOT sum = f32[8,64] add(second, first)
}}
"
        );
        let mut module = text::parse(&source).expect("a module");
        let (users, options) = (Users::of(&module), Options::default());
        let estimate = estimate(&module, Target::Cpu).expect("an estimate");
        let found = ShardingRemover.find(&Context::of_input(&module, &users, &estimate, &options));
        let Outcome::Rewrite { patch, .. } = found.into_iter().next()?.outcome else { return None };
        patch.apply(&mut module).expect("it fits");
        Some(text::print(&module))
    }

    #[test]
    fn annotations_of_annotations_go() {
        let text = removed("", "sharding={replicated}").expect("it fires");
        assert!(!text.contains("custom-call") && text.contains("add(dot, dot)"), "{text}");
    }

    #[test]
    fn annotations_of_programs_for_several_devices_stay() {
        assert_eq!(removed(", num_partitions=8", "sharding={replicated}"), None);
        assert_eq!(removed("", "sharding={devices=[8,1]<=[8]}"), None);
    }

    #[test]
    fn calls_that_do_more_stay() {
        let effect = removed("", "sharding={replicated}, custom_call_has_side_effect=true").expect("the first goes");
        assert!(effect.contains("custom-call(dot)") && effect.contains("add(second, dot)"), "{effect}");
        let waiting = removed("", "sharding={replicated}, control-predecessors={w}").expect("the first goes");
        assert!(waiting.contains("control-predecessors={w}"), "{waiting}");
    }
}
