//! Which loops are written with a flat state.

use crate::hash::IndexSet;
use hlo_ir::{AttrKey, ComputationId, Instruction, InstructionId, Module, Opcode, Shape, graph};
use hlo_memory::{Bytes, size};

use crate::inline_calls::obstacle_to_inlining;

/// The loops of a module that hide elements of their state, and those of them that stay as they are.
pub(super) struct Loops {
    /// Loops to change.
    pub(super) flat: IndexSet<InstructionId>,
    /// Loops that stay, each with a code and the reason.
    pub(super) refused: Vec<(InstructionId, &'static str, &'static str)>,
    /// Bodies and conditions of the loops to change.
    pub(super) inner: IndexSet<ComputationId>,
}

impl Loops {
    /// All loops that may be changed together.
    pub(super) fn of(module: &Module) -> Self {
        let loops = module.live_instructions().filter(|(_, inst)| inst.opcode == Opcode::While);
        let hiding = loops.filter(|&(id, inst)| hides(module, id, inst)).map(|(id, _)| id);
        let (mut flat, mut refused) = (IndexSet::default(), Vec::new());
        for id in hiding {
            match obstacle(module, id) {
                Some((code, message)) => refused.push((id, code, message)),
                None => _ = flat.insert(id),
            }
        }
        let callers = graph::callers(module);
        let is_shared = |flat: &IndexSet<InstructionId>, id: InstructionId| {
            let mut run = module.instruction(id).called_computations();
            run.any(|callee| callers[callee].iter().any(|caller| !flat.contains(caller)))
        };
        while let Some(&shared) = flat.iter().find(|&&id| is_shared(&flat, id)) {
            flat.shift_remove(&shared);
            refused.push((shared, "shared-body", "another instruction runs the loop's body or condition too"));
        }
        let inner = flat.iter().flat_map(|&id| module.instruction(id).called_computations()).collect();
        Self { flat, refused, inner }
    }

    /// The computations that hold the loops or are run by them.
    pub(super) fn touched(&self, module: &Module) -> IndexSet<ComputationId> {
        let parents = self.flat.iter().map(|&id| module.instruction(id).parent);
        parents.chain(self.inner.iter().copied()).collect()
    }
}

/// Bytes of a loop's state.
pub(super) fn bytes(module: &Module, id: InstructionId) -> Bytes {
    fn of(shape: &Shape) -> Bytes {
        match shape.as_tuple() {
            Some(elements) => elements.iter().map(|element| of(element)).sum(),
            None => size::shape_size(shape).unwrap_or(Bytes::ZERO),
        }
    }
    of(module.shape(id))
}

/// Whether elements of the state stand in inner tuples, behind a call that takes the state, or behind a tuple that takes the result apart.
fn hides(module: &Module, id: InstructionId, inst: &Instruction) -> bool {
    let Some(elements) = inst.shape.as_tuple() else { return false };
    elements.iter().any(|element| element.as_tuple().is_some())
        || inst.called_computations().any(|callee| hands_state_to_call(module, callee))
        || is_put_together(module, id, inst.parent)
}

fn hands_state_to_call(module: &Module, computation: ComputationId) -> bool {
    let [state] = module.parameters(computation)[..] else { return false };
    module
        .instructions_of(computation)
        .any(|(id, inst)| inst.opcode == Opcode::Call && inst.operands.contains(&state) && may_inline(module, id))
}

/// Whether elements of the loop's result become a tuple of which elements are taken.
fn is_put_together(module: &Module, site: InstructionId, parent: ComputationId) -> bool {
    let is_result = |&id: &InstructionId| {
        let inst = module.instruction(id);
        inst.opcode == Opcode::GetTupleElement && inst.operands[0] == site
    };
    module.instructions_of(parent).any(|(_, inst)| {
        inst.opcode == Opcode::GetTupleElement && {
            let tuple = module.instruction(inst.operands[0]);
            tuple.opcode == Opcode::Tuple && tuple.operands.iter().any(is_result)
        }
    })
}

/// Why a loop stays as it is, or `None`.
fn obstacle(module: &Module, id: InstructionId) -> Option<(&'static str, &'static str)> {
    let inst = module.instruction(id);
    let plain = |callee| module.parameters(callee).len() == 1;
    if !inst.called_computations().all(plain) {
        return Some(("malformed", "the loop's body or condition does not take one state"));
    }
    if inst.raw(&AttrKey::BackendConfig).is_some_and(|text| text.contains("tuple_index")) {
        return Some(("backend-config", "the loop's backend config names an element of the state by number"));
    }
    let touched = || inst.called_computations().chain([inst.parent]);
    if touched().any(|computation| is_sharded(module, computation)) {
        return Some(("sharded", "a tuple of the state carries a sharding"));
    }
    if touched().any(|computation| has_control(module, computation)) {
        return Some(("control", "a tuple, or an element of one, has control predecessors or is one"));
    }
    if inst.computation(&AttrKey::Body).is_some_and(|body| reads_root(module, body)) {
        return Some(("whole-state", "the loop's body also reads the tuple that it returns"));
    }
    None
}

fn is_sharded(module: &Module, computation: ComputationId) -> bool {
    let entry = module.entry() == computation;
    module.instructions_of(computation).any(|(id, inst)| {
        let result = entry && module.computation(computation).root == id;
        !result && inst.shape.as_tuple().is_some() && inst.attribute(&AttrKey::Sharding).is_some()
    })
}

fn has_control(module: &Module, computation: ComputationId) -> bool {
    let of_tuple = |inst: &Instruction| {
        let tuple = inst.shape.as_tuple().is_some() && inst.opcode != Opcode::While;
        tuple || inst.opcode == Opcode::GetTupleElement
    };
    module.instructions_of(computation).any(|(_, inst)| {
        let before = inst.control_predecessors();
        !before.is_empty() && (of_tuple(inst) || before.iter().any(|&id| of_tuple(module.instruction(id))))
    })
}

/// Whether something else than a `get-tuple-element` reads the root.
fn reads_root(module: &Module, body: ComputationId) -> bool {
    let root = module.computation(body).root;
    let mut others = module.instructions_of(body).filter(|(_, inst)| inst.opcode != Opcode::GetTupleElement);
    others.any(|(_, inst)| inst.operands.contains(&root))
}

/// Whether the body of a call can take its place.
pub(super) fn may_inline(module: &Module, call: InstructionId) -> bool {
    // What waits for others in a called computation is not copied: it would wait for nothing.
    let plain =
        |callee: ComputationId| module.instructions_of(callee).all(|(_, inst)| inst.control_predecessors().is_empty());
    obstacle_to_inlining(module, call).is_none() && module.instruction(call).called_computations().all(plain)
}
