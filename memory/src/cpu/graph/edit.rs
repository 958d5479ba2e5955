//! Changes of the graph, with XLA's effect on instruction lists and user lists.

use std::collections::VecDeque;

use crate::hash::IndexMap;
use hlo_ir::arena::Id as _;
use hlo_ir::{AttrKey, AttrValue, Attribute, ComputationId, Instruction, InstructionId, Opcode, Payload};
use smallvec::SmallVec;
use smol_str::SmolStr;

use super::users::Users;
use super::{Body, Control, Graph, ListPosition, REMOVED, Rare};

impl Graph {
    /// Appends an instruction to a computation and to the user lists of its operands. Control predecessors among its attributes are ignored;
    /// see [`Graph::add_control`].
    pub(crate) fn add(&mut self, computation: ComputationId, mut inst: Instruction) -> InstructionId {
        inst.parent = computation;
        let Said { calls, effects } = self.read_attributes(&mut inst);
        inst.shape = self.shared(inst.shape);
        let operands = std::mem::take(&mut inst.operands);
        let (opcode, number) = (inst.opcode, inst.parameter_number());
        let slot = self.bodies[computation].list.len() as u32;
        self.seen.add(opcode);
        self.effects |= effects;
        self.opcodes.push(opcode);
        self.results.push(inst.shape.clone());
        self.origins.push(None);
        self.readers.push(0);
        self.insts.push(inst);
        self.inputs.push(operands);
        self.users.push(Users::new());
        let id = self.places.push(ListPosition { parent: computation, slot });
        if let Some(number) = number {
            self.enter_parameter(computation, id, number);
        }
        self.touch(computation);
        let body = &mut self.bodies[computation];
        body.seen.add(opcode);
        body.effects |= effects;
        body.list.push(Some(id));
        body.live += 1;
        for index in 0..self.inputs[id].len() {
            let operand = self.inputs[id][index];
            self.add_user(operand, id);
        }
        if calls {
            self.calls.add(opcode);
            self.note_calls(id);
            self.note_fused(id);
        }
        id
    }

    /// Looks at the attributes of an instruction that is about to be added, once, and takes control predecessors out.
    fn read_attributes(&mut self, inst: &mut Instruction) -> Said {
        let mut said = Said { calls: false, effects: inst.opcode.has_side_effect() };
        let mut control = false;
        for Attribute { key, value } in &inst.attributes {
            control |= *key == AttrKey::ControlPredecessors;
            said.calls |= matches!(value, AttrValue::Computation(_))
                || matches!(value, AttrValue::Computations(callees) if !callees.is_empty());
            if let Some(rare) = Rare::of(key) {
                self.rare[rare as usize].add(inst.opcode);
                said.effects |= rare == Rare::SideEffect && inst.flag(key);
            }
        }
        if control {
            inst.attributes.retain(|attribute| attribute.key != AttrKey::ControlPredecessors);
        }
        said
    }

    /// Puts a new parameter behind those with its number or a smaller one.
    fn enter_parameter(&mut self, computation: ComputationId, id: InstructionId, number: i64) {
        let before = |&other: &InstructionId| self.insts[other].parameter_number() <= Some(number);
        let parameters = &self.bodies[computation].parameters;
        let is_last = parameters.last().is_none_or(before);
        let place = if is_last { parameters.len() } else { parameters.partition_point(before) };
        self.bodies[computation].parameters.insert(place, id);
    }

    /// Puts `user` at the end of the users of `id`, unless it is there already.
    fn add_user(&mut self, id: InstructionId, user: InstructionId) {
        let users = &mut self.users[id];
        users.add(user);
        self.readers[id.index()] = users.len() as u32;
    }

    /// Takes `user` out of the users of `id`, if it is there.
    fn remove_user(&mut self, id: InstructionId, user: InstructionId) {
        let users = &mut self.users[id];
        users.remove(user);
        self.readers[id.index()] = users.len() as u32;
    }

    /// Notes that the edges of a computation changed.
    fn touch(&mut self, computation: ComputationId) {
        self.note_change(computation);
        self.stirred[computation.index()] = true;
        self.bodies[computation].post_order.take();
    }

    /// The same for the computation of an instruction.
    fn touch_around(&mut self, id: InstructionId) {
        self.touch(self.places[id].parent);
    }

    /// Keeps the list of instructions that call computations.
    pub(super) fn note_calls(&mut self, id: InstructionId) {
        let ListPosition { parent, slot } = self.places[id];
        if slot == REMOVED || self.insts[id].called_computations().next().is_none() {
            return;
        }
        self.forget_order();
        let calling = &mut self.bodies[parent].calling;
        if let Err(place) = calling.binary_search(&slot) {
            calling.insert(place, slot);
        }
    }

    /// Adds a computation without instructions; its root must be set before anything else looks at it.
    pub(crate) fn add_computation(&mut self, name: impl Into<SmolStr>) -> ComputationId {
        self.stirred.push(true);
        self.changed.push(self.version);
        self.bodies.push(Body::new(name.into()))
    }

    /// Makes `root` the result of its computation.
    pub(crate) fn set_root(&mut self, root: InstructionId) {
        let parent = self.parent(root);
        self.note_change(parent);
        self.stirred[parent.index()] = true;
        self.bodies[parent].root = root;
    }

    /// Lets `user` run after `before`.
    pub(crate) fn add_control(&mut self, before: InstructionId, user: InstructionId) {
        self.touch_around(user);
        if !self.control_successors(before).contains(&user) {
            self.controls.entry(before).or_default().successors.push(user);
            self.controls.entry(user).or_default().predecessors.push(before);
        }
    }

    /// Removes all control dependencies of an instruction.
    pub(crate) fn drop_control(&mut self, id: InstructionId) {
        self.touch_around(id);
        let Some(Control { predecessors, successors }) = self.controls.swap_remove(&id) else { return };
        for before in predecessors {
            if let Some(control) = self.controls.get_mut(&before) {
                control.successors.retain(|other| *other != id);
            }
        }
        for after in successors {
            if let Some(control) = self.controls.get_mut(&after) {
                control.predecessors.retain(|other| *other != id);
            }
        }
    }

    /// Whether control dependencies tie the instruction to others.
    pub(crate) fn has_control(&self, id: InstructionId) -> bool {
        self.controls.get(&id).is_some_and(|control| !control.predecessors.is_empty() || !control.successors.is_empty())
    }

    /// Replaces one operand.
    ///
    /// Source: `HloInstruction::ReplaceOperandWithDifferentShape`.
    pub(crate) fn replace_operand(&mut self, user: InstructionId, index: usize, new: InstructionId) {
        self.touch_around(user);
        let old = std::mem::replace(&mut self.inputs[user][index], new);
        if old == new {
            return;
        }
        if !self.operands(user).contains(&old) {
            self.remove_user(old, user);
        }
        self.add_user(new, user);
    }

    /// Replaces every use of `old` by `user`.
    ///
    /// Source: `HloInstruction::ReplaceUseWithDifferentShape`.
    pub(crate) fn replace_use(&mut self, old: InstructionId, user: InstructionId, new: InstructionId) {
        self.touch_around(user);
        self.remove_user(old, user);
        self.redirect(old, user, new);
    }

    fn redirect(&mut self, old: InstructionId, user: InstructionId, new: InstructionId) {
        self.touch_around(user);
        exchange(&mut self.inputs[user], old, new);
        self.add_user(new, user);
        self.merge_equal_fusion_operands(user);
    }

    /// Lets every user of `old` use `new`, which also becomes the root if `old` was. If `new` uses `old` itself, it stays its only user.
    ///
    /// Source: `HloInstruction::ReplaceAllUsesWithDifferentShape`.
    pub(crate) fn replace_all_uses(&mut self, old: InstructionId, new: InstructionId) {
        self.touch_around(old);
        let users = self.users[old].take();
        self.readers[old.index()] = 0;
        let new_is_user = users.contains(&new);
        for user in users.into_iter().filter(|&user| user != new) {
            self.redirect(old, user, new);
        }
        if new_is_user {
            self.add_user(old, new);
        }
        if self.is_root(old) {
            self.set_root(new);
        }
    }

    /// Replaces `old` by `new` everywhere and removes it with all operands only it needed; its control dependencies and, if `new` has none,
    /// its metadata pass on.
    ///
    /// Source: `HloComputation::ReplaceInstructionWithDifferentShape`.
    pub(crate) fn replace(&mut self, old: InstructionId, new: InstructionId) {
        if let Some(Control { predecessors, successors }) = self.controls.get(&old).cloned() {
            self.drop_control(old);
            predecessors.into_iter().for_each(|other| self.add_control(other, new));
            successors.into_iter().for_each(|other| self.add_control(new, other));
        }
        self.pass_metadata(old, new);
        self.replace_all_uses(old, new);
        self.remove_with_operands(old);
    }

    /// Lets a new instruction without users take the place of `old` in the user lists of its operands, which both have, and in those of all users
    /// and as the root; `old` goes. What the two functions above do to the graph, without the way there.
    pub(super) fn take_place(&mut self, old: InstructionId, new: InstructionId) {
        debug_assert!(!self.has_control(old) && self.user_count(new) == 0, "see above");
        for operand in std::mem::take(&mut self.inputs[old]) {
            self.users[operand].exchange(old, new);
        }
        let users = std::mem::take(&mut self.users[old]);
        self.readers[new.index()] = std::mem::take(&mut self.readers[old.index()]);
        for user in users.iter() {
            exchange(&mut self.inputs[user], old, new);
        }
        let fusions: SmallVec<[InstructionId; 4]> =
            users.iter().filter(|&user| self.opcode(user) == Opcode::Fusion).collect();
        self.users[new] = users;
        fusions.into_iter().for_each(|user| self.merge_equal_fusion_operands(user));
        if self.is_root(old) {
            self.set_root(new);
        }
        self.take_out(old);
    }

    /// Gives `new` the metadata of `old` if it has none.
    pub(crate) fn pass_metadata(&mut self, old: InstructionId, new: InstructionId) {
        if self.origin(new).is_none() {
            self.stems_from(new, old);
        }
        if self.inst(new).attribute(&AttrKey::Metadata).is_none() {
            let metadata = self.inst(old).attribute(&AttrKey::Metadata).cloned();
            if let Some(value) = metadata {
                self.insts[new].attributes.push(Attribute::new(AttrKey::Metadata, value));
            }
        }
    }

    /// Takes a dead instruction out of its computation.
    pub(crate) fn remove(&mut self, id: InstructionId) {
        debug_assert!(self.is_dead(id) && !self.has_control(id), "only dead instructions are removed");
        let operands = std::mem::take(&mut self.inputs[id]);
        for operand in operands {
            self.remove_user(operand, id);
        }
        self.take_out(id);
    }

    /// The same for an instruction that reads nothing any more.
    fn take_out(&mut self, id: InstructionId) {
        self.touch_around(id);
        let slot = std::mem::replace(&mut self.places[id].slot, REMOVED);
        let parent = self.parent(id);
        self.bodies[parent].list[slot as usize] = None;
        if self.opcode(id) == Opcode::Parameter {
            self.bodies[parent].parameters.retain(|&other| other != id);
        }
        if self.bodies[parent].calling.binary_search(&slot).is_ok() {
            self.forget_order();
        }
        self.bodies[parent].live -= 1;
    }

    /// Removes a dead instruction, then operands that became dead, level by level. Parameters outside fusions, side effects and
    /// instructions with control dependencies stay.
    ///
    /// Source: `HloComputation::RemoveInstructionAndUnusedOperands`.
    pub(crate) fn remove_with_operands(&mut self, id: InstructionId) {
        let mut queue = VecDeque::from([id]);
        while let Some(item) = queue.pop_front() {
            let kept = !self.is_alive(item)
                || !self.is_dead(item)
                || self.opcode(item) == Opcode::Parameter
                || self.has_control(item)
                || (item != id && self.has_side_effect(item));
            if !kept {
                queue.extend(self.operands(item).iter().copied());
                self.remove(item);
            }
        }
    }

    /// Merges operands that a fusion has twice, as XLA does whenever it redirects a use; custom fusions keep theirs.
    ///
    /// Source: `HloFusionInstruction::DeduplicateFusionOperands`.
    fn merge_equal_fusion_operands(&mut self, fusion: InstructionId) {
        self.touch_around(fusion);
        let Some(body) = self.fused(fusion) else { return };
        let twice = repeated(self.operands(fusion));
        if twice.is_empty() || self.inst(fusion).word(&AttrKey::Kind) == Some("kCustom") {
            return;
        }
        let parameters = self.parameters(body);
        for &(index, seen) in &twice {
            self.replace_all_uses(parameters[index], parameters[seen]);
            self.remove(parameters[index]);
        }
        self.renumber_parameters(body, twice[0].0);
        let again = |index: usize| twice.iter().any(|&(other, _)| other == index);
        let kept = self.operands(fusion).iter().enumerate().filter(|&(index, _)| !again(index)).map(|(_, &id)| id);
        self.inputs[fusion] = kept.collect();
    }

    /// Removes parameter `number` of a fused computation, which nothing uses any more, together with the fusion's operand.
    pub(crate) fn remove_fusion_operand(&mut self, fusion: InstructionId, number: usize) {
        self.touch_around(fusion);
        let Some(body) = self.fused(fusion) else { return };
        self.remove(self.parameter(body, number));
        self.renumber_parameters(body, number);
        let operand = self.inputs[fusion].remove(number);
        if !self.operands(fusion).contains(&operand) {
            self.remove_user(operand, fusion);
        }
    }

    /// Appends an operand to an instruction.
    pub(crate) fn append_operand(&mut self, user: InstructionId, operand: InstructionId) {
        self.touch_around(user);
        self.inputs[user].push(operand);
        self.add_user(operand, user);
    }

    /// Numbers the parameters from `first` on by their places.
    pub(crate) fn renumber_parameters(&mut self, computation: ComputationId, first: usize) {
        for (number, id) in self.bodies[computation].parameters.iter().enumerate().skip(first) {
            self.insts[*id].payload = Payload::Parameter(number as i64);
        }
    }

    /// Copies a computation: the same instruction list, user lists and control dependencies. Callees are shared with the original.
    ///
    /// Source: `HloComputation::CloneInContext`, which restores the original's orders in the clone.
    fn clone_computation(&mut self, source: ComputationId) -> ComputationId {
        let target = self.add_computation(self.bodies[source].name.clone());
        self.bodies[target].attributes = self.bodies[source].attributes.clone();
        // The copy of each instruction, by slot of the original.
        let mut copies: Vec<Option<InstructionId>> = vec![None; self.bodies[source].list.len()];
        for id in self.post_order(source) {
            let mut inst = self.copied(id);
            for operand in &mut inst.operands {
                *operand = copies[self.slot(*operand)].expect("post-order visits operands first");
            }
            let copy = self.add(target, inst);
            self.stems_from(copy, id);
            copies[self.slot(id)] = Some(copy);
        }
        let originals: Vec<InstructionId> = self.list(source).collect();
        for (slot, &id) in originals.iter().enumerate() {
            let mapped = |id: InstructionId| copies[self.slot(id)].expect("every instruction of the source was copied");
            let copy = mapped(id);
            let mut users = Users::new();
            self.users(id).into_iter().for_each(|user| users.add(mapped(user)));
            if let Some(control) = self.controls.get(&id) {
                let predecessors = control.predecessors.iter().map(|&other| mapped(other)).collect();
                let successors = control.successors.iter().map(|&other| mapped(other)).collect();
                self.controls.insert(copy, Control { predecessors, successors });
            }
            self.readers[copy.index()] = users.len() as u32;
            self.users[copy] = users;
            self.places[copy].slot = slot as u32;
            self.bodies[target].list[slot] = Some(copy);
        }
        self.touch(target);
        self.forget_order();
        self.bodies[target].calling.clear();
        self.list(target).collect::<Vec<_>>().into_iter().for_each(|copy| self.note_calls(copy));
        let root = copies[self.slot(self.root(source))];
        self.bodies[target].root = root.expect("every instruction of the source was copied");
        target
    }

    /// Copies a computation and everything it calls, so that the copy shares nothing.
    pub(crate) fn deep_clone(&mut self, source: ComputationId) -> ComputationId {
        let target = self.clone_computation(source);
        let calling: Vec<InstructionId> =
            self.list(target).filter(|&id| self.inst(id).called_computations().next().is_some()).collect();
        for caller in calling {
            let attributes = self.inst(caller).attributes.clone();
            for Attribute { key, value } in attributes {
                match value {
                    AttrValue::Computation(callee) => {
                        let copy = self.deep_clone(callee);
                        self.set_attribute(caller, key, AttrValue::Computation(copy));
                    }
                    AttrValue::Computations(callees) => {
                        let copies = callees.into_iter().map(|callee| self.deep_clone(callee)).collect();
                        self.set_attribute(caller, key, AttrValue::Computations(copies));
                    }
                    _ => {}
                }
            }
        }
        target
    }
}

/// What the attributes of an instruction say that the graph keeps beside it.
struct Said {
    /// It calls computations.
    calls: bool,
    /// It may have a side effect of its own.
    effects: bool,
}

/// Puts `new` wherever `old` stands. Looks at all of some operands before it goes to the one, which takes several at a time: the tuple of a
/// program's results has thousands, and passes exchange one after the other.
fn exchange(operands: &mut [InstructionId], old: InstructionId, new: InstructionId) {
    for some in operands.chunks_mut(64) {
        if some.iter().map(|operand| u32::from(*operand == old)).sum::<u32>() > 0 {
            some.iter_mut().filter(|operand| **operand == old).for_each(|operand| *operand = new);
        }
    }
}

/// Operands longer than this are searched through a map.
const FEW_OPERANDS: usize = 24;

/// Operands that stand in the list a second time: their place, and that of the first mention.
fn repeated(operands: &[InstructionId]) -> SmallVec<[(usize, usize); 2]> {
    if operands.len() <= FEW_OPERANDS {
        let first = |index: usize| operands[..index].iter().position(|&other| other == operands[index]);
        return (0..operands.len()).filter_map(|index| Some((index, first(index)?))).collect();
    }
    let mut first: IndexMap<InstructionId, usize> = IndexMap::default();
    let mut found = SmallVec::new();
    for (index, &operand) in operands.iter().enumerate() {
        let seen = *first.entry(operand).or_insert(index);
        if seen != index {
            found.push((index, seen));
        }
    }
    found
}
