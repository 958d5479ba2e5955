//! What a value may come from, whoever calls the computation it stands in: arrays full of one number, and sums of scatters.
//!
//! XLA inlines calls and moves what is constant into loops before it simplifies. Two places that look alike in a computation with several callers
//! can become different code. [`Sources`] answers with *may*: one caller suffices.

// Tests: `passes/tests/chunk_grades.rs`.

use crate::hash::{IndexMap, IndexSet};
use hlo_ir::graph::Callers;
use hlo_ir::graph::{self, Users};
use hlo_ir::literal::Literal;
use hlo_ir::{AttrKey, ComputationId, Instruction, InstructionId, Module, Opcode};

use super::{Frames, Value, adds_floats, keeps_product};
use crate::bounds;

/// Of what a value is made; `None` where that is not known.
type MadeOf<'a> = dyn Fn(InstructionId) -> Option<Vec<InstructionId>> + 'a;

/// A module and who calls what in it.
#[derive(Debug)]
pub(crate) struct Sources<'a> {
    module: &'a Module,
    callers: Callers,
}

impl<'a> Sources<'a> {
    pub(crate) fn of(module: &'a Module) -> Self {
        Self { module, callers: graph::callers(module) }
    }
    /// The instructions that call a computation.
    pub(crate) fn callers(&self, computation: ComputationId) -> &[InstructionId] {
        &self.callers[computation]
    }
    /// Whether every element of a value may be known to be the same number, which a compiler then computes with, whatever the index.
    pub(crate) fn may_be_full_of_one(&self, id: InstructionId) -> bool {
        let made_of = |id| {
            let inst = self.module.instruction(id);
            match inst.opcode {
                Opcode::Constant => is_full(inst).then(Vec::new),
                // The indices do not matter.
                Opcode::Gather | Opcode::DynamicSlice => Some(vec![inst.operands[0]]),
                opcode if opcode.is_elementwise() || keeps_product(opcode) => Some(inst.operands.to_vec()),
                _ => None,
            }
        };
        self.all(id, &made_of, &mut IndexMap::default())
    }
    /// Whether a value may be a sum that XLA takes into a scatter.
    pub(crate) fn may_be_summed_scatter(&self, users: &Users, id: InstructionId) -> bool {
        let mut frames = Frames::new(Vec::new());
        let value = frames.resolve(self.module, id, 0);
        let sum = self.module.instruction(value.inst);
        let taken = |&term: &InstructionId| {
            let term = frames.resolve(self.module, term, value.frame).inst;
            adds_floats(self.module, term) && users.get(term).len() < 2
        };
        sum.opcode == Opcode::Add && sum.operands.iter().any(taken)
            || self.handed_in(value).into_iter().any(|id| self.may_be_summed_scatter(users, id))
    }
    /// Whether a selection may take the larger or smaller of the two values that its condition compares.
    pub(crate) fn may_pick_by_size(&self, selection: InstructionId) -> bool {
        let [condition, then, other] = self.module.instruction(selection).operands[..] else { return false };
        let [then, other] = [then, other].map(|id| self.stands_for(id));
        let compared = |side: usize, condition: &Instruction| {
            condition.operands.get(side).map(|&id| self.stands_for(id)).unwrap_or_default()
        };
        self.stands_for(condition).into_iter().any(|id| {
            let condition = self.module.instruction(id);
            let [left, right] = [0, 1].map(|side| compared(side, condition));
            let meets = |a: &IndexSet<InstructionId>, b: &IndexSet<InstructionId>| !a.is_disjoint(b);
            condition.opcode == Opcode::Compare
                && ((meets(&left, &then) && meets(&right, &other)) || (meets(&left, &other) && meets(&right, &then)))
        })
    }
    /// The instructions that may compute a value, seen from inside a computation: its own, and those that callers hand in.
    fn stands_for(&self, id: InstructionId) -> IndexSet<InstructionId> {
        let mut frames = Frames::new(Vec::new());
        let mut found = IndexSet::from_iter([id]);
        let mut next = 0;
        while let Some(&id) = found.get_index(next).filter(|_| next < bounds::CONE) {
            next += 1;
            let value = frames.resolve(self.module, id, 0);
            found.insert(value.inst);
            found.extend(self.handed_in(value));
        }
        found
    }
    /// Whether all that a value is made of has an end: `made_of` says of what a value is made, `None` if it does not know. `known` are answers
    /// for values of which callers are asked.
    fn all(&self, id: InstructionId, made_of: &MadeOf<'_>, known: &mut IndexMap<InstructionId, bool>) -> bool {
        let mut frames = Frames::new(Vec::new());
        let mut work = vec![Value { inst: id, frame: 0 }];
        let mut seen = IndexSet::default();
        while let Some(Value { inst, frame }) = work.pop() {
            let value = frames.resolve(self.module, inst, frame);
            if !seen.insert(value) {
                continue;
            }
            // Calls that call two others each double in every level: *yes* for safety's sake.
            if seen.len() > bounds::CONE {
                return true;
            }
            match made_of(value.inst) {
                Some(operands) => work.extend(operands.into_iter().map(|inst| Value { inst, frame: value.frame })),
                None if self.comes_in(value, made_of, known) => {}
                None => return false,
            }
        }
        true
    }
    /// The same of one of those that come in from outside for a value.
    fn comes_in(&self, value: Value, made_of: &MadeOf<'_>, known: &mut IndexMap<InstructionId, bool>) -> bool {
        if let Some(&answer) = known.get(&value.inst) {
            return answer;
        }
        let answer = self.handed_in(value).into_iter().any(|id| self.all(id, made_of, known));
        known.insert(value.inst, answer);
        answer
    }
    /// What the callers of a computation hand in for a parameter, and what a loop hands in for an element of its state that it leaves as it is.
    fn handed_in(&self, value: Value) -> Vec<InstructionId> {
        let inst = self.module.instruction(value.inst);
        match inst.opcode {
            Opcode::Parameter if value.frame == 0 => {
                let calls = self.callers[inst.parent].iter().map(|&call| self.module.instruction(call));
                let calls = calls.filter(|call| call.opcode == Opcode::Call);
                calls.filter_map(|call| call.operands.get(inst.parameter_number()? as usize).copied()).collect()
            }
            Opcode::GetTupleElement => {
                let state = self.module.instruction(inst.operands[0]);
                let loops: &[InstructionId] = match state.opcode {
                    Opcode::While => &inst.operands,
                    Opcode::Parameter => &self.callers[state.parent],
                    _ => &[],
                };
                loops.iter().filter_map(|&looping| self.carried(looping, inst.int(&AttrKey::Index)?)).collect()
            }
            _ => Vec::new(),
        }
    }
    /// The initial value of an element of the state of a loop, if the body forwards it as it is.
    fn carried(&self, looping: InstructionId, element: i64) -> Option<InstructionId> {
        let looping = self.module.instruction(looping);
        let of_tuple = |id| {
            let tuple = self.module.instruction(id);
            let operand = tuple.operands.get(element as usize).copied();
            operand.filter(|_| tuple.opcode == Opcode::Tuple)
        };
        let root = self.module.computation(looping.computation(&AttrKey::Body)?).root;
        let after = self.module.instruction(of_tuple(root)?);
        let state = self.module.instruction(*after.operands.first()?);
        let kept = after.opcode == Opcode::GetTupleElement && after.int(&AttrKey::Index) == Some(element);
        let initial = of_tuple(*looping.operands.first()?);
        initial.filter(|_| kept && state.opcode == Opcode::Parameter)
    }
}

/// Whether every element of a constant may be the same number.
fn is_full(constant: &Instruction) -> bool {
    let Some(literal) = Literal::of(constant) else { return false };
    let mut tokens = literal.tokens();
    let first = tokens.next();
    tokens.all(|token| Some(token) == first)
}
