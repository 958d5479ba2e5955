//! Asynchronous operations as messages know them: `add-start` in a text is an `async-start` of a computation that holds the `add`.
//!
//! Source: `CreateInstruction` and `ParseInstructionRhs` (xla/hlo/parser/hlo_parser.cc).

use std::borrow::Cow;
use std::sync::Arc;

use indexmap::IndexSet;
use smol_str::{SmolStr, format_smolstr};

use crate::shape::ShapeRef;
use crate::{
    AttrKey, AttrValue, Attribute, Computation, ComputationId, Instruction, InstructionId, Module, Opcode, Payload,
    Shape,
};

/// What stands on the operation and on the instruction that it wraps; XLA copies it from the last part that has it.
const SHARED: &[AttrKey] =
    &[AttrKey::Metadata, AttrKey::Origin, AttrKey::BackendConfig, AttrKey::FrontendAttributes, AttrKey::Statistics];

/// The module with every `OP-start`, `OP-update` and `OP-done` written out, and with shared attributes on the wrapped instructions.
pub(super) fn expanded(module: &Module) -> Cow<'_, Module> {
    let is_part = |inst: &Instruction| {
        matches!(inst.opcode, Opcode::AsyncStart | Opcode::AsyncUpdate | Opcode::AsyncDone) || part(inst).is_some()
    };
    if !module.live_instructions().any(|(_, inst)| is_part(inst)) {
        return Cow::Borrowed(module);
    }
    let mut expansion = Expansion::new(module.clone());
    for caller in module.computation_ids() {
        expansion.computation(*caller);
    }
    Cow::Owned(expansion.module)
}

/// The opcode of `OP-start`, `OP-update` and `OP-done`, and the general opcode of that part.
fn part(inst: &Instruction) -> Option<(Opcode, Opcode)> {
    let (Opcode::Unknown, Payload::Unknown(unknown)) = (inst.opcode, &inst.payload) else { return None };
    let (base, suffix) = unknown.opcode.rsplit_once('-').filter(|_| unknown.operands.is_none())?;
    let part = match suffix {
        "start" => Opcode::AsyncStart,
        "update" => Opcode::AsyncUpdate,
        "done" => Opcode::AsyncDone,
        _ => return None,
    };
    Some((Opcode::from_name(base)?, part))
}

/// A module under way.
struct Expansion {
    module: Module,
    names: IndexSet<SmolStr>,
}

impl Expansion {
    fn new(module: Module) -> Self {
        let names = module.order.iter().map(|&id| module.computations[id].name.clone()).collect();
        Self { module, names }
    }

    fn computation(&mut self, caller: ComputationId) {
        for id in self.module.computations[caller].instructions.clone() {
            if let Some((base, general)) = part(&self.module.instructions[id]) {
                let wrapped = (general == Opcode::AsyncStart).then(|| self.wrap(id, base, caller)).flatten();
                let inst = &mut self.module.instructions[id];
                (inst.opcode, inst.payload) = (general, Payload::None);
                if let Some(wrapped) = wrapped {
                    inst.attributes.push(Attribute::new(AttrKey::Calls, AttrValue::Computation(wrapped)));
                }
            }
            self.share(id);
        }
    }

    /// A computation of one instruction, which gets the attributes of the start that are not about being asynchronous.
    fn wrap(&mut self, start: InstructionId, opcode: Opcode, caller: ComputationId) -> Option<ComputationId> {
        let result = match self.module.instructions[start].shape.as_ref() {
            Shape::Tuple(elements) => Arc::clone(elements.get(1)?),
            _ => return None,
        };
        let thread = AttrKey::unknown("async_execution_thread");
        let stays = |attribute: &Attribute| {
            matches!(attribute.key, AttrKey::Sharding | AttrKey::ControlPredecessors) || attribute.key == thread
        };
        let (own, inner): (Vec<_>, Vec<_>) =
            std::mem::take(&mut self.module.instructions[start].attributes).into_iter().partition(stays);
        let shared = inner.iter().filter(|attribute| SHARED.contains(&attribute.key)).cloned();
        let runs_on = own.iter().find(|attribute| attribute.key == thread).map(|attribute| attribute.value.clone());
        self.module.instructions[start].attributes = own.iter().cloned().chain(shared).collect();
        let operands = self.module.instructions[start].operands.clone();
        let shapes: Vec<ShapeRef> =
            operands.iter().map(|&operand| Arc::clone(&self.module.instructions[operand].shape)).collect();
        let parameters: Vec<InstructionId> =
            shapes.into_iter().enumerate().map(|(number, shape)| self.parameter(number, shape)).collect();
        let mut inside = Instruction::new(opcode.name(), result, opcode, parameters.iter().copied());
        inside.attributes = inner;
        let root = self.module.instructions.push(inside);
        let instructions = parameters.into_iter().chain([root]).collect();
        Some(self.add(instructions, root, runs_on, caller))
    }

    fn parameter(&mut self, number: usize, shape: ShapeRef) -> InstructionId {
        let name = if number == 0 { "async_param".into() } else { format_smolstr!("async_param.{number}") };
        let parameter = Instruction::new(name, shape, Opcode::Parameter, []);
        self.module.instructions.push(parameter.with_payload(Payload::Parameter(number as i64)))
    }

    /// A computation in front of its caller.
    fn add(
        &mut self,
        instructions: Vec<InstructionId>,
        root: InstructionId,
        thread: Option<AttrValue>,
        caller: ComputationId,
    ) -> ComputationId {
        let mut name = SmolStr::new_static("async_wrapped");
        let mut number = 0;
        while !self.names.insert(name.clone()) {
            number += 1;
            name = format_smolstr!("async_wrapped.{number}");
        }
        let attributes = thread.into_iter().map(|thread| Attribute::new(AttrKey::ExecutionThread, thread)).collect();
        let id = self.module.computations.push(Computation {
            name,
            instructions: instructions.clone(),
            root,
            attributes,
            span: None,
        });
        for inside in instructions {
            self.module.instructions[inside].parent = id;
        }
        let at = self.module.order.iter().position(|&other| other == caller).unwrap_or(0);
        self.module.order.insert(at, id);
        id
    }

    /// Copies the shared attributes of a part to the instruction that the operation wraps.
    fn share(&mut self, id: InstructionId) {
        let shared: Vec<Attribute> = match self.module.instructions[id].opcode {
            Opcode::AsyncStart | Opcode::AsyncUpdate | Opcode::AsyncDone => {
                let attributes = &self.module.instructions[id].attributes;
                attributes.iter().filter(|attribute| SHARED.contains(&attribute.key)).cloned().collect()
            }
            _ => return,
        };
        let Some(root) = self.wrapped(id) else { return };
        for attribute in shared {
            self.module.instructions[root].set_attribute(attribute.key, attribute.value);
        }
    }

    /// The instruction that a chain of parts wraps.
    fn wrapped(&self, id: InstructionId) -> Option<InstructionId> {
        let mut at = &self.module.instructions[id];
        while at.opcode != Opcode::AsyncStart {
            if !matches!(at.opcode, Opcode::AsyncUpdate | Opcode::AsyncDone) {
                return None;
            }
            at = &self.module.instructions[*at.operands.first()?];
        }
        Some(self.module.computations[at.computation(&AttrKey::Calls)?].root)
    }
}

#[cfg(test)]
mod tests {
    use crate::{proto, text};

    #[test]
    fn a_short_spelling_becomes_a_computation() {
        let source = "HloModule m

ENTRY main {
  x = f32[4] parameter(0)
  start = ((f32[4], f32[4]), f32[4], s32[]) add-start(x, x), async_execution_thread=\"t\", metadata={op_name=\"n\"}
  ROOT done = f32[4] add-done(start)
}
";
        let module = text::parse(source).expect("a legal text");
        let encoded = proto::write(&module).expect("every field has a place");
        let printed = text::print(&proto::read(&encoded.bytes).expect("what was just written").module);
        for line in [
            "%add = f32[4]{0} add(%async_param, %async_param.1), metadata={op_name=\"n\"}",
            "}, execution_thread=\"t\"",
            "async-start(%x, %x), async_execution_thread=\"t\", calls=%async_wrapped, metadata={op_name=\"n\"}",
            "ROOT %done = f32[4]{0} async-done(%start)",
        ] {
            assert!(printed.contains(line), "{line}\n{printed}");
        }
    }
}
