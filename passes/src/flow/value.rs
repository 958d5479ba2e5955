//! Values as data flow sees them: behind tuples, optimization barriers and calls.

use std::collections::BTreeMap;

use hlo_ir::{AttrKey, AttrValue, InstructionId, Module, Opcode};

/// An array-shaped instruction, seen through a chain of calls.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Value {
    /// The instruction; a `get-tuple-element` only of an instruction with several results or of an opaque tuple.
    pub inst: InstructionId,
    /// The chain of calls it is seen through; 0 for the computation under inspection itself.
    pub frame: usize,
}

/// The chains of calls met so far; chain 0 is empty.
#[derive(Clone, Default, Debug)]
pub struct Frames {
    /// For chain `k + 1`: the chain it continues, and the call.
    chains: Vec<(usize, InstructionId)>,
    known: BTreeMap<(usize, InstructionId), usize>,
    opaque: Vec<InstructionId>,
}

impl Frames {
    /// Looks through every call except `opaque` ones.
    pub fn new(opaque: Vec<InstructionId>) -> Self {
        Self { chains: Vec::new(), known: BTreeMap::new(), opaque }
    }
    /// The outermost call of a chain; `None` for the empty chain.
    pub fn outermost_call(&self, frame: usize) -> Option<InstructionId> {
        let (parent, call) = *self.chains.get(frame.checked_sub(1)?)?;
        self.outermost_call(parent).or(Some(call))
    }
    /// The calls of a chain, the innermost first.
    pub fn calls_of(&self, frame: usize) -> impl Iterator<Item = InstructionId> {
        let mut at = frame;
        std::iter::from_fn(move || {
            let (parent, call) = *self.chains.get(at.checked_sub(1)?)?;
            at = parent;
            Some(call)
        })
    }
    /// The chain that continues `frame` by `call`.
    fn enter(&mut self, frame: usize, call: InstructionId) -> usize {
        *self.known.entry((frame, call)).or_insert_with(|| {
            self.chains.push((frame, call));
            self.chains.len()
        })
    }
    /// The instruction that really makes the value of `inst`: `tuple`/`get-tuple-element` pairs, `opt-barrier`s and calls are looked
    /// through, parameters of called computations are the operands of the call.
    pub fn resolve(&mut self, module: &Module, inst: InstructionId, frame: usize) -> Value {
        let mut at = Value { inst, frame };
        let mut value = at;
        let mut path: Vec<i64> = Vec::new();
        loop {
            let instruction = module.instruction(at.inst);
            if path.is_empty() && instruction.array().is_some() {
                value = at;
            }
            at = match instruction.opcode {
                Opcode::GetTupleElement => {
                    path.push(instruction.int(&AttrKey::Index).unwrap_or(0));
                    Value { inst: instruction.operands[0], frame: at.frame }
                }
                Opcode::Tuple => match path.pop().and_then(|index| instruction.operands.get(index as usize)) {
                    Some(&element) => Value { inst: element, frame: at.frame },
                    None => return value,
                },
                Opcode::OptBarrier => Value { inst: instruction.operands[0], frame: at.frame },
                Opcode::Call if !self.opaque.contains(&at.inst) && is_transparent(module, at.inst) => {
                    let root = callee(module, at.inst);
                    Value { inst: root, frame: self.enter(at.frame, at.inst) }
                }
                Opcode::Parameter if at.frame > 0 => {
                    let (frame, call) = self.chains[at.frame - 1];
                    let number = instruction.parameter_number().unwrap_or(0);
                    match module.instruction(call).operands.get(number as usize) {
                        Some(&argument) => Value { inst: argument, frame },
                        None => return value,
                    }
                }
                _ => return value,
            };
        }
    }
}

/// Whether an instruction is a call that may be looked through: one with `inlineable="false"`, as in manually sharded code, stays a call.
pub fn is_transparent(module: &Module, call: InstructionId) -> bool {
    let call = module.instruction(call);
    let kept = call.attributes.iter().any(|attribute| match &attribute.value {
        AttrValue::Raw(text) => text.contains("inlineable=\"false\""),
        _ => false,
    });
    call.opcode == Opcode::Call && call.computation(&AttrKey::ToApply).is_some() && !kept
}

/// Root of the computation that a transparent call runs.
fn callee(module: &Module, call: InstructionId) -> InstructionId {
    let target =
        module.instruction(call).computation(&AttrKey::ToApply).expect("a transparent call names a computation");
    module.computation(target).root
}

/// The instruction that computes a value, and which of its results the value is: a `get-tuple-element` stands for its operand.
pub fn producer(module: &Module, inst: InstructionId) -> (InstructionId, Option<i64>) {
    let instruction = module.instruction(inst);
    match (instruction.opcode, instruction.operands.first()) {
        (Opcode::GetTupleElement, Some(&operand)) => (operand, Some(instruction.int(&AttrKey::Index).unwrap_or(0))),
        _ => (inst, None),
    }
}

/// The instruction of which a value is one of several results, and which one.
pub(crate) fn result_of(module: &Module, inst: InstructionId) -> Option<(InstructionId, usize)> {
    let (of, element) = producer(module, inst);
    Some((of, usize::try_from(element?).ok()?))
}

/// The parameters of a called computation that an operand of the call is handed to.
pub(crate) fn parameters(module: &Module, call: InstructionId, operand: InstructionId) -> Vec<InstructionId> {
    let inst = module.instruction(call);
    let Some(callee) = inst.computation(&AttrKey::ToApply) else { return Vec::new() };
    let is_operand = |number: i64| inst.operands.get(number as usize) == Some(&operand);
    let stands = |inst: &hlo_ir::Instruction| inst.parameter_number().is_some_and(is_operand);
    module.instructions_of(callee).filter(|(_, inst)| stands(inst)).map(|(id, _)| id).collect()
}

/// Whether a value is a broadcast of +0, which nothing changes when it is added (XLA drops it too).
pub(crate) fn is_zeros(module: &Module, id: InstructionId) -> bool {
    let inst = module.instruction(id);
    let zero =
        |id: &InstructionId| module.instruction(*id).literal().is_some_and(|text| matches!(text.trim(), "0" | "0.0"));
    inst.opcode == Opcode::Broadcast && inst.operands.iter().all(zero)
}
