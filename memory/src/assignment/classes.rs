//! Which computations own memory, and who calls them: global, thread-local, fused or unreachable.
//!
//! Source: `GatherComputationsByAllocationType` (xla/service/buffer_assignment.cc), `GetInstructionCallContext`
//! (xla/service/call_graph.cc).

// Tests: `memory/tests/rules.rs`.

use hlo_ir::arena::Id;
use hlo_ir::{AttrKey, AttrValue, ComputationId, Instruction, InstructionId, Module, Opcode};
use smallvec::SmallVec;

use crate::opcode_set::OpcodeSet;

/// What memory a computation's values get.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Class {
    /// Nobody reaches it: no memory.
    Unreachable,
    /// Entry, or called through control flow from it: parameters, outputs, temporaries.
    Global,
    /// Applied by a reduce, scatter, sort and the like: one small scratch buffer per value.
    ThreadLocal,
    /// Body of a fusion: its values live in registers.
    Fused,
}

/// Classes and control-flow callers of all computations.
#[derive(Clone, Debug)]
pub(crate) struct Classes {
    class: Vec<Class>,
    caller: Vec<Option<InstructionId>>,
    shared: Vec<ComputationId>,
    /// Opcodes of instructions that name others that must run before them.
    controlled: OpcodeSet,
}

impl Classes {
    /// Walks from the entry through every call.
    pub(crate) fn of(module: &Module) -> Self {
        let count = module.computation_count();
        let mut classes = Self {
            class: vec![Class::Unreachable; count],
            caller: vec![None; count],
            shared: Vec::new(),
            controlled: OpcodeSet::default(),
        };
        classes.class[module.entry().index()] = Class::Global;
        let mut work = vec![module.entry()];
        while let Some(computation) = work.pop() {
            let class = classes.class[computation.index()];
            for (id, inst) in module.instructions_of(computation) {
                // Attributes are far away: all that is asked of those of every instruction is asked here.
                for attribute in &inst.attributes {
                    let callees = match &attribute.value {
                        AttrValue::Computation(callee) => std::slice::from_ref(callee),
                        AttrValue::Computations(callees) => callees,
                        AttrValue::Instructions(_) => {
                            classes.controlled.add(inst.opcode);
                            continue;
                        }
                        _ => continue,
                    };
                    for &callee in callees {
                        if classes.reach(id, inst.opcode, class, callee) {
                            work.push(callee);
                        }
                    }
                }
            }
        }
        classes
    }
    /// Notes one call; whether `callee` is reached for the first time.
    fn reach(&mut self, user: InstructionId, opcode: Opcode, class: Class, callee: ComputationId) -> bool {
        let first = self.class[callee.index()] == Class::Unreachable;
        if is_control_flow(opcode) {
            match self.caller[callee.index()] {
                None => self.caller[callee.index()] = Some(user),
                Some(_) => self.shared.push(callee),
            }
        }
        if first {
            self.class[callee.index()] = match (opcode, class) {
                (Opcode::Fusion, _) => Class::Fused,
                (_, Class::Global) if is_control_flow(opcode) => Class::Global,
                _ => Class::ThreadLocal,
            };
        }
        first
    }
    /// The class of a computation.
    pub(crate) fn class(&self, id: ComputationId) -> Class {
        self.class[id.index()]
    }
    /// Whether the values of a computation get memory at all.
    pub(crate) fn has_memory(&self, id: ComputationId) -> bool {
        matches!(self.class(id), Class::Global | Class::ThreadLocal)
    }
    /// The call, while, conditional or async instruction that runs the computation; `None` for the entry and applied computations.
    pub(crate) fn caller(&self, id: ComputationId) -> Option<InstructionId> {
        self.caller[id.index()]
    }
    /// Opcodes of all instructions that name others that must run before them.
    pub(crate) fn controlled(&self) -> OpcodeSet {
        self.controlled
    }
    /// Computations with more than one control-flow caller. XLA clones them before it assigns buffers.
    pub(crate) fn shared(&self) -> &[ComputationId] {
        &self.shared
    }
}

/// Whether the instruction runs its computations once, in sequence with the rest of the schedule.
pub(crate) fn is_control_flow(opcode: Opcode) -> bool {
    use Opcode as O;
    matches!(opcode, O::Call | O::While | O::Conditional | O::AsyncStart | O::AsyncUpdate | O::AsyncDone)
}

/// The computations an instruction runs in sequence, in the order they run: a while's condition comes before its body.
pub(crate) fn sequential_callees(inst: &Instruction) -> SmallVec<[ComputationId; 2]> {
    match inst.opcode {
        Opcode::While => [AttrKey::Condition, AttrKey::Body].iter().filter_map(|key| inst.computation(key)).collect(),
        opcode if is_control_flow(opcode) => inst.called_computations().collect(),
        _ => SmallVec::new(),
    }
}
