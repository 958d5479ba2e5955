//! Accumulators of `bf16` scatters that are carried as `f32`.
//!
//! XLA:CPU scatters no `bf16`: it widens operand and updates, rounds what the combiner returns, and narrows the result. Of a scatter inside a
//! loop it would widen and narrow the whole accumulator for every block, most of the time of an embedding's gradient.
//! Widened before the loop and narrowed behind it, the accumulator holds the same numbers all the time: the combiner rounds each.
//!
//! Source: `FloatNormalization` (xla/hlo/transforms/simplifiers/float_normalization.cc).

// Tests: `passes/tests/chunk_targets.rs`.

use crate::hash::IndexMap;
use hlo_ir::edit::Patch;
use hlo_ir::{
    AttrKey, AttrValue, ComputationId, ElementType, Instruction, InstructionId, Module, Opcode, Shape, graph,
};
use hlo_memory::Target;
use smol_str::format_smolstr;

use super::sink::{Kind, Sink, Sum};

/// The wide combiners of scatters whose accumulators are widened.
pub(super) type Combiners = IndexMap<InstructionId, ComputationId>;

/// Adds a wide combiner for each of the sinks that the compiler would widen.
pub(super) fn combiners(module: &Module, target: Target, sinks: &[&Sink], patch: &mut Patch) -> Combiners {
    let widened = |sink: &&&Sink| {
        let inst = module.instruction(sink.inst);
        target == Target::Cpu
            && matches!(sink.kind, Kind::Scatter { .. })
            && !matches!(sink.sum, Sum::Inside(_))
            && inst.array().is_some_and(|array| array.element_type == ElementType::Bf16)
    };
    let wide = |sink: &&Sink| {
        let narrow = module.instruction(sink.inst).computation(&AttrKey::ToApply)?;
        is_plain(module, narrow).then(|| (sink.inst, combiner(module, narrow, patch)))
    };
    sinks.iter().filter(widened).filter_map(wide).collect()
}

/// Whether a combiner takes and gives `bf16`, and nothing in it waits for anything but its operands.
fn is_plain(module: &Module, combiner: ComputationId) -> bool {
    let short = |id| module.instruction(id).array().is_some_and(|array| array.element_type == ElementType::Bf16);
    let computation = module.computation(combiner);
    short(computation.root)
        && module.parameters(combiner).into_iter().all(short)
        && module.instructions_of(combiner).all(|(_, inst)| inst.control_predecessors().is_empty())
}

/// A computation that does on `f32` numbers what `narrow` does on these as `bf16`.
fn combiner(module: &Module, narrow: ComputationId, patch: &mut Patch) -> ComputationId {
    let wide = patch.add_computation(format_smolstr!("{}.wide", module.computation(narrow).name));
    let mut made: IndexMap<InstructionId, InstructionId> = IndexMap::default();
    for id in graph::post_order(module, narrow) {
        let inst = module.instruction(id);
        let operands = inst.operands.iter().map(|operand| made[operand]).collect();
        let mut new = Instruction { operands, span: None, ..inst.clone() };
        if inst.opcode == Opcode::Parameter {
            new.shape = Shape::array(ElementType::F32, []);
        }
        let mut new = patch.add(wide, new);
        if inst.opcode == Opcode::Parameter {
            new = patch.add(wide, converted(format_smolstr!("{}.bf16", inst.name), inst.shape.clone(), new));
        }
        made.insert(id, new);
    }
    let root = module.computation(narrow).root;
    let name = format_smolstr!("{}.wide", module.instruction(root).name);
    let root = patch.add(wide, converted(name, Shape::array(ElementType::F32, []), made[&root]));
    patch.set_root(wide, root);
    wide
}

/// A value, an array, in another type.
pub(super) fn in_type(module: &Module, patch: &Patch, value: InstructionId, to: ElementType) -> Option<Instruction> {
    let inst = patch.instruction(module, value);
    let array = inst.array()?;
    let shape = Shape::Array(array.with_element_type(to)).into();
    Some(converted(format_smolstr!("{}.converted", inst.name), shape, value))
}

fn converted(name: smol_str::SmolStr, shape: hlo_ir::shape::ShapeRef, value: InstructionId) -> Instruction {
    Instruction::new(name, shape, Opcode::Convert, [value])
}

/// Makes a scatter of `bf16` one of `f32` with the given combiner; its operands are such already.
pub(super) fn widen(scatter: &mut Instruction, combiner: ComputationId) {
    if let Shape::Array(array) = &*scatter.shape {
        scatter.shape = Shape::Array(array.with_element_type(ElementType::F32)).into();
    }
    scatter.set_attribute(AttrKey::ToApply, AttrValue::Computation(combiner));
}
