//! The one way to change a module: a [`Patch`] is built beside the module, applied as a whole, and can be undone.
//!
//! Ids of new instructions and computations are fixed while the patch is built, so a patch is a value that can be inspected, kept
//! or thrown away. Applying it appends the new entities, redirects uses, drops what became dead *through the patch*, and puts the lists
//! back into definition-before-use order; text the patch does not touch keeps its place.

// Tests: `ir/tests/graph.rs`.

mod rebase;
mod same;

use rustc_hash::FxBuildHasher;
use smol_str::{SmolStr, format_smolstr};

use crate::arena::{Id, SideTable};
use crate::graph::{self, Users};
use crate::{AttrKey, AttrValue, Computation, ComputationId, Instruction, InstructionId, Module};

/// Ids and names of one module need no defence against chosen collisions.
type IndexMap<K, V> = indexmap::IndexMap<K, V, FxBuildHasher>;
type IndexSet<T> = indexmap::IndexSet<T, FxBuildHasher>;

/// Why a patch could not be applied; the module is unchanged.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum PatchError {
    /// The module grew since the patch was begun.
    #[error("the patch was made for another state of the module")]
    Stale,
    /// A value would depend on itself.
    #[error("the patch makes computation `{0}` cyclic")]
    Cycle(SmolStr),
}

/// A change of a module that has not happened yet.
#[derive(Clone, Debug)]
pub struct Patch {
    base_instructions: usize,
    base_computations: usize,
    instructions: Vec<Instruction>,
    computations: Vec<Computation>,
    replaced: Vec<(InstructionId, InstructionId)>,
    rewritten: Vec<(InstructionId, Instruction)>,
    removed: Vec<InstructionId>,
    moved: Vec<InstructionId>,
    removed_computations: Vec<ComputationId>,
    origins: IndexMap<InstructionId, InstructionId>,
    header: Option<Vec<crate::Attribute>>,
}

/// What must be put back to undo an applied patch.
#[derive(Clone, Debug)]
pub struct Undo {
    instruction_count: usize,
    computation_count: usize,
    instructions: Vec<(InstructionId, Instruction)>,
    computations: Vec<(ComputationId, Computation)>,
    order: Vec<ComputationId>,
    header: Vec<crate::Attribute>,
}

impl Patch {
    /// An empty patch of `module`.
    pub fn new(module: &Module) -> Self {
        Self {
            base_instructions: module.instruction_count(),
            base_computations: module.computation_count(),
            instructions: Vec::new(),
            computations: Vec::new(),
            replaced: Vec::new(),
            rewritten: Vec::new(),
            removed: Vec::new(),
            moved: Vec::new(),
            removed_computations: Vec::new(),
            origins: IndexMap::default(),
            header: None,
        }
    }
    /// Whether applying it would change nothing.
    pub fn is_empty(&self) -> bool {
        self.instructions.is_empty()
            && self.computations.is_empty()
            && self.replaced.is_empty()
            && self.rewritten.is_empty()
            && self.removed.is_empty()
            && self.removed_computations.is_empty()
            && self.header.is_none()
    }
    /// Adds an instruction to `computation` (old or new). Its name is made unique when the patch is applied.
    pub fn add(&mut self, computation: ComputationId, mut instruction: Instruction) -> InstructionId {
        instruction.parent = computation;
        let id = InstructionId::new(self.base_instructions + self.instructions.len());
        self.instructions.push(instruction);
        if let Some(new) = computation.index().checked_sub(self.base_computations) {
            self.computations[new].instructions.push(id);
            self.computations[new].root = id;
        }
        id
    }
    /// Adds an empty computation; the instruction added to it last is its root unless [`Patch::set_root`] says otherwise.
    pub fn add_computation(&mut self, name: impl Into<SmolStr>) -> ComputationId {
        let id = ComputationId::new(self.base_computations + self.computations.len());
        let root = InstructionId::new(self.base_instructions);
        self.computations.push(Computation {
            name: name.into(),
            instructions: Vec::new(),
            root,
            attributes: Vec::new(),
            span: None,
        });
        id
    }
    /// Makes `root` the root of a computation that this patch added.
    pub fn set_root(&mut self, computation: ComputationId, root: InstructionId) {
        self.computations[computation.index() - self.base_computations].root = root;
    }
    /// Lets every user of `old` outside this patch, and the root of its computation, use `new` instead. `old` then goes as with [`Patch::remove`], which need not be called.
    pub fn replace(&mut self, old: InstructionId, new: InstructionId) {
        self.replaced.push((old, new));
    }
    /// Replaces the contents of an existing instruction, keeping its id, name and place. Its old operands go as with [`Patch::remove`].
    pub fn rewrite(&mut self, id: InstructionId, instruction: Instruction) {
        self.rewritten.push((id, instruction));
    }
    /// Removes `id` if nothing uses it any more once the rest of the patch is applied; parameters, roots and side effects stay.
    pub fn remove(&mut self, id: InstructionId) {
        self.removed.push(id);
    }
    /// Removes `id` like [`Patch::remove`], but also if it has side effects: instructions that the patch adds have them instead.
    pub fn remove_moved(&mut self, id: InstructionId) {
        self.moved.push(id);
        self.removed.push(id);
    }
    /// Removes `id` if nothing calls it any more once the rest of the patch is applied.
    pub fn remove_computation(&mut self, id: ComputationId) {
        self.removed_computations.push(id);
    }
    /// Notes that `new`, added by this patch, does the work of `old` at another place; reports then speak of `old`.
    pub fn set_origin(&mut self, new: InstructionId, old: InstructionId) {
        self.origins.entry(new).or_insert(old);
    }
    /// What an added instruction derives from: as noted, or else the instruction it replaces.
    pub fn origin(&self, new: InstructionId) -> Option<InstructionId> {
        let noted = self.origins.get(&new).copied();
        noted.or_else(|| self.replaced.iter().find(|(_, id)| *id == new).map(|&(old, _)| old))
    }
    /// Replaces the attributes of the module header.
    pub fn set_header(&mut self, attributes: Vec<crate::Attribute>) {
        self.header = Some(attributes);
    }
    /// An instruction of `module` or of this patch.
    pub fn instruction<'a>(&'a self, module: &'a Module, id: InstructionId) -> &'a Instruction {
        match id.index().checked_sub(self.base_instructions) {
            Some(new) => &self.instructions[new],
            None => module.instruction(id),
        }
    }
    /// Ids of the instructions it adds.
    pub fn added(&self) -> impl Iterator<Item = InstructionId> + use<> {
        let base = self.base_instructions;
        (base..base + self.instructions.len()).map(InstructionId::new)
    }

    /// Instructions of the module that it replaces, rewrites or removes.
    pub fn touched(&self) -> impl Iterator<Item = InstructionId> {
        let replaced = self.replaced.iter().map(|&(old, _)| old);
        let existing = |id: &InstructionId| id.index() < self.base_instructions;
        replaced.chain(self.rewritten.iter().map(|&(id, _)| id)).chain(self.removed.iter().copied()).filter(existing)
    }
    /// Instructions of the module that the instructions it adds or rewrites read or wait for.
    pub fn inputs(&self) -> impl Iterator<Item = InstructionId> {
        let new = self.instructions.iter().chain(self.rewritten.iter().map(|(_, inst)| inst));
        let before = new.flat_map(|inst| inst.operands.iter().chain(inst.control_predecessors()).copied());
        let direct = self.replaced.iter().map(|&(_, new)| new);
        before.chain(direct).filter(|id| id.index() < self.base_instructions)
    }

    /// Changes `module` and returns how to change it back.
    pub fn apply(self, module: &mut Module) -> Result<Undo, PatchError> {
        if (self.base_instructions, self.base_computations) != (module.instruction_count(), module.computation_count())
        {
            return Err(PatchError::Stale);
        }
        let mut editor = Editor::new(module);
        match editor.run(self) {
            Ok(()) => Ok(editor.undo),
            Err(error) => {
                let Editor { module, undo } = editor;
                undo.revert(module);
                Err(error)
            }
        }
    }
}

impl Undo {
    /// Puts the module back into the state before the patch. Undo in reverse order of application.
    pub fn revert(self, module: &mut Module) {
        module.instructions.truncate(self.instruction_count);
        module.computations.truncate(self.computation_count);
        for (id, instruction) in self.instructions.into_iter().rev() {
            module.instructions[id] = instruction;
        }
        for (id, computation) in self.computations.into_iter().rev() {
            module.computations[id] = computation;
        }
        module.order = self.order;
        module.attributes = self.header;
    }
}

/// Applies a patch while writing down what it overwrites.
struct Editor<'m> {
    module: &'m mut Module,
    undo: Undo,
}

impl<'m> Editor<'m> {
    fn new(module: &'m mut Module) -> Self {
        let undo = Undo {
            instruction_count: module.instruction_count(),
            computation_count: module.computation_count(),
            instructions: Vec::new(),
            computations: Vec::new(),
            order: module.order.clone(),
            header: module.attributes.clone(),
        };
        Self { module, undo }
    }

    fn run(&mut self, patch: Patch) -> Result<(), PatchError> {
        let Patch { instructions, mut computations, replaced, rewritten, header, base_instructions, .. } = patch;
        let (removed, removed_computations) = (patch.removed, patch.removed_computations);
        let users = Users::of(self.module);
        self.name_uniquely(&mut computations);
        let mut touched = IndexSet::default();
        for instruction in instructions {
            touched.insert(instruction.parent);
            self.module.instructions.push(instruction);
        }
        for computation in computations {
            let id = self.module.computations.push(computation);
            self.module.order.push(id);
        }
        self.drop_foreign_control(base_instructions);
        self.insert_new_into_old_lists(base_instructions, &replaced);
        self.name_instructions(base_instructions, &touched);
        let mut unused = removed;
        for (id, instruction) in rewritten {
            touched.insert(instruction.parent);
            unused.extend(self.module.instruction(id).operands.iter().copied());
            let (name, parent) = (self.module.instruction(id).name.clone(), self.module.instruction(id).parent);
            *self.change(id) = Instruction { name, parent, ..instruction };
        }
        for &(old, new) in &replaced {
            touched.insert(self.module.instruction(old).parent);
            self.redirect(old, new, users.get(old));
            unused.push(old);
        }
        self.drop_dead(unused, &patch.moved);
        self.drop_uncalled(removed_computations);
        for id in touched {
            let list = &self.module.computation(id).instructions;
            let sorted = graph::stable_order(self.module, list)
                .ok_or_else(|| PatchError::Cycle(self.module.computation(id).name.clone()))?;
            if id.index() < self.undo.computation_count {
                self.change_computation(id).instructions = sorted;
            } else {
                self.module.computations[id].instructions = sorted;
            }
        }
        if let Some(header) = header {
            self.module.attributes = header;
        }
        self.order_computations();
        Ok(())
    }

    /// Copies of instructions that wait for others in the computation they come from wait for nothing where they go to: what orders side effects is
    /// never copied.
    fn drop_foreign_control(&mut self, base: usize) {
        for index in base..self.module.instruction_count() {
            let id = InstructionId::new(index);
            let inst = self.module.instruction(id);
            let (parent, before) = (inst.parent, inst.control_predecessors());
            let stays = |other: &InstructionId| self.module.instruction(*other).parent == parent;
            if before.iter().all(stays) {
                continue;
            }
            let kept: Vec<InstructionId> = before.iter().copied().filter(stays).collect();
            let inst = &mut self.module.instructions[id];
            if kept.is_empty() {
                inst.attributes.retain(|attribute| attribute.key != AttrKey::ControlPredecessors);
            } else {
                inst.set_attribute(AttrKey::ControlPredecessors, AttrValue::Instructions(kept.into()));
            }
        }
    }

    /// Saves an instruction that existed before the patch, then lends it for change.
    fn change(&mut self, id: InstructionId) -> &mut Instruction {
        if id.index() < self.undo.instruction_count {
            self.undo.instructions.push((id, self.module.instructions[id].clone()));
        }
        &mut self.module.instructions[id]
    }
    fn change_computation(&mut self, id: ComputationId) -> &mut Computation {
        if id.index() < self.undo.computation_count {
            self.undo.computations.push((id, self.module.computations[id].clone()));
        }
        &mut self.module.computations[id]
    }

    /// New instructions of old computations go right before the instruction they replace, or to the end.
    fn insert_new_into_old_lists(&mut self, base: usize, replaced: &[(InstructionId, InstructionId)]) {
        let mut new_of: IndexMap<ComputationId, Vec<InstructionId>> = IndexMap::default();
        for index in base..self.module.instruction_count() {
            let id = InstructionId::new(index);
            let parent = self.module.instruction(id).parent;
            if parent.index() < self.undo.computation_count {
                new_of.entry(parent).or_default().push(id);
            }
        }
        for (computation, new) in new_of {
            let list = &self.module.computation(computation).instructions;
            let at = list.iter().position(|id| replaced.iter().any(|(old, _)| old == id)).unwrap_or(list.len());
            self.change_computation(computation).instructions.splice(at..at, new);
        }
    }

    fn redirect(&mut self, old: InstructionId, new: InstructionId, users: &[InstructionId]) {
        for &user in users {
            for operand in &mut self.change(user).operands {
                if *operand == old {
                    *operand = new;
                }
            }
        }
        let parent = self.module.instruction(old).parent;
        if self.module.computation(parent).root == old {
            self.change_computation(parent).root = new;
        }
        self.redirect_control(old, new, parent);
    }
    fn redirect_control(&mut self, old: InstructionId, new: InstructionId, parent: ComputationId) {
        let list = self.module.computation(parent).instructions.clone();
        for id in list {
            if self.module.instruction(id).control_predecessors().contains(&old) {
                let mut ids = self.module.instruction(id).control_predecessors().to_vec();
                ids.iter_mut().filter(|id| **id == old).for_each(|id| *id = new);
                self.change(id).set_attribute(AttrKey::ControlPredecessors, AttrValue::Instructions(ids.into()));
            }
        }
    }

    /// Removes the instructions of `candidates` that nothing uses any more, then their operands, and so on;
    /// parameters, roots and side effects that were not `moved` stay. Computations nobody calls any more go too.
    fn drop_dead(&mut self, candidates: Vec<InstructionId>, moved: &[InstructionId]) {
        let moved: IndexSet<InstructionId> = moved.iter().copied().collect();
        let mut uses = self.use_counts();
        let mut dead = IndexSet::default();
        let mut work = candidates;
        while let Some(id) = work.pop() {
            let inst = self.module.instruction(id);
            let root = self.module.computation(inst.parent).root == id;
            if uses[id] == 0 && !root && !dead.contains(&id) && (moved.contains(&id) || removable(self.module, id)) {
                dead.insert(id);
                for before in graph::predecessors(self.module, id) {
                    uses[before] -= 1;
                    work.push(before);
                }
            }
        }
        let parents: IndexSet<ComputationId> = dead.iter().map(|&id| self.module.instruction(id).parent).collect();
        let callees: Vec<ComputationId> =
            dead.iter().flat_map(|&id| self.module.instruction(id).called_computations()).collect();
        for parent in parents {
            self.change_computation(parent).instructions.retain(|id| !dead.contains(id));
        }
        self.drop_uncalled(callees);
    }

    fn use_counts(&self) -> SideTable<InstructionId, u32> {
        let mut uses = SideTable::new(0);
        for (id, _) in self.module.live_instructions() {
            for before in graph::predecessors(self.module, id) {
                uses[before] += 1;
            }
        }
        uses
    }

    fn drop_uncalled(&mut self, mut candidates: Vec<ComputationId>) {
        if candidates.is_empty() {
            return;
        }
        let mut calls = SideTable::<ComputationId, u32>::new(0);
        for callee in self.module.live_instructions().flat_map(|(_, inst)| inst.called_computations()) {
            calls[callee] += 1;
        }
        let mut live: IndexSet<ComputationId> = self.module.order.iter().copied().collect();
        while let Some(id) = candidates.pop() {
            if calls[id] == 0 && self.module.entry != Some(id) && live.swap_remove(&id) {
                let list = &self.module.computation(id).instructions;
                for callee in list.iter().flat_map(|&inst| self.module.instruction(inst).called_computations()) {
                    calls[callee] -= 1;
                    candidates.push(callee);
                }
            }
        }
        self.module.order.retain(|id| live.contains(id));
    }

    /// Callees before callers, moving as little as possible.
    fn order_computations(&mut self) {
        let mut placed = IndexSet::default();
        let order = std::mem::take(&mut self.module.order);
        let live: IndexSet<ComputationId> = order.iter().copied().collect();
        for start in order {
            let mut stack = vec![(start, false)];
            while let Some((id, callees_done)) = stack.pop() {
                if placed.contains(&id) || !live.contains(&id) {
                    continue;
                }
                if callees_done {
                    placed.insert(id);
                    continue;
                }
                stack.push((id, true));
                let list = &self.module.computation(id).instructions;
                let callees: Vec<_> =
                    list.iter().flat_map(|&inst| self.module.instruction(inst).called_computations()).collect();
                stack.extend(callees.into_iter().rev().map(|callee| (callee, false)));
            }
        }
        self.module.order = placed.into_iter().collect();
    }

    /// New computations get names no other computation has.
    fn name_uniquely(&self, computations: &mut [Computation]) {
        let taken = self.module.order.iter().map(|&id| self.module.computation(id).name.clone());
        let mut names = Names::new(taken.collect());
        for computation in computations {
            computation.name = names.unique(&computation.name);
        }
    }

    /// New instructions get names no other instruction of the module has.
    fn name_instructions(&mut self, base: usize, touched: &IndexSet<ComputationId>) {
        if touched.is_empty() {
            return;
        }
        let before = self.module.live_instructions().filter(|(id, _)| id.index() < base);
        let mut names = Names::new(before.map(|(_, inst)| inst.name.clone()).collect());
        for index in base..self.module.instruction_count() {
            let id = InstructionId::new(index);
            let name = names.unique(&self.module.instruction(id).name);
            self.module.instructions[id].name = name;
        }
    }
}

/// Whether an instruction without users can go.
pub fn removable(module: &Module, id: InstructionId) -> bool {
    let inst = module.instruction(id);
    inst.parameter_number().is_none() && !has_side_effect(module, id)
}

/// Whether an instruction, or anything it calls, has a side effect.
pub fn has_side_effect(module: &Module, id: InstructionId) -> bool {
    runs_any(module, id, |inner| acts(module, inner))
}

/// Whether an instruction, or anything it calls, is of this kind.
pub fn runs_any(module: &Module, id: InstructionId, is_meant: impl Fn(InstructionId) -> bool) -> bool {
    // Bodies may share what they call, so that ways to it are many more than computations.
    let mut called: IndexSet<ComputationId> = module.instruction(id).called_computations().collect();
    let mut next = 0;
    let mut found = is_meant(id);
    while let (false, Some(&computation)) = (found, called.get_index(next)) {
        next += 1;
        for &inner in &module.computation(computation).instructions {
            found |= is_meant(inner);
            called.extend(module.instruction(inner).called_computations());
        }
    }
    found
}

/// Whether an instruction has a side effect, apart from what it calls.
pub fn acts(module: &Module, id: InstructionId) -> bool {
    let inst = module.instruction(id);
    inst.opcode.has_side_effect() || inst.flag(&AttrKey::CustomCallHasSideEffect)
}

/// Names that are taken.
struct Names {
    taken: IndexSet<SmolStr>,
    /// The last number that was tried behind a name: those before it are taken.
    tried: IndexMap<SmolStr, usize>,
}

impl Names {
    fn new(taken: IndexSet<SmolStr>) -> Self {
        Self { taken, tried: IndexMap::default() }
    }
    /// `wanted`, or `wanted.1`, `wanted.2`, ... whichever is free; the name is then taken.
    fn unique(&mut self, wanted: &SmolStr) -> SmolStr {
        if self.taken.insert(wanted.clone()) {
            return wanted.clone();
        }
        let tried = self.tried.entry(wanted.clone()).or_insert(0);
        loop {
            *tried += 1;
            let name = format_smolstr!("{wanted}.{tried}");
            if self.taken.insert(name.clone()) {
                return name;
            }
        }
    }
}
