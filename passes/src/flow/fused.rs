//! What a compiler may compute in one kernel with a value: everything behind it that consists of elementwise operations and movement, also
//! across calls, which XLA inlines.

// Tests: `passes/tests/chunk_grades.rs`.

use hlo_ir::arena::SideTable;
use hlo_ir::graph::{self, Users};
use hlo_ir::{AttrKey, InstructionId, Module, Opcode};

use super::{float_product, is_float_sum, is_fusible, keeps_product};

/// Whether a product of floats that is the value, or stands behind it, meets a sum that the compiler may compute in the same kernel. What
/// XLA merges and duplicates on the way changes as soon as the value or one of its users does, and with it which products and sums
/// become one operation with one rounding.
pub fn feeds_sum(module: &Module, users: &Users, from: InstructionId) -> bool {
    let product = float_product(module, from).is_some();
    Walk { module, users, seen: SideTable::new(None), work: vec![(from, product)] }.finds_sum()
}

struct Walk<'a> {
    module: &'a Module,
    users: &'a Users,
    /// Values visited, and whether as products.
    seen: SideTable<InstructionId, Option<bool>>,
    /// Values to go on from, and whether each is a product of floats, perhaps moved or handed through a call.
    work: Vec<(InstructionId, bool)>,
}

impl Walk<'_> {
    fn finds_sum(mut self) -> bool {
        while let Some((id, product)) = self.work.pop() {
            if self.seen[id].is_some_and(|before| before || !product) {
                continue;
            }
            self.seen.set(id, Some(product));
            for &user in self.users.get(id) {
                if product && self.sums_up(user) {
                    return true;
                }
                self.follow(id, user, product);
            }
            if self.module.computation(self.module.instruction(id).parent).root == id {
                self.leave(id, None, product);
            }
        }
        false
    }

    fn sums_up(&self, user: InstructionId) -> bool {
        let reduces = matches!(self.module.instruction(user).opcode, Opcode::Reduce | Opcode::ReduceWindow);
        reduces || is_float_sum(self.module, user)
    }

    /// Goes on behind a user of `id`.
    fn follow(&mut self, id: InstructionId, user: InstructionId, product: bool) {
        let inst = self.module.instruction(user);
        let places = (0..inst.operands.len()).filter(|&place| inst.operands[place] == id);
        match inst.opcode {
            Opcode::Call => {
                let Some(callee) = inst.called_computations().next() else { return };
                let parameters = self.module.parameters(callee);
                let reached = places.filter_map(|place| parameters.get(place));
                self.work.extend(reached.map(|&parameter| (parameter, product)));
            }
            Opcode::Tuple if self.module.computation(inst.parent).root == user => {
                for place in places.collect::<Vec<_>>() {
                    self.leave(user, Some(place), product);
                }
            }
            opcode if is_fusible(opcode) => {
                let picks = matches!(opcode, Opcode::DynamicSlice | Opcode::Gather | Opcode::Concatenate | Opcode::Pad);
                let moved = product && (picks || keeps_product(opcode));
                self.work.push((user, moved || float_product(self.module, user).is_some()));
            }
            _ => {}
        }
    }

    /// Goes on behind the calls of the computation whose root this is; `element` of a tuple, or all of the value.
    fn leave(&mut self, root: InstructionId, element: Option<usize>, product: bool) {
        let parent = self.module.instruction(root).parent;
        if parent == self.module.entry() {
            return;
        }
        for &caller in &graph::callers(self.module)[parent] {
            if self.module.instruction(caller).opcode != Opcode::Call {
                continue;
            }
            let Some(element) = element else {
                self.work.push((caller, product));
                continue;
            };
            let is_element = |&&user: &&InstructionId| {
                let inst = self.module.instruction(user);
                let index = inst.int(&AttrKey::Index).and_then(|index| usize::try_from(index).ok());
                inst.opcode == Opcode::GetTupleElement && index == Some(element)
            };
            let elements = self.users.get(caller).iter().filter(is_element);
            self.work.extend(elements.map(|&element| (element, product)));
        }
    }
}
