//! The mutable graph on which the model of the compiler works.
//!
//! XLA works on lists whose order depends on the history of all changes, and that order decides ties later (schedule, copies, buffers).
//! The graph therefore keeps four ordered structures the way XLA does: the instruction list of a computation (parameters first; new
//! instructions go to the end, removed ones leave the rest in place), the user list of an instruction, and from these the post-order of a
//! computation and the order of computations.
//!
//! Source: `HloComputation`, `HloInstruction`, `HloModule` (xla/hlo/ir).

mod convert;
mod creation_order;
mod edit;
mod export;
mod fuse;
mod order;
mod outline;
mod prefaulted_instructions;
mod prefaulted_lists;
mod skeleton;
#[cfg(test)]
mod tests;
mod users;

use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use hlo_ir::arena::{Arena, Id as _, SideTable};
use hlo_ir::module::Operands;
use hlo_ir::module::StackTables;
use hlo_ir::shape::{ArrayShape, ShapeRef};
use hlo_ir::{AttrKey, AttrValue, Attribute, ComputationId, Instruction, InstructionId, Opcode};

use crate::hash::{IndexMap, IndexSet};
use smallvec::SmallVec;
use smol_str::SmolStr;

pub(crate) use crate::opcode_set::OpcodeSet;
pub(crate) use convert::{Origin, Snapshot};
pub(crate) use order::Order;
use order::Walk;
use prefaulted_instructions::PrefaultedInstructions;
pub(crate) use skeleton::Skeleton;
pub(crate) use users::Users;

/// A schedule: the order in which each computation runs. Computations without an entry run nothing (fusion bodies, reducers).
pub(crate) type Schedule = SideTable<ComputationId, Vec<InstructionId>>;

/// A list of instructions, short enough to stay on the stack in the common case.
pub(crate) type Ids = SmallVec<[InstructionId; 8]>;

/// Where an instruction stands.
#[derive(Clone, Copy, Debug)]
struct ListPosition {
    /// The computation it stands in.
    parent: ComputationId,
    /// Position in the list of its computation; [`REMOVED`] once it was taken out.
    slot: u32,
}

/// Control dependencies of an instruction that has any.
#[derive(Clone, Debug, Default)]
struct Control {
    predecessors: SmallVec<[InstructionId; 1]>,
    successors: SmallVec<[InstructionId; 1]>,
}

/// The slot of an instruction that is no longer in any list.
const REMOVED: u32 = u32::MAX;

/// Attributes that few instructions have, but many are asked for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Rare {
    /// `output_to_operand_aliasing`
    Aliasing,
    /// `operand_layout_constraints`
    OperandLayouts,
    /// `custom_call_has_side_effect`
    SideEffect,
    /// `sharding`
    Sharding,
    /// `frontend_attributes`
    Frontend,
}

impl Rare {
    const COUNT: usize = 5;

    fn of(key: &AttrKey) -> Option<Self> {
        match key {
            AttrKey::OutputToOperandAliasing => Some(Self::Aliasing),
            AttrKey::OperandLayoutConstraints => Some(Self::OperandLayouts),
            AttrKey::CustomCallHasSideEffect => Some(Self::SideEffect),
            AttrKey::Sharding => Some(Self::Sharding),
            AttrKey::FrontendAttributes => Some(Self::Frontend),
            _ => None,
        }
    }
}

/// Memory to work with, which is no part of what a graph says: a copy has its own.
#[derive(Debug, Default)]
struct Working<T>(Mutex<T>);

impl<T: Default> Clone for Working<T> {
    fn clone(&self) -> Self {
        Self::default()
    }
}

impl<T> Working<T> {
    /// Nobody else has it: what several threads read of a graph needs none of it, or they take turns.
    fn take_turn(&self) -> MutexGuard<'_, T> {
        // What a panic left behind is as good as anything else.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A computation: its instruction list, with holes where instructions were removed.
#[derive(Clone, Debug)]
struct Body {
    name: SmolStr,
    list: Vec<Option<InstructionId>>,
    /// The parameters by number.
    parameters: Vec<InstructionId>,
    /// The opcodes that its instructions ever had.
    seen: OpcodeSet,
    /// Slots of instructions that call computations, ascending; some may be removed by now.
    calling: Vec<u32>,
    /// The post-order, while no edge has changed since it was asked for.
    post_order: OnceLock<Order<InstructionId>>,
    live: usize,
    root: InstructionId,
    attributes: Vec<Attribute>,
    /// Whether any of its instructions ever could have had a side effect of its own.
    effects: bool,
}

impl Body {
    /// A computation without instructions.
    fn new(name: SmolStr) -> Self {
        Self {
            name,
            list: Vec::new(),
            parameters: Vec::new(),
            seen: OpcodeSet::default(),
            calling: Vec::new(),
            post_order: OnceLock::new(),
            live: 0,
            root: InstructionId::new(0),
            attributes: Vec::new(),
            effects: false,
        }
    }
}

/// A module that passes rewrite.
#[derive(Clone, Debug)]
pub(crate) struct Graph {
    /// Name of the module.
    pub(crate) name: SmolStr,
    /// Header attributes.
    pub(crate) attributes: Vec<Attribute>,
    /// Whether this is what each of several devices runs: the module came so, or the program for all of them was replaced.
    pub(crate) partitioned: bool,
    stack_tables: StackTables,
    /// Operands. What walks read of an instruction stands in tables of its own, because they wait for memory.
    inputs: Arena<InstructionId, Operands>,
    /// Users in XLA's order.
    users: Arena<InstructionId, Users>,
    /// Where each instruction stands.
    places: Arena<InstructionId, ListPosition>,
    /// The opcode of each instruction once more: most questions are about it.
    opcodes: Vec<Opcode>,
    /// What each instruction produces once more: asked for nearly as often, and eight stand where half an instruction does.
    results: Vec<ShapeRef>,
    /// How many users each instruction has, once more: sweeps over a computation ask for it.
    readers: Vec<u32>,
    /// The rest of each instruction: its operands are empty, and its control predecessors stand in `controls`, not among its attributes.
    insts: Arena<InstructionId, Instruction>,
    /// Control dependencies, by instruction.
    controls: IndexMap<InstructionId, Control>,
    /// The instruction of the given module whose work each node does, as far as that was followed.
    origins: Vec<Option<InstructionId>>,
    /// Equal instructions of the given module: the first stands for the second too.
    merged: Vec<(InstructionId, InstructionId)>,
    bodies: Arena<ComputationId, Body>,
    entry: ComputationId,
    /// The opcodes that instructions ever had.
    seen: OpcodeSet,
    /// The opcodes of instructions that ever had one of the attributes of [`Rare`].
    rare: [OpcodeSet; Rare::COUNT],
    /// Once more the computation of each fusion: it is asked for often, and attributes are far away. Other instructions have none; the table ends
    /// with the last fusion.
    fused: Vec<Option<ComputationId>>,
    /// The opcodes of instructions that ever called a computation.
    calls: OpcodeSet,
    /// Words that attributes of fusions hold, each once.
    words: Vec<Arc<str>>,
    /// Every shape that was made: equal ones share memory, because that is what reading shapes waits for.
    shapes: IndexSet<ShapeRef>,
    /// Whether any instruction ever could have had a side effect.
    effects: bool,
    /// Rises with every change.
    version: u64,
    /// By computation: whether anything in it changed since nothing could be removed from it.
    stirred: Vec<bool>,
    /// By computation: the version that the last change of it made.
    changed: Vec<u64>,
    /// The version in which nothing could be removed, if that was found out.
    clean: Option<u64>,
    walk: Working<Walk>,
    /// The order of computations, while no call has changed since it was asked for.
    order: OnceLock<Order<ComputationId>>,
    /// For the modules to be made of the graph.
    room: Working<PrefaultedInstructions>,
    /// For what the graph will hold.
    spare: Working<prefaulted_lists::PendingLists>,
    /// Those of them that are not the body of a fusion, once that was asked for.
    outside: OnceLock<Order<ComputationId>>,
}

impl Graph {
    /// The entry computation.
    pub(crate) fn entry(&self) -> ComputationId {
        self.entry
    }
    /// A number that rises with every change: while it stands, a pass would do what it did before.
    pub(crate) fn version(&self) -> u64 {
        self.version
    }
    /// The version that the last change of a computation made: while it stands, and nothing that the computation calls changes, a pass would do to it what it did before.
    pub(crate) fn version_of(&self, computation: ComputationId) -> u64 {
        self.changed[computation.index()]
    }
    /// Notes a change of a computation.
    fn note_change(&mut self, computation: ComputationId) {
        self.version += 1;
        self.changed[computation.index()] = self.version;
    }
    /// Whether it is known that nothing needs removal.
    pub(crate) fn is_clean(&self) -> bool {
        self.clean == Some(self.version)
    }
    /// Notes that nothing needs removal.
    pub(crate) fn note_clean(&mut self) {
        self.clean = Some(self.version);
    }
    /// Whether something may need removal from a computation: `false` says that nothing does. Where there are side effects, those of one
    /// computation may keep an instruction of another, so nothing is ever known.
    pub(crate) fn may_need_removal(&self, computation: ComputationId) -> bool {
        self.effects || self.stirred[computation.index()]
    }
    /// Notes that nothing needs removal from a computation.
    pub(crate) fn note_settled(&mut self, computation: ComputationId) {
        self.stirred[computation.index()] = false;
    }
    /// Lets another computation be the entry.
    pub(crate) fn set_entry(&mut self, entry: ComputationId) {
        self.version += 1;
        self.entry = entry;
        self.forget_order();
    }
    /// An instruction without its operands. They, its users and control dependencies are asked for separately.
    #[inline]
    pub(crate) fn inst(&self, id: InstructionId) -> &Instruction {
        &self.insts[id]
    }
    /// A copy of an instruction, operands included.
    pub(crate) fn copied(&self, id: InstructionId) -> Instruction {
        let mut inst = self.insts[id].clone();
        inst.operands = Operands::from_slice(&self.inputs[id]);
        inst
    }
    /// Whether an instruction may call computations: `false` says that it calls none.
    fn may_call(&self, id: InstructionId) -> bool {
        self.calls.has(self.opcode(id))
    }
    /// Whether an instruction may have such an attribute: `false` says that it has none.
    pub(crate) fn may_have(&self, id: InstructionId, rare: Rare) -> bool {
        self.rare[rare as usize].has(self.opcode(id))
    }
    /// Whether any instruction of a computation may have such an attribute: `false` says that none has.
    pub(crate) fn may_hold(&self, computation: ComputationId, rare: Rare) -> bool {
        self.bodies[computation].seen.meets(self.rare[rare as usize])
    }
    /// An equal shape that is there already, if there is one; a shape that others hold is left as it is.
    fn shared(&mut self, shape: ShapeRef) -> ShapeRef {
        if Arc::strong_count(&shape) > 1 {
            return shape;
        }
        let (place, _) = self.shapes.insert_full(shape);
        self.shapes[place].clone()
    }
    /// Whether any instruction, removed ones included, ever had this opcode.
    pub(crate) fn has_seen(&self, opcode: Opcode) -> bool {
        self.seen.has(opcode)
    }
    /// Whether any instruction of a computation, removed ones included, ever had this opcode.
    pub(crate) fn has_seen_in(&self, computation: ComputationId, opcode: Opcode) -> bool {
        self.bodies[computation].seen.has(opcode)
    }
    /// What an instruction does.
    #[inline]
    pub(crate) fn opcode(&self, id: InstructionId) -> Opcode {
        self.opcodes[id.index()]
    }
    /// The instruction of the given module whose work this one does; `None` if that was not followed.
    pub(crate) fn origin(&self, id: InstructionId) -> Option<InstructionId> {
        self.origins[id.index()]
    }
    /// Notes that `id` does the work of `other`.
    pub(crate) fn stems_from(&mut self, id: InstructionId, other: InstructionId) {
        self.origins[id.index()] = self.origins[other.index()];
    }
    /// Notes that `kept` stands for `other` too, which is equal.
    pub(crate) fn note_merged(&mut self, kept: InstructionId, other: InstructionId) {
        if let (Some(kept), Some(other)) = (self.origin(kept), self.origin(other)) {
            self.merged.push((kept, other));
        }
    }
    /// Instructions of the given module and the equal ones that they stand for, in the order in which they were merged.
    pub(crate) fn merged(&self) -> &[(InstructionId, InstructionId)] {
        &self.merged
    }
    /// What an instruction produces.
    #[inline]
    pub(crate) fn shape(&self, id: InstructionId) -> &ShapeRef {
        &self.results[id.index()]
    }
    /// The array an instruction produces; `None` for tuples and tokens.
    pub(crate) fn array(&self, id: InstructionId) -> Option<&ArrayShape> {
        self.results[id.index()].as_array()
    }
    /// Operands in order.
    pub(crate) fn operands(&self, id: InstructionId) -> &[InstructionId] {
        &self.inputs[id]
    }
    /// One operand.
    pub(crate) fn operand(&self, id: InstructionId, index: usize) -> InstructionId {
        self.inputs[id][index]
    }
    /// The computation an instruction stands in.
    pub(crate) fn parent(&self, id: InstructionId) -> ComputationId {
        self.places[id].parent
    }
    /// A snapshot of the users in XLA's order, each once.
    pub(crate) fn users(&self, id: InstructionId) -> Ids {
        self.users[id].to_vec()
    }
    /// The users in XLA's order, each once, while nothing changes: a constant may have thousands, and few are looked at.
    pub(crate) fn each_user(&self, id: InstructionId) -> impl Iterator<Item = InstructionId> + '_ {
        self.users[id].iter()
    }
    /// How many instructions use `id`.
    pub(crate) fn user_count(&self, id: InstructionId) -> usize {
        self.readers[id.index()] as usize
    }
    /// The user at a position of the user list.
    pub(crate) fn user(&self, id: InstructionId, position: usize) -> Option<InstructionId> {
        self.users[id].get(position)
    }
    /// Whether `user` has `id` as an operand.
    pub(crate) fn is_user(&self, id: InstructionId, user: InstructionId) -> bool {
        self.users[id].contains(user)
    }
    /// Instructions that must run before `id` without giving it a value.
    pub(crate) fn control_predecessors(&self, id: InstructionId) -> &[InstructionId] {
        self.controls.get(&id).map_or(&[], |control| &control.predecessors)
    }
    /// Instructions that must run after `id` without reading its value.
    pub(crate) fn control_successors(&self, id: InstructionId) -> &[InstructionId] {
        self.controls.get(&id).map_or(&[], |control| &control.successors)
    }
    /// Whether the instruction still stands in its computation.
    pub(crate) fn is_alive(&self, id: InstructionId) -> bool {
        self.places[id].slot != REMOVED
    }
    /// Position in the instruction list of the computation: dense enough for tables over one computation.
    pub(crate) fn slot(&self, id: InstructionId) -> usize {
        self.places[id].slot as usize
    }
    /// One more than the largest slot of a computation.
    pub(crate) fn slots(&self, id: ComputationId) -> usize {
        self.bodies[id].list.len()
    }
    /// Number of instruction ids ever handed out.
    pub(crate) fn instruction_count(&self) -> usize {
        self.users.len()
    }
    /// Name of a computation.
    pub(crate) fn computation_name(&self, id: ComputationId) -> &SmolStr {
        &self.bodies[id].name
    }
    /// Number of instructions in a computation.
    pub(crate) fn len(&self, id: ComputationId) -> usize {
        self.bodies[id].live
    }
    /// The instruction list of a computation, in list order (not an execution order).
    pub(crate) fn list(&self, id: ComputationId) -> impl DoubleEndedIterator<Item = InstructionId> + '_ {
        self.bodies[id].list.iter().copied().flatten()
    }
    /// The instructions of a computation that call others, in list order.
    pub(crate) fn calling(&self, id: ComputationId) -> impl Iterator<Item = InstructionId> + '_ {
        let body = &self.bodies[id];
        body.calling.iter().filter_map(|&slot| body.list[slot as usize])
    }
    /// The instruction whose value a computation returns.
    pub(crate) fn root(&self, id: ComputationId) -> InstructionId {
        self.bodies[id].root
    }
    /// Whether `id` is the root of its computation.
    pub(crate) fn is_root(&self, id: InstructionId) -> bool {
        self.bodies[self.parent(id)].root == id
    }
    /// Parameters of a computation, by number.
    pub(crate) fn parameters(&self, id: ComputationId) -> Vec<InstructionId> {
        self.bodies[id].parameters.clone()
    }
    /// One parameter of a computation.
    pub(crate) fn parameter(&self, id: ComputationId, number: usize) -> InstructionId {
        self.bodies[id].parameters[number]
    }
    /// Computations an instruction calls, in XLA's order: a `while` calls its body, then its condition.
    #[inline]
    pub(crate) fn callees(&self, id: InstructionId) -> SmallVec<[ComputationId; 2]> {
        if !self.calls.has(self.opcode(id)) {
            return SmallVec::new();
        }
        if let Some(body) = self.fused(id) {
            return SmallVec::from_slice(&[body]);
        }
        let inst = self.inst(id);
        let mut callees: SmallVec<[ComputationId; 2]> = inst.called_computations().collect();
        if let (Opcode::While, Some(body), Some(condition)) =
            (inst.opcode, inst.computation(&AttrKey::Body), inst.computation(&AttrKey::Condition))
        {
            callees.clear();
            callees.extend([body, condition]);
        }
        callees
    }
    /// The fused computation of a fusion.
    pub(crate) fn fused(&self, id: InstructionId) -> Option<ComputationId> {
        if self.opcode(id) == Opcode::Fusion { self.fused[id.index()] } else { None }
    }
    /// Notes the fused computation if this is a fusion.
    fn note_fused(&mut self, id: InstructionId) {
        if self.opcode(id) == Opcode::Fusion {
            self.fused.resize(self.opcodes.len(), None);
            self.fused[id.index()] = self.insts[id].computation(&AttrKey::Calls);
        }
    }
    /// Whether nothing needs the value: no users, and not the root.
    pub(crate) fn is_dead(&self, id: InstructionId) -> bool {
        self.user_count(id) == 0 && !self.is_root(id)
    }
    /// Whether an instruction, or anything it calls, has a side effect.
    pub(crate) fn has_side_effect(&self, id: InstructionId) -> bool {
        if !self.effects {
            return false;
        }
        let own = match self.opcode(id) {
            opcode if opcode.is_collective() => has_collective_effect(self.inst(id)),
            Opcode::Domain => false,
            opcode => opcode.has_side_effect(),
        };
        let stated = || self.inst(id).flag(&AttrKey::CustomCallHasSideEffect);
        if own || (self.may_have(id, Rare::SideEffect) && stated()) {
            return true;
        }
        self.calls.has(self.opcode(id)) && self.callees(id).into_iter().any(|callee| self.body_has_side_effect(callee))
    }
    /// Whether anything in a computation has a side effect.
    fn body_has_side_effect(&self, computation: ComputationId) -> bool {
        let body = &self.bodies[computation];
        (body.effects || !body.calling.is_empty()) && self.list(computation).any(|inner| self.has_side_effect(inner))
    }
    /// Sets the shape of an instruction (a layout was chosen, an element type changed).
    pub(crate) fn set_shape(&mut self, id: InstructionId, shape: ShapeRef) {
        self.note_change(self.places[id].parent);
        let shape = self.shared(shape);
        self.results[id.index()] = shape.clone();
        self.insts[id].shape = shape;
    }
    /// Sets or adds an attribute. Callees may be exchanged this way; control predecessors may not.
    pub(crate) fn set_attribute(&mut self, id: InstructionId, key: AttrKey, value: AttrValue) {
        let calls = matches!(value, AttrValue::Computation(_) | AttrValue::Computations(_));
        self.note_change(self.places[id].parent);
        let effects = key == AttrKey::CustomCallHasSideEffect;
        self.effects |= effects;
        self.bodies[self.places[id].parent].effects |= effects;
        if let Some(rare) = Rare::of(&key) {
            self.rare[rare as usize].add(self.opcodes[id.index()]);
        }
        self.insts[id].set_attribute(key, value);
        if calls {
            self.calls.add(self.opcodes[id.index()]);
            self.note_calls(id);
            self.note_fused(id);
        }
    }
    /// The value of a word attribute, in memory that all of its kind share.
    pub(crate) fn word(&mut self, word: &str) -> AttrValue {
        let known = self.words.iter().position(|known| **known == *word);
        let place = known.unwrap_or_else(|| {
            self.words.push(word.into());
            self.words.len() - 1
        });
        AttrValue::Word(self.words[place].clone())
    }
    /// Removes an attribute.
    pub(crate) fn drop_attribute(&mut self, id: InstructionId, key: &AttrKey) {
        self.note_change(self.places[id].parent);
        self.insts[id].attributes.retain(|attribute| attribute.key != *key);
        self.note_fused(id);
        self.forget_order();
    }
}

/// Collectives have an effect when they are asynchronous halves, keep their layout, or talk over a channel.
fn has_collective_effect(inst: &Instruction) -> bool {
    use Opcode as O;
    let plain = matches!(
        inst.opcode,
        O::AllToAll | O::AllGather | O::AllReduce | O::ReduceScatter | O::CollectivePermute | O::RaggedAllToAll
    );
    !plain || inst.flag(&AttrKey::ConstrainLayout) || inst.int(&AttrKey::ChannelId).is_some()
}
