//! Orders of instructions: users, post-order inside a computation, and the walk through called computations.
//!
//! Source: `HloComputation::MakeInstructionPostOrder` (xla/hlo/ir/hlo_computation.cc).

use hlo_ir::arena::Id;
use hlo_ir::{ComputationId, InstructionId, Module};
use smallvec::SmallVec;

use super::classes::{Classes, sequential_callees};
use super::csr::Csr;
use crate::hash::IndexMap;
use crate::opcode_set::OpcodeSet;

/// Operands that stand in longer lists are looked up, not searched for: the tuple of a program's results is asked about once for each of them.
const LONG: usize = 32;

/// Who uses each instruction, in the computations that own memory.
#[derive(Clone, Debug)]
pub(crate) struct Users {
    of: Csr,
    /// For instructions with many operands: these with their numbers, sorted.
    long: IndexMap<InstructionId, Vec<(InstructionId, u32)>>,
}

impl Users {
    /// Users of every instruction of a computation with memory, each user once.
    pub(crate) fn of(module: &Module, classes: &Classes) -> Self {
        let (mut pairs, mut long) = (Vec::new(), IndexMap::default());
        let mut last_user = vec![u32::MAX; module.instruction_count()];
        for &computation in module.computation_ids().iter().filter(|&&id| classes.has_memory(id)) {
            for (id, inst) in module.instructions_of(computation) {
                let user = id.index() as u32;
                if inst.operands.len() > LONG {
                    long.insert(id, sorted(&inst.operands));
                }
                for operand in &inst.operands {
                    if std::mem::replace(&mut last_user[operand.index()], user) != user {
                        pairs.push((operand.index() as u32, user));
                    }
                }
            }
        }
        Self { of: Csr::new(module.instruction_count(), &pairs), long }
    }
    /// The numbers at which `operand` stands among the operands of `user`, ascending.
    pub(crate) fn numbers(&self, module: &Module, user: InstructionId, operand: InstructionId) -> SmallVec<[usize; 2]> {
        if let Some(list) = self.long.get(&user) {
            let first = list.partition_point(|&(other, _)| other < operand);
            let same = list[first..].iter().take_while(|&&(other, _)| other == operand);
            return same.map(|&(_, number)| number as usize).collect();
        }
        let operands = &module.instruction(user).operands;
        (0..operands.len()).filter(|&number| operands[number] == operand).collect()
    }
    /// Instructions that have `id` as an operand.
    pub(crate) fn get(&self, id: InstructionId) -> impl ExactSizeIterator<Item = InstructionId> + '_ {
        self.of.get(id.index() as u32).iter().map(|&user| InstructionId::new(user as usize))
    }
    /// Number of instructions that have `id` as an operand.
    pub(crate) fn count(&self, id: InstructionId) -> usize {
        self.of.get(id.index() as u32).len()
    }
}

/// Operands with their numbers, sorted.
fn sorted(operands: &[InstructionId]) -> Vec<(InstructionId, u32)> {
    let mut list: Vec<_> = operands.iter().enumerate().map(|(number, &operand)| (operand, number as u32)).collect();
    list.sort_unstable();
    list
}

/// How far the depth-first search has come with an instruction.
#[derive(Clone, Copy, PartialEq)]
enum State {
    New,
    Open,
    Done,
}

/// Appends the instructions of computations in post-order: from every instruction without users, in text order, operands first.
pub(crate) struct PostOrder<'m> {
    module: &'m Module,
    users: &'m Users,
    /// Opcodes of instructions that may name others that must run before them.
    controlled: OpcodeSet,
    state: Vec<State>,
    stack: Vec<InstructionId>,
}

impl<'m> PostOrder<'m> {
    /// Ready for any number of computations of `module`.
    pub(crate) fn new(module: &'m Module, users: &'m Users, controlled: OpcodeSet) -> Self {
        Self { module, users, controlled, state: vec![State::New; module.instruction_count()], stack: Vec::new() }
    }
    /// Appends the instructions of one computation to `out`.
    pub(crate) fn append(&mut self, computation: ComputationId, out: &mut Vec<InstructionId>) {
        for &sink in &self.module.computation(computation).instructions {
            if self.users.count(sink) == 0 {
                self.visit(sink, out);
            }
        }
    }
    /// Control predecessors are pushed last and therefore visited before the operands, the last one first.
    fn visit(&mut self, sink: InstructionId, out: &mut Vec<InstructionId>) {
        self.stack.push(sink);
        while let Some(&id) = self.stack.last() {
            let state = &mut self.state[id.index()];
            if *state == State::New {
                *state = State::Open;
                let inst = self.module.instruction(id);
                let control = if self.controlled.has(inst.opcode) { inst.control_predecessors() } else { &[] };
                let before = inst.operands.iter().rev().chain(control);
                self.stack.extend(before.filter(|before| self.state[before.index()] == State::New));
                continue;
            }
            if std::mem::replace(state, State::Done) == State::Open {
                out.push(id);
            }
            self.stack.pop();
        }
    }
}

/// What [`walk`] meets.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Step {
    /// A computation begins.
    Enter(ComputationId),
    /// An instruction whose callees are done.
    Visit(InstructionId),
    /// A computation ends.
    Leave(ComputationId),
}

/// A computation that [`walk`] is in the middle of.
struct Frame {
    computation: ComputationId,
    next: usize,
    current: Option<InstructionId>,
    callees: SmallVec<[ComputationId; 2]>,
}

/// Walks through the entry and everything it runs in sequence: each instruction after the computations it calls, each computation
/// once. `list` gives the instructions of a computation in the wanted order.
pub(crate) fn walk<'a>(
    module: &Module,
    list: impl Fn(ComputationId) -> &'a [InstructionId],
    mut step: impl FnMut(Step),
) {
    let frame = |computation| Frame { computation, next: 0, current: None, callees: SmallVec::new() };
    let mut entered = vec![false; module.computation_count()];
    entered[module.entry().index()] = true;
    step(Step::Enter(module.entry()));
    let mut stack = vec![frame(module.entry())];
    while let Some(top) = stack.last_mut() {
        if let Some(callee) = top.callees.pop() {
            if !std::mem::replace(&mut entered[callee.index()], true) {
                step(Step::Enter(callee));
                stack.push(frame(callee));
            }
            continue;
        }
        if let Some(id) = top.current.take() {
            step(Step::Visit(id));
        }
        if let Some(&id) = list(top.computation).get(top.next) {
            top.next += 1;
            top.current = Some(id);
            top.callees = sequential_callees(module.instruction(id));
            top.callees.reverse();
        } else {
            step(Step::Leave(top.computation));
            stack.pop();
        }
    }
}
