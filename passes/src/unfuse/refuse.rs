//! What has no plain form, so that the whole module stays as it is.

use hlo_ir::arena::SideTable;
use hlo_ir::edit::has_side_effect;
use hlo_ir::{
    ArrayShape, AttrKey, AttrValue, ComputationId, Instruction, InstructionId, Module, Opcode, Shape, attribute,
};

use super::bitcast;
use crate::inline_calls::obstacle_to_inlining;
use crate::{Reason, bounds};

/// The first thing in the module that cannot be turned back, or `None`.
pub(super) fn obstacle(module: &Module) -> Option<Reason> {
    let count = |key: &AttrKey| match module.attribute(key) {
        Some(AttrValue::Int(count)) => *count,
        _ => 1,
    };
    let devices = count(&AttrKey::NumPartitions).max(count(&AttrKey::ReplicaCount));
    if devices > 1 {
        let message = format!("the program is divided over {devices} devices, which the compiler would divide again");
        return Some(Reason { code: "partitioned", message });
    }
    module.live_instructions().find_map(|(id, inst)| of_instruction(module, id, inst)).or_else(|| too_large(module))
}

/// Bodies in bodies can double at every level, so sizes are reckoned before anything is built.
fn too_large(module: &Module) -> Option<Reason> {
    // (instructions, levels) of each computation; callees come first.
    let mut sizes = SideTable::<ComputationId, (usize, usize)>::new((0, 0));
    for &computation in module.computation_ids() {
        let (mut count, mut levels) = (0_usize, 0);
        for (id, inst) in module.instructions_of(computation) {
            let body = is_inlined(module, id).then(|| inst.called_computations().next()).flatten();
            let (more, below) = body.map_or((1, 0), |body| (sizes[body].0, sizes[body].1 + 1));
            (count, levels) = (count.saturating_add(more), levels.max(below));
        }
        sizes.set(computation, (count, levels));
        if count > bounds::MODULE || levels > bounds::LEVELS {
            let name = &module.computation(computation).name;
            let message = format!("`{name}` would grow to {count} instructions out of {levels} levels of bodies");
            return Some(Reason { code: "too-large", message });
        }
    }
    None
}

/// Whether the body of a fusion or call takes its place.
pub(super) fn is_inlined(module: &Module, id: InstructionId) -> bool {
    match module.instruction(id).opcode {
        Opcode::Fusion => true,
        Opcode::Call => obstacle_to_inlining(module, id).is_none(),
        _ => false,
    }
}

fn of_instruction(module: &Module, id: InstructionId, inst: &Instruction) -> Option<Reason> {
    let name = &inst.name;
    let refused = |code, message: String| Some(Reason { code, message });
    if is_dynamic(&inst.shape) {
        return refused("dynamic-shape", format!("`{name}` has a dimension of dynamic size"));
    }
    match inst.opcode {
        Opcode::Unknown => {
            refused("unknown-opcode", format!("`{name}` is `{}`, of which nothing is known", inst.opcode_name()))
        }
        Opcode::CustomCall if !is_foreign_function(inst) => {
            let target = inst.raw(&AttrKey::CustomCallTarget).unwrap_or_default();
            refused("custom-call", format!("`{name}` calls {target}, which only the compiler that made it understands"))
        }
        Opcode::Fusion if inst.computation(&AttrKey::Calls).is_none() => {
            refused("no-callee", format!("`{name}` has no body"))
        }
        Opcode::Bitcast if has_no_chain(module, inst) => {
            let (code, what) = bitcast_obstacle(module, inst);
            refused(code, format!("`{name}` {what}"))
        }
        opcode if is_async(opcode) || runs_elsewhere(module, inst) => {
            refused("async", format!("`{name}` is one end of an operation that runs beside others"))
        }
        _ => orders_side_effects(module, id, inst).then(|| Reason {
            code: "control",
            message: format!("`{name}` has a side effect and must follow another"),
        }),
    }
}

/// Calls of the foreign function interface mean the same to every compiler: programs make them before any compiler sees them.
fn is_foreign_function(inst: &Instruction) -> bool {
    let version = inst.attributes.iter().find(|attribute| attribute.key.name() == "api_version");
    version.and_then(|version| version.value.text()).is_some_and(|text| text.trim() == "API_VERSION_TYPED_FFI")
}

fn has_no_chain(module: &Module, inst: &Instruction) -> bool {
    let operand = inst.operands.first().and_then(|&operand| module.shape(operand).as_array());
    operand.zip(inst.array()).and_then(|(from, to)| bitcast::steps(from, to)).is_none()
}

/// Why a bitcast without a chain has none.
fn bitcast_obstacle(module: &Module, inst: &Instruction) -> (&'static str, &'static str) {
    let elements = |shape: &Shape| shape.as_array().and_then(ArrayShape::elements);
    let before = inst.operands.first().map(|&operand| module.shape(operand));
    let (before, after) = (before.and_then(|shape| Some((elements(shape)?, shape.as_array()?))), inst.array());
    let bits = |count: u64, array: &ArrayShape| u128::from(count) * u128::from(array.element_type.bits());
    let sides = before.zip(elements(&inst.shape).zip(after));
    if sides.is_some_and(|((count, from), (other, to))| bits(count, from) == bits(other, to)) {
        ("sub-byte", "changes the type of elements smaller than a byte")
    } else {
        ("padded-bitcast", "takes memory for an array of another size: tiles are not full")
    }
}

fn is_async(opcode: Opcode) -> bool {
    matches!(
        opcode,
        Opcode::AsyncStart
            | Opcode::AsyncUpdate
            | Opcode::AsyncDone
            | Opcode::CopyStart
            | Opcode::CopyDone
            | Opcode::AllGatherStart
            | Opcode::AllGatherDone
            | Opcode::AllReduceStart
            | Opcode::AllReduceDone
            | Opcode::CollectivePermuteStart
            | Opcode::CollectivePermuteDone
    )
}

/// Whether it calls code of another thread.
fn runs_elsewhere(module: &Module, inst: &Instruction) -> bool {
    let named = |callee| attribute::find(&module.computation(callee).attributes, &AttrKey::ExecutionThread).is_some();
    inst.called_computations().any(named)
}

/// Control edges in a schedule keep buffers apart, which the compiler does anew; between two side effects they are meaning.
fn orders_side_effects(module: &Module, id: InstructionId, inst: &Instruction) -> bool {
    let before = inst.control_predecessors();
    before.iter().any(|&other| has_side_effect(module, other)) && has_side_effect(module, id)
}

fn is_dynamic(shape: &Shape) -> bool {
    match shape {
        Shape::Array(array) => ArrayShape::is_dynamic(array),
        Shape::Tuple(elements) => elements.iter().any(|element| is_dynamic(element)),
        _ => false,
    }
}
