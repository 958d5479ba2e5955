//! Copying the body of a called computation into its caller.

use crate::hash::IndexSet;
use hlo_ir::arena::SideTable;
use hlo_ir::edit::{self, Patch};
use hlo_ir::{AttrKey, AttrValue, ComputationId, Instruction, InstructionId, Module, Opcode, metadata};

use crate::{Reason, bounds};

/// Why a call may not be inlined, or `None`.
pub(crate) fn obstacle(module: &Module, call: InstructionId) -> Option<Reason> {
    let inst = module.instruction(call);
    let stays = |code, message: &str| Some(Reason { code, message: message.to_owned() });
    let Some(callee) = inst.computation(&AttrKey::ToApply) else {
        return stays("no-callee", "the call does not name one computation to apply");
    };
    if inst.raw(&AttrKey::FrontendAttributes).is_some_and(|text| text.contains("inlineable=\"false\"")) {
        return stays("not-inlineable", "the call is marked inlineable=\"false\"");
    }
    if inst.flag(&AttrKey::IsComposite) {
        return stays("composite", "a composite must stay one call so that backends recognise it");
    }
    if inst.attribute(&AttrKey::Sharding).is_some() {
        return stays("sharded", "the call carries a sharding");
    }
    if !inst.control_predecessors().is_empty() {
        return stays("control", "the call has control predecessors");
    }
    let other_thread = |key: &AttrKey| hlo_ir::attribute::find(&module.computation(callee).attributes, key).is_some();
    if other_thread(&AttrKey::ExecutionThread) {
        return stays("thread", "the called computation names an execution thread");
    }
    if edit::has_side_effect(module, call) && !only_collectives(module, callee) {
        return stays("side-effect", "the called computation has a side effect");
    }
    None
}

/// The same where the call may stay beside a copy of its body, which then must have no side effect at all.
pub(crate) fn obstacle_to_copying(module: &Module, call: InstructionId) -> Option<Reason> {
    let acts = || {
        let message = "the called computation has a side effect".to_owned();
        edit::has_side_effect(module, call).then_some(Reason { code: "side-effect", message })
    };
    obstacle(module, call).or_else(acts)
}

/// Whether nothing has a side effect in what is called but collectives, and each of them still runs once: what holds one is called at one place.
fn only_collectives(module: &Module, callee: ComputationId) -> bool {
    let mut reached = IndexSet::from_iter([callee]);
    let mut next = 0;
    while let Some(&computation) = reached.get_index(next) {
        next += 1;
        for (id, inst) in module.instructions_of(computation) {
            if edit::acts(module, id) && !inst.opcode.is_collective() {
                return false;
            }
            reached.extend(inst.called_computations());
        }
    }
    let holds_one = |computation: ComputationId| {
        module.instructions_of(computation).any(|(id, _)| edit::has_side_effect(module, id))
    };
    let calls = |computation: ComputationId| {
        let places = module.live_instructions().flat_map(|(_, inst)| inst.called_computations());
        places.filter(|&called| called == computation).count()
    };
    reached.into_iter().filter(|&computation| holds_one(computation)).all(|computation| calls(computation) == 1)
}

/// Adds copies of called bodies to a patch.
pub(super) struct Inliner<'a> {
    module: &'a Module,
    patch: &'a mut Patch,
    /// Instructions added so far.
    added: usize,
    /// What stands for an instruction that was inlined; itself where unset.
    replaced: SideTable<InstructionId, Option<InstructionId>>,
}

impl<'a> Inliner<'a> {
    /// Nothing inlined yet.
    pub(super) fn new(module: &'a Module, patch: &'a mut Patch) -> Self {
        Self { module, patch, added: 0, replaced: SideTable::new(None) }
    }

    /// Inlines one call. Several calls of one computation must come in text order, so that a later one finds the earlier one's result.
    pub(super) fn inline(&mut self, call: InstructionId) -> Result<(), Reason> {
        let inst = self.module.instruction(call);
        let operands: Vec<_> = inst.operands.iter().map(|&id| self.replaced[id].unwrap_or(id)).collect();
        let callee = inst.computation(&AttrKey::ToApply).expect("calls with an obstacle are not inlined");
        let said = inst.raw(&AttrKey::Metadata);
        let result = self.copy(callee, &operands, (inst.parent, said), 0)?;
        self.replaced.set(call, Some(result));
        self.patch.replace(call, result);
        // Its collectives are in the copy now.
        self.patch.remove_moved(call);
        Ok(())
    }

    /// Copies the body of `callee` for these operands into a computation, in the place of a call with this metadata; returns what stands for its
    /// root.
    fn copy(
        &mut self,
        callee: ComputationId,
        operands: &[InstructionId],
        (into, call): (ComputationId, Option<&str>),
        level: usize,
    ) -> Result<InstructionId, Reason> {
        let mut new = SideTable::<InstructionId, Option<InstructionId>>::new(None);
        for (id, inst) in self.module.instructions_of(callee) {
            let mapped = |old: InstructionId| new[old].expect("definitions come before uses");
            let copied = if let Some(number) = inst.parameter_number() {
                operands[usize::try_from(number).expect("the verifier checks parameter numbers")]
            } else if inst.opcode == Opcode::Call && level < bounds::LEVELS && obstacle(self.module, id).is_none() {
                let operands: Vec<_> = inst.operands.iter().map(|&old| mapped(old)).collect();
                let inner = inst.computation(&AttrKey::ToApply).expect("it has no obstacle");
                let said = metadata::in_place_of(call, inst.raw(&AttrKey::Metadata));
                self.copy(inner, &operands, (into, said.as_ref().and_then(AttrValue::text)), level + 1)?
            } else {
                let mut copy = remap(inst, mapped);
                copy.stand_in_place_of(call);
                let added = self.add(into, copy)?;
                self.patch.set_origin(added, id);
                added
            };
            new.set(id, Some(copied));
        }
        Ok(new[self.module.computation(callee).root].expect("the root is one of the instructions"))
    }

    fn add(&mut self, into: ComputationId, instruction: Instruction) -> Result<InstructionId, Reason> {
        self.added += 1;
        if self.added > bounds::ADDED {
            let message = format!("inlining would add more than {} instructions", bounds::ADDED);
            return Err(Reason { code: "too-large", message });
        }
        Ok(self.patch.add(into, instruction))
    }
}

/// A copy of `inst` whose operands and control predecessors are mapped.
fn remap(inst: &Instruction, mapped: impl Fn(InstructionId) -> InstructionId) -> Instruction {
    let mut copy = inst.clone();
    copy.span = None;
    copy.operands.iter_mut().for_each(|operand| *operand = mapped(*operand));
    if !inst.control_predecessors().is_empty() {
        let ids = inst.control_predecessors().iter().map(|&id| mapped(id)).collect();
        copy.set_attribute(AttrKey::ControlPredecessors, AttrValue::Instructions(ids));
    }
    copy
}

#[cfg(test)]
mod tests {
    use super::*;
    use hlo_ir::text;

    /// A program that calls `inner`, which sums over devices, at one place or two.
    fn program(calls: &str, root: &str) -> Module {
        let source = format!(
            "HloModule m

add {{
  a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT c = f32[] add(a, b)
}}

inner {{
  p = f32[8] parameter(0)
  ROOT s = f32[8] all-reduce(p), channel_id=1, replica_groups={{{{0,1}}}}, use_global_device_ids=true, to_apply=add
}}

ENTRY e {{
  x = f32[8] parameter(0)
{calls}
  ROOT r = f32[8] {root}
}}
"
        );
        text::parse(&source).expect("a module")
    }

    fn call(module: &Module) -> InstructionId {
        let mut calls = module.instructions_of(module.entry()).filter(|(_, inst)| inst.opcode == Opcode::Call);
        calls.next().expect("it has a call").0
    }

    #[test]
    fn a_collective_in_a_body_that_is_called_once_moves_into_the_caller() {
        let mut module = program("  y = f32[8] call(x), to_apply=inner", "negate(y)");
        let call = call(&module);
        assert_eq!(obstacle(&module, call), None);
        let mut patch = Patch::new(&module);
        let base = module.clone();
        Inliner::new(&base, &mut patch).inline(call).expect("it is small");
        patch.apply(&mut module).expect("it fits");
        let collectives = |computation| {
            module.instructions_of(computation).filter(|(_, inst)| inst.opcode == Opcode::AllReduce).count()
        };
        assert_eq!(collectives(module.entry()), 1);
        assert!(obstacle_to_copying(&base, call).is_some(), "who leaves the call there writes it twice");
        assert!(
            module.instructions_of(module.entry()).all(|(_, inst)| inst.opcode != Opcode::Call),
            "the call is gone"
        );
    }

    #[test]
    fn a_collective_that_would_be_written_twice_stays_in_its_body() {
        let twice = "  y = f32[8] call(x), to_apply=inner\n  z = f32[8] call(y), to_apply=inner";
        let module = program(twice, "negate(z)");
        assert_eq!(obstacle(&module, call(&module)).map(|reason| reason.code), Some("side-effect"));
    }
}
