//! The order in which XLA made the instructions of a module, as far as its text still shows it.
//!
//! Text is a post-order, but XLA's passes and its scheduler work on the order of creation. Modules reach XLA:CPU through StableHLO, whether
//! JAX lowers them or their text is read back, and that path leaves marks: arguments come first (elements of a loop's state by index), then
//! constants, each followed by the broadcast it was folded from, then everything else in program order, for which the text stands in.
//!
//! Source: `OperationFolder` (MLIR) moves constants of a function to its front unless they stand there already, one before the other;
//! `SinkConstantsToControlFlow` (xla/hlo/translate) copies them into the regions that use them, each to the front.

use std::cell::RefCell;

use crate::hash::IndexSet;
use crate::parallel::join;
use hlo_ir::arena::{Id as _, SideTable};
use hlo_ir::{AttrKey, ComputationId, InstructionId, Module, Opcode};
use smallvec::SmallVec;

/// Who is born when: instructions of a computation in the order in which they were probably made; definitions come before uses.
pub(super) struct CreationOrder {
    /// Users of constants.
    users: SideTable<InstructionId, SmallVec<[InstructionId; 4]>>,
    regions: IndexSet<ComputationId>,
    /// Which instructions have their place in an order already, by number.
    placed: RefCell<Vec<bool>>,
}

impl CreationOrder {
    pub(super) fn of(module: &Module) -> Self {
        let users = || {
            let mut users: SideTable<InstructionId, SmallVec<[InstructionId; 4]>> = SideTable::new(SmallVec::new());
            for (id, inst) in module.live_instructions() {
                for &operand in inst.operands.iter().filter(|&&it| module.instruction(it).opcode == Opcode::Constant) {
                    users[operand].push(id);
                }
            }
            users
        };
        let regions = || {
            let callers = module.live_instructions().filter(|(_, inst)| inst.opcode != Opcode::Call);
            callers.flat_map(|(_, inst)| inst.called_computations()).collect()
        };
        let (regions, users) = join(module.is_large(), regions, users);
        let placed = RefCell::new(vec![false; module.instruction_count()]);
        Self { users, regions, placed }
    }

    /// The instructions of a computation in order of creation.
    pub(super) fn order(&self, module: &Module, computation: ComputationId) -> Vec<InstructionId> {
        let mut placed = self.placed.borrow_mut();
        let mut order = Vec::with_capacity(module.computation(computation).instructions.len());
        let mut place = |id: InstructionId| {
            if !std::mem::replace(&mut placed[id.index()], true) {
                order.push(id);
            }
        };
        module.parameters(computation).into_iter().for_each(&mut place);
        state_elements(module, computation).into_iter().for_each(&mut place);
        let list = &module.computation(computation).instructions;
        let constants = if self.regions.contains(&computation) {
            self.sunk_constants(module, list)
        } else {
            self.hoisted_constants(module, list)
        };
        for (constant, broadcast) in constants {
            place(constant);
            broadcast.into_iter().for_each(&mut place);
        }
        list.iter().copied().for_each(&mut place);
        order
    }

    /// The constant behind `id`, which is one or broadcasts a scalar one; with the broadcast.
    fn constant(&self, module: &Module, id: InstructionId) -> Option<(InstructionId, Option<InstructionId>)> {
        let inst = module.instruction(id);
        let is_constant = |id: InstructionId| module.instruction(id).opcode == Opcode::Constant;
        match inst.opcode {
            // A constant that is only broadcast is part of its broadcasts.
            Opcode::Constant => {
                let only_broadcast =
                    self.users[id].iter().all(|&user| module.instruction(user).opcode == Opcode::Broadcast);
                (self.users[id].is_empty() || !only_broadcast || !is_scalar(module, id)).then_some((id, None))
            }
            Opcode::Broadcast if is_constant(inst.operands[0]) && is_scalar(module, inst.operands[0]) => {
                Some((inst.operands[0], Some(id)))
            }
            _ => None,
        }
    }

    /// Constants of a function: those it begins with, in order; before them all others, the last one first.
    fn hoisted_constants(
        &self,
        module: &Module,
        list: &[InstructionId],
    ) -> Vec<(InstructionId, Option<InstructionId>)> {
        let mut leading = true;
        let (mut first, mut moved) = (Vec::new(), Vec::new());
        for &id in list {
            let inst = module.instruction(id);
            if let Some(constant) = self.constant(module, id) {
                if leading { first.push(constant) } else { moved.push(constant) }
            } else if !matches!(inst.opcode, Opcode::Constant | Opcode::Parameter) {
                leading = false;
            }
        }
        moved.reverse();
        moved.extend(first);
        moved
    }

    /// Constants of a region: the one whose first use comes last stands first.
    fn sunk_constants(&self, module: &Module, list: &[InstructionId]) -> Vec<(InstructionId, Option<InstructionId>)> {
        let mut used = IndexSet::default();
        for &id in list.iter().filter(|&&id| self.constant(module, id).is_none()) {
            used.extend(module.instruction(id).operands.iter().filter_map(|&operand| self.constant(module, operand)));
        }
        used.into_iter().rev().collect()
    }
}

fn is_scalar(module: &Module, id: InstructionId) -> bool {
    module.instruction(id).array().is_some_and(hlo_ir::ArrayShape::is_scalar)
}

/// Elements of tuple-shaped parameters, by parameter and index.
fn state_elements(module: &Module, computation: ComputationId) -> Vec<InstructionId> {
    let mut elements: Vec<_> = module
        .instructions_of(computation)
        .filter(|(_, inst)| inst.opcode == Opcode::GetTupleElement)
        .filter_map(|(id, inst)| {
            let number = module.instruction(inst.operands[0]).parameter_number()?;
            Some((number, inst.int(&AttrKey::Index)?, id))
        })
        .collect();
    elements.sort_unstable();
    elements.into_iter().map(|(_, _, id)| id).collect()
}
