//! Takes annotations of shardings out of programs for one device, and out of what each of several devices runs.
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
//! A module from behind the partitioner has local shapes and collectives, but still says that it is for several partitions, and a compiler that is given it
//! would divide it again. It becomes the program of one device: without partitions and shardings, the devices of each collective listed one by one.
//!
//! Sound because the call gives what it is given: it says where the compiler may put the value, and there is one place. What each device runs does not depend
//! on what its header says of partitions. Grade: bitwise.
//!
//! Stays away from modules that will be partitioned (their header names more than one partition, or a mesh), and from calls that change the shape, wait for
//! something or have a side effect.
//!
//! Source: `ShardingRemover` (xla/service/sharding_remover.cc); `SpmdPartitioner` (xla/service/spmd/spmd_partitioner.cc).

use crate::hash::IndexSet;
use hlo_ir::edit::Patch;
use hlo_ir::per_device::{for_one_device, is_per_device};
use hlo_ir::{AttrKey, AttrValue, Instruction, InstructionId, Module, Opcode};
use hlo_memory::Bytes;

use crate::{Condition, Context, Finding, Grade, Outcome, Pass, PassKind};

/// The target of an annotation, as text.
const ANNOTATION: &str = "\"Sharding\"";

/// What helps where values may lie across devices.
pub(crate) const PER_DEVICE: &str =
    "what each device runs can be cut (`hlo_opt.jit`, or what `python -m hlo_opt.xla partition` writes)";

/// The pass.
#[derive(Clone, Copy, Debug, Default)]
pub struct ShardingRemover;

impl Pass for ShardingRemover {
    fn name(&self) -> &'static str {
        "sharding-remover"
    }
    fn summary(&self) -> &'static str {
        "take annotations of shardings out of what one device runs"
    }
    crate::explanation!("sharding_remover.rs");
    fn kind(&self) -> PassKind {
        PassKind::CleanUp
    }
    fn comes_first(&self, _: &Module) -> bool {
        true
    }
    fn find(&self, context: &Context<'_>) -> Vec<Finding> {
        let module = context.module;
        if module.is_scheduled() {
            return Vec::new();
        }
        if is_per_device(module) {
            return for_one_device(module).map(|patch| divided(module, patch)).into_iter().collect();
        }
        let annotations: IndexSet<InstructionId> =
            module.live_instructions().filter(|&(_, inst)| is_annotation(module, inst)).map(|(id, _)| id).collect();
        if annotations.is_empty() || context.is_partitioned() {
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
    }
    let plural = if annotations.len() == 1 { "" } else { "s" };
    let note = format!("{} annotation{plural}", annotations.len());
    let text = "the program is for one device: no annotation cuts a value".to_owned();
    let conditions = vec![Condition { text, discharged_by: "structure" }];
    found(annotations[0], Outcome::Rewrite { patch, note, conditions })
}

/// What each of several devices runs, as the program of one.
fn divided(module: &Module, patch: Patch) -> Finding {
    let note = format!("what each of {} devices runs, as the program of one", module.num_partitions());
    let text = "the module was partitioned already: it has collectives, and no annotation asks for them".to_owned();
    let conditions = vec![Condition { text, discharged_by: "structure" }];
    found(module.computation(module.entry()).root, Outcome::Rewrite { patch, note, conditions })
}

fn found(instruction: InstructionId, outcome: Outcome) -> Finding {
    Finding { instruction, grade: Grade::Bitwise, wasted: Bytes::ZERO, outcome }
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
    fn what_each_device_runs_becomes_a_program_for_one() {
        let source = "HloModule m, num_partitions=2

add {
  a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT c = f32[] add(a, b)
}

ENTRY e {
  p = f32[8,4] parameter(0), sharding={devices=[2,1]<=[2]}
  ROOT s = f32[8,4] all-reduce(p), channel_id=1, replica_groups=[1,2]<=[2], use_global_device_ids=true, to_apply=add
}
";
        let mut module = text::parse(source).expect("a module");
        let (users, options) = (Users::of(&module), Options::default());
        let before = estimate(&module, Target::Cpu).expect("an estimate");
        let mut found = ShardingRemover.find(&Context::of_input(&module, &users, &before, &options));
        let Some(Finding { outcome: Outcome::Rewrite { patch, note, .. }, .. }) = found.pop() else {
            panic!("it fires")
        };
        assert_eq!(note, "what each of 2 devices runs, as the program of one");
        patch.apply(&mut module).expect("it fits");
        assert!(!text::print(&module).contains("sharding") && module.num_partitions() == 1);
        assert_eq!(estimate(&module, Target::Cpu).expect("an estimate").total, before.total, "it is the same memory");
    }

    #[test]
    fn annotations_of_programs_for_several_devices_stay() {
        assert_eq!(removed(", num_partitions=8", "sharding={replicated}"), None);
        let for_one = removed("", "sharding={devices=[8,1]<=[8]}").expect("nobody divides what is for one");
        assert!(!for_one.contains("Sharding"), "{for_one}");
    }

    #[test]
    fn calls_that_do_more_stay() {
        let effect = removed("", "sharding={replicated}, custom_call_has_side_effect=true").expect("the first goes");
        assert!(effect.contains("custom-call(dot)") && effect.contains("add(second, dot)"), "{effect}");
        let waiting = removed("", "sharding={replicated}, control-predecessors={w}").expect("the first goes");
        assert!(waiting.contains("control-predecessors={w}"), "{waiting}");
    }
}
