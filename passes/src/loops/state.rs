//! The state of a loop: which instructions forward its tuple, whether anything but the loop uses it, and another state in its place.

use hlo_ir::edit::Patch;
use hlo_ir::shape::ShapeRef;
use hlo_ir::{AttrKey, Instruction, InstructionId, Module, Opcode, Shape, graph};

/// Whether a loop's state can be given more elements: nothing else begins with it, runs its body, or looks at all of it.
pub(crate) fn is_free(module: &Module, site: InstructionId) -> bool {
    let inst = module.instruction(site);
    let tuple = inst.operands[0];
    let callers = graph::callers(module);
    let alone = inst.called_computations().all(|callee| callers[callee].len() == 1);
    let mut states = [site, tuple].into_iter().chain(state(module, site));
    alone
        && is_taken_apart(module, site)
        && users(module, tuple).count() == 1
        && states.all(|id| !is_sharded(module.instruction(id)))
}

/// Whether nothing looks at the whole final state of a loop.
pub(crate) fn is_taken_apart(module: &Module, site: InstructionId) -> bool {
    let parent = module.instruction(site).parent;
    users(module, site).all(|user| user.opcode == Opcode::GetTupleElement) && module.computation(parent).root != site
}

fn users(module: &Module, id: InstructionId) -> impl Iterator<Item = &Instruction> {
    let list = module.instructions_of(module.instruction(id).parent);
    list.map(|(_, inst)| inst).filter(move |inst| inst.operands.contains(&id))
}

/// Whether the values of an instruction lie across devices.
pub(crate) fn is_sharded(inst: &Instruction) -> bool {
    inst.attribute(&AttrKey::Sharding).is_some()
}

/// The state of a loop inside of it: parameters, and the root of the body.
pub(crate) fn state(module: &Module, site: InstructionId) -> Vec<InstructionId> {
    let inst = module.instruction(site);
    let mut state: Vec<InstructionId> =
        inst.called_computations().flat_map(|callee| module.parameters(callee).clone()).collect();
    state.extend(inst.computation(&AttrKey::Body).map(|body| module.computation(body).root));
    state
}

/// Gives a loop other elements, wherever its state stands: their shapes, what it begins with and what its body makes. Such a loop shares its body and condition with none.
pub(crate) fn replace_state(
    module: &Module,
    patch: &mut Patch,
    site: InstructionId,
    (shapes, initial, results): (&[ShapeRef], &[InstructionId], &[InstructionId]),
) {
    let whole = Shape::tuple(shapes.iter().cloned());
    let start = module.instruction(site).operands[0];
    for id in [site, start].into_iter().chain(state(module, site)) {
        let inst = module.instruction(id);
        let mut new = Instruction { shape: whole.clone(), ..inst.clone() };
        if inst.opcode == Opcode::Tuple {
            let elements = if id == start { initial } else { results };
            new.operands = elements.iter().copied().collect();
        } else {
            retype_elements(module, patch, id, shapes);
        }
        patch.rewrite(id, new);
    }
}

/// Gives what takes elements out of a state their new shapes.
fn retype_elements(module: &Module, patch: &mut Patch, state: InstructionId, shapes: &[ShapeRef]) {
    for (id, inst) in module.instructions_of(module.instruction(state).parent) {
        let is_element = inst.opcode == Opcode::GetTupleElement && inst.operands[0] == state;
        let index = inst.int(&AttrKey::Index).filter(|_| is_element).and_then(|index| usize::try_from(index).ok());
        if let Some(shape) = index.and_then(|index| shapes.get(index)).filter(|shape| **shape != inst.shape) {
            patch.rewrite(id, Instruction { shape: shape.clone(), ..inst.clone() });
        }
    }
}
